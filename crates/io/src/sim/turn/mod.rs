//! Simulated threads: each is a thread of the system, and exactly one of them runs, the one that has the baton.
//!
//! A thread passes the baton on where it blocks and, if the schedule says so, at a [`point`]. Whichever thread has the baton
//! executes the events that are due and chooses the next thread; when no thread can run, virtual time jumps to the next event. So
//! all that happens follows from the choices. Ends of waits are not lost: nothing runs between the look at a condition and the
//! wait for it.
//!
//! A crash unwinds the threads of a node by a panic that the root of each thread catches. A thread that unwinds waits for nothing
//! but locks. A `std::sync::Mutex` must not be held where a thread may pass the baton on, for the next thread that wants it would
//! stop the world; the locks of [`crate::sync`] may be. A thread that has the baton for too long in real time fails the run
//! ([`watch`]).

mod baton;
mod processor;
mod schedule;
mod state;
mod watch;

use std::any::Any;
use std::cell::RefCell;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use self::baton::Baton;
pub use self::schedule::{Policy, STARVED_NS, Schedule};
pub use self::state::{Condition, Woken};
use self::state::{Event, State, Status};
use super::choice::{ChoiceRecord, Choices, Subsystem};
use super::trace::{Counts, Witnessed};
use almandine_base::mutants::Mutant;
use almandine_base::points::{self, Simulation, Witness};

/// What the counts of points name the stalls of threads.
pub const STALLED: &str = "is stalled";

/// Processors of every node.
pub const PROCESSORS: usize = 4;

/// A place where another thread may run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Point {
    /// The thread gives up the processor: the schedule chooses among all threads that can run.
    Yield,
    /// Between two steps of a protocol of this name; taken as often as the schedule says.
    Inner(&'static str),
}

/// See the module.
pub struct Turn {
    state: Mutex<State>,
    /// The baton of the thread that drives the world, outside of the simulation.
    driver: Baton,
    handles: Mutex<Vec<JoinHandle<()>>>,
    processor: Option<usize>,
    /// Grows with all that threads do here.
    progress: AtomicU64,
    /// A thread kept the baton: the threads are left to themselves.
    is_stuck: AtomicBool,
    patience_ms: AtomicU64,
    /// The world that it is a part of.
    pub(super) world: OnceLock<Weak<dyn Any + Send + Sync>>,
}

thread_local! {
    static CURRENT: RefCell<Option<Current>> = const { RefCell::new(None) };
}

/// The simulation in which a thread of the system runs.
#[derive(Clone)]
struct Current {
    turn: Arc<Turn>,
    /// None while an event is executed.
    thread: Option<usize>,
}

/// With what a crashed thread unwinds.
struct Crashed;

/// A thread that another one can wait for.
pub struct SimThread<T> {
    turn: Arc<Turn>,
    thread: usize,
    result: Arc<Mutex<Option<T>>>,
}

impl<T> SimThread<T> {
    /// Whether the thread is the calling one.
    #[must_use]
    pub fn is_current(&self) -> bool {
        CURRENT.with_borrow(|current| {
            current.as_ref().is_some_and(|current| current.thread == Some(self.thread) && Arc::ptr_eq(&current.turn, &self.turn))
        })
    }

    /// Waits for the end of the thread. None when its node crashed before.
    #[must_use]
    pub fn join(self) -> Option<T> {
        loop {
            let state = self.turn.lock();
            let (ended, is_ended) = (state.threads[self.thread].ended, state.threads[self.thread].status == Status::Ended);
            drop(state);
            if is_ended || block("waits for the end of a thread", Some(ended), None).is_none() {
                return self.result.lock().unwrap_or_else(PoisonError::into_inner).take();
            }
        }
    }
}

impl<T> fmt::Debug for SimThread<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SimThread").field("thread", &self.thread).finish_non_exhaustive()
    }
}

impl fmt::Debug for Turn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Turn").finish_non_exhaustive()
    }
}

