//! Registers of one byte each, in which values are merged.

use super::element::Observation;
use super::header::{self, HEADER_BYTES};
use super::histogram::Histogram;
use super::shape::{Corrupted, REGISTERS, Way};
use super::sparse::{self, Set};
use super::value::{DENSE_BYTES, Hll, to_dense};
use super::{dense, estimate};

/// The larger ones of the registers of several values. It is large, and meant to be kept and used again.
pub struct Registers {
    raw: [u8; REGISTERS],
    /// How many have each value, until a dense value is taken in: of few registers this is sooner counted when they are raised.
    counts: Histogram,
    has_dense: bool,
}

/// What [`Registers::write_to`] has made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Merged {
    /// A dense value of a dense one.
    Dense,
    /// Any other.
    Other,
}

impl Default for Registers {
    fn default() -> Self {
        Self { raw: [0; REGISTERS], counts: Histogram::empty(), has_dense: false }
    }
}

impl Registers {
    /// Begins anew.
    pub fn clear(&mut self) {
        self.raw.fill(0);
        self.counts = Histogram::empty();
        self.has_dense = false;
    }

    /// Takes the registers of a value in.
    ///
    /// # Errors
    /// When they are not all there; then some may have been taken in.
    pub fn merge(&mut self, hll: Hll<'_>, way: Way) -> Result<(), Corrupted> {
        match (hll, way) {
            (Hll::Dense(packed), Way::Words) => dense::merge(packed, &mut self.raw),
            (Hll::Dense(packed), Way::Single) => {
                self.raw.iter_mut().enumerate().for_each(|(index, raw)| *raw = dense::get(packed, index).max(*raw));
            }
            (Hll::Sparse(opcodes), _) => sparse::for_each_run(opcodes, |first, len, value| {
                self.raw[first..first + len].iter_mut().for_each(|raw| raise(raw, value, self.has_dense, &mut self.counts));
            })?,
        }
        self.has_dense |= matches!(hll, Hll::Dense(_));
        Ok(())
    }

    /// Takes an element in.
    pub fn add(&mut self, element: &[u8]) {
        let Observation { index, count } = Observation::of(element);
        raise(&mut self.raw[index], count, self.has_dense, &mut self.counts);
    }

    /// The estimate of the union.
    #[must_use]
    pub fn cardinality(&self, way: Way) -> u64 {
        if self.has_dense || way == Way::Single {
            return estimate::cardinality(&Histogram::of_raw(&self.raw, way));
        }
        estimate::cardinality(&self.counts)
    }

    /// The registers.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = u8> + '_ {
        self.raw.iter().copied()
    }

    /// Makes the union out of the value of a key that has been merged too, or [`super::EMPTY`]. It is dense if one of the values
    /// was, or if it does not fit `sparse_bytes_max`.
    ///
    /// # Errors
    /// When the value is no such.
    pub fn write_to(&self, value: &mut Vec<u8>, sparse_bytes_max: usize) -> Result<Merged, Corrupted> {
        let was_dense = value.len() == DENSE_BYTES && header::encoding(value) == header::DENSE;
        if self.has_dense {
            if !was_dense {
                value.truncate(HEADER_BYTES);
                value.resize(DENSE_BYTES, 0);
                header::set_dense(value);
            }
            self.pack(value)?;
        } else {
            self.write_sparse(value, sparse_bytes_max)?;
        }
        header::invalidate(value);
        Ok(if was_dense { Merged::Dense } else { Merged::Other })
    }

    fn pack(&self, value: &mut [u8]) -> Result<(), Corrupted> {
        let registers = value.get_mut(HEADER_BYTES..).and_then(|registers| registers.try_into().ok());
        dense::pack(&self.raw, registers.ok_or(Corrupted)?);
        Ok(())
    }

    /// Raises one register after the other, so that the opcodes are those that Redis would write.
    fn write_sparse(&self, value: &mut Vec<u8>, sparse_bytes_max: usize) -> Result<(), Corrupted> {
        let mut cursor = sparse::Cursor::default();
        for (number, eight) in self.raw.as_chunks::<8>().0.iter().enumerate() {
            if u64::from_le_bytes(*eight) == 0 {
                continue;
            }
            for (index, &count) in (number * 8..).zip(eight).filter(|(_, count)| **count != 0) {
                let observation = Observation { index, count };
                if sparse::raise_from(&mut cursor, value, observation, sparse_bytes_max)? == Set::TooLarge {
                    *value = to_dense(value)?;
                    return self.pack(value);
                }
            }
        }
        Ok(())
    }
}

/// Raises a register that is less, and counts that unless there is no use.
#[inline]
fn raise(raw: &mut u8, value: u8, has_dense: bool, counts: &mut Histogram) {
    if *raw < value {
        if !has_dense {
            counts.raised(*raw, value);
        }
        *raw = value;
    }
}
