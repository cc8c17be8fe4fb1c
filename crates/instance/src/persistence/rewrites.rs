//! New bases of the operation log: asked for by sessions, or due because the log has grown; written by one thread of the server.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, PoisonError};
use std::time::Duration;

use almandine_io::clock;
use almandine_io::sync::{Condvar, Mutex, MutexGuard};
use almandine_io::thread::Waker;

use super::saves::SaveMeter;

/// What has become of a question for a new base.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RewriteBegun {
    /// It is begun.
    Started,
    /// It follows a snapshot that is being written.
    Scheduled,
}

/// Why one is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RewriteCause {
    /// A client has asked for it.
    Asked,
    /// The log has grown, or has no base.
    Due,
}

/// One is being written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RewriteRuns;

/// What has become of a base.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RewriteOutcome {
    /// The log begins with it.
    Done,
    /// Its end was asked for.
    Cancelled,
    /// The log is as it was.
    Failed,
}

/// Figures for INFO.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RewriteFigures {
    /// Whether one is being written.
    pub running: bool,
    /// Whether one follows.
    pub scheduled: bool,
    /// Seconds that the last one took.
    pub last_took_s: Option<u64>,
    /// Seconds that the running one has taken.
    pub running_s: Option<u64>,
    /// Whether the last one has failed.
    pub failed: bool,
    /// How many were written.
    pub count: u64,
    /// How many have failed since the last one that was written.
    pub failures: u32,
    /// When one has ended last, in nanoseconds of the clock without jumps,
    pub ended_ns: u64,
    /// and what it took.
    pub took_ns: u64,
    /// Whether it is to be the first one of a log, which does not count before.
    pub initial: bool,
}

/// See the module.
#[derive(Default)]
pub struct Rewrites {
    state: Mutex<State>,
    /// One was asked for, has ended, or is owed no more.
    changed: Condvar,
    waker: OnceLock<Arc<Waker>>,
    /// Bytes of the log behind its base from which on the thread that writes is woken; 0: it is not.
    due_bytes: AtomicU64,
}

#[derive(Default)]
struct State {
    figures: RewriteFigures,
    wanted: Option<RewriteBegun>,
    began_ms: i64,
    began_ns: u64,
    running: bool,
    cancelled: bool,
    meter: Option<Arc<dyn SaveMeter>>,
}

impl std::fmt::Debug for Rewrites {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Rewrites").field("figures", &self.figures()).finish_non_exhaustive()
    }
}

impl Rewrites {
    /// The thread that writes is woken by this when it is asked for something. Once, before there are clients.
    pub fn install_waker(&self, waker: Arc<Waker>) {
        let _ = self.waker.set(waker);
    }

    /// Has the thread that writes look whether one is due.
    pub fn wake(&self) {
        self.waker.get().into_iter().for_each(|waker| waker.wake());
    }

    /// The thread that writes is woken when this many bytes of the log are behind its base; none: it is not. To be called before
    /// the look whether they are: a log that grows meanwhile is seen by that, or sees this.
    pub fn wake_at(&self, bytes: Option<u64>) {
        self.due_bytes.store(bytes.map_or(0, |bytes| bytes.max(1)), Ordering::SeqCst);
    }

    /// This many bytes of the log are behind its base.
    pub fn log_has(&self, bytes: u64) {
        if (1..=bytes).contains(&self.due_bytes.load(Ordering::SeqCst)) {
            self.wake();
        }
    }

    /// Has a base written; behind the snapshot that is being written, if there is one.
    ///
    /// # Errors
    /// When one is being written.
    pub fn ask(&self, saves: bool) -> Result<RewriteBegun, RewriteRuns> {
        let mut state = self.state();
        if state.is_busy() {
            return Err(RewriteRuns);
        }
        let begun = if saves { RewriteBegun::Scheduled } else { RewriteBegun::Started };
        state.wanted = Some(begun);
        drop(state);
        self.changed.notify_all();
        self.wake();
        Ok(begun)
    }

    /// As [`Rewrites::ask`], for a log that has none yet.
    pub fn ask_first(&self, saves: bool) {
        let mut state = self.state();
        state.figures.initial = true;
        // One that is being written is no base of this log.
        state.wanted = Some(if saves { RewriteBegun::Scheduled } else { RewriteBegun::Started });
        drop(state);
        self.changed.notify_all();
        self.wake();
    }