impl Turn {
    /// No thread yet, at time 0.
    #[must_use]
    pub fn new(choices: Choices, schedule: Schedule) -> Arc<Self> {
        // One processor for all threads of a simulation: a baton then never waits for another processor to wake up.
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let processor = processor::choose(NEXT.fetch_add(1, Ordering::Relaxed));
        points::install(Simulation { point: inner_point, happens, witness, leaves_out, pause });
        let state = Mutex::new(State::new(choices, schedule));
        Arc::new(Self {
            state,
            driver: Baton::default(),
            handles: Mutex::new(Vec::new()),
            processor,
            progress: AtomicU64::new(0),
            is_stuck: AtomicBool::new(false),
            patience_ms: AtomicU64::new(watch::PATIENCE_MS),
            world: OnceLock::new(),
        })
    }

    /// Starts a thread of a node. It runs when it is chosen.
    ///
    /// # Panics
    /// When the system cannot create a thread.
    pub fn spawn<T: Send + 'static>(
        self: &Arc<Self>,
        name: &str,
        node: u32,
        body: impl FnOnce() -> T + Send + 'static,
    ) -> SimThread<T> {
        let mut state = self.lock();
        let (thread, baton) = state.add(name, node);
        state.note(Some(thread), "is started", [thread as u64, u64::from(node)]);
        drop(state);
        let result = Arc::new(Mutex::new(None));
        let (turn, slot, own) = (Arc::clone(self), Arc::clone(&result), Arc::clone(&baton));
        let root = move || {
            own.take();
            turn.lock().threads[thread].system_id = watch::system_id();
            if let Some(processor) = turn.processor {
                processor::pin_to(processor);
            }
            let is_doomed = turn.lock().threads[thread].doomed;
            CURRENT.set(Some(Current { turn: Arc::clone(&turn), thread: Some(thread) }));
            let ended =
                if is_doomed { Err(Box::new(Crashed) as Box<dyn Any + Send>) } else { catch_unwind(AssertUnwindSafe(body)) };
            let failure = match ended {
                Ok(value) => {
                    *slot.lock().unwrap_or_else(PoisonError::into_inner) = Some(value);
                    None
                }
                Err(payload) => (!payload.is::<Crashed>()).then(|| message(&*payload)),
            };
            CURRENT.set(None);
            turn.end(thread, failure);
        };
        let handle = thread::Builder::new().name(name.to_owned()).spawn(root).expect("the system has a thread left");
        baton.belongs_to(handle.thread().clone());
        self.handles.lock().unwrap_or_else(PoisonError::into_inner).push(handle);
        SimThread { turn: Arc::clone(self), thread, result }
    }

    /// Runs until all threads have ended and no event is left, or until this time. To be called by the thread that drives the
    /// world.
    ///
    /// # Errors
    /// The message of a panic of a thread or an event, or which threads wait for what when nothing can happen any more. The world
    /// runs no further then.
    pub fn run(self: &Arc<Self>, until_ns: u64) -> Result<(), String> {
        self.driver.belongs_to(thread::current());
        self.lock().until_ns = until_ns;
        self.pass(None);
        self.lock().failure.clone().map_or(Ok(()), Err)
    }

    /// Executes `call` at a time, between two slices of threads. It must not block.
    pub fn at(&self, at_ns: u64, call: impl FnOnce() + Send + 'static) {
        self.lock().queue(at_ns, Event::Call(Box::new(call)));
    }

    /// The threads of a node end: they unwind at their next point, before any other thread runs.
    pub fn crash(&self, node: u32) {
        let mut state = self.lock();
        state.note(None, "node crashes", [u64::from(node), 0]);
        state.doom(Some(node));
    }

    /// Ends all threads, and forgets all events. Nothing can be run afterwards.
    pub fn end_all(self: &Arc<Self>) {
        self.driver.belongs_to(thread::current());
        while !self.is_stuck.load(Ordering::Relaxed) {
            let mut state = self.lock();
            state.ending = true;
            state.doom(None);
            let (events, done) = (std::mem::take(&mut state.queue), state.doomed == 0);
            drop(state);
            drop(events);
            if done {
                break;
            }
            self.pass(None);
        }
        for handle in std::mem::take(&mut *self.handles.lock().unwrap_or_else(PoisonError::into_inner)) {
            if self.is_stuck.load(Ordering::Relaxed) {
                return;
            }
            // The root of each thread catches panics.
            let _ = handle.join();
        }
    }

    /// A condition that nothing waits for yet.
    #[must_use]
    pub fn condition(&self) -> Condition {
        self.lock().condition()
    }

    /// Ends all waits for a condition.
    pub fn notify_all(&self, condition: Condition) {
        self.lock().notify(condition, usize::MAX);
    }

    /// Ends one wait for a condition, if there is one.
    pub fn notify_one(&self, condition: Condition) {
        self.lock().notify(condition, 1);
    }

    /// Virtual time in nanoseconds.
    #[must_use]
    pub fn now_ns(&self) -> u64 {
        self.lock().now_ns
    }

    /// See [`Choices::below`].
    pub fn below(&self, subsystem: Subsystem, limit: u64) -> u64 {
        self.lock().choices.below(subsystem, limit)
    }

    /// See [`Choices::hits`].
    pub fn hits(&self, subsystem: Subsystem, per_million: u32) -> bool {
        self.lock().choices.hits(subsystem, per_million)
    }

    /// See [`Choices::number`].
    pub fn number(&self) -> u64 {
        self.lock().choices.number()
    }

    /// Adds an event to the trace.
    pub fn note(&self, what: &'static str, numbers: [u64; 2]) {
        let thread = CURRENT.with_borrow(|current| current.as_ref().and_then(|current| current.thread));
        self.lock().note(thread, what, numbers);
    }

    /// The choices so far.
    #[must_use]
    pub fn record(&self) -> ChoiceRecord {
        self.lock().choices.record().clone()
    }

    /// A hash of all events so far, and their number.
    #[must_use]
    pub fn trace_hash(&self) -> (u64, u64) {
        let state = self.lock();
        (state.trace.hash(), state.trace.events())
    }

    /// The last events in words.
    #[must_use]
    pub fn trace_words(&self) -> String {
        let state = self.lock();
        state.trace.words(|thread| state.threads[thread].title())
    }

    /// How often threads came to each inner point, and said that something has happened ([`almandine_base::sometimes!`]).
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.lock().trace.counts.clone()
    }

    /// Steps that the run leaves out, to see that it notices.
    pub fn leave_out(&self, mutants: &[Mutant]) {
        self.lock().left_out = mutants.to_vec();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.progress.fetch_add(1, Ordering::Relaxed);
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives the baton to the thread that is next, and returns when the caller has it again. `own` is the caller, which may be
    /// the driver.
    fn pass(self: &Arc<Self>, own: Option<usize>) {
        let next = self.decide(own);
        if next == own {
            return;
        }
        let mut state = self.lock();
        state.holder.thread = next;
        let baton = own.map(|own| Arc::clone(&state.threads[own].baton));
        let other = next.map(|next| Arc::clone(&state.threads[next].baton));
        drop(state);
        other.as_deref().unwrap_or(&self.driver).give();
        match baton {
            Some(baton) => baton.take(),
            None => self.watch(),
        }
    }

    /// The thread has ended, and gives the baton away for good.
    fn end(self: &Arc<Self>, thread: usize, failure: Option<String>) {
        let mut state = self.lock();
        state.note(Some(thread), "has ended", [thread as u64, u64::from(failure.is_some())]);
        state.doomed -= usize::from(state.threads[thread].doomed);
        state.threads[thread].status = Status::Ended;
        if let Some(message) = failure {
            let text = format!("{} panicked: {message}", state.threads[thread].title());
            state.failure.get_or_insert(text);
        }
        let ended = state.threads[thread].ended;
        state.notify(ended, usize::MAX);
        drop(state);
        let next = self.decide(None);
        self.lock().holder.thread = next;
        let baton = next.map(|next| Arc::clone(&self.lock().threads[next].baton));
        baton.as_deref().unwrap_or(&self.driver).give();
    }

    /// Executes what is due, and chooses the next thread; none is the driver.
    fn decide(self: &Arc<Self>, own: Option<usize>) -> Option<usize> {
        let mut state = self.lock();
        if let Some(own) = own {
            state.pay_slice(own);
        }
        loop {
            if let Some(doomed) = state.pick_doomed() {
                return Some(doomed);
            }
            if state.ending || state.failure.is_some() {
                return None;
            }
            let now_ns = state.now_ns;
            let due = state.queue.first_entry().filter(|event| event.key().0 <= now_ns);
            match due.map(std::collections::btree_map::OccupiedEntry::remove) {
                Some(Event::Wake(thread)) => {
                    state.wake(thread, Woken::Late);
                    continue;
                }
                Some(Event::Call(call)) => {
                    drop(state);
                    let failure = self.execute(call);
                    state = self.lock();
                    state.failure = failure.map(|message| format!("an event panicked: {message}"));
                    continue;
                }
                None => {}
            }
            if state.now_ns >= state.until_ns {
                return None;
            }
            if let Some(next) = state.pick(own) {
                return Some(next);
            }
            let Some((&(at_ns, _), _)) = state.queue.first_key_value() else {
                state.failure = state.deadlock();
                return None;
            };
            state.now_ns = at_ns.min(state.until_ns);
        }
    }

    /// Executes an event outside of any thread; the message of its panic.
    fn execute(self: &Arc<Self>, call: Box<dyn FnOnce() + Send>) -> Option<String> {
        let before = CURRENT.replace(Some(Current { turn: Arc::clone(self), thread: None }));
        let result = catch_unwind(AssertUnwindSafe(call));
        CURRENT.set(before);
        result.err().map(|payload| message(&*payload))
    }

    /// The calling thread passes the baton on, and unwinds when its node has crashed meanwhile.
    fn switch(self: &Arc<Self>, thread: usize) {
        self.pass(Some(thread));
        let is_doomed = self.lock().threads[thread].doomed;
        if is_doomed {
            resume_unwind(Box::new(Crashed));
        }
    }
}

