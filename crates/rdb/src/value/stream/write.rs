//! Writing.

use almandine_base::object::Missing;

use crate::container::listpack::Writer;
use crate::string::{write_bytes, write_number, write_string};
use almandine_datatypes::stream::{Group, ProducerLimits, Producers, StreamEntry, StreamId, StreamNode, StreamObject, UNOWNED};

use super::{ID_BYTES, NEVER, SAME_FIELDS, StreamForm, UNKNOWN};

/// Appends type byte and value, and says in what form.
///
/// # Errors
/// [`Missing`]: a part of the stream is not in memory; `out` is as before.
pub fn write(stream: &StreamObject, out: &mut Vec<u8>) -> Result<StreamForm, Missing> {
    write_in(form(stream), stream, out)
}

/// As [`write()`], without times of consumers where that is enough for Redis 7.0 to read it.
///
/// # Errors
/// [`Missing`]: a part of the stream is not in memory; `out` is as before.
pub fn write_without_activity(stream: &StreamObject, out: &mut Vec<u8>) -> Result<StreamForm, Missing> {
    let form = form(stream);
    write_in(if form == StreamForm::Active { StreamForm::Plain } else { form }, stream, out)
}

fn write_in(form: StreamForm, stream: &StreamObject, out: &mut Vec<u8>) -> Result<StreamForm, Missing> {
    let begin = out.len();
    let written = write_stream(form, stream, out);
    if written.is_err() {
        out.truncate(begin);
    }
    written
}

fn write_stream(form: StreamForm, stream: &StreamObject, out: &mut Vec<u8>) -> Result<StreamForm, Missing> {
    out.push(form.value_type());
    write_number(stream.entries().payload_nodes().count() as u64, out);
    for node in stream.entries().payload_nodes() {
        let node = node?;
        write_bytes(&raw(node.base()), out);
        write_bytes(&listpack(&node), out);
    }
    let counters = stream.counters()?;
    write_number(stream.len(), out);
    for id in [counters.last, counters.first, counters.max_deleted] {
        write_id(id, out);
    }
    write_number(counters.added, out);
    write_number(stream.groups().len() as u64, out);
    for group in stream.groups().iter() {
        write_group(group, form, out)?;
    }
    if form >= StreamForm::Producers {
        write_producers(stream.producers(), out);
    }
    Ok(form)
}

/// The oldest form that says all there is.
fn form(stream: &StreamObject) -> StreamForm {
    let mut consumers = stream.groups().iter().flat_map(Group::consumers);
    if stream.groups().iter().any(|group| group.released() > 0) {
        StreamForm::Released
    } else if stream.producers().is_some() {
        StreamForm::Producers
    } else if consumers.any(|(_, consumer)| consumer.active != Some(consumer.seen)) {
        StreamForm::Active
    } else {
        StreamForm::Plain
    }
}

fn raw(id: StreamId) -> [u8; ID_BYTES] {
    let mut raw = [0; ID_BYTES];
    raw[..8].copy_from_slice(&id.ms.to_be_bytes());
    raw[8..].copy_from_slice(&id.seq.to_be_bytes());
    raw
}

fn write_id(id: StreamId, out: &mut Vec<u8>) {
    write_number(id.ms, out);
    write_number(id.seq, out);
}

/// Everything of a node. What is deleted is not in ours.
fn listpack(node: &StreamNode<'_>) -> Vec<u8> {
    let (mut list, names) = (Writer::unlimited(), node.names());
    let whole = (|| {
        list.push_integer(node.len() as i64)?;
        list.push_integer(0)?;
        list.push_integer(names.len() as i64)?;
        names.iter().try_for_each(|name| list.push(name))?;
        list.push_integer(0)?;
        node.entries().try_for_each(|entry| push_entry(&mut list, node.base(), &names, entry))
    })();
    debug_assert!(whole.is_some(), "a node has less than 4 GiB");
    list.finish()
}

fn push_entry(list: &mut Writer, base: StreamId, names: &[&[u8]], entry: StreamEntry<'_>) -> Option<()> {
    let shares = entry.fields.map(|(name, _)| name).eq(names.iter().copied());
    let (count, mut pieces) = (entry.fields.len() as i64, 3);
    list.push_integer(if shares { SAME_FIELDS } else { 0 })?;
    list.push_integer(entry.id.ms.wrapping_sub(base.ms) as i64)?;
    list.push_integer(entry.id.seq.wrapping_sub(base.seq) as i64)?;
    if !shares {
        list.push_integer(count)?;
        pieces += 1;
    }
    for (name, value) in entry.fields {
        if !shares {
            list.push(name)?;
        }
        list.push(value)?;
    }
    list.push_integer(pieces + if shares { count } else { 2 * count })
}

fn write_group(group: &Group, form: StreamForm, out: &mut Vec<u8>) -> Result<(), Missing> {
    write_string(group.name(), out);
    write_id(group.last_id(), out);
    write_number(group.entries_read().unwrap_or(UNKNOWN), out);
    write_number(group.pending(), out);
    for pending in group.pending_from(StreamId::MIN) {
        let pending = pending?;
        out.extend_from_slice(&raw(pending.id));
        out.extend_from_slice(&pending.time.to_le_bytes());
        write_number(pending.count, out);
    }
    write_number(group.consumers().len() as u64, out);
    for (number, consumer) in group.consumers() {
        write_string(&consumer.name, out);
        out.extend_from_slice(&consumer.seen.to_le_bytes());
        if form >= StreamForm::Active {
            out.extend_from_slice(&consumer.active.unwrap_or(NEVER).to_le_bytes());
        }
        write_owned(group, number, consumer.pending, out)?;
    }
    if form >= StreamForm::Released {
        write_owned(group, UNOWNED, group.released(), out)?;
    }
    Ok(())
}

fn write_owned(group: &Group, owner: u32, count: u64, out: &mut Vec<u8>) -> Result<(), Missing> {
    write_number(count, out);
    group.owned_from(owner, StreamId::MIN).try_for_each(|id| {
        out.extend_from_slice(&raw(id?));
        Ok(())
    })
}

fn write_producers(producers: Option<&Producers>, out: &mut Vec<u8>) {
    let limits = producers.map_or_else(ProducerLimits::default, Producers::limits);
    write_number(limits.seconds, out);
    write_number(limits.ids, out);
    write_number(producers.map_or(0, Producers::len) as u64, out);
    for (name, ids) in producers.into_iter().flat_map(Producers::iter) {
        write_string(name, out);
        write_number(ids.len() as u64, out);
        for (iid, id) in ids {
            write_string(iid, out);
            write_id(id, out);
        }
    }
    write_number(producers.map_or(0, Producers::added), out);
    write_number(producers.map_or(0, Producers::duplicates), out);
}
