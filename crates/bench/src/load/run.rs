//! One measured run: start the threads, watch the phases, add up.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use rustix::event::epoll;
use rustix::time::{ClockId, clock_gettime};

use super::connection::Connection;
use super::filler::{Filler, Filling};
use super::{closed, open};
use crate::control::Target;
use crate::generate::pool::{Plan, Pool};
use crate::link::Buffers;
use crate::reply::{Counter, Tally};
use crate::system::{affinity, process};
use crate::workload::Workload;

/// Phases of a run, in order.
pub(super) const WARM_UP: u8 = 0;
pub(super) const MEASURE: u8 = 1;
pub(super) const STOP: u8 = 2;

/// The filler's number among the poller's events.
pub(super) const FILLER: u64 = u64::MAX;

/// Size of the one receive buffer of a thread.
const RECEIVE_BYTES: usize = 256 << 10;
/// A run ends when this many replies of a thread have all been errors: it would measure how fast a server refuses.
const HOPELESS: u64 = 1000;
/// Latencies are recorded up to this many nanoseconds, with three significant digits.
pub(super) const LATENCY_NS_MAX: u64 = 600_000_000_000;

/// When requests are due in open load.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arrivals {
    /// At equal distances.
    Even,
    /// As a Poisson process.
    Poisson,
}

/// What decides when a request is sent.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Pace {
    /// The previous reply; this many batches are kept in flight per connection.
    Closed {
        /// Batches in flight.
        in_flight: usize,
        /// Poll instead of sleeping, so that the server never pays for waking the client.
        spin: bool,
    },
    /// The clock.
    Open {
        /// Commands per second over all threads.
        rate: f64,
        /// Their spacing.
        arrivals: Arrivals,
        /// Never sleep: exact send times for a whole core.
        spin: bool,
    },
}

/// Everything a run needs.
#[derive(Debug, Clone)]
pub struct Load {
    /// The server.
    pub target: Target,
    /// What is sent.
    pub workload: Arc<Workload>,
    /// Connections over all threads.
    pub connections: usize,
    /// Threads.
    pub threads: usize,
    /// Commands per batch.
    pub pipeline: usize,
    /// Closed or open.
    pub pace: Pace,
    /// Length of the measurement.
    pub time: Duration,
    /// Commands to measure instead of a time; the time is then an upper bound.
    pub operations: Option<u64>,
    /// Load before the measurement.
    pub warm_up: Duration,
    /// Cores the threads are pinned to, in turn; none: not pinned.
    pub cores: Vec<usize>,
    /// Check every reply.
    pub verify: bool,
    /// Seed of all choices.
    pub seed: u64,
    /// Size of the request pool per thread.
    pub pool_bytes: usize,
    /// Always rewrite keys.
    pub fresh: bool,
    /// The server's process, if it runs here.
    pub server_pid: Option<u32>,
    /// Keys that are added meanwhile; open load only.
    pub filling: Option<Filling>,
}

impl Load {
    /// Defaults for a server and a workload: 50 connections, one thread, no pipelining, 5 s.
    pub fn new(target: Target, workload: Arc<Workload>) -> Self {
        Self {
            target,
            workload,
            connections: 50,
            threads: 1,
            pipeline: 1,
            pace: Pace::Closed { in_flight: 1, spin: false },
            time: Duration::from_secs(5),
            operations: None,
            warm_up: Duration::from_millis(500),
            cores: Vec::new(),
            verify: false,
            seed: 1,
            pool_bytes: 64 << 20,
            fresh: false,
            server_pid: None,
            filling: None,
        }
    }
}

/// What is known while a run goes on.
#[derive(Debug, Clone, Copy)]
pub struct Progress {
    /// Share of the run that is over, 0 to 1.
    pub share: f64,
    /// Commands answered per second since the last report.
    pub rate: f64,
}

