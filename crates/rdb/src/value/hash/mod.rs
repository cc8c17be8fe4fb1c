//! Hashes, in the forms that servers of the family have written since Redis 2.0.
//!
//! ```text
//!  4  count, then for each pair: field, value
//!  9  a string that is a zipmap
//! 13  a string that is a ziplist of field, value, …
//! 16  a string that is a listpack of field, value, …
//! 22  Valkey 9: count, then for each: field, value, expiry (8 bytes; -1: none)
//! 24  earliest expiry (8 bytes), count, then for each: delay (a length; 0: none), field, value
//! 25  earliest expiry (8 bytes), a string that is a listpack of field, value, expiry (0: none), …
//! ```
//!
//! Expiries are milliseconds since 1970, least significant byte first where they take 8 bytes. A delay is the expiry minus the
//! earliest, plus 1. In 25 the triples ascend by expiry, those without one at the end. Candidates of Redis 7.4 wrote 24 and 25 as
//! 22 and 23, without the earliest expiry and with expiries in the place of delays; versions up to 13 tell them from Valkey's 22.

mod write;

pub use write::{Dialect, HashEntry, HashForm, HashThresholds, write};

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::iter::FusedIterator;

use super::footer;
use crate::container::listpack::{self, Listpack};
use crate::container::ziplist::{self, Ziplist};
use crate::container::zipmap::{self, Zipmap};
use crate::cursor::array;
use crate::string::{read_length, read_number, read_text, skip_text};
use crate::{Text, types};
use almandine_datatypes::packed::Element;

/// The latest expiry of a field, in milliseconds since 1970: Redis keeps 48 bits.
pub const EXPIRY_MS_MAX: i64 = (1 << 48) - 1;
const NO_EXPIRY_VALKEY: i64 = -1;

/// The payload, or a part of it, is not what its type byte promises.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed;

/// A field of a hash.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field<'i> {
    /// Its name; no other of the hash has it.
    pub name: Text<'i>,
    /// Its value.
    pub value: Text<'i>,
    /// When it expires, in milliseconds since 1970; may be past.
    pub expiry_ms: Option<i64>,
}

/// A hash in a payload. Its containers are checked and its fields counted; that they differ, and what is compressed, is checked as
/// [`Hash::fields`] comes to it.
#[derive(Clone, Debug)]
pub struct Hash<'i> {
    body: Body<'i>,
    len: usize,
}

#[derive(Clone, Debug)]
enum Body<'i> {
    /// String objects, one after another.
    Objects {
        bytes: &'i [u8],
        expiries: Expiries,
    },
    Zipmap(Cow<'i, [u8]>),
    Ziplist(Cow<'i, [u8]>),
    Listpack {
        bytes: Cow<'i, [u8]>,
        expiries: bool,
    },
}

/// Where string objects have their expiries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Expiries {
    None,
    /// Before the field; 0 for none.
    Before,
    /// Before the field as a delay behind the earliest; 0 for none, 1 for the earliest itself.
    Delay {
        earliest_ms: u64,
    },
    /// Behind the value, in 8 bytes.
    Behind,
}

impl<'i> Hash<'i> {
    /// Whether a type byte of a payload of this version begins a hash.
    #[must_use]
    pub fn is_type(value_type: u8, version: u16) -> bool {
        match value_type {
            types::HASH | types::HASH_ZIPMAP | types::HASH_ZIPLIST | types::HASH_LISTPACK | types::HASH_VALKEY => true,
            types::HASH_LISTPACK_EX_CANDIDATE | types::HASH_METADATA | types::HASH_LISTPACK_EX => {
                version < footer::VERSION_VALKEY_9
            }
            _ => false,
        }
    }

    /// Reads the hash behind a type byte and moves `input` behind it.
    ///
    /// # Errors
    /// When it is not one of this type and version, is cut off or malformed, or has no field.
    pub fn read(value_type: u8, version: u16, input: &mut &'i [u8]) -> Result<Self, Malformed> {
        if !Self::is_type(value_type, version) {
            return Err(Malformed);
        }
        read(value_type, version, input).filter(|hash| hash.len > 0).ok_or(Malformed)
    }

    /// The number of fields, at least one.
    #[must_use]
    #[expect(clippy::len_without_is_empty, reason = "there is no empty one")]
    pub fn len(&self) -> usize {
        self.len
    }

    /// The fields in the order of the payload. Ends after the first error.
    #[must_use]
    pub fn fields(&self) -> HashFields<'_> {
        let unread = match &self.body {
            Body::Objects { bytes, expiries } => Unread::Objects { bytes, expiries: *expiries },
            Body::Zipmap(bytes) => Unread::Zipmap(zipmap::Pairs::of_checked(bytes)),
            Body::Ziplist(bytes) => Unread::Ziplist(ziplist::ZiplistElements::of_checked(bytes)),
            Body::Listpack { bytes, expiries } => {
                Unread::Listpack { elements: listpack::ListpackElements::of_checked(bytes), expiries: *expiries }
            }
        };
        HashFields { unread, left: self.len, seen: BTreeSet::new() }
    }
}