    /// The log has ended.
    pub fn end_log(&self) {
        let mut state = self.state();
        state.cancel();
        state.figures.initial = false;
        self.changed.notify_all();
    }

    /// Whether one is to be written now; it has begun then. For the thread that writes, which says by [`Rewrites::end`] what has
    /// become of it.
    pub fn next(&self, is_due: bool) -> Option<RewriteCause> {
        let mut state = self.state();
        if state.running || state.wanted.is_none() && !is_due {
            return None;
        }
        let is_asked = state.wanted.is_some() && !state.figures.initial;
        (state.wanted, state.running) = (None, true);
        (state.began_ms, state.began_ns) = (clock::unix_ms(), clock::monotonic_ns());
        Some(if is_asked { RewriteCause::Asked } else { RewriteCause::Due })
    }

    /// The one that is being written can be ended by this.
    pub fn meter(&self, meter: Arc<dyn SaveMeter>) {
        let mut state = self.state();
        if state.cancelled {
            meter.cancel();
        }
        state.meter = Some(meter);
    }

    /// Ends the one that is being written, and asks for none.
    pub fn cancel(&self) {
        self.state().cancel();
    }

    /// Does that, also with those that are asked for meanwhile, until none is being written, but for no longer than this.
    pub fn give_up(&self, time_max: Duration) {
        drop(self.changed.wait_timeout_while(self.state(), time_max, |state| {
            state.cancel();
            state.running
        }));
    }

    /// Waits until no first base of a log is owed, but for no longer than this.
    pub fn await_first(&self, time_max: Duration) {
        drop(self.changed.wait_timeout_while(self.state(), time_max, |state| state.figures.initial));
    }

    /// The one that was being written has ended.
    pub fn end(&self, outcome: RewriteOutcome) {
        let (now_ms, now_ns) = (clock::unix_ms(), clock::monotonic_ns());
        let mut state = self.state();
        let took_s = u64::try_from((now_ms - state.began_ms) / 1000).unwrap_or(0);
        let took_ns = now_ns.saturating_sub(state.began_ns);
        (state.running, state.cancelled, state.meter) = (false, false, None);
        let is_wanted = state.wanted.is_some();
        let figures = &mut state.figures;
        figures.last_took_s = Some(took_s);
        (figures.ended_ns, figures.took_ns) = (now_ns, took_ns);
        match outcome {
            RewriteOutcome::Done => {
                (figures.failed, figures.failures) = (false, 0);
                // One that is wanted by now is the first one of a log that has begun meanwhile.
                figures.initial &= is_wanted;
                figures.count += 1;
            }
            // As in Redis, one that was ended on purpose is no failure.
            RewriteOutcome::Cancelled => {}
            RewriteOutcome::Failed => (figures.failed, figures.failures) = (true, figures.failures + 1),
        }
        self.changed.notify_all();
    }

    /// Whether one is being written, or about to be.
    #[must_use]
    pub fn is_running(&self) -> bool {
        self.state().is_busy()
    }