/// The simulation and the thread in which the caller runs; none outside, in an event, and while the thread unwinds.
fn current() -> Option<(Arc<Turn>, usize)> {
    let current = CURRENT.with_borrow(Clone::clone)?;
    current.thread.filter(|_| !thread::panicking()).map(|thread| (current.turn, thread))
}

/// Where code runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// In no simulation.
    Outside,
    /// In an event of a simulation, which cannot wait.
    Event,
    /// In a simulated thread, also while it unwinds.
    Thread,
}

/// Where the caller runs.
#[must_use]
pub fn place() -> Place {
    CURRENT.with_borrow(|current| match current {
        None => Place::Outside,
        Some(Current { thread: None, .. }) => Place::Event,
        Some(Current { thread: Some(_), .. }) => Place::Thread,
    })
}

/// A number of the simulation in which the caller runs; 0 outside.
#[must_use]
pub fn number() -> usize {
    CURRENT.with_borrow(|current| current.as_ref().map_or(0, |current| Arc::as_ptr(&current.turn).addr()))
}

/// The virtual time after some more of it. None for a time that does not come, and outside of a simulation.
#[must_use]
pub fn later_ns(time: Duration) -> Option<u64> {
    simulation()?.now_ns().checked_add(u64::try_from(time.as_nanos()).ok()?)
}