/// Reads what stands behind the type byte and checks containers.
fn read<'i>(value_type: u8, version: u16, input: &mut &'i [u8]) -> Option<Hash<'i>> {
    match value_type {
        types::HASH => read_objects(Expiries::None, input),
        types::HASH_VALKEY if version >= footer::VERSION_VALKEY_9 => read_objects(Expiries::Behind, input),
        types::HASH_METADATA_CANDIDATE => read_objects(Expiries::Before, input),
        types::HASH_METADATA => {
            let earliest_ms = u64::from_le_bytes(array(input)?);
            read_objects(Expiries::Delay { earliest_ms }, input)
        }
        types::HASH_ZIPMAP => {
            let bytes = read_container(input)?;
            let len = Zipmap::parse(&bytes)?.len();
            Some(Hash { body: Body::Zipmap(bytes), len })
        }
        types::HASH_ZIPLIST => {
            let bytes = read_container(input)?;
            let len = Ziplist::parse(&bytes)?.len();
            len.is_multiple_of(2).then_some(Hash { body: Body::Ziplist(bytes), len: len / 2 })
        }
        types::HASH_LISTPACK => {
            let bytes = read_container(input)?;
            let len = Listpack::parse(&bytes)?.len();
            let body = Body::Listpack { bytes, expiries: false };
            len.is_multiple_of(2).then_some(Hash { body, len: len / 2 })
        }
        types::HASH_LISTPACK_EX | types::HASH_LISTPACK_EX_CANDIDATE => {
            if value_type == types::HASH_LISTPACK_EX {
                // The earliest expiry, which the first element has, too.
                array::<8>(input)?;
            }
            let bytes = read_container(input)?;
            let list = Listpack::parse(&bytes)?;
            let len = list.len();
            let whole = len.is_multiple_of(3) && expiries_ascend(list.iter());
            whole.then_some(Hash { body: Body::Listpack { bytes, expiries: true }, len: len / 3 })
        }
        _ => None,
    }
}

/// Counts the string objects, so that `input` can move behind them.
fn read_objects<'i>(expiries: Expiries, input: &mut &'i [u8]) -> Option<Hash<'i>> {
    let len = read_length(input)?;
    let bytes = *input;
    for _ in 0..len {
        if matches!(expiries, Expiries::Before | Expiries::Delay { .. }) {
            read_number(input)?;
        }
        skip_text(input)?;
        skip_text(input)?;
        if expiries == Expiries::Behind {
            array::<8>(input)?;
        }
    }
    Some(Hash { body: Body::Objects { bytes, expiries }, len })
}

/// A string object that is a container.
fn read_container<'i>(input: &mut &'i [u8]) -> Option<Cow<'i, [u8]>> {
    read_text(input).map(Text::into_bytes)
}

/// Whether the third of each three elements is an expiry or zero, and they ascend up to the zeros at the end.
fn expiries_ascend(elements: listpack::ListpackElements<'_>) -> bool {
    let mut last = None;
    elements.skip(2).step_by(3).all(|element| {
        let Some(at_ms) = element.integer().filter(|at_ms| (0..=EXPIRY_MS_MAX).contains(at_ms)) else { return false };
        let ordered = at_ms == 0 || last.is_none_or(|last| last != 0 && at_ms >= last);
        last = Some(at_ms);
        ordered
    })
}

/// The fields of a [`Hash`].
#[derive(Clone, Debug)]
pub struct HashFields<'h> {
    unread: Unread<'h>,
    left: usize,
    seen: BTreeSet<Text<'h>>,
}

#[derive(Clone, Debug)]
enum Unread<'h> {
    Objects { bytes: &'h [u8], expiries: Expiries },
    Zipmap(zipmap::Pairs<'h>),
    Ziplist(ziplist::ZiplistElements<'h>),
    Listpack { elements: listpack::ListpackElements<'h>, expiries: bool },
}

impl<'h> Iterator for HashFields<'h> {
    type Item = Result<Field<'h>, Malformed>;

    fn next(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        let field = self.unread.next().filter(|field| self.seen.insert(field.name.clone()));
        if field.is_none() {
            self.left = 0;
        }
        Some(field.ok_or(Malformed))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left.min(1), Some(self.left))
    }
}

impl FusedIterator for HashFields<'_> {}

impl<'h> Unread<'h> {
    fn next(&mut self) -> Option<Field<'h>> {
        match self {
            Self::Objects { bytes, expiries } => read_field(*expiries, bytes),
            Self::Zipmap(pairs) => {
                let (name, value) = pairs.next()?;
                Some(Field { name: name.into(), value: value.into(), expiry_ms: None })
            }
            Self::Ziplist(elements) => pair(elements),
            Self::Listpack { elements, expiries } => {
                let field = pair(elements)?;
                let expiry_ms = if *expiries { elements.next()?.integer().filter(|&at_ms| at_ms != 0) } else { None };
                Some(Field { expiry_ms, ..field })
            }
        }
    }
}

fn pair<'h>(elements: &mut impl Iterator<Item = Element<'h>>) -> Option<Field<'h>> {
    Some(Field { name: elements.next()?.into(), value: elements.next()?.into(), expiry_ms: None })
}

fn read_field<'h>(expiries: Expiries, input: &mut &'h [u8]) -> Option<Field<'h>> {
    let mut expiry_ms = match expiries {
        Expiries::None | Expiries::Behind => None,
        Expiries::Before => Some(read_number(input)?),
        Expiries::Delay { earliest_ms } => match read_number(input)? {
            0 => None,
            delay_ms => Some(earliest_ms.checked_add(delay_ms - 1)?),
        },
    };
    // Redis takes a time of zero, however it comes about, for none.
    expiry_ms = expiry_ms.filter(|&at_ms| at_ms != 0);
    let (name, value) = (read_text(input)?, read_text(input)?);
    if expiries == Expiries::Behind {
        expiry_ms = match i64::from_le_bytes(array(input)?) {
            NO_EXPIRY_VALKEY => None,
            at_ms => Some(u64::try_from(at_ms).ok()?),
        };
    }
    let expiry_ms = match expiry_ms {
        Some(at_ms) => Some(i64::try_from(at_ms).ok().filter(|&at_ms| at_ms <= EXPIRY_MS_MAX)?),
        None => None,
    };
    Some(Field { name, value, expiry_ms })
}