/// What a run measured.
#[derive(Debug, Clone)]
pub struct Measurement {
    /// Length of the measurement in seconds.
    pub seconds: f64,
    /// Commands answered in it.
    pub operations: u64,
    /// Replies, errors and nulls, warm-up included.
    pub tally: Tally,
    /// Latency per command in nanoseconds: from the send (closed) or the due time (open) to the reply.
    pub latency: Histogram<u64>,
    /// How late requests were sent, in nanoseconds: the client's own share of the latency in open load.
    pub lateness: Histogram<u64>,
    /// Longest time that the load generator waited for any reply while requests were under way, in nanoseconds. Time in which it
    /// did not wait, because it was busy or was not running, does not count: the replies may have been there.
    pub stall_ns: u64,
    /// Commands that were never answered.
    pub unanswered: u64,
    /// CPU seconds of the busiest client thread.
    pub client_cpu_max: f64,
    /// CPU seconds of all client threads.
    pub client_cpu: f64,
    /// CPU seconds of the server process.
    pub server_cpu: Option<f64>,
    /// CPU seconds of everything on this machine, where the server is on it.
    pub machine_cpu: Option<f64>,
    /// Keys that were added meanwhile.
    pub added: u64,
    /// Commands answered per connection: was one starved?
    pub answered: Vec<u64>,
}

impl Measurement {
    /// Commands per second; `None` when none was answered: that is no measurement of zero.
    pub fn throughput(&self) -> Option<f64> {
        (self.operations > 0).then(|| self.operations as f64 / self.seconds)
    }

    /// Server CPU time per command in microseconds; `None` when it is not known, or below what the kernel counts well.
    pub fn server_cpu_us(&self) -> Option<f64> {
        let cpu = self.server_cpu.filter(|cpu| *cpu >= process::CPU_SECONDS_MIN && self.operations > 0)?;
        Some(cpu * 1e6 / self.operations as f64)
    }

    /// Client CPU time per command in microseconds.
    pub fn client_cpu_us(&self) -> Option<f64> {
        (self.operations > 0).then(|| self.client_cpu * 1e6 / self.operations as f64)
    }

    /// Latency in microseconds at a quantile; `None` when no command was answered.
    pub fn latency_us(&self, quantile: f64) -> Option<f64> {
        (!self.latency.is_empty()).then(|| self.latency.value_at_quantile(quantile) as f64 / 1e3)
    }

    /// Cores that programs other than the server and this one used meanwhile.
    pub fn foreign_cores(&self) -> Option<f64> {
        let foreign = self.machine_cpu? - self.server_cpu? - self.client_cpu;
        Some(foreign.max(0.0) / self.seconds)
    }

    /// The slowest connection's commands as a share of the mean connection's.
    pub fn slowest_share(&self) -> f64 {
        let mean = self.answered.iter().sum::<u64>() as f64 / self.answered.len().max(1) as f64;
        self.answered.iter().min().map_or(0.0, |&least| least as f64 / mean.max(1.0))
    }

    /// Whether the client rather than the server set the pace of a closed run.
    pub fn client_limited(&self) -> bool {
        let client = self.client_cpu_max / self.seconds;
        let server = self.server_cpu.map_or(0.0, |cpu| cpu / self.seconds);
        client > 0.97 && server < 0.9
    }
}

/// A counter on cache lines of its own.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Counted(AtomicU64);

/// What the threads and the main thread share.
#[derive(Debug)]
pub(super) struct Shared {
    phase: AtomicU8,
    counted: Vec<Counted>,
    failed: AtomicBool,
}

impl Shared {
    pub(super) fn phase(&self) -> u8 {
        self.phase.load(Ordering::Acquire)
    }

    fn answered(&self) -> u64 {
        self.counted.iter().map(|counted| counted.0.load(Ordering::Relaxed)).sum()
    }
}

/// One load thread's belongings.
pub(super) struct Thread<'r> {
    pub(super) load: &'r Load,
    pub(super) shared: &'r Shared,
    pub(super) index: usize,
    pub(super) pool: Pool,
    pub(super) connections: Vec<Connection>,
    pub(super) poll: OwnedFd,
    /// On the first thread of an open load with a filling.
    pub(super) filler: Option<Filler>,
    pub(super) buffers: Buffers,
    pub(super) epoch: Instant,
    pub(super) report: Report,
    /// Commands this thread may still start in the measured phase.
    pub(super) quota: u64,
    last_reply_ns: u64,
    /// When it began to wait for events.
    waiting_since_ns: u64,
    had_events: bool,
}

/// What one thread measured.
#[derive(Debug)]
pub(super) struct Report {
    pub(super) tally: Tally,
    pub(super) latency: Histogram<u64>,
    pub(super) lateness: Histogram<u64>,
    pub(super) stall_ns: u64,
    pub(super) unanswered: u64,
    pub(super) added: u64,
    pub(super) connections: Vec<u64>,
    cpu_start: f64,
    cpu: f64,
    answered: u64,
}

