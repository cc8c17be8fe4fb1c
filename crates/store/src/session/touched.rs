//! What a batch has changed, for the checks of debug builds (`check`). Release builds note nothing.

/// Keys that are noted at most.
const TOUCHED_MAX: usize = 16;

/// Hashes of the keys that a batch has changed.
#[derive(Default)]
pub(super) struct Touched(Vec<u64>);

impl Touched {
    #[inline]
    pub(super) fn note(&mut self, hash: u64) {
        if cfg!(debug_assertions) && self.0.len() < TOUCHED_MAX {
            self.0.push(hash);
        }
    }

    pub(super) fn take(&mut self) -> Vec<u64> {
        std::mem::take(&mut self.0)
    }
}
