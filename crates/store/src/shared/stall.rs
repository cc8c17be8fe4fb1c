//! The write stall of a store without a device: writers wait while compaction in memory is behind.
//!
//! Records that die leave holes in their pages. Sessions fill the holes, and evacuation gives sparse pages back; but sessions
//! on all cores can make holes faster than the background, which ranks behind them, can close. So the pages in memory have a
//! *ceiling*, which follows what is live. The session that takes a chunk beyond it says so in one flag, which the owner of a
//! session looks at before a batch that writes ([`crate::Store::is_stalled`]); the background clears it after the next round of
//! evacuation.
//!
//! ```text
//! ceiling = live / (1 - free part allowed) + live / 32 + SLACK_PAGES
//! ```
//! When much dies at once, the ceiling comes down with the pages in memory, a step above them: writers need not wait until all of
//! what has died is given back, only until it shrinks. While evacuation finds nothing to do the ceiling moves up, so that no writer
//! waits in vain.

use super::Shared;
use crate::log::PAGE_WORDS;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Pages beside what is live: those ahead of the tail, and part of what a round of evacuation fills (18 MiB).
const SLACK_PAGES: u64 = 9;
/// Pages by which the ceiling lies above what is in memory while that shrinks.
const STEP_PAGES: u64 = 8;
/// Compaction may be behind by one part in this number of the live pages.
const BEHIND_SHARE: u64 = 32;
/// Compaction hurries from this number of pages below the ceiling on.
const HURRY_PAGES: u64 = 6;
/// Writers go on when this number of pages below the ceiling is reached again.
const RESUME_PAGES: u64 = 1;

/// Called when writers that were asked to wait may go on.
pub(crate) type StallEndCall = Box<dyn Fn() + Send + Sync>;

/// What writers and the background tell each other.
pub(crate) struct Stall {
    /// Pages in memory beyond which writers wait, if what is live does not account for them. Written by the background.
    ceiling: AtomicU64,
    /// Whether writers wait. Set by sessions, cleared by the background.
    stalled: AtomicBool,
    /// Whether evacuation has last found no page to empty. The background's.
    fruitless: AtomicBool,
    on_end: OnceLock<StallEndCall>,
}

impl Default for Stall {
    fn default() -> Self {
        Self {
            ceiling: AtomicU64::new(0),
            stalled: AtomicBool::new(false),
            fruitless: AtomicBool::new(false),
            on_end: OnceLock::new(),
        }
    }
}

impl Stall {
    /// Evacuation has looked for pages to empty, and has found some or none.
    pub(crate) fn evacuation_chose(&self, any: bool) {
        self.fruitless.store(!any, Ordering::Relaxed);
    }

    fn tell_end(&self) {
        if let Some(call) = self.on_end.get() {
            call();
        }
    }

    /// Sets what is called when writers may go on. Once per store.
    pub(crate) fn on_end(&self, call: StallEndCall) {
        let first = self.on_end.set(call).is_ok();
        debug_assert!(first, "there is one server over a store");
    }
}

impl Shared {
    /// Whether writers should wait: because the device is behind, compaction in memory, or the walk of a copy.
    #[inline]
    pub(crate) fn is_stalled(&self) -> bool {
        self.consumers.copying.is_full()
            || match &self.tier {
                Some(tier) => tier.is_stalled(self.log.pages.resident()),
                None => self.budget.stall.stalled.load(Ordering::Acquire),
            }
    }

    /// Lets writers go on that have waited.
    pub(crate) fn tell_stall_end(&self) {
        match &self.tier {
            Some(tier) => tier.tell_room(),
            None => self.budget.stall.tell_end(),
        }
    }

    /// Lets writers go on that have waited, for whatever reason; those that have to wait on will do so.
    pub(crate) fn end_stall(&self) {
        match &self.tier {
            Some(tier) => tier.tell_room(),
            None => self.budget.stall.on_end.get().into_iter().for_each(|call| call()),
        }
    }

    /// Lets writers wait from the next batch on if too much is in memory. Called with each new chunk.
    pub(crate) fn stall_above_ceiling(&self) {
        if self.tier.is_some() {
            return;
        }
        let (stall, resident) = (&self.budget.stall, self.log.pages.resident());
        debug_assert_ne!(resident, 0, "a chunk was taken, so its page is in memory");
        // The ceiling may be from a time when less was live: what only grows does not wait.
        let above = resident > stall.ceiling.load(Ordering::Relaxed) && resident > self.allowed_pages();
        if above && !stall.stalled.swap(true, Ordering::AcqRel) {
            self.background.waker.wake();
        }
    }

    /// Whether compaction should not rest: the ceiling is near.
    pub(crate) fn is_near_ceiling(&self) -> bool {
        self.log.pages.resident() + HURRY_PAGES > self.budget.stall.ceiling.load(Ordering::Relaxed)
    }

    /// Moves the ceiling, and lets writers go on that have waited for that or for compaction.
    pub(crate) fn move_ceiling(&self) {
        if self.tier.is_some() {
            return;
        }
        let (stall, resident) = (&self.budget.stall, self.log.pages.resident());
        let stalled = stall.stalled.load(Ordering::Acquire);
        let before = stall.ceiling.load(Ordering::Relaxed);
        let bound = if stalled && stall.fruitless.load(Ordering::Relaxed) { u64::MAX } else { before };
        let ceiling = self.allowed_pages().max(bound.min(resident + STEP_PAGES));
        debug_assert!(ceiling >= SLACK_PAGES, "the pages ahead of the tail and a round of evacuation fit below the ceiling");
        stall.ceiling.store(ceiling, Ordering::Relaxed);
        if stalled && resident + RESUME_PAGES <= ceiling {
            stall.stalled.store(false, Ordering::Release);
            stall.tell_end();
        }
    }

    /// Pages that what is live may take with the holes between it.
    fn allowed_pages(&self) -> u64 {
        let totals = self.counters.totals();
        let live = (totals.taken_words - totals.free_words).max(0) as u64 / PAGE_WORDS;
        let full = 1.0 - self.options.free_fraction_max.clamp(0.0, 0.9);
        let allowed = (live as f64 / full) as u64 + live / BEHIND_SHARE + SLACK_PAGES;
        debug_assert!(allowed >= live + SLACK_PAGES, "what is live may stay");
        allowed
    }
}
