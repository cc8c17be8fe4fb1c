//! XINFO STREAM FULL: entries, groups, consumers and what is pending, up to a count of each.

use almandine_datatypes::stream::{Group, Pending, StreamCounters, StreamId, StreamObject};
use almandine_keyspace::Refusal;
use almandine_resp::Reply;

use super::info::write_common;
use super::reply::{write_entry, write_id};

/// Answers all. A count of 0: any number.
pub(super) fn write(stream: &StreamObject, count: u64, reply: &mut Reply<'_>) -> Result<(), Refusal> {
    let limit = if count == 0 { usize::MAX } else { usize::try_from(count).unwrap_or(usize::MAX) };
    write_common(stream, 2, reply)?;
    reply.bulk(b"entries");
    let (array, mut len) = (reply.begin(), 0);
    for entry in stream.entries().range(StreamId::MIN, StreamId::MAX)?.take(limit) {
        write_entry(reply, &entry?);
        len += 1;
    }
    array.end_array(reply, len);
    reply.bulk(b"groups");
    reply.array(stream.groups().len());
    let counters = stream.counters()?;
    stream.groups().iter().try_for_each(|group| write_group(&counters, group, limit, reply))
}

/// Answers how far a group has come.
pub(super) fn write_progress(counters: &StreamCounters, group: &Group, reply: &mut Reply<'_>) {
    reply.bulk(b"entries-read");
    match group.entries_read() {
        Some(read) => reply.integer(read.cast_signed()),
        None => reply.null(),
    }
    reply.bulk(b"lag");
    match counters.lag(group.entries_read(), group.last_id()) {
        Some(lag) => reply.integer(lag),
        None => reply.null(),
    }
    if group.released() > 0 {
        reply.bulk(b"nacked-count");
        reply.unsigned(group.released());
    }
}

fn write_group(counters: &StreamCounters, group: &Group, limit: usize, reply: &mut Reply<'_>) -> Result<(), Refusal> {
    reply.map(7 + usize::from(group.released() > 0));
    reply.bulk(b"name");
    reply.bulk(group.name());
    reply.bulk(b"last-delivered-id");
    write_id(reply, group.last_id());
    write_progress(counters, group, reply);
    reply.bulk(b"pel-count");
    reply.unsigned(group.pending());
    reply.bulk(b"pending");
    let (array, mut len) = (reply.begin(), 0);
    for pending in group.pending_from(StreamId::MIN).take(limit) {
        let pending = pending?;
        reply.array(4);
        write_id(reply, pending.id);
        reply.bulk(group.consumer(pending.owner).map_or(&[][..], |consumer| &consumer.name));
        write_deliveries(&pending, reply);
        len += 1;
    }
    array.end_array(reply, len);
    reply.bulk(b"consumers");
    reply.array(group.consumers().len());
    for (number, consumer) in group.consumers() {
        reply.map(5);
        reply.bulk(b"name");
        reply.bulk(&consumer.name);
        reply.bulk(b"seen-time");
        reply.unsigned(consumer.seen);
        reply.bulk(b"active-time");
        reply.integer(consumer.active.map_or(-1, u64::cast_signed));
        reply.bulk(b"pel-count");
        reply.unsigned(consumer.pending);
        reply.bulk(b"pending");
        let (array, mut len) = (reply.begin(), 0);
        for id in group.owned_from(number, StreamId::MIN).take(limit) {
            let Some(pending) = group.get_pending(id?)? else { continue };
            reply.array(3);
            write_id(reply, pending.id);
            write_deliveries(&pending, reply);
            len += 1;
        }
        array.end_array(reply, len);
    }
    Ok(())
}

fn write_deliveries(pending: &Pending, reply: &mut Reply<'_>) {
    reply.unsigned(pending.time);
    reply.integer(pending.count.cast_signed());
}
