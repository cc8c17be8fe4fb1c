//! One entry as it lies in a block.
//!
//! ```text
//! 0: the same fields as the block's; else how many fields there are
//! milliseconds since those of the block
//! number; less the block's where the millisecond is the same
//! values, or fields and values in turn: length, bytes
//! ```
//!
//! All numbers and lengths are varints.

use super::StreamId;
use super::chunk::varint;
use almandine_base::steps;

/// An entry of a stream.
#[derive(Clone, Copy, Debug)]
pub struct StreamEntry<'a> {
    /// Its id.
    pub id: StreamId,
    /// Its fields.
    pub fields: EntryFields<'a>,
}

impl<'a> StreamEntry<'a> {
    /// The entry that `bytes` are, of a block that begins with this id and has these fields.
    #[inline]
    pub(super) fn parse(base: StreamId, master: EntryFields<'a>, bytes: &'a [u8]) -> Option<Self> {
        let mut rest = bytes;
        let count = varint::take(&mut rest)?;
        let id = take_id(base, &mut rest)?;
        let fields = match usize::try_from(count).ok()? {
            0 => EntryFields { values: Some(rest), ..master },
            count => EntryFields { left: count, names: rest, values: None },
        };
        Some(Self { id, fields })
    }

    /// The id alone.
    #[inline]
    pub(super) fn parse_id(base: StreamId, bytes: &[u8]) -> Option<StreamId> {
        let mut rest = bytes;
        varint::take(&mut rest)?;
        take_id(base, &mut rest)
    }
}

#[inline]
fn take_id(base: StreamId, rest: &mut &[u8]) -> Option<StreamId> {
    let (ms, seq) = (varint::take(rest)?, varint::take(rest)?);
    Some(StreamId { ms: base.ms.wrapping_add(ms), seq: if ms == 0 { base.seq.wrapping_add(seq) } else { seq } })
}

/// What an id is less the block's.
#[inline]
pub(super) fn delta(base: StreamId, id: StreamId) -> (u64, u64) {
    let ms = id.ms.wrapping_sub(base.ms);
    (ms, if ms == 0 { id.seq.wrapping_sub(base.seq) } else { id.seq })
}

/// The fields of an entry with their values, in their order. Ends where bytes are no more.
#[derive(Clone, Copy, Debug, Default)]
pub struct EntryFields<'a> {
    pub(super) left: usize,
    /// Names; with values between them, if those are not elsewhere.
    pub(super) names: &'a [u8],
    pub(super) values: Option<&'a [u8]>,
}

impl<'a> EntryFields<'a> {
    /// How many fields are left.
    #[must_use]
    pub fn len(&self) -> usize {
        self.left
    }

    /// Whether none is.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.left == 0
    }

    /// The next name, of fields without values.
    #[inline]
    pub(super) fn next_name(&mut self) -> Option<&'a [u8]> {
        self.left = self.left.checked_sub(1)?;
        varint::take_bytes(&mut self.names)
    }

    /// Reads all of them. The bytes that are left behind the last value; None if they are not whole.
    pub(super) fn end(mut self) -> Option<&'a [u8]> {
        while self.left > 0 {
            self.next()?;
        }
        Some(self.values.unwrap_or(self.names))
    }
}

impl<'a> Iterator for EntryFields<'a> {
    type Item = (&'a [u8], &'a [u8]);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        steps::take(1);
        self.left = self.left.checked_sub(1)?;
        let name = varint::take_bytes(&mut self.names)?;
        let value = match &mut self.values {
            Some(values) => varint::take_bytes(values)?,
            None => varint::take_bytes(&mut self.names)?,
        };
        Some((name, value))
    }
}
