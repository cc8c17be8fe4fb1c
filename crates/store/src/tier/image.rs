//! An object as the contents of an extent.
//!
//! ```text
//! what the object counts as on the device     8 bytes
//! parts of its image, each:  length 4 | part
//! ```
//!
//! It is written and read in pieces: no thread ever has all of it.

use super::Tier;
use super::extent::Extent;
use super::write::ExtentWriter;
use crate::record::heap::HeapValue;
use almandine_base::object::{ImageCursor, Kind, Object, Types};
use std::io;

/// Bytes after which a part of an image ends.
const PART_BYTES: usize = 64 << 10;

/// Writes the image of a value that is an object; `weight` is its [`HeapValue::device_bytes`].
pub(crate) fn write(tier: &Tier, extents: &mut ExtentWriter, object: &dyn Object, weight: usize) -> io::Result<Extent> {
    extents.begin(tier, PART_BYTES)?;
    extents.append(tier, &(weight as u64).to_le_bytes())?;
    let (mut part, mut cursor) = (Vec::with_capacity(PART_BYTES + PART_BYTES / 4), Some(ImageCursor::default()));
    while let Some(at) = cursor {
        part.clear();
        part.extend_from_slice(&[0; 4]);
        cursor = object.write_part(at, PART_BYTES, &mut part).map_err(|_| {
            extents.abandon(tier);
            io::Error::other("a part of a value is not in memory")
        })?;
        debug_assert!(u32::try_from(part.len()).is_ok(), "a part is about as long as asked for, or one element");
        let length = (part.len() - 4) as u32;
        part[..4].copy_from_slice(&length.to_le_bytes());
        extents.append(tier, &part)?;
    }
    extents.end(tier)
}

/// What of an image comes next.
enum Next {
    Weight,
    Length,
    Part(usize),
    Nothing,
}

/// An object that is read from its image, as that comes.
pub(super) struct Building {
    object: Box<dyn Object>,
    weight: usize,
    next: Next,
    /// The beginning of what comes next, if that was parted.
    begun: Vec<u8>,
}

impl Building {
    /// None: there are no objects of this kind.
    pub(super) fn new(types: Option<&dyn Types>, kind: Kind) -> Option<Self> {
        Some(Self { object: types?.empty(kind)?, weight: 0, next: Next::Weight, begun: Vec::new() })
    }

    /// Takes the next bytes of the image. None: it is damaged.
    pub(super) fn take(&mut self, mut bytes: &[u8]) -> Option<()> {
        loop {
            let needed = match self.next {
                Next::Weight => 8,
                Next::Length => 4,
                Next::Part(length) => length,
                Next::Nothing => return bytes.is_empty().then_some(()),
            };
            debug_assert!(self.begun.len() <= needed, "what was begun is the beginning of what comes next");
            let lacking = needed - self.begun.len();
            let Some((now, rest)) = bytes.split_at_checked(lacking) else {
                self.begun.extend_from_slice(bytes);
                return Some(());
            };
            bytes = rest;
            debug_assert_eq!(self.begun.len() + now.len(), needed, "an item is taken whole");
            if self.begun.is_empty() {
                self.take_item(now)?;
            } else {
                let mut begun = std::mem::take(&mut self.begun);
                begun.extend_from_slice(now);
                self.take_item(&begun)?;
                begun.clear();
                self.begun = begun;
            }
        }
    }

    fn take_item(&mut self, item: &[u8]) -> Option<()> {
        self.next = match self.next {
            Next::Weight => {
                self.weight = usize::try_from(u64::from_le_bytes(item.try_into().ok()?)).ok()?;
                Next::Length
            }
            Next::Length => Next::Part(u32::from_le_bytes(item.try_into().ok()?) as usize),
            Next::Part(_) if self.object.read_part(item).ok()? => Next::Nothing,
            Next::Part(_) | Next::Nothing => Next::Length,
        };
        Some(())
    }

    /// The value, whole or not.
    pub(super) fn into_value(self) -> HeapValue {
        HeapValue::weighing(self.object, self.weight)
    }

    /// Whether the image has been read to its end.
    pub(super) fn is_whole(&self) -> bool {
        matches!(self.next, Next::Nothing)
    }
}
