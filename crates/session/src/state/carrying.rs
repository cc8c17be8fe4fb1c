//! The place of a script that has written and runs for long: a thread of its own goes on with it, the *carrier*, while its worker
//! serves others.
//!
//! The script's unit of work stays in its batch and keeps its latches, as any long batch of a worker does, and says which these are
//! (INV-LATCH-5): commands that need one of its keys begin anew behind it. Its worker goes on with the accessor that the carrier
//! had.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, Weak};

use almandine_base::Output;
use almandine_handler::Table;
use almandine_instance::{HeldOfUnit, Instance};
use almandine_io::sync::{Condvar, Mutex, MutexGuard};
use almandine_io::thread::JoinHandle;
use almandine_keyspace::Accessor;
use almandine_net::ConnectionId;
use almandine_script::{Engine, Program, ProgramKind};

use crate::state::script_run::Suspended;

/// A script on its way to the carrier.
pub(crate) struct Carried {
    pub(crate) suspended: Box<Suspended>,
    /// What has its unit of work open.
    pub(crate) accessor: Accessor,
    /// What that has told and is held until it is published.
    pub(crate) held: HeldOfUnit,
    /// Its worker.
    pub(crate) worker: usize,
    /// Its time, Unix milliseconds.
    pub(crate) now_ms: i64,
}

/// A script that the carrier has gone on with to its end.
pub(crate) struct Ended {
    pub(crate) worker: usize,
    /// Its connection; none when that was gone before.
    pub(crate) connection: Option<ConnectionId>,
    pub(crate) out: Output,
    /// What all slices have taken.
    pub(crate) spent_ns: u64,
    pub(crate) engine: Box<Engine>,
    pub(crate) program: Program,
}

/// See the module. It has one thread, which starts when it is needed first.
pub struct Carrier {
    pub(crate) instance: Weak<Instance>,
    pub(crate) table: &'static Table,
    /// Whether a script may come.
    is_free: AtomicBool,
    /// Whether the thread was asked for.
    is_asked: AtomicBool,
    /// When the script began that it has, monotonic nanoseconds; 0: it has none.
    begun_ns: AtomicU64,
    /// Whether that is a function.
    is_function: AtomicBool,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    script: Option<Carried>,
    /// The accessor of the carrier, in no batch.
    spare: Option<Accessor>,
    ended: Vec<Ended>,
    thread: Option<JoinHandle<()>>,
    is_over: bool,
}

impl std::fmt::Debug for Carrier {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Carrier").field("is_free", &self.is_free).finish_non_exhaustive()
    }
}

impl Carrier {
    /// One without a thread yet.
    #[must_use]
    pub fn new(instance: &Arc<Instance>, table: &'static Table) -> Self {
        Self {
            instance: Arc::downgrade(instance),
            table,
            is_free: AtomicBool::new(false),
            is_asked: AtomicBool::new(false),
            begun_ns: AtomicU64::new(0),
            is_function: AtomicBool::new(false),
            state: Mutex::default(),
            changed: Condvar::new(),
        }
    }

    /// Whether it has no script, or is still to be started.
    pub(crate) fn may_take(&self) -> bool {
        self.is_free.load(Ordering::Relaxed) || !self.is_asked.load(Ordering::Relaxed)
    }

    /// Keeps the place for the caller, if it is free: an accessor in exchange for that of the script, which must follow.
    pub(crate) fn reserve(&self) -> Option<Accessor> {
        if self.is_free.swap(false, Ordering::Acquire) { self.state().spare.take() } else { None }
    }

    /// Whether the caller is to start the thread, which was not asked for before.
    pub(crate) fn is_to_start(&self) -> bool {
        !self.is_asked.load(Ordering::Relaxed) && !self.is_asked.swap(true, Ordering::Relaxed)
    }

    /// The thread has started.
    pub(crate) fn note_thread(&self, thread: JoinHandle<()>) {
        self.state().thread = Some(thread);
    }

    /// Gives the script for which the place was kept.
    pub(crate) fn give(&self, carried: Carried) {
        self.is_function.store(carried.suspended.program.kind() == ProgramKind::Function, Ordering::Relaxed);
        self.begun_ns.store(carried.suspended.run.start_ns.max(1), Ordering::Release);
        self.state().script = Some(carried);
        self.changed.notify_all();
    }

    /// What it has, if that has run for so long.
    pub(crate) fn busy(&self, threshold_ns: u64, now_ns: u64) -> Option<ProgramKind> {
        let begun_ns = self.begun_ns.load(Ordering::Acquire);
        let is_function = self.is_function.load(Ordering::Relaxed);
        let is_long = begun_ns != 0 && now_ns.saturating_sub(begun_ns) >= threshold_ns;
        is_long.then_some(if is_function { ProgramKind::Function } else { ProgramKind::Script })
    }

    /// A script has ended: its worker is to be told.
    pub(crate) fn note_ended(&self, ended: Ended) {
        self.state().ended.push(ended);
    }

    /// The next script, whose worker has this accessor in exchange. None when there is to be none any more.
    pub(crate) fn wait_for_next(&self, accessor: Accessor) -> Option<Carried> {
        self.begun_ns.store(0, Ordering::Release);
        self.state().spare = Some(accessor);
        self.is_free.store(true, Ordering::Release);
        let waits = |state: &mut State| state.script.is_none() && !state.is_over;
        self.changed.wait_while(self.state(), waits).unwrap_or_else(PoisonError::into_inner).script.take()
    }

    /// The scripts of a worker that have ended.
    pub(crate) fn take_ended(&self, worker: usize) -> Vec<Ended> {
        self.state().ended.extract_if(.., |ended| ended.worker == worker).collect()
    }

    /// Ends the thread, behind the script that it has. No worker runs any more.
    pub fn join(&self) {
        let mut state = self.state();
        state.is_over = true;
        let thread = state.thread.take();
        drop(state);
        self.changed.notify_all();
        if let Some(thread) = thread {
            // A thread that panics ends the process.
            let _ = thread.join();
        }
        let mut state = self.state();
        let left = (state.spare.take(), std::mem::take(&mut state.ended));
        drop(state);
        drop(left);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A runner's part of it.
#[derive(Default)]
pub(crate) struct Carrying {
    /// Where scripts go, if they do.
    pub(crate) carrier: Option<Arc<Carrier>>,
    /// The script that runs is about to go: what its worker goes on with, in no batch.
    pub(crate) spare: Option<Accessor>,
    /// The runner is that of the carrier.
    pub(crate) is_carrier: bool,
    /// The worker's scripts that are there: their connections, if these were not gone before.
    pub(crate) scripts: Vec<Option<ConnectionId>>,
    /// The accessor is in no batch: a script has just gone with the one that was.
    pub(crate) is_outside: bool,
    /// Connections of the worker whose commands need a key of a script that is there, of whichever worker.
    pub(crate) waiting: Vec<ConnectionId>,
}

impl Carrying {
    /// Whether nothing of the worker is there, or waits for what is.
    pub(crate) fn is_idle(&self) -> bool {
        self.scripts.is_empty() && self.waiting.is_empty()
    }
}
