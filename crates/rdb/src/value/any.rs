//! A value of any type, by its type byte.

use almandine_datatypes::stream::StreamObject;

use super::hash::{Hash, Malformed};
use super::list::List;
use super::set::Set;
use super::sorted_set::SortedSet;
use super::stream;
use crate::{read_string, types};

/// A value, checked but for what is compressed.
#[derive(Debug)]
pub enum AnyValue<'i> {
    /// A string.
    String(Vec<u8>),
    /// A hash.
    Hash(Hash<'i>),
    /// A list.
    List(List<'i>),
    /// A set.
    Set(Set<'i>),
    /// A sorted set.
    SortedSet(SortedSet<'i>),
    /// A stream.
    Stream(Box<StreamObject>),
}

impl<'i> AnyValue<'i> {
    /// Reads the value behind a type byte of this version and moves `input` behind it.
    ///
    /// # Errors
    /// When there is no such type, or the value is cut off, malformed or a collection without elements.
    pub fn read(value_type: u8, version: u16, input: &mut &'i [u8]) -> Result<Self, Malformed> {
        match value_type {
            types::STRING => read_string(input).map(Self::String).ok_or(Malformed),
            kind if Hash::is_type(kind, version) => Hash::read(kind, version, input).map(Self::Hash),
            kind if List::is_type(kind) => List::read(kind, input).map(Self::List),
            kind if Set::is_type(kind) => Set::read(kind, input).map(Self::Set),
            kind if SortedSet::is_type(kind) => SortedSet::read(kind, input).map(Self::SortedSet),
            kind => stream::read(kind, input).map(|stream| Self::Stream(Box::new(stream))),
        }
    }
}
