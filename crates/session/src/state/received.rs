//! The commands of one received chunk: where they lie in it.

use almandine_resp::{Args, Batch};

/// Parsed commands and the bytes that they were parsed from.
#[derive(Clone, Copy)]
pub(crate) struct Received<'a> {
    pub(crate) batch: &'a Batch,
    pub(crate) input: &'a [u8],
}

impl<'a> Received<'a> {
    /// How many commands there are.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.batch.len()
    }

    /// One of them.
    #[inline]
    pub(crate) fn args(&self, command: usize) -> Args<'a> {
        self.batch.args(command, self.input)
    }
}
