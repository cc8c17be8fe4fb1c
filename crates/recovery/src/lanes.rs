//! Lanes: threads that put keys into a keyspace, each those of its part of all hashes, in the order in which they come. One thread
//! reads a file, says which key belongs where, and is ahead of them by a bounded number of jobs.
//!
//! What is done to one key stays in one lane, so it is done in its order; what is done to different keys commutes. With one lane
//! there is no further thread.

use std::collections::VecDeque;
use std::sync::{Arc, PoisonError};

use almandine_io::sync::{Condvar, Mutex, MutexGuard};
use almandine_io::thread;
use almandine_keyspace::Accessor;

/// Jobs that wait for a lane, at most.
const QUEUE_MAX: usize = 4;
/// More lanes than this are not fed by one reader.
pub const LANES_MAX: usize = 8;

/// What a lane does with what comes to it.
pub(crate) trait Lane: Send + 'static {
    /// What comes.
    type Job: Send + 'static;
    /// Why it cannot be done.
    type Fault: Send + 'static;

    /// Does a job; outside of a batch.
    ///
    /// # Errors
    /// When it cannot be done: nothing more is done then by any lane.
    fn run(&mut self, accessor: &mut Accessor, job: Self::Job) -> Result<(), Self::Fault>;
}

/// See the module.
pub(crate) struct Lanes<'a, L: Lane> {
    /// Of the thread that feeds them.
    accessor: &'a mut Accessor,
    /// The only lane.
    own: Option<L>,
    threads: Vec<(Arc<Queue<L>>, thread::JoinHandle<L>)>,
    fault: Arc<Mutex<Option<L::Fault>>>,
}

/// What waits for a lane.
struct Queue<L: Lane> {
    state: Mutex<State<L::Job>>,
    changed: Condvar,
}

struct State<J> {
    jobs: VecDeque<J>,
    /// A job is being done.
    runs: bool,
    /// Nothing more comes.
    ended: bool,
    /// The thread is gone, or about to go.
    gone: bool,
}

impl<J> State<J> {
    fn is_idle(&self) -> bool {
        self.gone || (self.jobs.is_empty() && !self.runs)
    }
}

impl<'a, L: Lane> Lanes<'a, L> {
    /// Starts up to `count` lanes, as far as the store and the system have threads for them; at least one.
    #[must_use]
    pub(crate) fn start(accessor: &'a mut Accessor, count: usize, lane: impl Fn() -> L) -> Self {
        let fault = Arc::default();
        let mut threads = Vec::new();
        if count > 1 {
            for _ in 0..count.min(LANES_MAX) {
                let Some(own) = accessor.keyspace().accessor() else { break };
                let state = State { jobs: VecDeque::new(), runs: false, ended: false, gone: false };
                let queue = Arc::new(Queue { state: Mutex::new(state), changed: Condvar::new() });
                let (of_thread, faults, lane) = (Arc::clone(&queue), Arc::clone(&fault), lane());
                let body = move || follow(&of_thread, &faults, lane, own);
                let Ok(thread) = thread::spawn("recovery", body) else { break };
                threads.push((queue, thread));
            }
        }
        let own = threads.is_empty().then(lane);
        Self { accessor, own, threads, fault }
    }

    /// The feeding thread's own access.
    pub(crate) fn accessor(&mut self) -> &mut Accessor {
        self.accessor
    }

    /// How many there are.
    #[must_use]
    pub(crate) fn count(&self) -> usize {
        self.threads.len().max(1)
    }

    /// The lane of keys with a hash.
    #[inline]
    #[must_use]
    pub(crate) fn of(&self, hash: u64) -> usize {
        // The upper bits: a walk, and so a base, is in the order of the lower ones.
        ((u128::from(hash) * self.count() as u128) >> 64) as usize
    }

    /// Gives a lane a job, once it has few enough of them.
    ///
    /// # Errors
    /// When something given before could not be done.
    pub(crate) fn send(&mut self, lane: usize, job: L::Job) -> Result<(), L::Fault> {
        if let Some(own) = &mut self.own {
            return own.run(self.accessor, job);
        }
        let Some((queue, _)) = self.threads.get(lane) else { return Ok(()) };
        let mut state = queue.wait(|state| !state.gone && state.jobs.len() >= QUEUE_MAX);
        state.jobs.push_back(job);
        queue.changed.notify_all();
        drop(state);
        self.check()
    }

    /// Waits until all that was given is done.
    ///
    /// # Errors
    /// When something of it could not be done.
    pub(crate) fn settle(&mut self) -> Result<(), L::Fault> {
        self.threads.iter().for_each(|(queue, _)| drop(queue.wait(|state| !state.is_idle())));
        self.check()
    }