impl Report {
    fn new() -> Result<Self, String> {
        let histogram = || Histogram::new_with_bounds(1, LATENCY_NS_MAX, 3).map_err(|e| e.to_string());
        Ok(Self {
            tally: Tally::default(),
            latency: histogram()?,
            lateness: histogram()?,
            stall_ns: 0,
            unanswered: 0,
            added: 0,
            connections: Vec::new(),
            cpu_start: 0.0,
            cpu: 0.0,
            answered: 0,
        })
    }
}

impl Thread<'_> {
    /// Nanoseconds since the run's epoch.
    pub(super) fn now_ns(&self) -> u64 {
        self.epoch.elapsed().as_nanos() as u64
    }

    /// Forgets what the warm-up measured.
    pub(super) fn begin_measurement(&mut self) {
        self.report.latency.reset();
        self.report.lateness.reset();
        self.report.stall_ns = 0;
        self.last_reply_ns = self.now_ns();
        self.connections.iter_mut().for_each(Connection::begin);
        self.report.cpu_start = thread_cpu();
    }

    /// Ends the measured CPU time; what follows is waiting for the last replies.
    pub(super) fn end_measurement(&mut self) {
        self.report.cpu = thread_cpu() - self.report.cpu_start;
        self.report.connections = self.connections.iter().map(Connection::answered).collect();
    }

    /// Receives on connection `index` and records latencies. Returns the time.
    pub(super) fn receive(&mut self, index: usize) -> Result<u64, String> {
        let Report { tally, latency, .. } = &mut self.report;
        let mut oldest = u64::MAX;
        let epoch = self.epoch;
        let mut now = 0;
        let replies = self.connections[index].receive(&mut self.buffers, tally, |start_ns, count| {
            if now == 0 {
                now = epoch.elapsed().as_nanos() as u64;
            }
            oldest = oldest.min(start_ns);
            latency.saturating_record_n(now.saturating_sub(start_ns).max(1), count);
        })?;
        if replies == 0 {
            return Ok(self.now_ns());
        }
        self.report.tally.check(HOPELESS)?;
        let stall_ns = &mut self.report.stall_ns;
        let since = oldest.max(self.last_reply_ns).max(self.waiting_since_ns);
        *stall_ns = (*stall_ns).max(now.saturating_sub(since));
        self.last_reply_ns = now;
        self.report.answered += replies;
        self.shared.counted[self.index].0.store(self.report.answered, Ordering::Relaxed);
        Ok(now)
    }

    /// Asks the poller for writability exactly while there is something unsent.
    pub(super) fn update_interest(&mut self, index: usize) -> Result<(), String> {
        let connection = &mut self.connections[index];
        let wanted = !connection.can_send();
        if wanted != connection.polls_write {
            connection.polls_write = wanted;
            let flags = if wanted { epoll::EventFlags::IN | epoll::EventFlags::OUT } else { epoll::EventFlags::IN };
            epoll::modify(&self.poll, connection.link(), epoll::EventData::new_u64(index as u64), flags)
                .map_err(|e| format!("epoll: {e}"))?;
        }
        Ok(())
    }

    /// Waits for events; see [`wait`].
    pub(super) fn wait(&mut self, events: &mut Vec<epoll::Event>, timeout: Duration) -> Result<(), String> {
        // A wait that ended without events goes on.
        if std::mem::take(&mut self.had_events) {
            self.waiting_since_ns = self.now_ns();
        }
        wait(&self.poll, events, Some(timeout))?;
        self.had_events = !events.is_empty();
        Ok(())
    }

    /// Waits up to two seconds for the replies that are still due; what is missing then counts with its age.
    pub(super) fn drain(&mut self, events: &mut Vec<epoll::Event>) -> Result<(), String> {
        let end = self.now_ns() + 2_000_000_000;
        while self.connections.iter().any(|c| c.in_flight() > 0) && self.now_ns() < end {
            self.wait(events, Duration::from_millis(20))?;
            for event in events.drain(..).filter(|event| event.data.u64() != FILLER) {
                let index = event.data.u64() as usize;
                if writable(event) {
                    self.connections[index].flush(&self.pool)?;
                    self.update_interest(index)?;
                }
                self.receive(index)?;
            }
        }
        let now = self.now_ns();
        for (start_ns, replies) in self.connections.iter().flat_map(Connection::unanswered) {
            self.report.latency.saturating_record_n(now.saturating_sub(start_ns).max(1), replies);
            self.report.unanswered += replies;
        }
        Ok(())
    }
}

