//! What was done to a stream, as effects have it. Groups and consumers go by their names.

use almandine_datatypes::stream::{NodeLimits, ProducerLimits, StreamId};

use crate::types::collection::edits::{EditBytes, push_bytes, push_number, take_byte, take_bytes, take_number};

/// One edit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamEdit<'e> {
    Append {
        id: StreamId,
        limits: NodeLimits,
        fields: EditFields<'e>,
    },
    Remove {
        id: StreamId,
    },
    /// `count` entries at the front.
    Skip {
        count: u64,
    },
    SetLast {
        last_id: StreamId,
        added: u64,
        max_deleted: StreamId,
    },
    CreateGroup {
        group: &'e [u8],
        last_id: StreamId,
        read: Option<u64>,
    },
    RemoveGroup {
        group: &'e [u8],
    },
    SetGroup {
        group: &'e [u8],
        last_id: StreamId,
        read: Option<u64>,
    },
    Touch {
        group: &'e [u8],
        consumer: &'e [u8],
        seen: u64,
        active: Option<u64>,
    },
    RemoveConsumer {
        group: &'e [u8],
        consumer: &'e [u8],
    },
    /// By a consumer, or without an owner.
    Pend {
        group: &'e [u8],
        consumer: Option<&'e [u8]>,
        id: StreamId,
        time: u64,
        count: u64,
    },
    Acknowledge {
        group: &'e [u8],
        id: StreamId,
    },
    ConfigureProducers(ProducerLimits),
    PutProducerId {
        producer: &'e [u8],
        iid: &'e [u8],
        id: StreamId,
        counted: bool,
    },
    CountDuplicate,
    ExpireProducers {
        now: u64,
    },
}

/// EditFields and values of an entry as they lie in an edit: how many, and each with its length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EditFields<'e> {
    left: u64,
    bytes: &'e [u8],
}

impl<'e> Iterator for EditFields<'e> {
    type Item = (&'e [u8], &'e [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        Some((take_bytes(&mut self.bytes)?, take_bytes(&mut self.bytes)?))
    }
}

/// Appends an [`StreamEdit::Append`].
pub(super) fn push_append<'f>(
    out: &mut Vec<u8>,
    id: StreamId,
    limits: NodeLimits,
    fields: impl Iterator<Item = (&'f [u8], &'f [u8])> + Clone,
) {
    out.push(0);
    push_id(out, id);
    push_number(out, limits.bytes as u64);
    push_number(out, limits.entries as u64);
    push_number(out, fields.clone().count() as u64);
    for (name, value) in fields {
        push_bytes(out, name);
        push_bytes(out, value);
    }
}

fn push_id(out: &mut Vec<u8>, id: StreamId) {
    push_number(out, id.ms);
    push_number(out, id.seq);
}

/// What is unknown is 0, so all else is one more.
fn push_known(out: &mut Vec<u8>, number: Option<u64>) {
    out.push(u8::from(number.is_some()));
    push_number(out, number.unwrap_or(0));
}

