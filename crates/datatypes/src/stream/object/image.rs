//! A stream as a sequence of parts.
//!
//! ```text
//! entry of a part     tag 1 | bytes 4 | what the tag says
//!
//! stream              last id 16 | highest deleted id 16 | entries added 8
//! block               1 if part of the node before | node: entries 4, bytes 4, last id 16 | first id 16 | bytes of fields | fields
//! | entries group               last id 16 | entries read 8 | name
//! consumer            seen 8 | active 8 | name                                        of the group before, by name
//! pending             id 16 | time 8 | deliveries 8 | place of the consumer 4         of the group before, several
//! producers           seconds 8 | ids 8 | added 8 | duplicates 8
//! producer            id of an entry 16 | bytes of the name 4 | name | its id         one for each id, the oldest first
//! ```
//!
//! The cursor says how far it has come, in entries, groups and what is in a group, or producers, so it holds for one snapshot only.

use almandine_base::object::{Damaged, ImageCursor, Missing};

use crate::image::{Magic, Part, begin};

use super::StreamObject;
use crate::stream::StreamId;
use crate::stream::chunk::block::Block;
use crate::stream::entry::StreamEntry;
use crate::stream::group::Group;
use crate::stream::group::pending::{Pending, UNOWNED};
use crate::stream::producers::ProducerLimits;

const MAGIC: Magic = *b"AX\x01";
const HEAD: usize = 5;
const STREAM: u8 = 0;
const BLOCK: u8 = 1;
const GROUP: u8 = 2;
const CONSUMER: u8 = 3;
const PENDING: u8 = 4;
const PRODUCERS: u8 = 5;
const PRODUCER: u8 = 6;
/// What is not known, and never was.
const NONE: u64 = u64::MAX;
const PENDING_BYTES: usize = 36;
/// Of them in one entry of a part.
const PENDING_MAX: usize = 256;

/// Where a cursor stands.
enum Place {
    Entries(u64),
    /// A group, and how many of its consumers and pending entries are written.
    Groups(usize, u64),
    Producers(usize),
}

impl Place {
    fn of(position: u64) -> Self {
        match position >> 62 {
            0 => Self::Entries(position),
            1 => Self::Groups((position >> 40) as usize & 0x3F_FFFF, position & ((1 << 40) - 1)),
            _ => Self::Producers((position & ((1 << 62) - 1)) as usize),
        }
    }

    fn position(&self) -> u64 {
        match self {
            Self::Entries(rank) => *rank,
            Self::Groups(group, at) => 1 << 62 | (*group as u64) << 40 | at,
            Self::Producers(at) => 2 << 62 | *at as u64,
        }
    }
}

/// See [`almandine_base::object::Object::write_part`].
pub(in crate::stream) fn write_part(
    stream: &StreamObject,
    cursor: ImageCursor,
    limit: usize,
    out: &mut Vec<u8>,
) -> Result<Option<ImageCursor>, Missing> {
    let begin = begin(out);
    let mut writer = Writer { out, count: 0, end: begin.saturating_add(limit) };
    let next = match writer.write(stream, cursor) {
        Ok(next) => next,
        Err(missing) => {
            out.truncate(begin);
            return Err(missing);
        }
    };
    Part { number: cursor.part, count: writer.count, encoding: 0, is_last: next.is_none() }.seal(MAGIC, out, begin);
    Ok(next.map(|place| ImageCursor { position: place.position(), part: cursor.part + 1 }))
}

struct Writer<'o> {
    out: &'o mut Vec<u8>,
    count: u32,
    end: usize,
}

