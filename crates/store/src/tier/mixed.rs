//! Word between the thread that sweeps emptied namespaces and the compactor, which reads the device for it.

use std::sync::PoisonError;
use std::sync::atomic::{AtomicU8, Ordering};

use almandine_io::sync::Mutex;

const NOTHING: u8 = 0;
const ASKED: u8 = 1;
const COMPLETE: u8 = 2;
const INCOMPLETE: u8 = 3;

/// A sweep of the pages on the device whose records are of several namespaces: asked for by maintenance, done by the compactor.
#[derive(Default)]
pub(crate) struct MixedSweep {
    state: AtomicU8,
    /// Addresses of the records that are to be looked at; none: all of these pages.
    addresses: Mutex<Option<Vec<u64>>>,
}

impl MixedSweep {
    /// Asks for a sweep, of some records or of all pages. One at a time.
    pub(crate) fn ask(&self, addresses: Option<Vec<u64>>) {
        *self.addresses.lock().unwrap_or_else(PoisonError::into_inner) = addresses;
        let before = self.state.swap(ASKED, Ordering::AcqRel);
        debug_assert_eq!(before, NOTHING, "INV-NS-1: a sweep ends before the next one begins");
    }

    /// The addresses of the sweep that was asked for.
    pub(crate) fn take_addresses(&self) -> Option<Vec<u64>> {
        debug_assert!(self.is_asked(), "INV-NS-1: what is swept was asked for");
        self.addresses.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Whether a sweep is asked for that has not ended.
    pub(crate) fn is_asked(&self) -> bool {
        self.state.load(Ordering::Acquire) == ASKED
    }

    /// It has ended. `complete`: all pages could be read.
    pub(crate) fn end(&self, complete: bool) {
        let before = self.state.swap(if complete { COMPLETE } else { INCOMPLETE }, Ordering::AcqRel);
        debug_assert_eq!(before, ASKED, "INV-NS-1: what ends was asked for");
    }

    /// Whether the sweep that was asked for was complete, once it has ended.
    pub(crate) fn take_result(&self) -> Option<bool> {
        let state = self.state.load(Ordering::Acquire);
        debug_assert_ne!(state, NOTHING, "INV-NS-1: who asks for a result has asked for a sweep");
        if state == ASKED {
            return None;
        }
        self.state.store(NOTHING, Ordering::Release);
        Some(state == COMPLETE)
    }
}
