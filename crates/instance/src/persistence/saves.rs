//! Snapshots that are asked for, written and done with. Sessions ask; one thread of the server writes ([`Saves::next`]).

use std::sync::{Arc, OnceLock, PoisonError};

use almandine_io::clock;
use almandine_io::sync::{Condvar, Mutex, MutexGuard};
use almandine_io::thread::Waker;

use crate::lock::lock;

/// What the thread is asked to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SaveTask {
    /// A snapshot that a client waits for.
    Foreground,
    /// A snapshot that no client waits for.
    Background,
    /// DEBUG RELOAD.
    Reload(Reload),
    /// DEBUG LOADAOF.
    LoadLog,
}

impl SaveTask {
    /// Whether it writes a snapshot.
    fn writes(self) -> bool {
        !matches!(self, Self::LoadLog | Self::Reload(Reload { save: false, .. }))
    }
}

/// How the data is loaded anew.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reload {
    /// A snapshot is written before.
    pub save: bool,
    /// All keys go before.
    pub flush: bool,
    /// A key that is there already gets the file's value; else the file is refused.
    pub merge: bool,
}

/// A snapshot that is being written.
pub trait SaveMeter: Send + Sync {
    /// Keys that were written.
    fn keys(&self) -> u64;
    /// How much is done, 0 to 1.
    fn share(&self) -> f64;
    /// Bytes that are kept of what clients have changed before it came to that: now, and at most since it began.
    fn saved_bytes(&self) -> (u64, u64);
    /// Asks for its end, without a file.
    fn cancel(&self);
}

/// Why no snapshot is begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SaveRefused {
    /// One is being written in the background.
    Running,
    /// It was tried, and the log says why there is none.
    Failed,
}

/// What BGSAVE CANCEL has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cancelled {
    /// A snapshot that was being written.
    Running,
    /// One that had not begun.
    Wanted,
    /// Nothing: there was none.
    None,
}

/// The outcome of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SaveOutcome {
    /// It is done; a snapshot has this many changes of the keyspace's count.
    Done {
        /// The keyspace's count of changes at the moment of the snapshot.
        changes: i64,
        /// Keys in it.
        keys: u64,
    },
    /// It was cancelled.
    Cancelled,
    /// It has failed.
    Failed,
}

/// Figures for INFO.
#[derive(Clone, Copy, Debug, Default)]
pub struct SaveFigures {
    /// When the last snapshot was written, Unix seconds; first the start.
    pub last_s: i64,
    /// Whether the last one in the background, or asked for by a client, succeeded.
    pub failed: bool,
    /// Seconds that the last one in the background took.
    pub last_took_s: Option<u64>,
    /// Seconds that the running one has taken.
    pub running_s: Option<u64>,
    /// Whether one is being written in the background.
    pub in_background: bool,
    /// Snapshots since the start.
    pub count: u64,
    /// Keys written of the running one.
    pub keys: u64,
    /// Keys that it will have, about.
    pub keys_total: u64,
    /// How much of it is done, 0 to 1.
    pub share: f64,
    /// Of the running one: bytes that are kept of what clients have changed before it came to that, and at most since it began.
    pub saved_bytes: (u64, u64),
    /// The most that were kept so for the last one.
    pub last_saved_bytes: u64,
    /// The keyspace's count of changes at the last snapshot.
    pub changes: i64,
}

/// Snapshots that are asked for, written and done with.
#[derive(Default)]
pub struct Saves {
    state: Mutex<State>,
    changed: Condvar,
    waker: OnceLock<Arc<Waker>>,
}

#[derive(Default)]
struct State {
    figures: SaveFigures,
    wanted: Option<SaveTask>,
    running: Option<Running>,
    /// Tasks that have ended, and how the last one did.
    ended: u64,
    outcome: Option<SaveOutcome>,
    /// When a snapshot was tried last, Unix seconds.
    tried_s: i64,
}

struct Running {
    task: SaveTask,
    began_ms: i64,
    meter: Option<Arc<dyn SaveMeter>>,
    cancelled: bool,
}

impl std::fmt::Debug for Saves {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Saves").field("figures", &self.figures()).finish_non_exhaustive()
    }
}

impl Saves {
    /// The thread that writes is woken by this when it is asked for something. Once, before there are clients.
    pub fn install_waker(&self, waker: Arc<Waker>) {
        let _ = self.waker.set(waker);
    }

    /// Wakes the thread that writes.
    pub fn wake(&self) {
        if let Some(waker) = self.waker.get() {
            waker.wake();
        }
    }

