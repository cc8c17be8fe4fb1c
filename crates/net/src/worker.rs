//! The worker's loop.
//!
//! One round: hand the outbox and the reads over and wait; take back what could not be sent; handle each event, a socket's or a
//! device's; read the mailbox; do a part of the work that waits for no event; do what is due; tick when it is time; let
//! connections run that were resumed by any of these.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use almandine_base::points::point;
use almandine_io::clock;
use almandine_io::reactor::{Event, Kind, Reactor};
use almandine_io::socket::{Address, Stream};
use almandine_io::storage::ReadDone;

use crate::connection::Life;
use crate::connection_table::ConnectionTable;
use crate::control::TableControl;
use crate::endpoints::{Endpoint, Endpoints, Known};
use crate::limits::Limits;
use crate::mailbox::{Accepted, Handle, Mail, Shared};
use crate::service::{Control, Peer, Service};

/// Time between ticks.
const TICK_MS: u64 = 100;
/// Messages per round, so that a flood of them does not starve the connections.
const MAIL_MAX: usize = 1024;
/// Finished reads that the service gets at once: enough to have their memory fetched before it is needed, and few enough that it is
/// still in the caches then.
const READS_DONE_MAX: usize = 16;
/// How long a peer of a closing connection may take no output.
const CLOSING_S: u64 = 60;
/// How long a handshake may take.
const HANDSHAKE_S: u64 = 10;
/// The time between ticks while a worker rests: nothing happens, and the service and all connections wait for events.
const REST_MS: u64 = 10_000;
/// Ticks without an event, and without a connection that is to be looked at again, before a worker rests.
const QUIET_TICKS: u32 = 2 * SWEEP_TICKS;
/// Ticks in which every connection is looked at once for timeouts.
const SWEEP_TICKS: u32 = 10;

/// What [`open`] needs.
pub struct Options {
    /// How many workers, at least one.
    pub workers: usize,
    /// How many of them take connections, see [`Handle::set_active`]: the others need not run.
    pub active: usize,
    /// From [`almandine_io::reactor::select`].
    pub reactor: Kind,
    /// Where to listen.
    pub endpoints: Vec<Arc<Endpoint>>,
    /// The holder of the other reference may change it later.
    pub limits: Arc<Limits>,
}

/// Prepares the workers; each is then moved to its thread and run there.
///
/// # Errors
/// When the process has no descriptors left.
pub fn open<M>(options: Options) -> io::Result<(Handle<M>, Vec<Worker<M>>)> {
    let workers = options.workers.max(1);
    let endpoints = Endpoints::new(options.endpoints, options.active.clamp(1, workers));
    let shared = Arc::new(Shared::new(workers, endpoints, options.limits)?);
    let worker = |index| Worker { index, kind: options.reactor, shared: Arc::clone(&shared) };
    let workers = (0..workers).map(worker).collect();
    Ok((Handle::new(shared), workers))
}

/// A worker that does not run yet.
pub struct Worker<M> {
    index: usize,
    kind: Kind,
    shared: Arc<Shared<M>>,
}

impl<M: Send + 'static> Worker<M> {
    /// Which worker it is, from zero.
    #[must_use]
    pub fn index(&self) -> usize {
        self.index
    }

    /// Makes the reactor of the worker, which is the calling thread's from then on.
    ///
    /// # Errors
    /// When the process has no descriptors or memory left.
    pub fn reactor(&self) -> io::Result<Reactor> {
        Reactor::new(self.kind, &self.shared.workers[self.index].wake)
    }

    /// [`Worker::run_on`] a reactor of its own.
    ///
    /// # Errors
    /// When the reactor cannot be made or fails.
    pub fn run<S: Service<Message = M>>(self, service: S) -> io::Result<S> {
        let reactor = self.reactor()?;
        self.run_on(reactor, service)
    }

    /// Serves until [`Handle::stop`], then closes all connections and returns the service. It hears no more of reads that are
    /// under way.
    ///
    /// # Errors
    /// When the reactor fails.
    pub fn run_on<S: Service<Message = M>>(self, reactor: Reactor, service: S) -> io::Result<S> {
        let shared = Arc::clone(&self.shared);
        let table = ConnectionTable::new(Arc::clone(&shared), self.index, reactor.outbox());
        let now_ms = now_ms();
        let mut run = Run {
            table,
            service,
            reactor,
            worker: self,
            endpoints: Known::default(),
            unavailable: Vec::new(),
            done: Vec::new(),
            now_ms,
            tick_ms: now_ms + TICK_MS,
            sweep: 0,
            quiet: 0,
            rests: false,
        };
        run.table.now_s = now_ms / 1000;
        shared.workers[run.worker.index].begin();
        point("a worker begins");
        run.follow_endpoints();
        while !shared.stopping.load(Ordering::Relaxed) {
            run.round(&shared)?;
        }
        run.reactor.stop_listening();
        run.table.close_all(&mut run.service, &mut run.reactor);
        // Those that have not ended die with the reactor.
        let in_flight = &run.table.counters().device_reads_in_flight;
        in_flight.replace(usize::try_from(in_flight.value()).unwrap_or(0), 0);
        Ok(run.service)
    }
}