/// Whether the caller is a thread that unwinds or is about to: its process is no more.
pub(super) fn is_gone() -> bool {
    let Some(current) = CURRENT.with_borrow(Clone::clone) else { return false };
    current.thread.is_some_and(|thread| current.turn.lock().threads[thread].doomed || thread::panicking())
}

/// The node on which the calling thread runs; none outside, and in an event. Also while the thread unwinds.
pub(super) fn node() -> Option<u32> {
    let current = CURRENT.with_borrow(Clone::clone)?;
    let node = current.turn.lock().threads[current.thread?].node;
    Some(node)
}

/// The simulation in which the caller runs, as a thread or as an event.
#[must_use]
pub fn simulation() -> Option<Arc<Turn>> {
    CURRENT.with_borrow(|current| current.as_ref().map(|current| Arc::clone(&current.turn)))
}

/// Blocks the calling thread until the condition is notified or the virtual time has come; `what` is told when the wait is a
/// deadlock. None when the caller cannot wait: it is no simulated thread, or it unwinds.
pub fn block(what: &'static str, condition: Option<Condition>, until_ns: Option<u64>) -> Option<Woken> {
    let (turn, thread) = current()?;
    turn.lock().block(thread, condition, until_ns, what);
    turn.switch(thread);
    let woken = turn.lock().threads[thread].woken;
    Some(woken)
}

/// Blocks the calling thread, which unwinds, until the condition is notified. False when all threads that unwind wait so.
pub(super) fn block_unwinding(what: &'static str, condition: Condition) -> bool {
    let Some(Current { turn, thread: Some(thread) }) = CURRENT.with_borrow(Clone::clone) else { return false };
    let mut state = turn.lock();
    state.block(thread, Some(condition), None, what);
    state.threads[thread].waits_unwinding = true;
    drop(state);
    turn.pass(Some(thread));
    turn.lock().threads[thread].woken == Woken::Notified
}

