//! A set as bytes: ascending integers, or up to [`ELEMENTS_MAX`] members in the order in which they came.
//!
//! ```text
//! bits 1-2: encoding; bits 4-7: width of integers, 0: strings     1 byte
//! number of members                                               1 byte, only of strings
//! integers, or entries without values
//! ```

mod encoding;
mod integers;

pub use encoding::{SetEncoding, SetLimits};

pub use integers::IntegerCursor;

use self::integers::{Integers, width_of};
use crate::number::parse_i64;
use crate::packed::entry::{Bare, EntryShape};
use crate::packed::{ELEMENTS_MAX, Full, Member, PACKED_MAX_BYTES};
use almandine_base::steps;

/// Integers that a packed set has at most. They are looked up by halves, so they may be more than what is scanned.
pub const INTEGERS_MAX: usize = 512;

/// A view on the bytes of a packed set.
#[derive(Clone, Copy, Debug)]
pub struct PackedSet<'a> {
    encoding: SetEncoding,
    body: Body<'a>,
}

#[derive(Clone, Copy, Debug)]
enum Body<'a> {
    Integers(Integers<'a>),
    Strings { bytes: &'a [u8], count: usize },
}

impl<'a> PackedSet<'a> {
    /// One without members.
    pub const EMPTY: Self = Self { encoding: SetEncoding::IntSet, body: Body::Strings { bytes: &[], count: 0 } };

    /// A view on bytes; any bytes will do, no bytes at all are an empty set.
    #[must_use]
    pub fn new(bytes: &'a [u8]) -> Self {
        let (flags, rest) = bytes.split_first().map_or((0, bytes), |(flags, rest)| (*flags, rest));
        let encoding = SetEncoding::from_number((flags >> 1) & 3);
        let body = match usize::from(flags >> 4) {
            width @ 1..=8 => Body::Integers(Integers::new(rest, width)),
            _ => {
                let (count, bytes) = rest.split_first().map_or((0, rest), |(count, rest)| (usize::from(*count), rest));
                Body::Strings { bytes, count }
            }
        };
        Self { encoding, body }
    }

    /// How many members there are.
    #[must_use]
    pub fn len(&self) -> usize {
        match self.body {
            Body::Integers(integers) => integers.len(),
            Body::Strings { count, .. } => count,
        }
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// What OBJECT ENCODING names.
    #[must_use]
    pub fn encoding(&self) -> SetEncoding {
        self.encoding
    }

    /// Whether it has a member.
    #[must_use]
    pub fn contains(&self, member: &[u8]) -> bool {
        match self.body {
            Body::Integers(integers) => parse_i64(member).is_some_and(|number| integers.search(number).is_ok()),
            Body::Strings { .. } => self.place(member).is_some(),
        }
    }

    /// Where a string's entry lies in the entries, and its size.
    fn place(&self, member: &[u8]) -> Option<(usize, usize)> {
        let Body::Strings { bytes, count } = self.body else { return None };
        let mut at = 0;
        for _ in 0..count {
            let (entry, size) = Bare::parse(bytes, at)?;
            if entry.field == member {
                return Some((at, size));
            }
            at += size;
        }
        None
    }

    /// The member at a place of the order, from 0 on.
    #[must_use]
    pub fn nth(&self, index: usize) -> Option<Member<'a>> {
        match self.body {
            Body::Integers(integers) => integers.get(index).map(Member::from),
            Body::Strings { .. } => self.iter().nth(index),
        }
    }

    /// All members: integers ascending, strings in the order in which they came.
    #[must_use]
    pub fn iter(&self) -> PackedSetIter<'a> {
        PackedSetIter { body: self.body, at: 0, left: self.len() }
    }

    /// The members as integers, if all of them are.
    #[must_use]
    pub fn integers(&self) -> Option<IntegerCursor<'a>> {
        match self.body {
            Body::Integers(integers) => Some(IntegerCursor::new(integers)),
            Body::Strings { .. } => None,
        }
    }

    /// Whether the bytes are what this module writes, and there is a member: for what comes from a file or the network.
    #[must_use]
    pub fn is_sound(&self, bytes: &[u8]) -> bool {
        if bytes.is_empty() {
            return false;
        }
        let flags = (self.encoding as u8) << 1;
        let is_whole = match self.body {
            Body::Integers(integers) => {
                let width = bytes[0] >> 4;
                let numbers = (0..integers.len()).filter_map(|index| integers.get(index));
                let whole = bytes[0] == flags | width << 4 && bytes.len() == 1 + integers.len() * usize::from(width);
                whole && integers.len() <= INTEGERS_MAX && numbers.is_sorted_by(|one, next| one < next)
            }
            Body::Strings { bytes: entries, count } => {
                let size: usize = self.iter().map(|member| Bare::head(member.len(), 0, None).bytes().len() + member.len()).sum();
                let distinct = self.iter().enumerate().all(|(i, member)| self.iter().take(i).all(|other| other != member));
                bytes[..1] == [flags] && count <= ELEMENTS_MAX && self.iter().count() == count && size == entries.len() && distinct
            }
        };
        is_whole && !self.is_empty() && bytes.len() <= PACKED_MAX_BYTES
    }

    /// Adds a member. Says whether it is new.
    ///
    /// # Errors
    /// [`Full`]: the result would not be a packed set; nothing has changed.
    pub fn add(bytes: &mut Vec<u8>, member: &[u8]) -> Result<bool, Full> {
        let set = PackedSet::new(bytes);
        match (set.body, parse_i64(member)) {
            (Body::Integers(integers), Some(number)) => match integers.search(number) {
                Ok(_) => Ok(false),
                Err(at) => Self::insert(bytes, at, number).map(|()| true),
            },
            (Body::Strings { count: 0, .. }, Some(number)) => {
                *bytes = vec![(set.encoding as u8) << 1 | (width_of(number) as u8) << 4];
                Self::insert(bytes, 0, number).map(|()| true)
            }
            (Body::Integers(_), None) => {
                let mut strings = set.to_strings()?;
                Self::push(&mut strings, member)?;
                *bytes = strings;
                Ok(true)
            }
            (Body::Strings { .. }, _) if set.place(member).is_some() => Ok(false),
            (Body::Strings { .. }, _) => Self::push(bytes, member).map(|()| true),
        }
    }

    /// Inserts an integer at its place.
    fn insert(bytes: &mut Vec<u8>, index: usize, number: i64) -> Result<(), Full> {
        let Some(&flags) = bytes.first() else { return Err(Full) };
        let (integers, before) = (Integers::new(&bytes[1..], usize::from(flags >> 4)), usize::from(flags >> 4));
        let width = before.max(width_of(number));
        if integers.len() >= INTEGERS_MAX || 1 + (integers.len() + 1) * width > PACKED_MAX_BYTES {
            return Err(Full);
        }
        if width > before {
            let mut wide = Vec::with_capacity(1 + (integers.len() + 1) * width);
            wide.push(flags & 0xF | (width as u8) << 4);
            integers.widen(width, &mut wide);
            *bytes = wide;
        }
        let at = 1 + index * width;
        bytes.splice(at..at, number.to_le_bytes().into_iter().take(width));
        Ok(())
    }

    /// Appends a string that is not there.
    fn push(bytes: &mut Vec<u8>, member: &[u8]) -> Result<(), Full> {
        let head = Bare::head(member.len(), 0, None);
        let count = PackedSet::new(bytes).len() + 1;
        if count > ELEMENTS_MAX || bytes.len().max(2) + head.bytes().len() + member.len() > PACKED_MAX_BYTES {
            return Err(Full);
        }
        bytes.resize(bytes.len().max(2), 0);
        bytes[1] = count as u8;
        bytes.extend_from_slice(head.bytes());
        bytes.extend_from_slice(member);
        Ok(())
    }

    /// The same members, all as strings.
    fn to_strings(self) -> Result<Vec<u8>, Full> {
        let mut strings = vec![(self.encoding as u8) << 1, 0];
        self.iter().try_for_each(|member| Self::push(&mut strings, &member))?;
        Ok(strings)
    }

    /// Removes a member. Says whether it was there. A set without members is the caller's to remove.
    pub fn remove(bytes: &mut Vec<u8>, member: &[u8]) -> bool {
        let set = PackedSet::new(bytes);
        let range = match set.body {
            Body::Integers(integers) => {
                let found = parse_i64(member).and_then(|number| integers.search(number).ok());
                let width = usize::from(bytes[0] >> 4);
                found.map(|index| 1 + index * width..1 + (index + 1) * width)
            }
            Body::Strings { .. } => set.place(member).map(|(at, size)| 2 + at..2 + at + size),
        };
        let Some(range) = range else { return false };
        if matches!(set.body, Body::Strings { .. }) {
            bytes[1] -= 1;
        }
        bytes.drain(range);
        true
    }

    /// Lets OBJECT ENCODING name another encoding.
    pub fn set_encoding(bytes: &mut Vec<u8>, encoding: SetEncoding) {
        if bytes.is_empty() {
            bytes.extend_from_slice(&[0, 0]);
        }
        bytes[0] = bytes[0] & 0xF0 | (encoding as u8) << 1;
    }
}

/// The members of a packed set.
#[derive(Clone, Debug)]
pub struct PackedSetIter<'a> {
    body: Body<'a>,
    /// The next integer, or where the next string begins.
    at: usize,
    left: usize,
}

impl<'a> Iterator for PackedSetIter<'a> {
    type Item = Member<'a>;

    fn next(&mut self) -> Option<Member<'a>> {
        steps::take(1);
        self.left = self.left.checked_sub(1)?;
        match self.body {
            Body::Integers(integers) => {
                self.at += 1;
                integers.get(self.at - 1).map(Member::from)
            }
            Body::Strings { bytes, .. } => {
                let (entry, size) = Bare::parse(bytes, self.at)?;
                self.at += size;
                Some(entry.field.into())
            }
        }
    }
}