    /// Ends the lanes when all that was given is done.
    ///
    /// # Errors
    /// When something of it could not be done.
    pub(crate) fn end(mut self) -> Result<Vec<L>, L::Fault> {
        let mut lanes: Vec<L> = self.own.take().into_iter().collect();
        for (queue, thread) in self.close() {
            match thread.join() {
                Ok(lane) => lanes.push(lane),
                Err(panic) => {
                    drop(queue);
                    std::panic::resume_unwind(panic);
                }
            }
        }
        self.check()?;
        Ok(lanes)
    }

    /// Says that nothing more comes.
    fn close(&mut self) -> Vec<(Arc<Queue<L>>, thread::JoinHandle<L>)> {
        for (queue, _) in &self.threads {
            queue.state().ended = true;
            queue.changed.notify_all();
        }
        std::mem::take(&mut self.threads)
    }

    fn check(&self) -> Result<(), L::Fault> {
        let fault = self.fault.lock().unwrap_or_else(PoisonError::into_inner).take();
        fault.map_or(Ok(()), Err)
    }
}

impl<L: Lane> Drop for Lanes<'_, L> {
    fn drop(&mut self) {
        // What waits is given up.
        self.threads.iter().for_each(|(queue, _)| queue.state().jobs.clear());
        self.close().into_iter().for_each(|(_, thread)| drop(thread.join()));
    }
}

impl<L: Lane> Queue<L> {
    fn state(&self) -> MutexGuard<'_, State<L::Job>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait(&self, condition: impl Fn(&State<L::Job>) -> bool) -> MutexGuard<'_, State<L::Job>> {
        self.changed.wait_while(self.state(), |state| condition(state)).unwrap_or_else(PoisonError::into_inner)
    }
}

/// Says that a thread is gone, however it ends.
struct Gone<'q, L: Lane>(&'q Queue<L>);

impl<L: Lane> Drop for Gone<'_, L> {
    fn drop(&mut self) {
        let mut state = self.0.state();
        (state.runs, state.gone) = (false, true);
        self.0.changed.notify_all();
    }
}

/// The life of a lane's thread.
fn follow<L: Lane>(queue: &Queue<L>, fault: &Mutex<Option<L::Fault>>, mut lane: L, mut accessor: Accessor) -> L {
    let gone = Gone(queue);
    loop {
        let mut state = queue.wait(|state| state.jobs.is_empty() && !state.ended);
        let Some(job) = state.jobs.pop_front() else { break };
        state.runs = true;
        drop(state);
        queue.changed.notify_all();
        let done = lane.run(&mut accessor, job);
        if let Err(why) = done {
            *fault.lock().unwrap_or_else(PoisonError::into_inner) = Some(why);
            break;
        }
        queue.state().runs = false;
        queue.changed.notify_all();
    }
    drop(gone);
    lane
}

#[cfg(test)]
mod tests {
    use almandine_keyspace::{Keyspace, Options};

    use super::*;

    /// Notes what came; refuses a number.
    struct Noting(Vec<u64>);

    impl Lane for Noting {
        type Job = u64;
        type Fault = u64;

        fn run(&mut self, _accessor: &mut Accessor, job: u64) -> Result<(), u64> {
            self.0.push(job);
            if job == 13 { Err(job) } else { Ok(()) }
        }
    }

    fn accessor() -> Accessor {
        let store = almandine_store::Options { background: false, ..Default::default() };
        Keyspace::open(Options { store, ..Options::default() }).unwrap().accessor().unwrap()
    }

    #[test]
    fn each_lane_does_what_it_is_given_in_order() {
        for count in [1, 3] {
            let mut accessor = accessor();
            let mut lanes = Lanes::start(&mut accessor, count, || Noting(Vec::new()));
            assert_eq!(lanes.count(), count);
            for job in 100..200 {
                lanes.send(job as usize % count, job).unwrap();
            }
            lanes.settle().unwrap();
            let done = lanes.end().unwrap();
            assert_eq!(done.iter().map(|lane| lane.0.len()).sum::<usize>(), 100);
            assert!(done.iter().all(|lane| lane.0.is_sorted()));
        }
    }

    #[test]
    fn hashes_are_spread_and_a_fault_ends_all() {
        let mut accessor = accessor();
        let mut lanes = Lanes::start(&mut accessor, 4, || Noting(Vec::new()));
        let mut of = [0; 4];
        for hash in 0..4096u64 {
            of[lanes.of(hash.wrapping_mul(0x9E37_79B9_7F4A_7C15))] += 1;
        }
        assert!(of.iter().all(|&count| (900..1150).contains(&count)), "{of:?}");
        assert_eq!(lanes.send(2, 13).and_then(|()| lanes.settle()), Err(13));
    }
}