/// A worker that runs.
struct Run<S: Service> {
    service: S,
    reactor: Reactor,
    table: ConnectionTable<S>,
    worker: Worker<S::Message>,
    endpoints: Known,
    /// Endpoints that do not accept because the process has no descriptors; tried again with each tick.
    unavailable: Vec<u32>,
    /// Finished reads on their way to the service.
    done: Vec<ReadDone>,
    now_ms: u64,
    tick_ms: u64,
    /// The next place to look at for timeouts.
    sweep: u32,
    /// Ticks since the last event.
    quiet: u32,
    /// The next tick is far.
    rests: bool,
}

impl<S: Service> Run<S> {
    fn round(&mut self, shared: &Shared<S::Message>) -> io::Result<()> {
        let own = &shared.workers[self.worker.index];
        self.service.idle();
        let mut wait_ms = self.tick_ms.saturating_sub(self.now_ms);
        if let Some(deadline_ms) = self.service.deadline_ms() {
            // The round may have taken long.
            wait_ms = wait_ms.min(deadline_ms.saturating_sub(now_ms()));
        }
        let may_wait = own.fall_asleep() && !self.service.has_work() && !self.table.handshakes.are_deferred();
        let timeout = if may_wait { Duration::from_millis(wait_ms) } else { Duration::ZERO };
        self.reactor.wait(timeout, &mut self.table.outbox)?;
        own.awake();
        own.counters.rounds.add(1);
        self.now_ms = now_ms();
        self.table.now_s = self.now_ms / 1000;
        if self.now_ms < self.tick_ms {
            self.quiet = 0;
        }
        if self.rests {
            self.end_rest();
        }
        self.take_unsent();
        self.table.begin_handshakes(&mut self.service, &mut self.reactor);
        self.take_events();
        self.take_mail(shared);
        if self.service.has_work() {
            self.work();
        }
        if self.service.deadline_ms().is_some_and(|deadline_ms| deadline_ms <= self.now_ms) {
            self.end_time();
        }
        if self.now_ms >= self.tick_ms {
            self.tick();
        }
        self.table.settle_listed(&mut self.service, &mut self.reactor);
        Ok(())
    }

    #[cold]
    fn work(&mut self) {
        self.with_control(S::work);
    }

    #[cold]
    fn end_time(&mut self) {
        let mut control = TableControl::new(&mut self.table);
        self.service.time_is_up(self.now_ms, &mut control);
        control.finish();
        self.table.start_reads(&mut self.service, &mut self.reactor);
    }

    fn take_unsent(&mut self) {
        while let Some(unsent) = self.table.outbox.take_unsent() {
            if let Some(mut connection) = self.table.slab.take(unsent.token) {
                self.table.unsent(&mut connection, unsent);
                self.table.settle(&mut self.service, &mut self.reactor, connection);
            }
        }
    }