impl Writer<'_> {
    fn is_full(&self) -> bool {
        self.out.len() >= self.end
    }

    fn entry(&mut self, tag: u8, write: impl FnOnce(&mut Vec<u8>)) {
        self.out.extend_from_slice(&[tag, 0, 0, 0, 0]);
        let begin = self.out.len();
        write(self.out);
        let bytes = (self.out.len() - begin) as u32;
        self.out[begin - 4..begin].copy_from_slice(&bytes.to_le_bytes());
        self.count += 1;
    }

    /// Writes from a cursor on until the part is full. Says where to go on.
    fn write(&mut self, stream: &StreamObject, cursor: ImageCursor) -> Result<Option<Place>, Missing> {
        let mut place = Place::of(cursor.position);
        if cursor.part == 0 {
            self.entry(STREAM, |out| {
                out.extend_from_slice(&stream.last_id.to_bytes());
                out.extend_from_slice(&stream.max_deleted.to_bytes());
                out.extend_from_slice(&stream.added.to_le_bytes());
            });
        }
        loop {
            place = match place {
                Place::Entries(rank) if rank < stream.len() => Place::Entries(self.write_block(stream, rank)?),
                Place::Entries(_) => Place::Groups(0, 0),
                Place::Groups(index, at) => match stream.groups.nth(index) {
                    Some(group) => match self.write_group(group, at)? {
                        Some(at) => Place::Groups(index, at),
                        None => Place::Groups(index + 1, 0),
                    },
                    None => Place::Producers(0),
                },
                Place::Producers(at) => match self.write_producers(stream, at) {
                    Some(at) => Place::Producers(at),
                    None => return Ok(None),
                },
            };
            if self.is_full() {
                return Ok(Some(place));
            }
        }
    }

    fn write_block(&mut self, stream: &StreamObject, rank: u64) -> Result<u64, Missing> {
        let (block, _) = stream.entries.block(rank)?;
        self.entry(BLOCK, |out| block.write(out));
        Ok(rank + block.len() as u64)
    }

    /// Writes some of a group. Says where to go on; None: with the next group.
    fn write_group(&mut self, group: &Group, at: u64) -> Result<Option<u64>, Missing> {
        if at == 0 {
            self.entry(GROUP, |out| {
                out.extend_from_slice(&group.last_id.to_bytes());
                out.extend_from_slice(&group.read.unwrap_or(NONE).to_le_bytes());
                out.extend_from_slice(&group.name);
            });
            for (_, consumer) in group.consumers() {
                self.entry(CONSUMER, |out| {
                    out.extend_from_slice(&consumer.seen.to_le_bytes());
                    out.extend_from_slice(&consumer.active.unwrap_or(NONE).to_le_bytes());
                    out.extend_from_slice(&consumer.name);
                });
            }
            return Ok((group.pending() > 0).then_some(1));
        }
        let rank = at - 1;
        let Some(first) = group.pending.nth(rank)? else { return Ok(None) };
        let mut places = vec![UNOWNED; group.consumers().map(|(number, _)| number as usize + 1).max().unwrap_or(0)];
        group.consumers().enumerate().for_each(|(place, (number, _))| places[number as usize] = place as u32);
        let some: Vec<Pending> = group.pending_from(first.id).take(PENDING_MAX).collect::<Result<_, _>>()?;
        self.entry(PENDING, |out| {
            for pending in &some {
                let place = places.get(pending.owner as usize).copied().unwrap_or(UNOWNED);
                out.extend_from_slice(&pending.id.to_bytes());
                out.extend_from_slice(&pending.time.to_le_bytes());
                out.extend_from_slice(&pending.count.to_le_bytes());
                out.extend_from_slice(&place.to_le_bytes());
            }
        });
        let rank = rank + some.len() as u64;
        Ok((rank < group.pending()).then_some(rank + 1))
    }

    /// Writes a producer. Says where to go on.
    fn write_producers(&mut self, stream: &StreamObject, at: usize) -> Option<usize> {
        let producers = stream.producers()?;
        if at == 0 {
            self.entry(PRODUCERS, |out| {
                let limits = producers.limits();
                [limits.seconds, limits.ids, producers.added(), producers.duplicates()]
                    .iter()
                    .for_each(|number| out.extend_from_slice(&number.to_le_bytes()));
            });
        }
        let (name, ids) = producers.iter().nth(at)?;
        for (iid, id) in ids {
            self.entry(PRODUCER, |out| {
                out.extend_from_slice(&id.to_bytes());
                out.extend_from_slice(&(name.len() as u32).to_le_bytes());
                out.extend_from_slice(name);
                out.extend_from_slice(iid);
            });
        }
        Some(at + 1)
    }
}

/// See [`almandine_base::object::Object::read_part`].
pub(in crate::stream) fn read_part(stream: &mut StreamObject, part: &[u8]) -> Result<bool, Damaged> {
    let size = |bytes: &[u8], at: usize| {
        let (head, rest) = bytes.get(at..)?.split_first_chunk::<HEAD>()?;
        let len = u32::from_le_bytes([head[1], head[2], head[3], head[4]]) as usize;
        (len <= rest.len()).then_some(HEAD + len)
    };
    let (part, entries) = Part::open(MAGIC, stream.parts, part, size)?;
    let (mut next, mut at) = (stream.clone(), 0);
    while let Some(size) = size(entries, at) {
        read_entry(&mut next, entries[at], &entries[at + HEAD..at + size]).ok_or(Damaged)?;
        at += size;
    }
    next.parts += 1;
    *stream = next;
    Ok(part.is_last)
}

fn take<const N: usize>(bytes: &mut &[u8]) -> Option<[u8; N]> {
    let (taken, rest) = bytes.split_first_chunk::<N>()?;
    *bytes = rest;
    Some(*taken)
}

