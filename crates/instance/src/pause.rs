//! CLIENT PAUSE: which commands wait, and until when.

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicUsize, Ordering};

/// Which commands a pause holds back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PauseScope {
    /// Those that may write.
    Writes,
    /// All.
    All,
}

/// CLIENT PAUSE. Workers look at it once per batch: one relaxed load while nothing is paused.
#[derive(Debug, Default)]
pub struct Pause {
    /// Unix milliseconds; 0 without a pause.
    until_ms: AtomicI64,
    all: AtomicBool,
    waiting: AtomicUsize,
}

impl Pause {
    /// Counts a connection that waits for the end.
    pub fn connection_waits(&self) {
        self.waiting.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts connections that no longer wait.
    pub fn connections_go_on(&self, count: usize) {
        self.waiting.fetch_sub(count, Ordering::Relaxed);
    }

    /// Connections that wait for the end.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.waiting.load(Ordering::Relaxed)
    }

    /// Starts a pause, or changes a running one: the stricter scope and the later end win, as in Redis.
    pub fn start(&self, scope: PauseScope, until_ms: i64, now_ms: i64) {
        let running = self.active(now_ms);
        let all = scope == PauseScope::All || running == Some(PauseScope::All);
        self.all.store(all, Ordering::Relaxed);
        let before = if running.is_some() { self.until_ms.load(Ordering::Relaxed) } else { 0 };
        self.until_ms.store(before.max(until_ms), Ordering::Release);
    }

    /// Ends it.
    pub fn stop(&self) {
        self.until_ms.store(0, Ordering::Release);
    }

    /// The scope of the running pause.
    #[inline]
    #[must_use]
    pub fn active(&self, now_ms: i64) -> Option<PauseScope> {
        let until_ms = self.until_ms.load(Ordering::Relaxed);
        if until_ms == 0 || until_ms <= now_ms {
            return None;
        }
        Some(if self.all.load(Ordering::Relaxed) { PauseScope::All } else { PauseScope::Writes })
    }

    /// The end of the last pause that was not ended early, Unix milliseconds.
    #[must_use]
    pub fn end_ms(&self) -> Option<i64> {
        Some(self.until_ms.load(Ordering::Relaxed)).filter(|until_ms| *until_ms != 0)
    }

    /// Milliseconds until the end.
    #[must_use]
    pub fn remaining_ms(&self, now_ms: i64) -> i64 {
        self.active(now_ms).map_or(0, |_| self.until_ms.load(Ordering::Relaxed) - now_ms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_ends_by_itself_and_keeps_the_stricter_scope() {
        let pause = Pause::default();
        assert_eq!(pause.active(1), None);
        pause.start(PauseScope::All, 100, 1);
        pause.start(PauseScope::Writes, 50, 2);
        assert_eq!((pause.active(60), pause.remaining_ms(60)), (Some(PauseScope::All), 40));
        assert_eq!(pause.active(100), None);
        pause.start(PauseScope::Writes, 200, 150);
        assert_eq!(pause.active(151), Some(PauseScope::Writes));
        pause.stop();
        assert_eq!(pause.active(151), None);
    }
}