/// Whether the socket of an event takes bytes again.
pub(super) fn writable(event: epoll::Event) -> bool {
    let flags = event.flags;
    flags.contains(epoll::EventFlags::OUT)
}

/// Waits for events; `None` waits without limit.
fn wait(poll: &OwnedFd, events: &mut Vec<epoll::Event>, timeout: Option<Duration>) -> Result<(), String> {
    let timeout = timeout.map(|t| rustix::time::Timespec { tv_sec: t.as_secs() as i64, tv_nsec: i64::from(t.subsec_nanos()) });
    events.clear();
    match epoll::wait(poll, rustix::buffer::spare_capacity(events), timeout.as_ref()) {
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
        Err(error) => Err(format!("epoll: {error}")),
    }
}

/// Runs the load and measures it. `progress` is called about five times a second.
pub fn run(load: &Load, progress: &mut dyn FnMut(Progress)) -> Result<Measurement, String> {
    if load.connections == 0 || load.threads == 0 || load.pipeline == 0 {
        return Err("a load needs a connection, a thread and a command per batch".into());
    }
    let threads = load.threads.min(load.connections);
    let load = &Load { threads, ..load.clone() };
    affinity::raise_descriptor_limit(load.connections as u64 + 64)?;
    let shared = Shared {
        phase: AtomicU8::new(WARM_UP),
        counted: (0..threads).map(|_| Counted::default()).collect(),
        failed: AtomicBool::new(false),
    };
    let ready = Barrier::new(threads + 1);
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads)
            .map(|index| {
                let (shared, ready) = (&shared, &ready);
                scope.spawn(move || {
                    let result = prepare(load, shared, index, ready).and_then(drive);
                    if result.is_err() {
                        shared.failed.store(true, Ordering::Release);
                    }
                    result
                })
            })
            .collect();
        ready.wait();
        let timing = conduct(load, &shared, &|| workers.iter().all(|w| w.is_finished()), progress);
        shared.phase.store(STOP, Ordering::Release);
        let mut reports = Vec::new();
        for worker in workers {
            reports.push(worker.join().map_err(|_| "a load thread panicked; this is a bug of the benchmark".to_owned())??);
        }
        add_up(timing, reports)
    })
}

struct Timing {
    seconds: f64,
    operations: u64,
    server_cpu: Option<f64>,
    machine_cpu: Option<f64>,
}

/// Moves the run through its phases while the threads work.
fn conduct(load: &Load, shared: &Shared, finished: &dyn Fn() -> bool, progress: &mut dyn FnMut(Progress)) -> Timing {
    let over = || shared.failed.load(Ordering::Acquire) || finished();
    let server_cpu = || load.server_pid.and_then(process::cpu_seconds);
    sleep_until(Instant::now() + load.warm_up, &over, &mut || {});
    let machine_before = load.server_pid.and_then(|_| process::machine_cpu_seconds());
    let cpu_before = server_cpu();
    let start = Instant::now();
    let answered_before = shared.answered();
    shared.phase.store(MEASURE, Ordering::Release);
    let mut last = (start, answered_before);
    sleep_until(start + load.time, &over, &mut || {
        let (now, answered) = (Instant::now(), shared.answered());
        let rate = (answered - last.1) as f64 / now.duration_since(last.0).as_secs_f64();
        let by_time = start.elapsed().as_secs_f64() / load.time.as_secs_f64();
        let share = load.operations.map_or(by_time, |n| (answered - answered_before) as f64 / n.max(1) as f64);
        progress(Progress { share, rate });
        last = (now, answered);
    });
    let operations = shared.answered() - answered_before;
    let seconds = start.elapsed().as_secs_f64();
    let server_cpu = cpu_before.and_then(|before| Some(server_cpu()? - before));
    let machine_cpu = machine_before.and_then(|before| Some(process::machine_cpu_seconds()? - before));
    Timing { seconds, operations, server_cpu, machine_cpu }
}

