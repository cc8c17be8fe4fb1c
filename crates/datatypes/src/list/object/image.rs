//! A list as a sequence of parts: elements in their order. The cursor is a place, so it holds for one snapshot only.

use almandine_base::object::{Damaged, ImageCursor, Missing};

use crate::image::{Magic, Part, begin};
use crate::list::{End, ListEncoding};
use crate::packed::Member;
use crate::packed::listpack::{Encoded, is_canonical, parse, size_at};

use super::ListObject;

const MAGIC: Magic = *b"AL\x01";

/// See [`almandine_base::object::Object::write_part`].
pub(in crate::list) fn write_part(
    list: &ListObject,
    cursor: ImageCursor,
    limit: usize,
    out: &mut Vec<u8>,
) -> Result<Option<ImageCursor>, Missing> {
    let begin = begin(out);
    let mut count = 0;
    for element in list.iter_from(cursor.position as usize) {
        let Ok(element) = element else {
            out.truncate(begin);
            return Err(Missing::Cold);
        };
        let entry = Encoded::new(&element);
        entry.parts().into_iter().for_each(|part| out.extend_from_slice(part));
        count += 1;
        if out.len() - begin >= limit {
            break;
        }
    }
    let position = cursor.position + count;
    let is_last = position >= list.len() as u64;
    Part { number: cursor.part, count: count as u32, encoding: list.encoding as u8, is_last }.seal(MAGIC, out, begin);
    Ok((!is_last).then_some(ImageCursor { position, part: cursor.part + 1 }))
}

/// See [`almandine_base::object::Object::read_part`].
pub(in crate::list) fn read_part(list: &mut ListObject, part: &[u8]) -> Result<bool, Damaged> {
    let (part, entries) = Part::open(MAGIC, list.parts, part, |bytes, at| size_at(bytes, at).filter(|_| is_canonical(bytes, at)))?;
    let mut at = 0;
    while let Some((element, size)) = parse(entries, at) {
        list.push(End::Right, &Member::from(element));
        at += size;
    }
    list.parts += 1;
    list.encoding = ListEncoding::from_number(part.encoding);
    Ok(part.is_last)
}
