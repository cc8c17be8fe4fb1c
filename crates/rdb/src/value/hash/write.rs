//! Writing of hashes: in the form that the reader's server would have chosen itself.

use super::EXPIRY_MS_MAX;
use crate::container::listpack::{self, Writer};
use crate::string::{write_bytes, write_length, write_number, write_string};
use crate::types;
use crate::value::footer;

/// A field to be written: its name, its value, and when it expires, in milliseconds since 1970.
pub type HashEntry<'f> = (&'f [u8], &'f [u8], Option<i64>);

/// The numbering of type bytes and versions that a reader follows. They differ for hashes whose fields expire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// Of Redis 7.0 and younger.
    Redis,
    /// Of Valkey 9 and younger.
    Valkey,
}

/// How large a hash may be that is written as a listpack: `hash-max-listpack-entries` and `hash-max-listpack-value`.
#[derive(Clone, Copy, Debug)]
pub struct HashThresholds {
    /// Fields.
    pub entries_max: usize,
    /// Bytes of the longest name or value.
    pub value_bytes_max: usize,
}

/// In what form a hash is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HashForm {
    /// One string object after another.
    Table,
    /// A listpack.
    Listpack,
    /// String objects, and when each field expires.
    TableWithExpiries,
    /// A listpack with expiries, by which it ascends.
    ListpackWithExpiries,
    /// String objects with expiries as Valkey has them.
    Valkey,
}

impl HashForm {
    /// The form that a server with these thresholds chooses for these fields.
    pub fn choose<'f>(fields: impl Iterator<Item = HashEntry<'f>>, thresholds: HashThresholds, dialect: Dialect) -> Self {
        let (mut small, mut expires, mut len, mut bytes) = (true, false, 0usize, 0usize);
        for (name, value, expiry_ms) in fields {
            len += 1;
            // Numbers, and what surrounds elements, take less than 48 bytes of three.
            bytes = bytes.saturating_add(name.len()).saturating_add(value.len()).saturating_add(48);
            small &= name.len().max(value.len()) <= thresholds.value_bytes_max;
            expires |= expiry_ms.is_some();
        }
        small &= len <= thresholds.entries_max && bytes <= listpack::BYTES_MAX;
        match (dialect, expires, small) {
            (Dialect::Valkey, true, _) => Self::Valkey,
            (Dialect::Redis, true, true) => Self::ListpackWithExpiries,
            (Dialect::Redis, true, false) => Self::TableWithExpiries,
            (_, false, true) => Self::Listpack,
            (_, false, false) => Self::Table,
        }
    }

    /// Its type byte.
    #[must_use]
    pub fn value_type(self) -> u8 {
        match self {
            Self::Table => types::HASH,
            Self::Listpack => types::HASH_LISTPACK,
            Self::TableWithExpiries => types::HASH_METADATA,
            Self::ListpackWithExpiries => types::HASH_LISTPACK_EX,
            Self::Valkey => types::HASH_VALKEY,
        }
    }

    /// The oldest version whose readers know it: for the footer.
    #[must_use]
    pub fn version(self) -> u16 {
        match self {
            Self::Table | Self::Listpack => footer::VERSION_REDIS_7_0,
            Self::TableWithExpiries | Self::ListpackWithExpiries => footer::VERSION_REDIS_7_4,
            Self::Valkey => footer::VERSION_VALKEY_9,
        }
    }
}

/// Appends type byte and value. A form without expiries leaves them out. A listpack that would be larger than Redis takes is
/// written as string objects instead; the form that was written is the result.
pub fn write<'f, F>(form: HashForm, fields: F, out: &mut Vec<u8>) -> HashForm
where
    F: Iterator<Item = HashEntry<'f>> + Clone,
{
    let packed = match form {
        HashForm::Listpack => pack(fields.clone(), false).map(|list| (list, None)),
        HashForm::ListpackWithExpiries => {
            let mut sorted: Vec<HashEntry<'f>> = fields.clone().collect();
            sorted.sort_by_key(|(_, _, expiry_ms)| expiry_ms.map_or(i64::MAX, kept));
            pack(sorted.iter().copied(), true).map(|list| (list, Some(earliest(fields.clone()))))
        }
        HashForm::Table | HashForm::TableWithExpiries | HashForm::Valkey => None,
    };
    let form = match (form, &packed) {
        (HashForm::Listpack, None) => HashForm::Table,
        (HashForm::ListpackWithExpiries, None) => HashForm::TableWithExpiries,
        (form, _) => form,
    };
    out.push(form.value_type());
    match packed {
        Some((list, earliest_ms)) => {
            if let Some(earliest_ms) = earliest_ms {
                out.extend_from_slice(&earliest_ms.to_le_bytes());
            }
            write_bytes(&list, out);
        }
        None => write_objects(form, fields, out),
    }
    form
}

fn pack<'f>(fields: impl Iterator<Item = HashEntry<'f>>, expiries: bool) -> Option<Vec<u8>> {
    let mut list = Writer::default();
    for (name, value, expiry_ms) in fields {
        list.push(name)?;
        list.push(value)?;
        if expiries {
            list.push_integer(expiry_ms.map_or(0, kept))?;
        }
    }
    Some(list.finish())
}

fn write_objects<'f>(form: HashForm, fields: impl Iterator<Item = HashEntry<'f>> + Clone, out: &mut Vec<u8>) {
    let earliest_ms = earliest(fields.clone());
    if form == HashForm::TableWithExpiries {
        out.extend_from_slice(&earliest_ms.to_le_bytes());
    }
    write_length(fields.clone().count(), out);
    for (name, value, expiry_ms) in fields {
        if form == HashForm::TableWithExpiries {
            write_number(expiry_ms.map_or(0, |at_ms| kept(at_ms).abs_diff(earliest_ms) + 1), out);
        }
        write_string(name, out);
        write_string(value, out);
        if form == HashForm::Valkey {
            out.extend_from_slice(&expiry_ms.map_or(super::NO_EXPIRY_VALKEY, kept).to_le_bytes());
        }
    }
}

/// The earliest expiry, or zero.
fn earliest<'f>(fields: impl Iterator<Item = HashEntry<'f>>) -> i64 {
    fields.filter_map(|(_, _, expiry_ms)| expiry_ms).map(kept).min().unwrap_or(0)
}

/// An expiry within what all forms can say: zero would mean none.
fn kept(at_ms: i64) -> i64 {
    at_ms.clamp(1, EXPIRY_MS_MAX)
}
