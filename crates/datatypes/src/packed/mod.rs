//! Collections as bytes: in a record while they are small, in the chunks of a tree when they are not.
//!
//! A packed collection is a header and its entries one after the other, without an index: a look-up walks over at most
//! [`ELEMENTS_MAX`] entries. A write is an [`Edit`]: one or two places where bytes are replaced, so that the store changes a record
//! in place while it has slack, and otherwise copies it once with the edit applied.
//!
//! Parsing is total. Readers of a record may see bytes that a writer is changing, and validate only afterwards; so whatever the
//! bytes are, nothing here panics, reads outside of them or takes longer than their length. What came of bytes that are not sound
//! means nothing.
//!
//! `docs/FORMATS.md` has the layout. [`entry`] and `length` are shared with the chunks of [`crate::hashed`].

pub mod edit;
pub mod element;
pub mod entry;
pub(crate) mod header;
pub mod iter;
pub(crate) mod length;
pub mod listpack;
mod member;

pub use edit::{Edit, Splice};
pub use element::Element;
pub use entry::FieldEntry;
pub use header::{HEADER_MAX_BYTES, HashEncoding};
pub use member::Member;

/// Elements that a look-up scans at most. A collection with more of them is an object.
pub const ELEMENTS_MAX: usize = 64;

/// Bytes of a packed collection at most: what a record can hold beside a key of some length. A larger one is an object.
pub const PACKED_MAX_BYTES: usize = 16 * 1024 - 512;

/// Elements and bytes that an object may have to become packed: half of what it may have to stay so, lest it goes to and fro.
pub(crate) const REPACKED_MAX: usize = ELEMENTS_MAX / 2;
pub(crate) const REPACKED_MAX_BYTES: usize = PACKED_MAX_BYTES / 2;

/// The collection is too large to be packed: make an object of it, and write to that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full;

/// What a write does with the expiry of an element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Due {
    /// It stays as it is; a new element has none.
    Keep,
    /// It is removed.
    Never,
    /// The element expires at this time: milliseconds since 1970, below 2^48 − 1.
    At(u64),
}

impl Due {
    /// The expiry that follows, where `before` was.
    #[must_use]
    pub fn resolve(self, before: Option<u64>) -> Option<u64> {
        match self {
            Self::Keep => before,
            Self::Never => None,
            Self::At(due) => Some(due),
        }
    }
}
