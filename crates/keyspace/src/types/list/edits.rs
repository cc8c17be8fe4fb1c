//! What was done to the elements of a list, as effects have it: one edit behind the other, each a number and what it needs.

use almandine_datatypes::list::{End, ListEncoding};

use crate::types::collection::edits::{EditBytes, push_bytes, push_number, take_byte, take_bytes, take_number};

/// An edit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListEdit<'e> {
    Push { end: End, element: &'e [u8] },
    Pop { end: End, count: usize },
    Set { index: usize, element: &'e [u8] },
    Insert { index: usize, element: &'e [u8] },
    Remove { end: End, element: &'e [u8], limit: usize },
    Trim { start: usize, end: usize },
    SetEncoding(ListEncoding),
}

/// The numbers of edits at the left; those at the right are one more.
const PUSH: u8 = 0;
const POP: u8 = 2;
const REMOVE: u8 = 4;
const SET: u8 = 6;
const INSERT: u8 = 7;
const TRIM: u8 = 8;
const SET_ENCODING: u8 = 9;

const fn at(end: End, left: u8) -> u8 {
    match end {
        End::Left => left,
        End::Right => left + 1,
    }
}

impl<'e> EditBytes<'e> for ListEdit<'e> {
    fn push(self, out: &mut Vec<u8>) {
        let number = |out: &mut Vec<u8>, number: usize| push_number(out, number as u64);
        match self {
            Self::Push { end, element } => {
                out.push(at(end, PUSH));
                push_bytes(out, element);
            }
            Self::Pop { end, count } => {
                out.push(at(end, POP));
                number(out, count);
            }
            Self::Remove { end, element, limit } => {
                out.push(at(end, REMOVE));
                push_bytes(out, element);
                number(out, limit);
            }
            Self::Set { index, element } => {
                out.push(SET);
                number(out, index);
                push_bytes(out, element);
            }
            Self::Insert { index, element } => {
                out.push(INSERT);
                number(out, index);
                push_bytes(out, element);
            }
            Self::Trim { start, end } => {
                out.push(TRIM);
                number(out, start);
                number(out, end);
            }
            Self::SetEncoding(encoding) => out.extend_from_slice(&[SET_ENCODING, encoding as u8]),
        }
    }

    fn take(edits: &mut &'e [u8]) -> Option<Self> {
        let number = |edits: &mut &'e [u8]| usize::try_from(take_number(edits)?).ok();
        let kind = take_byte(edits)?;
        let end = if kind & 1 == 0 { End::Left } else { End::Right };
        match kind {
            PUSH..POP => Some(ListEdit::Push { end, element: take_bytes(edits)? }),
            POP..REMOVE => Some(ListEdit::Pop { end, count: number(edits)? }),
            REMOVE..SET => Some(ListEdit::Remove { end, element: take_bytes(edits)?, limit: number(edits)? }),
            SET => Some(ListEdit::Set { index: number(edits)?, element: take_bytes(edits)? }),
            INSERT => Some(ListEdit::Insert { index: number(edits)?, element: take_bytes(edits)? }),
            TRIM => Some(ListEdit::Trim { start: number(edits)?, end: number(edits)? }),
            SET_ENCODING => {
                let number = take_byte(edits)?;
                [ListEncoding::ListPack, ListEncoding::QuickList]
                    .into_iter()
                    .find(|encoding| *encoding as u8 == number)
                    .map(ListEdit::SetEncoding)
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
        let all = [
            ListEdit::Push { end: End::Left, element: b"e" },
            ListEdit::Push { end: End::Right, element: b"" },
            ListEdit::Pop { end: End::Left, count: 1 },
            ListEdit::Pop { end: End::Right, count: 1000 },
            ListEdit::Set { index: 300, element: b"element" },
            ListEdit::Insert { index: 0, element: b"e" },
            ListEdit::Remove { end: End::Left, element: b"e", limit: 1 },
            ListEdit::Remove { end: End::Right, element: b"e", limit: usize::MAX },
            ListEdit::Trim { start: 3, end: 1 << 40 },
            ListEdit::SetEncoding(ListEncoding::QuickList),
        ];
        assert_edits_come_back(&all);
    }
}
