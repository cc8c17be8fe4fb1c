//! Sorted sets, in the forms that servers of the family have written since Redis 1.2.
//!
//! ```text
//!  3  count, then for each: member, score as a text (a byte of length; 253 NaN, 254 infinity, 255 its negative)
//!  5  count, then for each: member, score in 8 bytes, least significant byte first
//! 12  a string that is a ziplist of member, score, …
//! 17  a string that is a listpack of member, score, …
//! 200 count, then for each: member, score in 8 bytes, expiry in 8 bytes: milliseconds since 1970, 0 for none
//! ```
//!
//! The last one is ours alone, for members that expire; other servers refuse it.
//!
//! Scores that are no numbers are refused; so are texts of them that C's `strtod` would not take as a whole, which no server has
//! written.

use std::borrow::Cow;
use std::collections::BTreeSet;

use super::footer;
use super::hash::Malformed;
use crate::container::listpack::{self, Listpack, Writer};
use crate::container::ziplist::{self, Ziplist};
use crate::cursor::{array, take};
use crate::string::{read_length, read_text, skip_text, write_bytes, write_length, write_string};
use crate::{Text, types};
use almandine_datatypes::number::{parse_f64, write_g17};
use almandine_datatypes::packed::Element;
use almandine_datatypes::packed::entry::DUE_MAX;

const NAN: u8 = 253;
const INFINITY: u8 = 254;
const NEGATIVE_INFINITY: u8 = 255;

/// A member of a sorted set.
#[derive(Clone, Debug, PartialEq)]
pub struct Member<'i> {
    /// Its name; no other of the set has it.
    pub name: Text<'i>,
    /// Its score; a number.
    pub score: f64,
    /// When it expires, in milliseconds since 1970.
    pub expiry_ms: Option<u64>,
}

/// A sorted set in a payload. Its containers are checked and its members counted; that they differ and have scores, and what is
/// compressed, is checked as [`SortedSet::members`] comes to it.
#[derive(Clone, Debug)]
pub struct SortedSet<'i> {
    body: Body<'i>,
    len: usize,
}

#[derive(Clone, Debug)]
enum Body<'i> {
    Objects { bytes: &'i [u8], form: Objects },
    Ziplist(Cow<'i, [u8]>),
    Listpack(Cow<'i, [u8]>),
}

/// What follows a member among string objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Objects {
    /// A score as a text.
    Text,
    /// A score.
    Score,
    /// A score and an expiry.
    Expiry,
}

impl<'i> SortedSet<'i> {
    /// Whether a type byte begins a sorted set.
    #[must_use]
    pub fn is_type(value_type: u8) -> bool {
        matches!(value_type, types::ZSET | types::ZSET_2 | types::ZSET_ZIPLIST | types::ZSET_LISTPACK | types::ZSET_EXPIRY)
    }

    /// Reads the sorted set behind a type byte and moves `input` behind it.
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

    /// The members in the order of the payload, which need not be that of scores. Ends after the first error.
    #[must_use]
    pub fn members(&self) -> SortedSetMembers<'_> {
        let unread = match &self.body {
            Body::Objects { bytes, form } => Unread::Objects { bytes, form: *form },
            Body::Ziplist(bytes) => Unread::Ziplist(ziplist::ZiplistElements::of_checked(bytes)),
            Body::Listpack(bytes) => Unread::Listpack(listpack::ListpackElements::of_checked(bytes)),
        };
        SortedSetMembers { unread, left: self.len, seen: BTreeSet::new() }
    }
}

fn read<'i>(value_type: u8, input: &mut &'i [u8]) -> Option<SortedSet<'i>> {
    match value_type {
        types::ZSET | types::ZSET_2 | types::ZSET_EXPIRY => {
            let form = match value_type {
                types::ZSET => Objects::Text,
                types::ZSET_2 => Objects::Score,
                _ => Objects::Expiry,
            };
            let len = read_length(input)?;
            let bytes = *input;
            for _ in 0..len {
                skip_text(input)?;
                read_score(form, input)?;
            }
            Some(SortedSet { body: Body::Objects { bytes, form }, len })
        }
        types::ZSET_ZIPLIST => {
            let bytes = read_text(input)?.into_bytes();
            let len = Ziplist::parse(&bytes)?.len();
            len.is_multiple_of(2).then_some(SortedSet { body: Body::Ziplist(bytes), len: len / 2 })
        }
        types::ZSET_LISTPACK => {
            let bytes = read_text(input)?.into_bytes();
            let len = Listpack::parse(&bytes)?.len();
            len.is_multiple_of(2).then_some(SortedSet { body: Body::Listpack(bytes), len: len / 2 })
        }
        _ => None,
    }
}

/// A score, and an expiry where there is one.
fn read_score(form: Objects, input: &mut &[u8]) -> Option<(f64, Option<u64>)> {
    if form == Objects::Text {
        return read_score_text(input).map(|score| (score, None));
    }
    let score = Some(f64::from_le_bytes(array(input)?)).filter(|score| !score.is_nan())?;
    let expiry_ms = if form == Objects::Expiry { u64::from_le_bytes(array(input)?) } else { 0 };
    (expiry_ms <= DUE_MAX).then_some((score, Some(expiry_ms).filter(|at_ms| *at_ms > 0)))
}

