//! Collections without elements, which some servers have written and no key has.

use crate::container::listpack::Listpack;
use crate::container::ziplist::Ziplist;
use crate::container::zipmap::Zipmap;
use crate::string::read_text;
use crate::types;

/// Whether `value`, behind a type byte, is a whole packed collection that has no element.
#[must_use]
pub fn is_empty_collection(value_type: u8, mut value: &[u8]) -> bool {
    let input = &mut value;
    let is_empty = match value_type {
        types::LIST_QUICKLIST | types::LIST_QUICKLIST_2 => super::list::is_empty(value_type, input),
        _ => read_text(input).and_then(|text| {
            let bytes = text.into_bytes();
            match value_type {
                types::LIST_ZIPLIST | types::ZSET_ZIPLIST | types::HASH_ZIPLIST => Some(Ziplist::parse(&bytes)?.is_empty()),
                types::HASH_LISTPACK | types::ZSET_LISTPACK | types::SET_LISTPACK => Some(Listpack::parse(&bytes)?.is_empty()),
                types::HASH_ZIPMAP => Some(Zipmap::parse(&bytes)?.is_empty()),
                _ => None,
            }
        }),
    };
    is_empty == Some(true) && input.is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_whole_ones_without_elements_are_empty() {
        let ziplist = b"\x0b\x0b\0\0\0\x0a\0\0\0\0\0\xff".as_slice();
        let listpack = b"\x07\x07\0\0\0\0\0\xff".as_slice();
        for (value_type, value) in [
            (types::LIST_ZIPLIST, ziplist),
            (types::ZSET_ZIPLIST, ziplist),
            (types::HASH_ZIPLIST, ziplist),
            (types::HASH_LISTPACK, listpack),
            (types::ZSET_LISTPACK, listpack),
            (types::SET_LISTPACK, listpack),
            (types::LIST_QUICKLIST, b"\0"),
            (types::LIST_QUICKLIST, &[b"\x01", ziplist].concat()),
            (types::LIST_QUICKLIST_2, &[b"\x01\x02", listpack].concat()),
            (types::HASH_ZIPMAP, b"\x02\0\xff"),
        ] {
            assert!(is_empty_collection(value_type, value), "{value_type}");
            assert!(!is_empty_collection(value_type, &value[..value.len() - 1]), "{value_type} that is cut");
            assert!(!is_empty_collection(value_type, &[value, b"\0"].concat()), "{value_type} with more behind it");
            assert!(!is_empty_collection(types::STRING, value));
        }
        // One element.
        assert!(!is_empty_collection(types::HASH_LISTPACK, b"\x09\x09\0\0\0\x01\0\x01\x01\xff"));
        assert!(!is_empty_collection(types::LIST_ZIPLIST, b"\x0d\x0d\0\0\0\x0a\0\0\0\x01\0\0\xf2\xff"));
    }
}