/// Sleeps until `end` or until `over`, with a report about every 200 ms.
fn sleep_until(end: Instant, over: &dyn Fn() -> bool, report: &mut dyn FnMut()) {
    let mut naps = 0;
    while !over() {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return;
        }
        // Short naps only matter to runs that end by count.
        std::thread::sleep(left.min(Duration::from_millis(10)));
        naps += 1;
        if naps % 20 == 0 {
            report();
        }
    }
}

fn prepare<'r>(load: &'r Load, shared: &'r Shared, index: usize, ready: &Barrier) -> Result<Thread<'r>, String> {
    // The barrier is reached on every path, or the others would wait for ever.
    let thread = prepare_thread(load, shared, index);
    ready.wait();
    thread
}

fn prepare_thread<'r>(load: &'r Load, shared: &'r Shared, index: usize) -> Result<Thread<'r>, String> {
    if let Some(&core) = load.cores.get(index % load.cores.len().max(1)) {
        affinity::pin_this_thread(&[core])?;
    }
    let (rules, text) = (load.workload.rules(), load.workload.text());
    let plan = Plan {
        pipeline: load.pipeline,
        bytes_max: load.pool_bytes,
        fresh: load.fresh,
        operations: load.verify,
        seed: load.seed,
        thread: index,
        threads: load.threads,
    };
    let pool = Pool::new(&load.workload, plan);
    let poll = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(|e| format!("epoll: {e}"))?;
    let share = |total: u64| total / load.threads as u64 + u64::from((index as u64) < total % load.threads as u64);
    let mut connections = Vec::new();
    for number in 0..share(load.connections as u64) {
        let link = load.target.link()?;
        epoll::add(&poll, &link, epoll::EventData::new_u64(number), epoll::EventFlags::IN).map_err(|e| format!("epoll: {e}"))?;
        let counter = if load.verify { Counter::verify(rules.clone(), text.clone()) } else { Counter::default() };
        connections.push(Connection::new(link, counter));
    }
    let filler = match &load.filling {
        Some(filling) if index == 0 => Some(Filler::new(filling.clone(), &load.target)?),
        _ => None,
    };
    if let Some(filler) = &filler {
        epoll::add(&poll, filler.link(), epoll::EventData::new_u64(FILLER), epoll::EventFlags::IN)
            .map_err(|e| format!("epoll: {e}"))?;
    }
    Ok(Thread {
        load,
        shared,
        index,
        pool,
        connections,
        poll,
        filler,
        buffers: Buffers::new(RECEIVE_BYTES),
        epoch: Instant::now(),
        report: Report::new()?,
        quota: load.operations.map_or(u64::MAX, share),
        last_reply_ns: 0,
        waiting_since_ns: 0,
        had_events: true,
    })
}

fn drive(thread: Thread<'_>) -> Result<Report, String> {
    match thread.load.pace {
        Pace::Closed { in_flight, spin } => closed::drive(thread, in_flight.max(1), spin),
        Pace::Open { rate, arrivals, spin } => open::drive(thread, rate, arrivals, spin),
    }
}

fn add_up(timing: Timing, reports: Vec<Report>) -> Result<Measurement, String> {
    let mut total = Report::new()?;
    let (mut client_cpu, mut client_cpu_max) = (0.0, 0.0f64);
    for report in reports {
        total.tally.add(&report.tally);
        total.latency.add(&report.latency).map_err(|e| e.to_string())?;
        total.lateness.add(&report.lateness).map_err(|e| e.to_string())?;
        total.stall_ns = total.stall_ns.max(report.stall_ns);
        total.unanswered += report.unanswered;
        total.added += report.added;
        total.connections.extend(report.connections);
        client_cpu += report.cpu;
        client_cpu_max = client_cpu_max.max(report.cpu);
    }
    total.tally.check(1)?;
    Ok(Measurement {
        seconds: timing.seconds,
        operations: timing.operations,
        tally: total.tally,
        latency: total.latency,
        lateness: total.lateness,
        stall_ns: total.stall_ns,
        unanswered: total.unanswered,
        client_cpu_max,
        client_cpu,
        server_cpu: timing.server_cpu,
        machine_cpu: timing.machine_cpu,
        added: total.added,
        answered: total.connections,
    })
}

/// CPU seconds of this thread.
pub(super) fn thread_cpu() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}