    /// The data is as it was saved `now_s`, Unix seconds, where the keyspace had counted this many changes.
    pub fn begin_from(&self, now_s: i64, changes: i64) {
        let mut state = self.state();
        (state.figures.last_s, state.figures.changes) = (now_s, changes);
    }

    /// Has a task done and waits for its end. Not in an epoch: the thread that does it waits for all that are in one.
    ///
    /// # Errors
    /// When it cannot be begun, or has failed.
    pub fn run(&self, task: SaveTask) -> Result<(), SaveRefused> {
        let mut state = self.state();
        // What another client waits for is waited for, too; what is in the background is not.
        while state.running.as_ref().is_some_and(|running| running.task != SaveTask::Background || running.cancelled)
            || state.wanted.is_some_and(|wanted| wanted != SaveTask::Background)
        {
            state = self.wait(state);
        }
        if state.is_busy() {
            return Err(SaveRefused::Running);
        }
        state.wanted = Some(task);
        let number = state.ended + 1;
        self.wake();
        while state.ended < number {
            state = self.wait(state);
        }
        match state.outcome {
            Some(SaveOutcome::Done { .. }) => Ok(()),
            _ => Err(SaveRefused::Failed),
        }
    }

    /// Has a snapshot of about this many keys written in the background.
    ///
    /// # Errors
    /// When one is being written.
    pub fn begin(&self, keys: u64) -> Result<(), SaveRefused> {
        let mut state = self.state();
        if state.is_busy() {
            return Err(SaveRefused::Running);
        }
        state.wanted = Some(SaveTask::Background);
        state.figures.keys_total = keys;
        drop(state);
        self.wake();
        Ok(())
    }

    /// Ends the snapshot that is being written in the background.
    pub fn cancel(&self) -> Cancelled {
        let mut state = self.state();
        if state.wanted == Some(SaveTask::Background) {
            state.wanted = None;
            return Cancelled::Wanted;
        }
        match &mut state.running {
            Some(running) if running.task == SaveTask::Background => {
                running.cancelled = true;
                if let Some(meter) = &running.meter {
                    meter.cancel();
                }
                Cancelled::Running
            }
            _ => Cancelled::None,
        }
    }

    /// The task that is to be done now; those of the background wait while `held_back`. For the thread that does it, which says by
    /// [`Saves::end`] what became of it.
    pub fn next(&self, held_back: bool) -> Option<SaveTask> {
        let mut state = self.state();
        let task = state.wanted.take_if(|task| !held_back || *task != SaveTask::Background)?;
        state.running = Some(Running { task, began_ms: clock::unix_ms(), meter: None, cancelled: false });
        Some(task)
    }

    /// A task that was not asked for, if there is no other.
    pub fn take_up(&self, task: SaveTask) -> bool {
        let mut state = self.state();
        if state.is_busy() {
            return false;
        }
        state.running = Some(Running { task, began_ms: clock::unix_ms(), meter: None, cancelled: false });
        true
    }

    /// The task writes a snapshot of about this many keys.
    pub fn meter(&self, keys: u64, meter: Arc<dyn SaveMeter>) {
        let mut state = self.state();
        state.figures.keys_total = keys;
        if let Some(running) = &mut state.running {
            if running.cancelled {
                meter.cancel();
            }
            running.meter = Some(meter);
        }
    }

    /// The task has ended. Before its client hears of it, `tell` learns whether the data is unsaved since one in the background
    /// has failed.
    pub fn end(&self, outcome: SaveOutcome, tell: impl FnOnce(bool)) {
        let now_ms = clock::unix_ms();
        let mut state = self.state();
        let Some(running) = state.running.take() else { return };
        let took_s = u64::try_from((now_ms - running.began_ms) / 1000).unwrap_or(0);
        state.tried_s = now_ms / 1000;
        if let Some(meter) = &running.meter {
            state.figures.last_saved_bytes = meter.saved_bytes().1;
        }
        match outcome {
            SaveOutcome::Done { changes, .. } if !running.task.writes() => state.figures.changes = changes,
            SaveOutcome::Done { changes, .. } => {
                state.figures.last_s = now_ms / 1000;
                state.figures.changes = changes;
                state.figures.failed = false;
                state.figures.count += 1;
            }
            // As in Redis, one that was ended on purpose is no failure.
            SaveOutcome::Cancelled => {}
            // One that was asked for has told its client: only the others count.
            SaveOutcome::Failed => state.figures.failed |= running.task == SaveTask::Background,
        }
        if running.task == SaveTask::Background {
            state.figures.last_took_s = Some(took_s);
        }
        state.outcome = Some(outcome);
        state.ended += 1;
        tell(state.figures.failed);
        self.changed.notify_all();
    }