fn take_u64(bytes: &mut &[u8]) -> Option<u64> {
    take(bytes).map(u64::from_le_bytes)
}

fn take_u32(bytes: &mut &[u8]) -> Option<u32> {
    take(bytes).map(u32::from_le_bytes)
}

fn take_id(bytes: &mut &[u8]) -> Option<StreamId> {
    take(bytes).map(StreamId::from_bytes)
}

fn take_known(bytes: &mut &[u8]) -> Option<Option<u64>> {
    take_u64(bytes).map(|number| Some(number).filter(|number| *number != NONE))
}

fn read_entry(stream: &mut StreamObject, tag: u8, bytes: &[u8]) -> Option<()> {
    let rest = &mut &*bytes;
    let last_group = stream.groups.len().wrapping_sub(1);
    match tag {
        STREAM => {
            (stream.last_id, stream.max_deleted, stream.added) = (take_id(rest)?, take_id(rest)?, take_u64(rest)?);
        }
        BLOCK => {
            let block = Block::read(rest)?;
            let first = block.nth(0)?.id;
            if stream.entries.last().is_some_and(|last| last.id >= first) {
                return None;
            }
            stream.entries.start(block);
        }
        GROUP => {
            let (last_id, read) = (take_id(rest)?, take_known(rest)?);
            stream.groups.create(rest, last_id, read).then_some(())?;
        }
        CONSUMER => {
            let (seen, active) = (take_u64(rest)?, take_known(rest)?);
            let is_new = stream.groups.change(last_group, |group| {
                let (number, is_new) = group.ensure_consumer(rest, seen);
                group.touch(number, seen, active);
                is_new
            });
            is_new?.then_some(())?;
        }
        PENDING => {
            let numbers: Vec<u32> = stream.groups.nth(last_group)?.consumers().map(|(number, _)| number).collect();
            if !rest.len().is_multiple_of(PENDING_BYTES) {
                return None;
            }
            while !rest.is_empty() {
                let (id, time, count, place) = (take_id(rest)?, take_u64(rest)?, take_u64(rest)?, take_u32(rest)?);
                let owner = if place == UNOWNED { UNOWNED } else { *numbers.get(place as usize)? };
                stream.groups.change(last_group, |group| group.pend(Pending { id, time, count, owner }))?.ok()?;
            }
        }
        PRODUCERS => {
            stream.producers_mut().configure(ProducerLimits { seconds: take_u64(rest)?, ids: take_u64(rest)? });
            let (added, duplicates) = (take_u64(rest)?, take_u64(rest)?);
            stream.producers_mut().set_counts(added, duplicates);
        }
        PRODUCER => {
            let (id, len) = (take_id(rest)?, take_u32(rest)?);
            let (name, iid) = rest.split_at_checked(len as usize)?;
            stream.producers_mut().put(name, iid, id, false);
        }
        _ => return None,
    }
    Some(())
}

impl Block {
    /// Appends what [`Block::read`] reads.
    fn write(&self, out: &mut Vec<u8>) {
        let (total, weight, last) = self.node();
        out.push(u8::from(self.continues()));
        out.extend_from_slice(&total.to_le_bytes());
        out.extend_from_slice(&weight.to_le_bytes());
        out.extend_from_slice(&last.to_bytes());
        out.extend_from_slice(&self.header().base.to_bytes());
        let (fields, entries) = self.contents();
        out.extend_from_slice(&(fields.len() as u32).to_le_bytes());
        out.extend_from_slice(fields);
        out.extend_from_slice(entries);
    }

    /// A block of at least one entry. None: it is not sound.
    fn read(bytes: &mut &[u8]) -> Option<Self> {
        let continues = take::<1>(bytes)? != [0];
        let (total, weight, last, base) = (take_u32(bytes)?, take_u32(bytes)?, take_id(bytes)?, take_id(bytes)?);
        let len = take_u32(bytes)? as usize;
        let (fields, mut entries) = bytes.split_at_checked(len)?;
        let mut block = Self::with_fields(base, fields, continues)?;
        while !entries.is_empty() {
            let (id, rest) = {
                let entry = StreamEntry::parse(base, block.fields(block.header()), entries)?;
                (entry.id, entry.fields.end()?.len())
            };
            if block.len() > 0 && id <= block.header().last {
                return None;
            }
            let (raw, behind) = entries.split_at(entries.len() - rest);
            block.push_raw(id, raw);
            entries = behind;
        }
        block.set_node(total, weight, last);
        block.seal();
        (block.len() > 0).then_some(block)
    }
}
