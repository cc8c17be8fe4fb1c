//! Elements as a sequence of parts.
//!
//! A part has whole chunks. The cursor is the bound of the next one: with a snapshot and a cursor, writing goes on after any pause.

use almandine_base::object::{Damaged, ImageCursor, Missing};

use crate::image::{Part, begin};
use crate::packed::{Due, ELEMENTS_MAX};
use crate::tree::{ByBound, NEVER};

use super::chunk::{CHUNK_MAX_BYTES, Chunk, Place};
use super::object::{HashedObject, HashedType};
use super::place::{bound, tag};

/// Elements of a chunk that is read at most, and bytes of their entries: about what grown chunks have, so that a change does not
/// split it at once.
const FILLED_ELEMENTS: usize = ELEMENTS_MAX * 3 / 4;
const FILLED_BYTES: usize = CHUNK_MAX_BYTES * 3 / 4;

impl<S: HashedType> HashedObject<S> {
    /// See [`almandine_base::object::Object::write_part`].
    pub(super) fn write_chunks_part(
        &self,
        cursor: ImageCursor,
        limit: usize,
        out: &mut Vec<u8>,
    ) -> Result<Option<ImageCursor>, Missing> {
        let begin = begin(out);
        let Ok((count, next)) = self.write_chunks(cursor.position as u32, begin.saturating_add(limit), out) else {
            out.truncate(begin);
            return Err(Missing::Cold);
        };
        Part { number: cursor.part, count, encoding: S::number(self.encoding), is_last: next.is_none() }.seal(S::MAGIC, out, begin);
        Ok(next.map(|position| ImageCursor { position: u64::from(position), part: cursor.part + 1 }))
    }

    /// Appends the entries of chunks until `out` has `end` bytes. Returns how many elements they are, and the bound of the next
    /// chunk.
    fn write_chunks(&self, low: u32, end: usize, out: &mut Vec<u8>) -> Result<(u32, Option<u32>), Missing> {
        let mut leaves = self.tree.leaves(&mut ByBound(low));
        let mut count = 0;
        for chunk in leaves.by_ref() {
            let chunk = chunk?;
            out.extend_from_slice(chunk.entries());
            count += chunk.len() as u32;
            if out.len() >= end {
                break;
            }
        }
        Ok((count, leaves.bound().copied()))
    }

    /// See [`almandine_base::object::Object::read_part`].
    pub(super) fn read_chunks_part(&mut self, part: &[u8]) -> Result<bool, Damaged> {
        let (part, entries) = Part::open(S::MAGIC, self.parts, part, |bytes, at| S::parse(bytes, at).map(|(_, size)| size))?;
        self.take(entries);
        self.parts += 1;
        self.encoding = S::encoding(part.encoding);
        Ok(part.is_last)
    }

    /// Takes elements in: as whole chunks if they lie behind all others, which is so where hashes have not got another seed.
    fn take(&mut self, entries: &[u8]) {
        let mut at = 0;
        let next = || {
            let (entry, size) = S::parse(entries, at)?;
            let hash = self.placement.hash(entry.field);
            let place = Place { at, size, due: entry.due.unwrap_or(NEVER), tag: tag(hash) };
            at += size;
            Some((hash, place))
        };
        let mut elements: Vec<(u64, Place)> = std::iter::from_fn(next).collect();
        // Those of one bound stay in their order.
        elements.sort_by_key(|(hash, _)| bound(*hash));
        let last = self.tree.leaves(&mut ByBound(u32::MAX)).filter_map(Result::ok).flat_map(Chunk::iter);
        let above = last.map(|entry| bound(self.placement.hash(entry.field))).max();
        if elements.first().is_some_and(|(first, _)| above.is_none_or(|above| bound(*first) > above)) {
            return self.append(entries, &elements);
        }
        for (hash, place) in elements {
            let Some((entry, _)) = S::parse(entries, place.at) else { continue };
            let set = self.put(hash, entry.field, entry.value, entry.due.map_or(Due::Never, Due::At));
            debug_assert!(set.is_ok(), "what is being read is in memory");
        }
    }

    /// Appends elements, which are in the order of their bounds, in chunks that have room for some more.
    fn append(&mut self, entries: &[u8], mut elements: &[(u64, Place)]) {
        while let Some((first, _)) = elements.first() {
            let (mut count, mut used) = (0, 0);
            // Elements of one bound cannot be parted.
            for group in elements.chunk_by(|(one, _), (other, _)| bound(*one) == bound(*other)) {
                let bytes = group.iter().map(|(_, place)| place.size).sum::<usize>();
                if count != 0 && (count + group.len() > FILLED_ELEMENTS || used + bytes > FILLED_BYTES) {
                    break;
                }
                (count, used) = (count + group.len(), used + bytes);
            }
            let (now, rest) = elements.split_at(count);
            self.tree.append(bound(*first), Chunk::gather(entries, now.iter().map(|(_, place)| place)));
            elements = rest;
        }
    }
}
