//! What was done to the members of a set, as effects have it: one edit behind the other, each a number and what it needs.

use almandine_datatypes::set::SetEncoding;

use crate::types::collection::edits::{EditBytes, push_bytes, take_byte, take_bytes};

/// An edit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetEdit<'e> {
    Add(&'e [u8]),
    Remove(&'e [u8]),
    SetEncoding(SetEncoding),
}

const ADD: u8 = 0;
const REMOVE: u8 = 1;
const SET_ENCODING: u8 = 2;

impl<'e> EditBytes<'e> for SetEdit<'e> {
    fn push(self, out: &mut Vec<u8>) {
        match self {
            Self::Add(member) => {
                out.push(ADD);
                push_bytes(out, member);
            }
            Self::Remove(member) => {
                out.push(REMOVE);
                push_bytes(out, member);
            }
            Self::SetEncoding(encoding) => out.extend_from_slice(&[SET_ENCODING, encoding as u8]),
        }
    }

    fn take(edits: &mut &'e [u8]) -> Option<Self> {
        match take_byte(edits)? {
            ADD => take_bytes(edits).map(SetEdit::Add),
            REMOVE => take_bytes(edits).map(SetEdit::Remove),
            SET_ENCODING => {
                let number = take_byte(edits)?;
                let all = [SetEncoding::IntSet, SetEncoding::ListPack, SetEncoding::HashTable];
                all.into_iter().find(|encoding| *encoding as u8 == number).map(SetEdit::SetEncoding)
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::testing::assert_edits_come_back;

    #[test]
    fn edits_come_back_and_cut_ones_end() {
        let all = [SetEdit::Add(b"member"), SetEdit::Add(b""), SetEdit::Remove(b"m"), SetEdit::SetEncoding(SetEncoding::ListPack)];
        assert_edits_come_back(&all);
    }
}
