//! Space in which values are made and merged: one for each worker, because 16 KB of registers are too many for every call.

use almandine_datatypes::hyperloglog::Registers;
use std::cell::RefCell;

/// Longest value whose space is kept.
const KEPT_BYTES_MAX: usize = 64 << 10;

/// The space.
#[derive(Default)]
pub(super) struct Scratch {
    pub(super) registers: Registers,
    pub(super) value: Vec<u8>,
}

impl Scratch {
    /// No bytes, and room for some.
    pub(super) fn empty(&mut self) -> &mut Vec<u8> {
        self.value.clear();
        &mut self.value
    }

    /// A copy of a value, to be changed.
    pub(super) fn copy(&mut self, value: &[u8]) -> &mut Vec<u8> {
        let copy = self.empty();
        copy.extend_from_slice(value);
        copy
    }
}

thread_local! {
    static SCRATCH: RefCell<Box<Scratch>> = RefCell::default();
}

/// Lends the worker's space.
pub(super) fn with<R>(work: impl FnOnce(&mut Scratch) -> R) -> R {
    SCRATCH.with_borrow_mut(|scratch| {
        let result = work(scratch);
        if scratch.value.capacity() > KEPT_BYTES_MAX {
            scratch.value = Vec::new();
        }
        result
    })
}
