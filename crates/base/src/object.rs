//! What the store knows of a collection that is too large for a record.
//!
//! The store holds it behind its record, counts its memory, expires, saves and frees it, and knows nothing of what is in it. A type
//! of values implements [`Object`]; its view, above the store, gets the type back by [`Any`].

use std::any::Any;

/// What an operation needs is not at hand. A command that meets this before its first change runs again, as the variant says.
///
/// Parts of objects are never missing yet: a value is in memory as a whole. Their operations have it in their signatures, so that
/// this can change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Missing {
    /// A record has to be read from the device first.
    Cold,
    /// The device cannot give a record.
    Unreadable,
    /// The unit of work has not latched the key, or not exclusively: it has to run with a larger plan, or alone.
    Unplanned,
    /// A unit of work that takes long has latched the key, or one beside it.
    Held,
}

impl std::fmt::Display for Missing {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(match self {
            Self::Cold => "a record has to be read from the device first",
            Self::Unreadable => "the device cannot give a record",
            Self::Unplanned => "the unit of work has not latched the key",
            Self::Held => "a unit of work that takes long has latched the key",
        })
    }
}

impl std::error::Error for Missing {}

/// Bytes are no part of an image, or not the next one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Damaged;

/// The type of a value. The numbers are those of records.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Kind {
    /// Bytes.
    String = 0,
    /// A list.
    List = 1,
    /// A hash.
    Hash = 2,
    /// A set.
    Set = 3,
    /// A sorted set.
    SortedSet = 4,
    /// A stream.
    Stream = 5,
}

impl Kind {
    /// The kind with this number; unknown ones are strings.
    #[must_use]
    pub const fn of(number: u8) -> Self {
        match number {
            1 => Self::List,
            2 => Self::Hash,
            3 => Self::Set,
            4 => Self::SortedSet,
            5 => Self::Stream,
            _ => Self::String,
        }
    }

    /// The name that the TYPE command answers.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::String => "string",
            Self::List => "list",
            Self::Hash => "hash",
            Self::Set => "set",
            Self::SortedSet => "zset",
            Self::Stream => "stream",
        }
    }
}

/// What the store asks of the types of values beside what an [`Object`] answers: of values that lie packed in their records.
///
/// Packed bytes that are not sound give any answer, but no panic.
pub trait Types: Send + Sync {
    /// An empty object of a kind, to read an image into. None: there are no objects of this kind.
    fn empty(&self, kind: Kind) -> Option<Box<dyn Object>>;

    /// The earliest time at which an element of a packed value expires, in milliseconds since 1970.
    fn next_due(&self, kind: Kind, packed: &[u8]) -> Option<u64>;

    /// Appends a packed value to `out` without the elements that are due at `now`, each of which is told to `removed`. Says how
    /// many elements are left.
    fn expire(&self, kind: Kind, packed: &[u8], now: u64, out: &mut Vec<u8>, removed: &mut dyn FnMut(&[u8])) -> usize;
}

/// Steps of [`Object::prefetch`].
pub const PREFETCH_STEPS: u32 = 5;

/// The step of [`Object::prefetch`] for an element that is going to be changed, beside the others and after the fourth of them.
pub const PREFETCH_TO_WRITE: u32 = PREFETCH_STEPS;

/// How far an image is written. It begins as the default, and means something only for the snapshot that it was made of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ImageCursor {
    /// Where the object goes on; what this means is its own.
    pub position: u64,
    /// The number of the next part, from 0 on.
    pub part: u32,
}

/// A collection of elements in memory. Readers share it; a writer has it alone.
pub trait Object: Any + Send + Sync {
    /// The type of the value.
    fn kind(&self) -> Kind;

    /// How many elements there are.
    fn elements(&self) -> usize;

    /// Bytes of memory that it takes, in constant time. What it shares with snapshots counts in each of them.
    fn memory(&self) -> usize;

    /// The value as it is now, in constant time. Neither one sees a change of the other.
    fn snapshot(&self) -> Box<dyn Object>;

    /// Appends the next part of the value's image to `out`, and gives where to go on, or None after the last part. A part ends as
    /// soon as it has `limit` bytes. Use a snapshot where the value may change between parts.
    ///
    /// # Errors
    /// [`Missing`]: a part of the value is not in memory; nothing was appended.
    fn write_part(&self, cursor: ImageCursor, limit: usize, out: &mut Vec<u8>) -> Result<Option<ImageCursor>, Missing>;

    /// Takes one part of an image into a value that was made empty for it. Says whether it was the last one.
    ///
    /// # Errors
    /// [`Damaged`]: the bytes are not the next part; the value is as before.
    fn read_part(&mut self, part: &[u8]) -> Result<bool, Damaged>;

    /// The earliest time at which an element expires, in milliseconds since 1970. None: no element does.
    fn next_due(&self) -> Option<u64> {
        None
    }

    /// Removes at most `limit` elements that are due at `now`, tells each to `removed`, and says how many they were.
    ///
    /// # Errors
    /// [`Missing`]: as many were removed as were told; the next is not in memory.
    fn expire(&mut self, _now: u64, _limit: usize, _removed: &mut dyn FnMut(&[u8])) -> Result<usize, Missing> {
        Ok(0)
    }

    /// Frees about `limit` parts of the value. True when nothing is left. After the first call the value has no meaning any more.
    fn drop_step(&mut self, limit: usize) -> bool;

    /// Tells `fetch` the cache lines that a look-up of the element with this hash reads next, in [`PREFETCH_STEPS`] steps from the
    /// root to the element. Each step reads what the one before has told, so a batch takes each step for all its elements. The
    /// addresses are hints and are never read from.
    fn prefetch(&self, step: u32, hash: u64, fetch: &mut dyn FnMut(*const u8));
}