    fn take_events(&mut self) {
        while let Some(event) = self.reactor.next() {
            let connection = match event {
                Event::Received { token, data } => {
                    let Some(mut connection) = self.table.slab.take(token) else { continue };
                    self.table.received(&mut self.service, &mut connection, data);
                    connection
                }
                Event::Writable { token } => {
                    let Some(mut connection) = self.table.slab.take(token) else { continue };
                    self.table.writable(&mut self.service, &mut connection);
                    connection
                }
                Event::Ended { token, end } => {
                    let Some(mut connection) = self.table.slab.take(token) else { continue };
                    self.table.ended(&mut connection, end);
                    connection
                }
                Event::Accepted { listener, descriptor } => {
                    if let Some(origin) = self.endpoints.origin(listener).map(Arc::clone) {
                        self.accepted(Accepted { descriptor, origin });
                    }
                    continue;
                }
                Event::AcceptFailed { listener } => {
                    self.table.counters().accepts_failed.add(1);
                    self.unavailable.push(listener);
                    continue;
                }
                Event::Read(done) => {
                    self.done.push(done);
                    if self.done.len() == READS_DONE_MAX {
                        self.hand_over_reads();
                    }
                    continue;
                }
            };
            self.table.settle(&mut self.service, &mut self.reactor, connection);
            if self.service.is_pressed() {
                self.work();
                self.table.settle_listed(&mut self.service, &mut self.reactor);
            }
        }
        if !self.done.is_empty() {
            self.hand_over_reads();
        }
    }

    fn hand_over_reads(&mut self) {
        let counters = self.table.counters();
        counters.device_reads_in_flight.subtract(self.done.len());
        counters.device_reads_failed.add(self.done.iter().filter(|done| done.result.is_err()).count());
        let mut control = TableControl::new(&mut self.table);
        self.service.reads_done(&mut self.done, &mut control);
        control.finish();
        self.done.clear();
        self.table.start_reads(&mut self.service, &mut self.reactor);
    }

    fn take_mail(&mut self, shared: &Shared<S::Message>) {
        for id in shared.workers[self.worker.index].take_missed() {
            let known = TableControl::new(&mut self.table).kill(id, false);
            self.table.counters().closed_by.output_limit.add(usize::from(known));
        }
        let mut messages = false;
        for _ in 0..MAIL_MAX {
            match shared.workers[self.worker.index].take() {
                None => break,
                Some(Mail::Connection(accepted)) => self.connect(accepted),
                Some(Mail::Waiting(accepted)) => self.accepted(accepted),
                Some(Mail::Endpoints) => self.follow_endpoints(),
                Some(Mail::Message(message) | Mail::Push(message, _)) => {
                    messages = true;
                    self.with_control(|service, control| service.message(message, control));
                }
            }
        }
        if messages {
            self.with_control(S::messages_end);
        }
    }

    /// Calls the service with its connections; what it has written is sent, and what it asks to be read is.
    fn with_control(&mut self, call: impl FnOnce(&mut S, &mut dyn Control<S::Connection>)) {
        let mut control = TableControl::new(&mut self.table);
        call(&mut self.service, &mut control);
        control.finish();
        self.table.start_reads(&mut self.service, &mut self.reactor);
    }

    /// Accepts from what there is to accept from now.
    fn follow_endpoints(&mut self) {
        let wanted = self.worker.shared.endpoints.of_worker(self.worker.index);
        let (left, begun) = self.endpoints.follow(wanted);
        for number in left {
            self.unavailable.retain(|&listener| listener != number);
            self.reactor.stop_listening_on(number);
        }
        begun.into_iter().for_each(|number| self.listen(number));
    }

    /// Accepts from an endpoint; if the system refuses, it is tried again with each tick.
    fn listen(&mut self, number: u32) {
        if let Some(listener) = self.endpoints.listener(number)
            && self.reactor.listen(number, listener).is_err()
        {
            self.table.counters().accepts_failed.add(1);
            self.unavailable.push(number);
        }
    }

    /// This worker accepted a connection: it goes to the worker that has the fewest.
    fn accepted(&mut self, accepted: Accepted) {
        match self.worker.shared.assign(self.worker.index) {
            Some(worker) if worker == self.worker.index => self.connect(accepted),
            Some(worker) => self.worker.shared.workers[worker].post(Mail::Connection(accepted)),
            None => {
                self.table.counters().rejected.add(1);
                let stream = Stream::new(accepted.descriptor);
                if accepted.origin.transport.is_none() {
                    let _ = stream.send(b"-ERR max number of clients reached\r\n");
                }
                stream.finish();
                // Input that is there already would turn the close into a reset, and the reply would be lost.
                let _ = stream.receive(&mut [0; 4096]);
            }
        }
    }

