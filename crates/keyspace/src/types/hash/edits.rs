//! What was done to the fields of a hash, as effects have it: one edit behind the other, each a number and what it needs.

use almandine_datatypes::packed::{Due, HashEncoding};

use crate::types::collection::edits::{EditBytes, push_bytes, push_number, take_byte, take_bytes, take_number};

/// An edit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HashEdit<'e> {
    Set { field: &'e [u8], value: &'e [u8], due: Due },
    SetDue { field: &'e [u8], due: Option<u64> },
    Remove { field: &'e [u8] },
    SetEncoding(HashEncoding),
}

/// The field has no expiry from then on, the one that it has, or another one.
const SET: u8 = 0;
const SET_KEEP: u8 = 1;
const SET_AT: u8 = 2;
const SET_DUE: u8 = 3;
const PERSIST: u8 = 4;
const REMOVE: u8 = 5;
const SET_ENCODING: u8 = 6;

impl<'e> EditBytes<'e> for HashEdit<'e> {
    fn push(self, out: &mut Vec<u8>) {
        match self {
            Self::Set { field, value, due } => {
                out.push(match due {
                    Due::Never => SET,
                    Due::Keep => SET_KEEP,
                    Due::At(_) => SET_AT,
                });
                push_bytes(out, field);
                push_bytes(out, value);
                if let Due::At(at) = due {
                    push_number(out, at);
                }
            }
            Self::SetDue { field, due } => {
                out.push(if due.is_some() { SET_DUE } else { PERSIST });
                push_bytes(out, field);
                due.into_iter().for_each(|due| push_number(out, due));
            }
            Self::Remove { field } => {
                out.push(REMOVE);
                push_bytes(out, field);
            }
            Self::SetEncoding(encoding) => out.extend_from_slice(&[SET_ENCODING, encoding as u8]),
        }
    }

    fn take(edits: &mut &'e [u8]) -> Option<Self> {
        let number = take_byte(edits)?;
        match number {
            SET | SET_KEEP | SET_AT => {
                let (field, value) = (take_bytes(edits)?, take_bytes(edits)?);
                let due = match number {
                    SET => Due::Never,
                    SET_KEEP => Due::Keep,
                    _ => Due::At(take_number(edits)?),
                };
                Some(HashEdit::Set { field, value, due })
            }
            SET_DUE => Some(HashEdit::SetDue { field: take_bytes(edits)?, due: Some(take_number(edits)?) }),
            PERSIST => Some(HashEdit::SetDue { field: take_bytes(edits)?, due: None }),
            REMOVE => Some(HashEdit::Remove { field: take_bytes(edits)? }),
            SET_ENCODING => {
                let number = take_byte(edits)?;
                let all = [HashEncoding::ListPack, HashEncoding::ListPackEx, HashEncoding::HashTable];
                all.into_iter().find(|encoding| *encoding as u8 == number).map(HashEdit::SetEncoding)
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
            HashEdit::Set { field: b"f", value: b"", due: Due::Keep },
            HashEdit::Set { field: b"", value: b"value", due: Due::Never },
            HashEdit::Set { field: b"f", value: b"v", due: Due::At(1 << 47) },
            HashEdit::SetDue { field: b"f", due: Some(0) },
            HashEdit::SetDue { field: b"f", due: None },
            HashEdit::Remove { field: b"f" },
            HashEdit::SetEncoding(HashEncoding::HashTable),
        ];
        assert_edits_come_back(&all);
    }
}
