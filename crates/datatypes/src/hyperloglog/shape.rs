//! How large everything is, and what goes with all of it.

/// Registers.
pub const REGISTERS: usize = 1 << INDEX_BITS;

/// Bits of a hash that choose the register.
pub(super) const INDEX_BITS: u32 = 14;
/// The other bits.
pub(super) const RUN_BITS: u32 = 64 - INDEX_BITS;

/// The opcodes of a sparse value do not describe all registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Corrupted;

/// How registers are gone through. The results are the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Way {
    /// Several at once, in words.
    #[default]
    Words,
    /// One by one.
    Single,
}