fn read_score_text(input: &mut &[u8]) -> Option<f64> {
    match take(input, 1)?[0] {
        NAN => None,
        INFINITY => Some(f64::INFINITY),
        NEGATIVE_INFINITY => Some(f64::NEG_INFINITY),
        len => parse_f64(take(input, usize::from(len))?),
    }
}

/// The members of a [`SortedSet`].
#[derive(Clone, Debug)]
pub struct SortedSetMembers<'s> {
    unread: Unread<'s>,
    left: usize,
    seen: BTreeSet<Text<'s>>,
}

#[derive(Clone, Debug)]
enum Unread<'s> {
    Objects { bytes: &'s [u8], form: Objects },
    Ziplist(ziplist::ZiplistElements<'s>),
    Listpack(listpack::ListpackElements<'s>),
}

impl<'s> Iterator for SortedSetMembers<'s> {
    type Item = Result<Member<'s>, Malformed>;

    fn next(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        let member = match &mut self.unread {
            Unread::Objects { bytes, form } => read_text(bytes).and_then(|name| {
                let (score, expiry_ms) = read_score(*form, bytes)?;
                Some(Member { name, score, expiry_ms })
            }),
            Unread::Ziplist(elements) => pair(elements),
            Unread::Listpack(elements) => pair(elements),
        };
        let member = member.filter(|member| self.seen.insert(member.name.clone()));
        if member.is_none() {
            self.left = 0;
        }
        Some(member.ok_or(Malformed))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left.min(1), Some(self.left))
    }
}

impl std::iter::FusedIterator for SortedSetMembers<'_> {}

fn pair<'s>(elements: &mut impl Iterator<Item = Element<'s>>) -> Option<Member<'s>> {
    let name = elements.next()?.into();
    let score = match elements.next()? {
        Element::Integer(number) => number as f64,
        Element::Bytes(text) => parse_f64(text)?,
    };
    Some(Member { name, score, expiry_ms: None })
}

/// How large a sorted set may be that is written as a listpack: the parameters of the same names.
#[derive(Clone, Copy, Debug)]
pub struct SortedSetThresholds {
    /// `zset-max-listpack-entries`.
    pub entries_max: usize,
    /// `zset-max-listpack-value`: bytes of the longest member.
    pub value_bytes_max: usize,
}

/// In what form a sorted set is written; each is read by Redis 7.0 and younger.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SortedSetForm {
    /// String objects with scores of 8 bytes.
    Table,
    /// A listpack.
    Listpack,
}

impl SortedSetForm {
    /// The form that a server with these thresholds chooses for these members.
    pub fn choose<'m>(members: impl Iterator<Item = (&'m [u8], f64)>, thresholds: SortedSetThresholds) -> Self {
        let (mut small, mut len) = (true, 0usize);
        for (name, _) in members {
            len += 1;
            small &= name.len() <= thresholds.value_bytes_max;
        }
        if small && len <= thresholds.entries_max { Self::Listpack } else { Self::Table }
    }

    /// Its type byte.
    #[must_use]
    pub fn value_type(self) -> u8 {
        match self {
            Self::Table => types::ZSET_2,
            Self::Listpack => types::ZSET_LISTPACK,
        }
    }

    /// The oldest version whose readers know it: for the footer.
    #[must_use]
    pub fn version(self) -> u16 {
        footer::VERSION_REDIS_7_0
    }
}

/// Appends type byte and value of members that ascend. A listpack that would be larger than Redis takes is written as string
/// objects instead; the form that was written is the result. Redis writes string objects from the highest score down, and so does
/// this.
pub fn write<'m, M>(form: SortedSetForm, members: M, out: &mut Vec<u8>) -> SortedSetForm
where
    M: DoubleEndedIterator<Item = (&'m [u8], f64)> + Clone,
{
    if form == SortedSetForm::Listpack
        && let Some(list) = pack(members.clone())
    {
        out.push(types::ZSET_LISTPACK);
        write_bytes(&list, out);
        return form;
    }
    out.push(types::ZSET_2);
    write_length(members.clone().count(), out);
    for (name, score) in members.rev() {
        write_string(name, out);
        out.extend_from_slice(&score.to_le_bytes());
    }
    SortedSetForm::Table
}

/// Appends type byte and value of members that ascend, some of which expire.
pub fn write_expiring<'m>(members: impl ExactSizeIterator<Item = (&'m [u8], f64, Option<u64>)>, out: &mut Vec<u8>) {
    out.push(types::ZSET_EXPIRY);
    write_length(members.len(), out);
    for (name, score, expiry_ms) in members {
        write_string(name, out);
        out.extend_from_slice(&score.to_le_bytes());
        out.extend_from_slice(&expiry_ms.unwrap_or(0).to_le_bytes());
    }
}

fn pack<'m>(members: impl Iterator<Item = (&'m [u8], f64)>) -> Option<Vec<u8>> {
    let (mut list, mut text) = (Writer::default(), Vec::new());
    for (name, score) in members {
        text.clear();
        write_g17(score, &mut text);
        list.push(name)?;
        list.push(&text)?;
    }
    Some(list.finish())
}
