//! What was done to the fields of a hash, as effects have it: one edit behind the other, each a number and what it needs.

use almandine_datatypes::packed::{Due, Encoding};

/// Edits that follow each other.
#[derive(Debug, Default)]
pub(super) struct Edits(pub(super) Vec<u8>);

/// One of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Edit<'e> {
    Set { field: &'e [u8], value: &'e [u8], due: Due },
    SetDue { field: &'e [u8], due: Option<u64> },
    Remove { field: &'e [u8] },
    Name(Encoding),
}

const SET: u8 = 0;
const SET_DUE: u8 = 1;
const REMOVE: u8 = 2;
const NAME: u8 = 3;
/// Times that are none: those of fields are below 2^48.
const NEVER: u64 = u64::MAX;
const KEEP: u64 = u64::MAX - 1;

impl Edits {
    pub(super) fn push(&mut self, edit: Edit<'_>) {
        let out = &mut self.0;
        match edit {
            Edit::Set { field, value, due } => {
                out.push(SET);
                push_bytes(out, field);
                push_bytes(out, value);
                let due = match due {
                    Due::Keep => KEEP,
                    Due::Never => NEVER,
                    Due::At(at) => at,
                };
                out.extend_from_slice(&due.to_le_bytes());
            }
            Edit::SetDue { field, due } => {
                out.push(SET_DUE);
                push_bytes(out, field);
                out.extend_from_slice(&due.unwrap_or(NEVER).to_le_bytes());
            }
            Edit::Remove { field } => {
                out.push(REMOVE);
                push_bytes(out, field);
            }
            Edit::Name(encoding) => out.extend_from_slice(&[NAME, encoding as u8]),
        }
    }
}

fn push_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    out.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
    out.extend_from_slice(bytes);
}

/// The first of the edits, which is taken off. None at the end, and where bytes are no edit.
pub(super) fn next<'e>(edits: &mut &'e [u8]) -> Option<Edit<'e>> {
    let (&number, rest) = edits.split_first()?;
    *edits = rest;
    match number {
        SET => {
            let (field, value) = (take_bytes(edits)?, take_bytes(edits)?);
            let due = match take_number(edits)? {
                KEEP => Due::Keep,
                NEVER => Due::Never,
                at => Due::At(at),
            };
            Some(Edit::Set { field, value, due })
        }
        SET_DUE => {
            let field = take_bytes(edits)?;
            Some(Edit::SetDue { field, due: Some(take_number(edits)?).filter(|due| *due != NEVER) })
        }
        REMOVE => Some(Edit::Remove { field: take_bytes(edits)? }),
        NAME => {
            let (&name, rest) = edits.split_first()?;
            *edits = rest;
            let all = [Encoding::ListPack, Encoding::ListPackEx, Encoding::HashTable];
            all.into_iter().find(|encoding| *encoding as u8 == name).map(Edit::Name)
        }
        _ => None,
    }
}

fn take_bytes<'e>(edits: &mut &'e [u8]) -> Option<&'e [u8]> {
    let (len, rest) = edits.split_first_chunk()?;
    let (bytes, rest) = rest.split_at_checked(u32::from_le_bytes(*len) as usize)?;
    *edits = rest;
    Some(bytes)
}

fn take_number(edits: &mut &[u8]) -> Option<u64> {
    let (number, rest) = edits.split_first_chunk()?;
    *edits = rest;
    Some(u64::from_le_bytes(*number))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edits_come_back_and_cut_ones_end() {
        let all = [
            Edit::Set { field: b"f", value: b"", due: Due::Keep },
            Edit::Set { field: b"", value: b"value", due: Due::Never },
            Edit::Set { field: b"f", value: b"v", due: Due::At(1 << 47) },
            Edit::SetDue { field: b"f", due: Some(0) },
            Edit::SetDue { field: b"f", due: None },
            Edit::Remove { field: b"f" },
            Edit::Name(Encoding::HashTable),
        ];
        let mut edits = Edits::default();
        all.iter().for_each(|edit| edits.push(*edit));
        let mut bytes = &edits.0[..];
        assert_eq!(std::iter::from_fn(|| next(&mut bytes)).collect::<Vec<_>>(), all);
        for len in 0..edits.0.len() {
            let mut bytes = &edits.0[..len];
            assert!(std::iter::from_fn(|| next(&mut bytes)).count() < all.len());
        }
    }
}
