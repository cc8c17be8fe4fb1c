//! What a string holds: registers in one of two forms.

use super::header::{self, HEADER_BYTES};
use super::histogram::Histogram;
use super::shape::{Corrupted, Way};
use super::{dense, estimate, sparse};

/// Length of a dense value.
pub const DENSE_BYTES: usize = HEADER_BYTES + dense::BYTES;

/// The registers of a value.
#[derive(Clone, Copy, Debug)]
pub enum Hll<'v> {
    /// 6 bits each.
    Dense(&'v [u8; dense::BYTES]),
    /// Opcodes, which may be wrong.
    Sparse(&'v [u8]),
}

impl<'v> Hll<'v> {
    /// What a string holds. `None` if it is no HyperLogLog.
    #[must_use]
    pub fn open(value: &'v [u8]) -> Option<Self> {
        let (header, registers) = value.split_at_checked(HEADER_BYTES)?;
        match (header::is_magic(header), header::encoding(header)) {
            (true, header::DENSE) => registers.try_into().ok().map(Self::Dense),
            (true, header::SPARSE) => Some(Self::Sparse(registers)),
            _ => None,
        }
    }

    /// The estimate.
    ///
    /// # Errors
    /// When the registers are not all there.
    pub fn cardinality(self, way: Way) -> Result<u64, Corrupted> {
        let histogram = match self {
            Self::Dense(registers) => Histogram::of_dense(registers, way),
            Self::Sparse(opcodes) => Histogram::of_sparse(opcodes)?,
        };
        Ok(estimate::cardinality(&histogram))
    }
}

/// The dense value of a sparse one. The rest of the header stays.
///
/// # Errors
/// When the registers are not all there, or the value is too short to have any.
pub fn to_dense(sparse: &[u8]) -> Result<Vec<u8>, Corrupted> {
    let (header, opcodes) = sparse.split_at_checked(HEADER_BYTES).ok_or(Corrupted)?;
    let mut value = vec![0; DENSE_BYTES];
    value[..HEADER_BYTES].copy_from_slice(header);
    header::set_dense(&mut value);
    let registers = value[HEADER_BYTES..].first_chunk_mut().ok_or(Corrupted)?;
    sparse::for_each_run(opcodes, |first, len, register| {
        (first..first + len).for_each(|index| dense::write(registers, index, register));
    })?;
    Ok(value)
}
