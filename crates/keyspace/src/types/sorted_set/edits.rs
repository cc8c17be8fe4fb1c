//! What was done to the members of a sorted set, as effects have it: one edit behind the other, each a number and what it needs.

use almandine_datatypes::sorted_set::SortedSetEncoding;

use crate::types::collection::edits::{EditBytes, push_bytes, push_number, take_byte, take_bytes, take_number};

/// An edit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum SortedSetEdit<'e> {
    /// A score; an expiry stays.
    Set {
        member: &'e [u8],
        score: f64,
    },
    SetDue {
        member: &'e [u8],
        due: Option<u64>,
    },
    Remove {
        member: &'e [u8],
    },
    SetEncoding(SortedSetEncoding),
}

const SET: u8 = 0;
const SET_DUE: u8 = 1;
const REMOVE: u8 = 2;
const SET_ENCODING: u8 = 3;
/// The time that is none: those of members are below 2^48.
const NEVER: u64 = 1 << 48;

impl<'e> EditBytes<'e> for SortedSetEdit<'e> {
    fn push(self, out: &mut Vec<u8>) {
        match self {
            Self::Set { member, score } => {
                out.push(SET);
                push_bytes(out, member);
                out.extend_from_slice(&score.to_bits().to_le_bytes());
            }
            Self::SetDue { member, due } => {
                out.push(SET_DUE);
                push_bytes(out, member);
                push_number(out, due.unwrap_or(NEVER));
            }
            Self::Remove { member } => {
                out.push(REMOVE);
                push_bytes(out, member);
            }
            Self::SetEncoding(encoding) => out.extend_from_slice(&[SET_ENCODING, encoding as u8]),
        }
    }

    fn take(edits: &mut &'e [u8]) -> Option<Self> {
        match take_byte(edits)? {
            SET => {
                let member = take_bytes(edits)?;
                let (score, rest) = edits.split_first_chunk()?;
                *edits = rest;
                let score = f64::from_bits(u64::from_le_bytes(*score));
                (!score.is_nan()).then_some(SortedSetEdit::Set { member, score })
            }
            SET_DUE => {
                let member = take_bytes(edits)?;
                Some(SortedSetEdit::SetDue { member, due: Some(take_number(edits)?).filter(|due| *due != NEVER) })
            }
            REMOVE => Some(SortedSetEdit::Remove { member: take_bytes(edits)? }),
            SET_ENCODING => Some(SortedSetEdit::SetEncoding(SortedSetEncoding::from_number(take_byte(edits)?))),
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
            SortedSetEdit::Set { member: b"m", score: 1.5 },
            SortedSetEdit::Set { member: b"", score: f64::NEG_INFINITY },
            SortedSetEdit::SetDue { member: b"m", due: Some(0) },
            SortedSetEdit::SetDue { member: b"m", due: None },
            SortedSetEdit::Remove { member: b"m" },
            SortedSetEdit::SetEncoding(SortedSetEncoding::SkipList),
        ];
        assert_edits_come_back(&all);
    }
}
