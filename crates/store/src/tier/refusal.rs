//! A device that has refused a page: when the flusher asks it again.
//!
//! Memory that is short wakes the flusher hundreds of times a second, and to ask is to make the image of a page and to write it.
//! So a device that has refused one is asked again when space on it was given back, which wakes the flusher, too. Else it is asked
//! now and then: others may have made room where it lies, or an error may be over.

use std::sync::atomic::{AtomicU64, Ordering};

/// From then on it is asked again, whatever was given back.
const AGAIN_NS: u64 = 20_000_000;

/// See the module.
#[derive(Default)]
pub(crate) struct Refusal {
    /// How often space was given back.
    freed: AtomicU64,
    /// The flusher's: one more than that was before the device was asked, if it has refused; else 0.
    refused: AtomicU64,
    /// When it has.
    since_ns: AtomicU64,
}

impl Refusal {
    /// Space was given back.
    pub(crate) fn space_freed(&self) {
        let before = self.freed.fetch_add(1, Ordering::SeqCst);
        debug_assert_ne!(before, u64::MAX - 1, "a count is less than what it is compared with");
    }

    /// The device is about to be asked; what [`Refusal::refuse`] is to be given.
    pub(crate) fn seen(&self) -> u64 {
        self.freed.load(Ordering::SeqCst)
    }

    /// It has refused.
    pub(crate) fn refuse(&self, seen: u64, now_ns: u64) {
        debug_assert!(seen <= self.seen(), "space is given back and not taken");
        self.refused.store(seen + 1, Ordering::Relaxed);
        self.since_ns.store(now_ns, Ordering::Relaxed);
    }

    /// It has taken what it was asked to, or is to be asked whatever it said.
    pub(crate) fn end(&self) {
        self.refused.store(0, Ordering::Relaxed);
    }

    /// Ends a refusal that is old.
    pub(crate) fn end_if_old(&self, now_ns: u64) {
        if now_ns.saturating_sub(self.since_ns.load(Ordering::Relaxed)) >= AGAIN_NS {
            self.end();
        }
    }

    /// Whether it has refused, and nothing was given back since.
    pub(crate) fn holds(&self) -> bool {
        self.refused.load(Ordering::Relaxed) == self.seen() + 1
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_holds_until_space_is_given_back_or_it_is_old() {
        let refusal = Refusal::default();
        assert!(!refusal.holds());
        refusal.space_freed();
        assert!(!refusal.holds());
        let seen = refusal.seen();
        refusal.refuse(seen, 7);
        assert!(refusal.holds());
        refusal.end_if_old(6 + AGAIN_NS);
        assert!(refusal.holds());
        refusal.end_if_old(7 + AGAIN_NS);
        assert!(!refusal.holds());
        refusal.refuse(seen, 7);
        refusal.space_freed();
        assert!(!refusal.holds(), "there is room");
        refusal.refuse(seen, 7);
        assert!(!refusal.holds(), "there was room while it was asked");
        refusal.refuse(refusal.seen(), 7);
        assert!(refusal.holds());
        refusal.end();
        assert!(!refusal.holds());
    }
}
