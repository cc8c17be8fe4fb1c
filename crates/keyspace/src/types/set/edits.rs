//! What was done to the members of a set, as effects have it: one edit behind the other, each a number and what it needs.

use almandine_datatypes::set::SetEncoding;

use crate::types::collection::edits::{push_bytes, take_byte, take_bytes};

/// An edit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Edit<'e> {
    Add(&'e [u8]),
    Remove(&'e [u8]),
    Name(SetEncoding),
}

const ADD: u8 = 0;
const REMOVE: u8 = 1;
const NAME: u8 = 2;

impl Edit<'_> {
    /// Appends it to others.
    pub(super) fn push(self, out: &mut Vec<u8>) {
        match self {
            Self::Add(member) => {
                out.push(ADD);
                push_bytes(out, member);
            }
            Self::Remove(member) => {
                out.push(REMOVE);
                push_bytes(out, member);
            }
            Self::Name(encoding) => out.extend_from_slice(&[NAME, encoding as u8]),
        }
    }
}

/// The first of the edits, which is taken off. None at the end, and where bytes are no edit.
pub(super) fn next<'e>(edits: &mut &'e [u8]) -> Option<Edit<'e>> {
    match take_byte(edits)? {
        ADD => take_bytes(edits).map(Edit::Add),
        REMOVE => take_bytes(edits).map(Edit::Remove),
        NAME => {
            let name = take_byte(edits)?;
            let all = [SetEncoding::IntSet, SetEncoding::ListPack, SetEncoding::HashTable];
            all.into_iter().find(|encoding| *encoding as u8 == name).map(Edit::Name)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edits_come_back_and_cut_ones_end() {
        let all = [Edit::Add(b"member"), Edit::Add(b""), Edit::Remove(b"m"), Edit::Name(SetEncoding::ListPack)];
        let mut edits = Vec::new();
        all.iter().for_each(|edit| edit.push(&mut edits));
        let mut bytes = &edits[..];
        assert_eq!(std::iter::from_fn(|| next(&mut bytes)).collect::<Vec<_>>(), all);
        for len in 0..edits.len() {
            let mut bytes = &edits[..len];
            assert!(std::iter::from_fn(|| next(&mut bytes)).count() < all.len());
        }
    }
}