/// Starts a thread of the node on which the caller runs.
///
/// # Panics
/// When the caller is an event, which runs on no node.
pub fn spawn<T: Send + 'static>(name: &str, body: impl FnOnce() -> T + Send + 'static) -> SimThread<T> {
    let (turn, node) = simulation().zip(node()).expect("an event starts threads of a node by its world");
    turn.spawn(name, node, body)
}

/// Sleeps for some virtual time; at once when the caller is no simulated thread.
pub fn sleep(time_ns: u64) {
    if let Some((turn, _)) = current() {
        let until_ns = turn.now_ns().saturating_add(time_ns);
        block("sleeps", None, Some(until_ns));
    }
}

/// Lets another thread run, if the schedule says so. Nothing when the caller is no simulated thread.
pub fn point(point: Point) {
    let Some((turn, thread)) = current() else { return };
    let mut state = turn.lock();
    if state.threads[thread].doomed {
        drop(state);
        resume_unwind(Box::new(Crashed));
    }
    if let Some(stall_ns) = state.stalls() {
        let until_ns = state.now_ns + stall_ns;
        *state.trace.counts.points.entry(STALLED).or_default() += 1;
        drop(state);
        block(STALLED, None, Some(until_ns));
        return;
    }
    let is_by_priority = matches!(state.schedule.policy, Policy::Pct { .. });
    if is_by_priority {
        state.priorities.step(thread);
    }
    let (what, passes) = match point {
        Point::Yield => {
            state.holder.gives_way = Some(thread);
            ("yields", true)
        }
        Point::Inner(name) => {
            *state.trace.counts.points.entry(name).or_default() += 1;
            let is_overdue = state.spend(thread);
            let per_million = state.schedule.inner_per_million;
            (name, is_overdue || is_by_priority || state.choices.hits(Subsystem::Schedule, per_million))
        }
    };
    if is_by_priority && state.holder.gives_way == Some(thread) {
        state.priorities.fall_behind(thread);
    }
    if passes {
        state.note(Some(thread), what, [0, 0]);
        drop(state);
        turn.switch(thread);
    }
}

/// A point of the product. The simulation's own, of locks and clocks, are none of these: a thread that holds a mutex may lock
/// another one or look at the clock.
fn inner_point(name: &'static str) {
    super::sync::held::check(name);
    point(Point::Inner(name));
}

/// Has [`Turn::trace_words`] tell all events from now on, and not the last ones alone.
pub fn keep_all_events(turn: &Turn) {
    turn.lock().trace.kept = usize::MAX;
}

/// What became of the requests of clients, in its order, and as far as it was not taken before.
#[must_use]
pub fn take_witnessed(turn: &Turn) -> Vec<Witnessed> {
    std::mem::take(&mut turn.lock().trace.witnessed)
}

/// Something has happened in a simulated thread.
fn happens(what: &'static str) {
    if let Some((turn, thread)) = current() {
        let mut state = turn.lock();
        *state.trace.counts.happened.entry(what).or_default() += 1;
        state.note(Some(thread), what, [0, 0]);
    }
}

/// This has become of a request. Time goes on by the least there is, so that no two of these are of one moment.
fn witness(what: Witness, client: u64) {
    if let Some((turn, thread)) = current() {
        let mut state = turn.lock();
        state.now_ns += 1;
        let (now_ns, node) = (state.now_ns, state.threads[thread].node);
        state.trace.witnessed.push(Witnessed { now_ns, node, client, what });
    }
}

/// Whether the simulation in which the caller runs leaves a step out.
fn leaves_out(mutant: Mutant) -> bool {
    simulation().is_some_and(|turn| turn.lock().left_out.contains(&mutant))
}

/// Gives other threads the time in which a missing step does harm. False when the caller is not simulated.
fn pause(time_ns: u64) -> bool {
    sleep(time_ns);
    place() == Place::Thread
}

/// What a panic says.
fn message(payload: &(dyn Any + Send)) -> String {
    let text = payload.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| payload.downcast_ref::<String>().cloned()).unwrap_or_else(|| "a panic without words".to_owned())
}

#[cfg(test)]
mod tests;
