//! Word between the thread that sweeps emptied namespaces and the compactor, which reads the device for it.

use std::sync::atomic::{AtomicU8, Ordering};

const NOTHING: u8 = 0;
const ASKED: u8 = 1;
const COMPLETE: u8 = 2;
const INCOMPLETE: u8 = 3;

/// A sweep of the pages on the device whose records are of several namespaces: asked for by maintenance, done by the compactor.
#[derive(Default)]
pub(crate) struct MixedSweep(AtomicU8);

impl MixedSweep {
    /// Asks for a sweep. One at a time.
    pub(crate) fn ask(&self) {
        let before = self.0.swap(ASKED, Ordering::AcqRel);
        debug_assert_eq!(before, NOTHING, "INV-NS-1: a sweep ends before the next one begins");
    }

    /// Whether a sweep is asked for that has not ended.
    pub(crate) fn is_asked(&self) -> bool {
        self.0.load(Ordering::Acquire) == ASKED
    }

    /// It has ended. `complete`: all pages could be read.
    pub(crate) fn end(&self, complete: bool) {
        let before = self.0.swap(if complete { COMPLETE } else { INCOMPLETE }, Ordering::AcqRel);
        debug_assert_eq!(before, ASKED, "INV-NS-1: what ends was asked for");
    }

    /// Whether the sweep that was asked for was complete, once it has ended.
    pub(crate) fn take_result(&self) -> Option<bool> {
        let state = self.0.load(Ordering::Acquire);
        debug_assert_ne!(state, NOTHING, "INV-NS-1: who asks for a result has asked for a sweep");
        if state == ASKED {
            return None;
        }
        self.0.store(NOTHING, Ordering::Release);
        Some(state == COMPLETE)
    }
}