    /// Figures for INFO.
    #[must_use]
    pub fn figures(&self) -> RewriteFigures {
        let state = self.state();
        let mut figures = state.figures;
        (figures.running, figures.scheduled) = (state.is_busy(), state.wanted == Some(RewriteBegun::Scheduled));
        figures.running_s = state.running.then(|| u64::try_from((clock::unix_ms() - state.began_ms) / 1000).unwrap_or(0));
        figures
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn cancel(&mut self) {
        self.wanted = None;
        self.cancelled = self.running;
        if let Some(meter) = &self.meter {
            meter.cancel();
        }
    }

    fn is_busy(&self) -> bool {
        self.running || self.wanted == Some(RewriteBegun::Started)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Meter(std::sync::atomic::AtomicBool);

    impl SaveMeter for Meter {
        fn keys(&self) -> u64 {
            0
        }

        fn share(&self) -> f64 {
            0.0
        }

        fn saved_bytes(&self) -> (u64, u64) {
            (0, 0)
        }

        fn cancel(&self) {
            self.0.store(true, std::sync::atomic::Ordering::Relaxed);
        }
    }

    #[test]
    fn one_that_has_begun_is_cancelled_before_its_meter_is_there() {
        let rewrites = Rewrites::default();
        let is_cancelled = |cancels: bool| {
            assert_eq!(rewrites.next(true), Some(RewriteCause::Due));
            if cancels {
                rewrites.cancel();
            }
            let meter = Arc::new(Meter(false.into()));
            rewrites.meter(Arc::clone(&meter) as Arc<dyn SaveMeter>);
            rewrites.end(RewriteOutcome::Cancelled);
            meter.0.load(std::sync::atomic::Ordering::Relaxed)
        };
        assert!(is_cancelled(true) && !is_cancelled(false));
    }

    #[test]
    fn a_first_one_is_owed_until_it_is_written_itself() {
        let rewrites = Rewrites::default();
        assert_eq!(rewrites.ask(false), Ok(RewriteBegun::Started));
        assert_eq!(rewrites.next(false), Some(RewriteCause::Asked));
        // The log ends, and another one begins, while a base of the former is complete already.
        rewrites.end_log();
        rewrites.ask_first(false);
        rewrites.end(RewriteOutcome::Done);
        assert!(rewrites.figures().initial && rewrites.is_running());
        assert_eq!(rewrites.next(false), Some(RewriteCause::Due));
        rewrites.end(RewriteOutcome::Done);
        assert!(!rewrites.figures().initial && !rewrites.is_running());
    }

    /// The thread that writes ends what it was told to end; those that wait for that go on by it, and not by the time.
    #[test]
    fn those_that_wait_for_the_end_of_one_go_on_with_it() {
        const NEVER: Duration = Duration::from_secs(3600);
        let rewrites = Arc::new(Rewrites::default());
        rewrites.ask_first(false);
        assert_eq!(rewrites.next(false), Some(RewriteCause::Due));
        let meter = Arc::new(Meter(false.into()));
        rewrites.meter(Arc::clone(&meter) as Arc<dyn SaveMeter>);
        let writer = {
            let rewrites = Arc::clone(&rewrites);
            std::thread::spawn(move || {
                while !meter.0.load(std::sync::atomic::Ordering::Relaxed) {
                    std::thread::yield_now();
                }
                rewrites.end(RewriteOutcome::Cancelled);
                while rewrites.next(false).is_none() {
                    std::thread::yield_now();
                }
                rewrites.end(RewriteOutcome::Done);
            })
        };
        rewrites.give_up(NEVER);
        assert!(!rewrites.is_running() && rewrites.figures().initial);
        assert_eq!(rewrites.ask(false), Ok(RewriteBegun::Started));
        rewrites.await_first(NEVER);
        assert!(!rewrites.figures().initial);
        writer.join().unwrap();
        rewrites.give_up(NEVER);
        rewrites.await_first(NEVER);
    }

    #[test]
    fn one_base_is_written_at_a_time_and_behind_a_snapshot() {
        let rewrites = Rewrites::default();
        assert_eq!(rewrites.next(false), None);
        assert_eq!(rewrites.ask(true), Ok(RewriteBegun::Scheduled));
        assert!(rewrites.figures().scheduled && !rewrites.figures().running);
        assert_eq!((rewrites.next(false), rewrites.next(true)), (Some(RewriteCause::Asked), None), "one at a time");
        assert_eq!(rewrites.ask(false), Err(RewriteRuns));
        assert_eq!(rewrites.figures().running_s, Some(0));
        rewrites.end(RewriteOutcome::Failed);
        assert_eq!(rewrites.next(true), Some(RewriteCause::Due));
        rewrites.end(RewriteOutcome::Failed);
        assert_eq!((rewrites.figures().failures, rewrites.figures().failed), (2, true));
        assert_eq!(rewrites.ask(false), Ok(RewriteBegun::Started));
        assert!(rewrites.next(false).is_some());
        rewrites.end(RewriteOutcome::Done);
        let figures = rewrites.figures();
        assert_eq!((figures.failures, figures.failed, figures.count, figures.last_took_s), (0, false, 1, Some(0)));
    }
}