    /// A connection that was assigned to this worker begins.
    fn connect(&mut self, accepted: Accepted) {
        let stream = Stream::new(accepted.descriptor);
        let origin = accepted.origin;
        if let Address::Ip(_) = origin.address {
            stream.set_no_delay();
            let idle = self.worker.shared.limits.keepalive_s.load(Ordering::Relaxed);
            let _ = stream.set_keepalive(Duration::from_secs(idle));
        }
        let address = |ip: Option<_>| ip.map_or_else(|| origin.address.clone(), Address::Ip);
        let peer = Peer {
            names: Vec::new(),
            remote: address(stream.peer()),
            local: address(stream.local()),
            worker: self.worker.index,
            descriptor: stream.number(),
        };
        let id = self.worker.shared.next_id();
        let Some(mut connection) = self.table.connect(&mut self.reactor, stream, id) else {
            self.worker.shared.release(self.worker.index);
            return;
        };
        match &origin.transport {
            None => self.table.open_session(&mut self.service, &mut connection, &peer),
            Some(make) => {
                connection.coding.transport = make(&peer);
                if connection.coding.transport.is_none() {
                    connection.life = Life::Dead;
                }
                self.table.begin_handshake(&mut self.service, &mut self.reactor, &mut connection, peer);
            }
        }
        self.table.settle(&mut self.service, &mut self.reactor, connection);
    }

    /// What ticks keep fresh is old: that comes before the events.
    #[cold]
    fn end_rest(&mut self) {
        self.rests = false;
        self.service.set_rests(false);
        self.tick();
    }

    fn tick(&mut self) {
        self.tick_ms = self.now_ms + TICK_MS;
        self.quiet = if self.unavailable.is_empty() { self.quiet.saturating_add(1) } else { 0 };
        std::mem::take(&mut self.unavailable).into_iter().for_each(|number| self.listen(number));
        let now_ms = self.now_ms;
        self.with_control(|service, control| service.tick(now_ms, control));
        let places = self.table.slab.places();
        for _ in 0..places.div_ceil(SWEEP_TICKS) {
            self.sweep = if self.sweep + 1 < places { self.sweep + 1 } else { 0 };
            self.look_at(self.sweep);
        }
        if self.quiet >= QUIET_TICKS && self.service.may_rest() {
            (self.rests, self.tick_ms) = (true, self.now_ms + REST_MS);
            self.service.set_rests(true);
        }
    }

    /// Closes a connection that has timed out.
    fn look_at(&mut self, place: u32) {
        let now_s = self.table.now_s;
        let Some(connection) = self.table.slab.by_place(place) else { return };
        let timeout = self.worker.shared.limits.idle_timeout_s.load(Ordering::Relaxed);
        let is_opening = connection.coding.opening.is_some();
        if timeout > 0 || connection.life != Life::Open || connection.output.pending.is_some() || is_opening {
            self.quiet = 0;
        }
        let idle = timeout > 0
            && now_s.saturating_sub(connection.second) > timeout
            && connection.life == Life::Open
            && !connection.paused
            && connection.output.holds == 0
            && connection.session.as_ref().is_some_and(|session| !self.service.may_idle(session));
        let stalled = is_opening && now_s.saturating_sub(connection.second) > HANDSHAKE_S;
        let lingered = connection.life == Life::Lingering && now_s > connection.second;
        let stuck = connection.life == Life::Closing && now_s.saturating_sub(connection.second) > CLOSING_S;
        let limits = &self.worker.shared.limits;
        let choked = connection.is_choked(limits.unread_bytes_max())
            && now_s.saturating_sub(connection.output.taken_s) > limits.unread_s_max.load(Ordering::Relaxed);
        if !idle && !lingered && !stuck && !stalled && connection.output.pending.is_none() {
            return;
        }
        let token = connection.token;
        if let Some(mut connection) = self.table.slab.take(token) {
            if idle || lingered || stuck || stalled || choked {
                connection.life = Life::Dead;
                self.table.counters().closed_by.timeout.add(usize::from(idle));
                self.table.counters().closed_by.output_limit.add(usize::from(choked));
            }
            self.table.settle(&mut self.service, &mut self.reactor, connection);
        }
    }
}

fn now_ms() -> u64 {
    clock::monotonic_ns() / 1_000_000
}