impl<'e> EditBytes<'e> for StreamEdit<'e> {
    fn push(self, out: &mut Vec<u8>) {
        match self {
            Self::Append { id, limits, fields } => push_append(out, id, limits, fields),
            Self::Remove { id } => {
                out.push(1);
                push_id(out, id);
            }
            Self::Skip { count } => {
                out.push(2);
                push_number(out, count);
            }
            Self::SetLast { last_id, added, max_deleted } => {
                out.push(3);
                push_id(out, last_id);
                push_number(out, added);
                push_id(out, max_deleted);
            }
            Self::CreateGroup { group, last_id, read } | Self::SetGroup { group, last_id, read } => {
                out.push(if matches!(self, Self::CreateGroup { .. }) { 4 } else { 5 });
                push_bytes(out, group);
                push_id(out, last_id);
                push_known(out, read);
            }
            Self::RemoveGroup { group } => {
                out.push(6);
                push_bytes(out, group);
            }
            Self::Touch { group, consumer, seen, active } => {
                out.push(7);
                push_bytes(out, group);
                push_bytes(out, consumer);
                push_number(out, seen);
                push_known(out, active);
            }
            Self::RemoveConsumer { group, consumer } => {
                out.push(8);
                push_bytes(out, group);
                push_bytes(out, consumer);
            }
            Self::Pend { group, consumer, id, time, count } => {
                out.push(if consumer.is_some() { 9 } else { 10 });
                push_bytes(out, group);
                consumer.iter().for_each(|consumer| push_bytes(out, consumer));
                push_id(out, id);
                push_number(out, time);
                push_number(out, count);
            }
            Self::Acknowledge { group, id } => {
                out.push(11);
                push_bytes(out, group);
                push_id(out, id);
            }
            Self::ConfigureProducers(limits) => {
                out.push(12);
                push_number(out, limits.seconds);
                push_number(out, limits.ids);
            }
            Self::PutProducerId { producer, iid, id, counted } => {
                out.push(if counted { 13 } else { 14 });
                push_bytes(out, producer);
                push_bytes(out, iid);
                push_id(out, id);
            }
            Self::CountDuplicate => out.push(15),
            Self::ExpireProducers { now } => {
                out.push(16);
                push_number(out, now);
            }
        }
    }

    fn take(edits: &mut &'e [u8]) -> Option<Self> {
        let number = take_byte(edits)?;
        Some(match number {
            0 => {
                let id = take_id(edits)?;
                let limits = NodeLimits { bytes: take_number(edits)? as usize, entries: take_number(edits)? as usize };
                StreamEdit::Append { id, limits, fields: take_fields(edits)? }
            }
            1 => StreamEdit::Remove { id: take_id(edits)? },
            2 => StreamEdit::Skip { count: take_number(edits)? },
            3 => StreamEdit::SetLast { last_id: take_id(edits)?, added: take_number(edits)?, max_deleted: take_id(edits)? },
            4 => StreamEdit::CreateGroup { group: take_bytes(edits)?, last_id: take_id(edits)?, read: take_known(edits)? },
            5 => StreamEdit::SetGroup { group: take_bytes(edits)?, last_id: take_id(edits)?, read: take_known(edits)? },
            6 => StreamEdit::RemoveGroup { group: take_bytes(edits)? },
            7 => StreamEdit::Touch {
                group: take_bytes(edits)?,
                consumer: take_bytes(edits)?,
                seen: take_number(edits)?,
                active: take_known(edits)?,
            },
            8 => StreamEdit::RemoveConsumer { group: take_bytes(edits)?, consumer: take_bytes(edits)? },
            9 | 10 => {
                let group = take_bytes(edits)?;
                let consumer = if number == 9 { Some(take_bytes(edits)?) } else { None };
                StreamEdit::Pend { group, consumer, id: take_id(edits)?, time: take_number(edits)?, count: take_number(edits)? }
            }
            11 => StreamEdit::Acknowledge { group: take_bytes(edits)?, id: take_id(edits)? },
            12 => StreamEdit::ConfigureProducers(ProducerLimits { seconds: take_number(edits)?, ids: take_number(edits)? }),
            13 | 14 => {
                let (producer, iid, id) = (take_bytes(edits)?, take_bytes(edits)?, take_id(edits)?);
                StreamEdit::PutProducerId { producer, iid, id, counted: number == 13 }
            }
            15 => StreamEdit::CountDuplicate,
            16 => StreamEdit::ExpireProducers { now: take_number(edits)? },
            _ => return None,
        })
    }
}

fn take_id(edits: &mut &[u8]) -> Option<StreamId> {
    Some(StreamId::new(take_number(edits)?, take_number(edits)?))
}

fn take_known(edits: &mut &[u8]) -> Option<Option<u64>> {
    let is_known = take_byte(edits)? != 0;
    take_number(edits).map(|number| is_known.then_some(number))
}

fn take_fields<'e>(edits: &mut &'e [u8]) -> Option<EditFields<'e>> {
    let (left, bytes) = (take_number(edits)?, *edits);
    for _ in 0..left {
        take_bytes(edits)?;
        take_bytes(edits)?;
    }
    Some(EditFields { left, bytes: &bytes[..bytes.len() - edits.len()] })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::testing::assert_edits_come_back;

    #[test]
    fn edits_come_back_and_cut_ones_end() {
        let (id, group, consumer) = (StreamId::new(1 << 40, 7), &b"group"[..], &b"consumer"[..]);
        let fields = EditFields { left: 2, bytes: b"\x01a\x00\x02bc\x01d" };
        let all = [
            StreamEdit::Append { id, limits: NodeLimits { bytes: 4096, entries: 0 }, fields },
            StreamEdit::Remove { id },
            StreamEdit::Skip { count: 300 },
            StreamEdit::SetLast { last_id: id, added: 1, max_deleted: StreamId::MIN },
            StreamEdit::CreateGroup { group, last_id: StreamId::MAX, read: None },
            StreamEdit::SetGroup { group, last_id: id, read: Some(0) },
            StreamEdit::RemoveGroup { group },
            StreamEdit::Touch { group, consumer, seen: 5, active: Some(6) },
            StreamEdit::RemoveConsumer { group, consumer },
            StreamEdit::Pend { group, consumer: Some(consumer), id, time: 1, count: u64::MAX },
            StreamEdit::Pend { group, consumer: None, id, time: 1, count: 2 },
            StreamEdit::Acknowledge { group, id },
            StreamEdit::ConfigureProducers(ProducerLimits { seconds: 1, ids: 2 }),
            StreamEdit::PutProducerId { producer: b"p", iid: b"", id, counted: true },
            StreamEdit::PutProducerId { producer: b"", iid: b"i", id, counted: false },
            StreamEdit::CountDuplicate,
            StreamEdit::ExpireProducers { now: 9 },
        ];
        assert_edits_come_back(&all);
        assert_eq!(StreamEdit::take(&mut &[17][..]), None);
    }
}
