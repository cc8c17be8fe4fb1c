//! Sets, in the forms that servers of the family have written since Redis 2.0.
//!
//! ```text
//!  2  count, then the members
//! 11  a string that is an intset
//! 20  a string that is a listpack of members: Redis 7.2 and younger
//! ```

use std::borrow::Cow;
use std::collections::BTreeSet;

use super::footer;
use super::hash::Malformed;
use crate::container::intset::{self, Intset};
use crate::container::listpack::{self, Listpack, Writer};
use crate::string::{read_length, read_text, skip_text, write_bytes, write_length, write_string};
use crate::{Text, types};
use almandine_datatypes::number::parse_i64;

/// A set in a payload. Its containers are checked and its members counted; that they differ, and what is compressed, is checked as
/// [`Set::members`] comes to it.
#[derive(Clone, Debug)]
pub struct Set<'i> {
    body: Body<'i>,
    len: usize,
}

#[derive(Clone, Debug)]
enum Body<'i> {
    Objects(&'i [u8]),
    Intset(Cow<'i, [u8]>),
    Listpack(Cow<'i, [u8]>),
}

impl<'i> Set<'i> {
    /// Whether a type byte begins a set.
    #[must_use]
    pub fn is_type(value_type: u8) -> bool {
        matches!(value_type, types::SET | types::SET_INTSET | types::SET_LISTPACK)
    }

    /// Reads the set behind a type byte and moves `input` behind it.
    ///
    /// # Errors
    /// When it is not one of this type, is cut off or malformed, or has no member.
    pub fn read(value_type: u8, input: &mut &'i [u8]) -> Result<Self, Malformed> {
        read(value_type, input).filter(|set| set.len > 0).ok_or(Malformed)
    }

    /// The number of members, at least one.
    #[must_use]
    #[expect(clippy::len_without_is_empty, reason = "there is no empty one")]
    pub fn len(&self) -> usize {
        self.len
    }

    /// The members in the order of the payload. Ends after the first error.
    #[must_use]
    pub fn members(&self) -> SetMembers<'_> {
        let unread = match &self.body {
            Body::Objects(bytes) => Unread::Objects(bytes),
            Body::Intset(bytes) => Unread::Integers(bytes),
            Body::Listpack(bytes) => Unread::Listpack(listpack::ListpackElements::of_checked(bytes)),
        };
        SetMembers { unread, left: self.len, seen: BTreeSet::new() }
    }
}

fn read<'i>(value_type: u8, input: &mut &'i [u8]) -> Option<Set<'i>> {
    match value_type {
        types::SET => {
            let len = read_length(input)?;
            let bytes = *input;
            (0..len).try_for_each(|_| skip_text(input))?;
            Some(Set { body: Body::Objects(bytes), len })
        }
        types::SET_INTSET => {
            let bytes = read_text(input)?.into_bytes();
            let len = Intset::parse(&bytes)?.len();
            Some(Set { body: Body::Intset(bytes), len })
        }
        types::SET_LISTPACK => {
            let bytes = read_text(input)?.into_bytes();
            let len = Listpack::parse(&bytes)?.len();
            Some(Set { body: Body::Listpack(bytes), len })
        }
        _ => None,
    }
}

/// The members of a [`Set`].
#[derive(Clone, Debug)]
pub struct SetMembers<'s> {
    unread: Unread<'s>,
    left: usize,
    /// Of strings; integers ascend.
    seen: BTreeSet<Text<'s>>,
}

#[derive(Clone, Debug)]
enum Unread<'s> {
    Objects(&'s [u8]),
    Integers(&'s [u8]),
    Listpack(listpack::ListpackElements<'s>),
}

impl<'s> Iterator for SetMembers<'s> {
    type Item = Result<Text<'s>, Malformed>;

    fn next(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        let member = match &mut self.unread {
            Unread::Objects(bytes) => read_text(bytes).filter(|member| self.seen.insert(member.clone())),
            Unread::Integers(bytes) => intset::next(bytes, self.left).map(Text::from),
            Unread::Listpack(elements) => elements.next().map(Text::from).filter(|member| self.seen.insert(member.clone())),
        };
        if member.is_none() {
            self.left = 0;
        }
        Some(member.ok_or(Malformed))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left.min(1), Some(self.left))
    }
}

impl std::iter::FusedIterator for SetMembers<'_> {}

/// How large a set may be that is written as a container: the parameters of the same names.
#[derive(Clone, Copy, Debug)]
pub struct SetThresholds {
    /// `set-max-intset-entries`.
    pub integers_max: usize,
    /// `set-max-listpack-entries`.
    pub entries_max: usize,
    /// `set-max-listpack-value`: bytes of the longest member.
    pub value_bytes_max: usize,
}

/// In what form a set is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetForm {
    /// One string object after another.
    Table,
    /// An intset.
    Intset,
    /// A listpack. Redis 7.0 cannot read it.
    Listpack,
}

impl SetForm {
    /// The form that a server with these thresholds chooses for these members, at its earliest.
    pub fn choose<'m>(members: impl Iterator<Item = &'m [u8]>, thresholds: SetThresholds) -> Self {
        let (mut integers, mut small, mut len, mut bytes) = (true, true, 0usize, 0usize);
        for member in members {
            len += 1;
            // A number, and what surrounds an element, take less than 16 bytes.
            bytes = bytes.saturating_add(member.len()).saturating_add(16);
            small &= member.len() <= thresholds.value_bytes_max;
            integers = integers && parse_i64(member).is_some();
        }
        if integers && len <= thresholds.integers_max {
            Self::Intset
        } else if small && len <= thresholds.entries_max && bytes <= listpack::BYTES_MAX {
            Self::Listpack
        } else {
            Self::Table
        }
    }

    /// Its type byte.
    #[must_use]
    pub fn value_type(self) -> u8 {
        match self {
            Self::Table => types::SET,
            Self::Intset => types::SET_INTSET,
            Self::Listpack => types::SET_LISTPACK,
        }
    }

    /// The oldest version whose readers know it: for the footer.
    #[must_use]
    pub fn version(self) -> u16 {
        match self {
            Self::Table | Self::Intset => footer::VERSION_REDIS_7_0,
            Self::Listpack => footer::VERSION_REDIS_7_2,
        }
    }
}

/// Appends type byte and value. What cannot be written as an intset or listpack is written as string objects instead; the form that
/// was written is the result.
pub fn write<'m>(form: SetForm, members: impl Iterator<Item = &'m [u8]> + Clone, out: &mut Vec<u8>) -> SetForm {
    let container = match form {
        SetForm::Table => None,
        SetForm::Intset => integers(members.clone()),
        SetForm::Listpack => listpack(members.clone()),
    };
    let Some(container) = container else {
        out.push(types::SET);
        write_length(members.clone().count(), out);
        members.for_each(|member| write_string(member, out));
        return SetForm::Table;
    };
    out.push(form.value_type());
    write_bytes(&container, out);
    form
}

fn integers<'m>(members: impl Iterator<Item = &'m [u8]>) -> Option<Vec<u8>> {
    let mut numbers: Vec<i64> = members.map(parse_i64).collect::<Option<_>>()?;
    numbers.sort_unstable();
    intset::write(&numbers)
}

fn listpack<'m>(mut members: impl Iterator<Item = &'m [u8]>) -> Option<Vec<u8>> {
    let mut list = Writer::default();
    members.try_for_each(|member| list.push(member))?;
    Some(list.finish())
}
