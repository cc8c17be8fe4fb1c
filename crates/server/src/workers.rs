//! The workers' threads: started at the start, and later ones when CONFIG SET asks for more.
//!
//! A worker does not end before the server does, for its connections cannot move. One that is not wanted any more takes no new
//! ones, and sleeps once it has none.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, PoisonError, Weak};

use almandine_base::limits::WORKERS_MAX;
use almandine_config::Settings;
use almandine_handler::Table;
use almandine_instance::{Instance, Message, ShutdownRequest};
use almandine_io::sync::{Mutex, MutexGuard, Receiver, Sender, channel};
use almandine_io::thread::{self, JoinHandle};
use almandine_net::{Handle, Worker};
use almandine_session::{Carrier, WorkerService};

type Seat = Worker<Message>;
type WorkerThread = JoinHandle<io::Result<()>>;

/// How many workers the settings ask for: `workers`; else `io-threads` where that is more than one; else one per core.
pub(crate) fn wanted(settings: &Settings) -> usize {
    let wanted = match (settings.engine.workers, settings.threads.io_threads) {
        (0, 0 | 1) => thread::processors(),
        (0, threads) => threads,
        (workers, _) => workers,
    };
    wanted.clamp(1, WORKERS_MAX)
}

/// How many there can be until a restart: what belongs to a worker is laid out at the start.
pub(crate) fn most(settings: &Settings) -> usize {
    wanted(settings).max(thread::processors()).min(WORKERS_MAX)
}

/// What every worker needs.
#[derive(Clone)]
struct Common {
    instance: Weak<Instance>,
    table: &'static Table,
    pin: bool,
    carrier: Arc<Carrier>,
}

/// The workers.
pub(crate) struct Workers {
    common: Common,
    network: Handle<Message>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Those without a thread.
    seats: VecDeque<Seat>,
    threads: Vec<WorkerThread>,
}

impl Workers {
    /// Workers of which none runs yet.
    pub(crate) fn new(
        seats: Vec<Seat>,
        network: Handle<Message>,
        instance: &Arc<Instance>,
        table: &'static Table,
        pin: bool,
    ) -> Self {
        let carrier = Arc::new(Carrier::new(instance, table));
        let common = Common { instance: Arc::downgrade(instance), table, pin, carrier };
        Self { common, network, state: Mutex::new(State { seats: seats.into(), threads: Vec::new() }) }
    }

    /// How many there can be.
    pub(crate) fn most(&self) -> usize {
        self.network.workers()
    }

    /// Starts workers until `wanted` run; a new worker takes no connections before [`Workers::activate`].
    ///
    /// # Errors
    /// When the system has no more threads or descriptors.
    pub(crate) fn start(&self, wanted: usize) -> io::Result<()> {
        let mut state = self.state();
        while state.threads.len() < wanted {
            let Some(seat) = state.seats.pop_front() else { return Err(io::Error::other("no worker is left")) };
            match start_worker(seat, self.common.clone()) {
                Ok(thread) => state.threads.push(thread),
                Err((seat, error)) => {
                    state.seats.push_front(seat);
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    /// Lets the first `active` workers take new connections. They run already.
    pub(crate) fn activate(&self, active: usize) {
        let running = self.state().threads.len();
        debug_assert!(active <= running);
        if let Some(instance) = self.common.instance.upgrade() {
            // Before they have connections, for what concerns all connections is told to those that run.
            instance.workers.set_running(running, active);
        }
        self.network.set_active(active);
    }

    /// Waits for all of them; the first failure is the outcome.
    pub(crate) fn join(&self) -> io::Result<()> {
        let threads = std::mem::take(&mut self.state().threads);
        let join_one = |thread: WorkerThread| thread.join().unwrap_or_else(|_| Err(io::Error::other("a worker panicked")));
        let outcomes: Vec<_> = threads.into_iter().map(join_one).collect();
        self.common.carrier.join();
        outcomes.into_iter().collect()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Starts a thread, and returns once it can serve; what it was given comes back if it cannot.
fn start_worker(seat: Seat, common: Common) -> Result<WorkerThread, (Seat, io::Error)> {
    let (give, given) = channel();
    let (report, reported) = channel();
    let thread = match thread::spawn(&format!("worker-{}", seat.index()), move || run(given, report, &common)) {
        Ok(thread) => thread,
        Err(error) => return Err((seat, error)),
    };
    // The thread waits for it.
    give.send(seat);
    match reported.receive() {
        Some(Some(failure)) => Err(failure),
        // A worker that panics ends the process.
        Some(None) | None => Ok(thread),
    }
}

/// A worker's thread: says whether it can serve, and serves.
fn run(given: Receiver<Seat>, report: Sender<Option<(Seat, io::Error)>>, common: &Common) -> io::Result<()> {
    let Some(seat) = given.receive() else { return Ok(()) };
    let worker = seat.index();
    if common.pin
        && let Err(error) = thread::pin_to(worker)
    {
        tracing::warn!("Worker {worker} is not pinned: {error}");
    }
    let Some(instance) = common.instance.upgrade() else { return Ok(()) };
    let accessor = instance.keyspace.accessor().ok_or_else(|| io::Error::other("the store has no session left for a worker"));
    let (reactor, accessor) = match seat.reactor().and_then(|reactor| Ok((reactor, accessor?))) {
        Ok(parts) => parts,
        Err(error) => {
            report.send(Some((seat, error)));
            return Ok(());
        }
    };
    report.send(None);
    let mut service = WorkerService::new(Arc::clone(&instance), common.table, accessor, worker);
    service.carry_by(Arc::clone(&common.carrier));
    let outcome = seat.run_on(reactor, service).map(drop);
    if let Err(error) = &outcome {
        tracing::error!("Worker {worker} failed: {error}");
        instance.shutdown.end(ShutdownRequest::default());
    }
    outcome
}
