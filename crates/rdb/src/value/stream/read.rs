//! Reading. Ids must ascend, and lists of consumers must have what the group's list has, no more and no less.

use crate::container::listpack::{Listpack, ListpackElements};
use crate::cursor::array;
use crate::string::{read_length, read_number, read_text};
use crate::value::hash::Malformed;
use crate::{Text, types};
use almandine_datatypes::packed::Element;
use almandine_datatypes::packed::listpack::integer_size;
use almandine_datatypes::stream::{NewStreamNode, Pending, ProducerLimits, StreamId, StreamObject, UNOWNED};

use super::{DELETED, NEVER, SAME_FIELDS, UNKNOWN};

/// Reads the stream behind a type byte and moves `input` behind it.
///
/// # Errors
/// When it is not one of this type, is cut off or malformed.
pub fn read(value_type: u8, input: &mut &[u8]) -> Result<StreamObject, Malformed> {
    if !super::is_type(value_type) {
        return Err(Malformed);
    }
    read_stream(value_type, input).ok_or(Malformed)
}

fn read_stream(value_type: u8, input: &mut &[u8]) -> Option<StreamObject> {
    let mut stream = StreamObject::new();
    for _ in 0..read_length(input)? {
        read_node(&mut stream, input)?;
    }
    let len = read_number(input)?;
    let (last_id, mut max_deleted, mut added) = (read_id(input)?, StreamId::MIN, len);
    if value_type >= types::STREAM_LISTPACKS_2 {
        read_id(input)?;
        (max_deleted, added) = (read_id(input)?, read_number(input)?);
    }
    let is_behind = stream.entries().last().is_some_and(|last| last.id > last_id);
    if len != stream.len() || is_behind {
        return None;
    }
    stream.set_last(last_id, added, max_deleted);
    for _ in 0..read_length(input)? {
        read_group(value_type, &mut stream, input)?;
    }
    if value_type >= types::STREAM_LISTPACKS_4 {
        read_producers(&mut stream, input)?;
    }
    Some(stream)
}

fn read_id(input: &mut &[u8]) -> Option<StreamId> {
    Some(StreamId::new(read_number(input)?, read_number(input)?))
}

fn raw_id(raw: [u8; 16]) -> StreamId {
    let [a, b, c, d, e, f, g, h, seq @ ..] = raw;
    StreamId::new(u64::from_be_bytes([a, b, c, d, e, f, g, h]), u64::from_be_bytes(seq))
}

fn read_node(stream: &mut StreamObject, input: &mut &[u8]) -> Option<()> {
    let base = raw_id((*read_text(input)?).try_into().ok()?);
    let bytes = read_text(input)?;
    let list = Listpack::parse(&bytes)?;
    let mut elements = list.iter();
    let (count, deleted) = (integer(&mut elements)?, integer(&mut elements)?);
    let fields = integer(&mut elements)?;
    let names = texts(&mut elements, fields)?;
    (integer(&mut elements)? == 0).then_some(())?;
    let mut node = NewStreamNode::new(base, names.iter().map(|name| &**name));
    let (mut left, mut gone, mut last) = (count, deleted, base);
    while left > 0 || gone > 0 {
        let flags = integer(&mut elements)?;
        let (ms, seq) = (integer(&mut elements)?, integer(&mut elements)?);
        last = StreamId::new(base.ms.wrapping_add(ms as u64), base.seq.wrapping_add(seq as u64));
        let shares = flags & SAME_FIELDS != 0;
        let (fields, pieces) = if shares {
            let values = texts(&mut elements, names.len() as i64)?;
            let pieces = 3 + values.len() as i64;
            (values, pieces)
        } else {
            let count = integer(&mut elements)?;
            let fields = texts(&mut elements, count.checked_mul(2)?)?;
            let pieces = 4 + fields.len() as i64;
            (fields, pieces)
        };
        (integer(&mut elements)? == pieces).then_some(())?;
        if flags & DELETED != 0 {
            gone = gone.checked_sub(1)?;
            continue;
        }
        left = left.checked_sub(1)?;
        if shares {
            node.push(last, names.iter().zip(&fields).map(|(name, value)| (&**name, &**value)))?;
        } else {
            node.push(last, fields.as_chunks::<2>().0.iter().map(|[name, value]| (&**name, &**value)))?;
        }
    }
    (elements.next().is_none() && count >= 0 && deleted >= 0).then_some(())?;
    let total = u32::try_from(count.checked_add(deleted)?).ok()?;
    // Without what stands for the two numbers at the front.
    let numbers = integer_size(count) + integer_size(deleted);
    let weight = u32::try_from(bytes.len().checked_sub(numbers)?).ok()?;
    stream.push_node(node, (total, weight, last))
}

