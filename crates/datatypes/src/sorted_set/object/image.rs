//! A sorted set as a sequence of parts: members in their order. The cursor is a rank, so it holds for one snapshot only.

use almandine_base::object::{Damaged, ImageCursor, Missing};

use crate::image::{Magic, Part, begin};
use crate::packed::entry::FieldEntry;
use crate::sorted_set::{Scored, SortedSetEncoding};
use crate::tree::ByRank;

use super::SortedSetObject;

const MAGIC: Magic = *b"AZ\x01";

/// See [`almandine_base::object::Object::write_part`].
pub(in crate::sorted_set) fn write_part(
    set: &SortedSetObject,
    cursor: ImageCursor,
    limit: usize,
    out: &mut Vec<u8>,
) -> Result<Option<ImageCursor>, Missing> {
    let begin = begin(out);
    let mut route = ByRank(cursor.position);
    let leaves = set.order.leaves(&mut route);
    let (mut count, mut skip) = (0, route.0 as usize);
    for chunk in leaves {
        let Ok(chunk) = chunk else {
            out.truncate(begin);
            return Err(Missing::Cold);
        };
        chunk.write_from(skip, out);
        count += chunk.len() - skip.min(chunk.len());
        skip = 0;
        if out.len() - begin >= limit {
            break;
        }
    }
    let position = cursor.position + count as u64;
    let is_last = position >= set.len() as u64;
    Part { number: cursor.part, count: count as u32, encoding: set.encoding as u8, is_last }.seal(MAGIC, out, begin);
    Ok((!is_last).then_some(ImageCursor { position, part: cursor.part + 1 }))
}

/// See [`almandine_base::object::Object::read_part`].
pub(in crate::sorted_set) fn read_part(set: &mut SortedSetObject, part: &[u8]) -> Result<bool, Damaged> {
    let (part, entries) = Part::open(MAGIC, set.parts, part, |bytes, at| FieldEntry::parse(bytes, at).map(|(_, size)| size))?;
    let mut at = 0;
    while let Some((entry, size)) = FieldEntry::parse(entries, at) {
        let entry = Scored::from(entry);
        let set = set.set(entry.member, entry.score).and_then(|_| set.set_due(entry.member, entry.due));
        debug_assert!(set.is_ok(), "what is being read is in memory");
        at += size;
    }
    set.encoding = SortedSetEncoding::from_number(part.encoding);
    set.parts += 1;
    Ok(part.is_last)
}
