//! A hash as a sequence of parts, to be written beside other work and read again.
//!
//! ```text
//! "AH" 2 | version 1 | flags 1                                 flags: bit 0: the last part; bits 1-2: encoding
//! number of the part 4 | fields 4 | bytes of entries 4
//! checksum of all else 8                                       rapidhash
//! entries, as in a packed hash
//! ```
//!
//! A part has whole chunks. The cursor is the bound of the next one, so whoever has a snapshot and a cursor goes on after any pause. The reader
//! checks a part before it takes anything of it.

use almandine_base::object::{Damaged, ImageCursor, Missing};
use rapidhash::v3::{DEFAULT_RAPID_SECRETS, rapidhash_v3_inline};

use crate::packed::{Due, ELEMENTS_MAX, Encoding, Entry};
use crate::tree::{ByBound, NEVER};

use super::chunk::{CHUNK_MAX_BYTES, Chunk, Place};
use super::object::HashObject;
use super::place::{bound, tag};

const HEADER: usize = 24;
const CHECKSUM: usize = 16;
const MAGIC: [u8; 3] = [b'A', b'H', 1];
const LAST: u8 = 1;
/// Fields of a chunk that is read at most, and bytes of their entries: about what grown chunks have, so that a change does not split it at once.
const FILLED_FIELDS: usize = ELEMENTS_MAX * 3 / 4;
const FILLED_BYTES: usize = CHUNK_MAX_BYTES * 3 / 4;

/// See [`almandine_base::object::Object::write_part`].
pub(super) fn write_part(
    hash: &HashObject,
    cursor: ImageCursor,
    limit: usize,
    out: &mut Vec<u8>,
) -> Result<Option<ImageCursor>, Missing> {
    let begin = out.len();
    let fields = write_chunks(hash, cursor, limit, out);
    let Ok((fields, next)) = fields else {
        out.truncate(begin);
        return Err(Missing);
    };
    let flags = ((hash.encoding as u8) << 1) | if next.is_none() { LAST } else { 0 };
    let part = &mut out[begin..];
    let bytes = (part.len() - HEADER) as u32;
    part[..3].copy_from_slice(&MAGIC);
    part[3] = flags;
    part[4..8].copy_from_slice(&cursor.part.to_le_bytes());
    part[8..12].copy_from_slice(&fields.to_le_bytes());
    part[12..16].copy_from_slice(&bytes.to_le_bytes());
    let sum = checksum(part);
    part[CHECKSUM..HEADER].copy_from_slice(&sum.to_le_bytes());
    Ok(next.map(|position| ImageCursor { position: u64::from(position), part: cursor.part + 1 }))
}

/// Appends room for a header and the entries of chunks up to the limit. Returns how many fields they are, and the bound of the next chunk.
fn write_chunks(hash: &HashObject, cursor: ImageCursor, limit: usize, out: &mut Vec<u8>) -> Result<(u32, Option<u32>), Missing> {
    let begin = out.len();
    out.resize(begin + HEADER, 0);
    let mut leaves = hash.tree.leaves(&mut ByBound(cursor.position as u32));
    let mut fields = 0;
    for chunk in leaves.by_ref() {
        let chunk = chunk?;
        out.extend_from_slice(chunk.entries());
        fields += chunk.len() as u32;
        if out.len() - begin >= limit {
            break;
        }
    }
    Ok((fields, leaves.bound().copied()))
}

/// See [`almandine_base::object::Object::read_part`].
pub(super) fn read_part(hash: &mut HashObject, part: &[u8]) -> Result<bool, Damaged> {
    let (flags, fields) = sound(hash, part).ok_or(Damaged)?;
    take_fields(hash, &part[HEADER..], &fields);
    hash.encoding = Encoding::of((flags >> 1) & 3);
    hash.parts += 1;
    Ok(flags & LAST != 0)
}

/// Takes fields into a hash: as whole chunks if they lie behind all others, which is so where hashes have not got another seed.
fn take_fields(hash: &mut HashObject, entries: &[u8], fields: &[Place]) {
    let HashObject { tree, placement, .. } = hash;
    let mut fields: Vec<(u64, Place)> = fields
        .iter()
        .filter_map(|place| Entry::parse(entries, place.at).map(|(entry, _)| (placement.hash(entry.field), *place)))
        .map(|(hash, place)| (hash, Place { tag: tag(hash), ..place }))
        .collect();
    // Those of one bound stay in their order.
    fields.sort_by_key(|(hash, _)| bound(*hash));
    let last = tree.leaves(&mut ByBound(u32::MAX)).filter_map(Result::ok).flat_map(Chunk::iter);
    let above = last.map(|entry| bound(placement.hash(entry.field))).max();
    if fields.first().is_some_and(|(first, _)| above.is_none_or(|above| bound(*first) > above)) {
        return append(hash, entries, &fields);
    }
    for (field_hash, place) in fields {
        let Some((entry, _)) = Entry::parse(entries, place.at) else { continue };
        let set = hash.set_hashed(field_hash, entry.field, entry.value, entry.due.map_or(Due::Never, Due::At));
        debug_assert!(set.is_ok(), "what is being read is in memory");
    }
}

/// Appends fields, which are in the order of their bounds, in chunks that have room for some more.
fn append(hash: &mut HashObject, entries: &[u8], mut fields: &[(u64, Place)]) {
    while let Some((first, _)) = fields.first() {
        let (mut count, mut used) = (0, 0);
        // Fields of one bound cannot be parted.
        for group in fields.chunk_by(|(one, _), (other, _)| bound(*one) == bound(*other)) {
            let bytes = group.iter().map(|(_, place)| place.size).sum::<usize>();
            if count != 0 && (count + group.len() > FILLED_FIELDS || used + bytes > FILLED_BYTES) {
                break;
            }
            (count, used) = (count + group.len(), used + bytes);
        }
        let (now, rest) = fields.split_at(count);
        hash.tree.append(bound(*first), Chunk::gather(entries, now.iter().map(|(_, place)| place)));
        fields = rest;
    }
}

/// The flags and fields of a part that is the next one and whole.
fn sound(hash: &HashObject, part: &[u8]) -> Option<(u8, Vec<Place>)> {
    let &[a, b, c, flags, n0, n1, n2, n3, f0, f1, f2, f3, l0, l1, l2, l3, ref sum @ ..] = part.first_chunk::<HEADER>()?;
    let is_ours = [a, b, c] == MAGIC && u32::from_le_bytes([n0, n1, n2, n3]) == hash.parts;
    let is_whole = u32::from_le_bytes([l0, l1, l2, l3]) as usize == part.len() - HEADER;
    if !is_ours || !is_whole || u64::from_le_bytes(*sum) != checksum(part) {
        return None;
    }
    let (entries, mut at) = (&part[HEADER..], 0);
    let next = |_| {
        let (entry, size) = Entry::parse(entries, at)?;
        let place = Place { at, size, due: entry.due.unwrap_or(NEVER), tag: 0 };
        at += size;
        Some(place)
    };
    let places = (0..u32::from_le_bytes([f0, f1, f2, f3])).map(next).collect::<Option<Vec<_>>>()?;
    (at == entries.len()).then_some((flags, places))
}

/// Of all of a part but the checksum itself.
fn checksum(part: &[u8]) -> u64 {
    let hash = |bytes| rapidhash_v3_inline::<true, false, false>(bytes, &DEFAULT_RAPID_SECRETS);
    hash(&part[..CHECKSUM]).rotate_left(1) ^ hash(&part[HEADER..])
}