fn integer<'e>(elements: &mut impl Iterator<Item = Element<'e>>) -> Option<i64> {
    elements.next()?.integer()
}

/// `count` texts.
fn texts<'e>(elements: &mut ListpackElements<'e>, count: i64) -> Option<Vec<Text<'e>>> {
    let count = usize::try_from(count).ok()?;
    let texts: Vec<Text<'e>> = elements.by_ref().take(count).map(Text::from).collect();
    (texts.len() == count).then_some(texts)
}

fn read_group(value_type: u8, stream: &mut StreamObject, input: &mut &[u8]) -> Option<()> {
    let (name, last_id) = (read_text(input)?, read_id(input)?);
    let read = if value_type >= types::STREAM_LISTPACKS_2 {
        Some(read_number(input)?).filter(|read| *read != UNKNOWN)
    } else {
        stream.counters().ok()?.read_up_to(last_id)
    };
    let groups = stream.groups_mut();
    groups.create(&name, last_id, read).then_some(())?;
    let group = groups.find(&name)?;
    let pending = read_length(input)?;
    for _ in 0..pending {
        let id = raw_id(array(input)?);
        let (time, count) = (u64::from_le_bytes(array(input)?), read_number(input)?);
        if groups.nth(group)?.get_pending(id).ok()?.is_some() {
            return None;
        }
        groups.change(group, |group| group.pend(Pending { id, time, count, owner: UNOWNED }))?.ok()?;
    }
    for _ in 0..read_length(input)? {
        let name = read_text(input)?;
        let seen = u64::from_le_bytes(array(input)?);
        let active = if value_type >= types::STREAM_LISTPACKS_3 { u64::from_le_bytes(array(input)?) } else { seen };
        let (number, is_new) = groups.change(group, |group| group.ensure_consumer(&name, seen))?;
        is_new.then_some(())?;
        groups.change(group, |group| group.touch(number, seen, Some(active).filter(|active| *active != NEVER)))?;
        for _ in 0..read_length(input)? {
            let id = raw_id(array(input)?);
            let pending = groups.nth(group)?.get_pending(id).ok()?.filter(|pending| pending.owner == UNOWNED)?;
            groups.change(group, |group| group.pend(Pending { owner: number, ..pending }))?.ok()?;
        }
    }
    let mut released = 0;
    if value_type >= types::STREAM_LISTPACKS_5 {
        released = read_number(input)?;
        for _ in 0..released {
            let id = raw_id(array(input)?);
            groups.nth(group)?.get_pending(id).ok()?.filter(|pending| pending.owner == UNOWNED)?;
        }
    }
    (groups.nth(group)?.released() == released).then_some(())
}

fn read_producers(stream: &mut StreamObject, input: &mut &[u8]) -> Option<()> {
    let limits = ProducerLimits { seconds: read_number(input)?, ids: read_number(input)? };
    let producers = read_length(input)?;
    let mut ids = Vec::new();
    for _ in 0..producers {
        let name = read_text(input)?;
        for _ in 0..read_length(input)? {
            ids.push((name.clone(), read_text(input)?, read_id(input)?));
        }
    }
    let (added, duplicates) = (read_number(input)?, read_number(input)?);
    if limits == ProducerLimits::default() && ids.is_empty() && added == 0 {
        // There was never one.
        return Some(());
    }
    let kept = stream.producers_mut();
    kept.configure(limits);
    ids.iter().for_each(|(name, iid, id)| kept.put(name, iid, *id, false));
    kept.set_counts(added, duplicates);
    Some(())
}