    /// Figures for INFO.
    #[must_use]
    pub fn figures(&self) -> SaveFigures {
        let state = self.state();
        let mut figures = state.figures;
        figures.in_background = state.wanted == Some(SaveTask::Background);
        if let Some(running) = &state.running {
            figures.in_background |= running.task == SaveTask::Background;
            figures.running_s = u64::try_from((clock::unix_ms() - running.began_ms) / 1000).ok();
            figures.keys = running.meter.as_ref().map_or(0, |meter| meter.keys());
            figures.share = running.meter.as_ref().map_or(0.0, |meter| meter.share());
            figures.saved_bytes = running.meter.as_ref().map_or((0, 0), |meter| meter.saved_bytes());
        } else if !figures.in_background {
            figures.keys_total = 0;
        }
        figures
    }

    /// When a snapshot was tried last, Unix seconds.
    #[must_use]
    pub fn tried_s(&self) -> i64 {
        self.state().tried_s
    }

    fn wait<'s>(&self, state: MutexGuard<'s, State>) -> MutexGuard<'s, State> {
        self.changed.wait(state).unwrap_or_else(PoisonError::into_inner)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }
}

impl State {
    fn is_busy(&self) -> bool {
        self.wanted.is_some() || self.running.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DONE: SaveOutcome = SaveOutcome::Done { changes: 7, keys: 1 };

    #[test]
    fn one_snapshot_is_written_at_a_time_and_the_last_one_is_told() {
        let saves = Saves::default();
        assert_eq!((saves.begin(3), saves.begin(4)), (Ok(()), Err(SaveRefused::Running)));
        assert_eq!((saves.figures().in_background, saves.figures().keys_total), (true, 3));
        assert_eq!((saves.next(false), saves.next(false)), (Some(SaveTask::Background), None));
        assert_eq!((saves.run(SaveTask::Foreground), saves.take_up(SaveTask::Background)), (Err(SaveRefused::Running), false));
        saves.end(SaveOutcome::Failed, |unsaved| assert!(unsaved));
        assert!(saves.figures().failed && !saves.figures().in_background && saves.figures().count == 0);
        assert!(saves.take_up(SaveTask::Background));
        saves.end(DONE, |unsaved| assert!(!unsaved));
        let figures = saves.figures();
        assert_eq!((figures.failed, figures.count, figures.changes, figures.last_took_s), (false, 1, 7, Some(0)));
    }

    #[test]
    fn a_client_waits_for_its_snapshot() {
        let saves = Arc::new(Saves::default());
        let other = Arc::clone(&saves);
        let client = std::thread::spawn(move || other.run(SaveTask::Foreground));
        let task = loop {
            if let Some(task) = saves.next(false) {
                break task;
            }
            std::thread::yield_now();
        };
        assert_eq!(task, SaveTask::Foreground);
        saves.end(DONE, |unsaved| assert!(!unsaved));
        assert_eq!(client.join().unwrap(), Ok(()));
    }

    /// As in Redis each SAVE writes one; of the BGSAVEs that come at once one does, and the others are refused.
    #[test]
    fn snapshots_are_as_many_as_are_answered_for() {
        for clients in [4, 8] {
            let saves = Arc::new(Saves::default());
            assert_eq!((0..clients).filter(|_| saves.begin(1).is_ok()).count(), 1);
            assert_eq!(saves.next(false), Some(SaveTask::Background));
            saves.end(DONE, |_| ());
            let ask = |_| {
                let saves = Arc::clone(&saves);
                std::thread::spawn(move || saves.run(SaveTask::Foreground))
            };
            let waiting: Vec<_> = (0..clients).map(ask).collect();
            for _ in 0..clients {
                while saves.next(false).is_none() {
                    std::thread::yield_now();
                }
                saves.end(DONE, |_| ());
            }
            assert!(waiting.into_iter().all(|client| client.join().unwrap() == Ok(())));
            assert_eq!((saves.next(false), saves.figures().count), (None, 1 + clients));
        }
    }

    #[test]
    fn what_is_cancelled_is_no_failure() {
        let saves = Saves::default();
        assert_eq!(saves.cancel(), Cancelled::None);
        assert_eq!((saves.begin(1), saves.cancel(), saves.next(false)), (Ok(()), Cancelled::Wanted, None));
        assert_eq!((saves.begin(1), saves.next(false), saves.cancel()), (Ok(()), Some(SaveTask::Background), Cancelled::Running));
        saves.end(SaveOutcome::Cancelled, |unsaved| assert!(!unsaved));
        assert!(!saves.figures().failed && saves.figures().count == 0);
    }
}
