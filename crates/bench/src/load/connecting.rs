//! Connecting: a connection, its handshake where TLS is spoken, one PING, and its end by a reset, so that no port stays in use.
//!
//! Each thread has one connection at a time and waits for it; what a server pays does not depend on how the client waits.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;

use super::run::{LATENCY_NS_MAX, Measurement, Progress, thread_cpu};
use crate::control::Target;
use crate::reply::Tally;
use crate::system::{affinity, process};

/// What is measured.
#[derive(Debug, Clone)]
pub struct Connecting {
    /// The server.
    pub target: Target,
    /// Connections at a time, each of a thread.
    pub connections: usize,
    /// Length of the measurement.
    pub time: Duration,
    /// Cores of the threads.
    pub cores: Vec<usize>,
    /// Each connection but a thread's first resumes a session.
    pub resume: bool,
    /// The server's process, if it runs here.
    pub server_pid: Option<u32>,
}

/// What the threads share.
struct Shared {
    begins: AtomicBool,
    ends: AtomicBool,
    connected: AtomicU64,
}

impl Connecting {
    /// What is measured, in tables.
    pub fn name(&self) -> &'static str {
        match (&self.target.tls, self.resume) {
            (None, _) => "connection",
            (Some(_), false) => "full handshake",
            (Some(_), true) => "resumed handshake",
        }
    }

    /// Measures. An operation is a connection.
    pub fn run(&self, progress: &mut dyn FnMut(Progress)) -> Result<Measurement, String> {
        let shared = Shared { begins: AtomicBool::new(false), ends: AtomicBool::new(false), connected: AtomicU64::new(0) };
        std::thread::scope(|scope| {
            let threads: Vec<_> = (0..self.connections)
                .map(|index| {
                    let shared = &shared;
                    scope.spawn(move || {
                        let result = self.connect_all(shared, index);
                        shared.ends.fetch_or(result.is_err(), Ordering::Release);
                        result
                    })
                })
                .collect();
            let measured = self.watch(&shared, progress);
            let join = |thread: std::thread::ScopedJoinHandle<'_, Result<Connected, String>>| {
                thread.join().map_err(|_| "a thread panicked; this is a bug of the benchmark".to_owned())?
            };
            let connected = threads.into_iter().map(join).collect::<Result<Vec<_>, String>>()?;
            let mut measurement = measured?;
            for thread in connected {
                measurement.latency.add(&thread.latency).map_err(|error| error.to_string())?;
                measurement.client_cpu += thread.cpu;
                measurement.client_cpu_max = measurement.client_cpu_max.max(thread.cpu);
                measurement.answered.push(thread.latency.len());
            }
            measurement.tally.replies = measurement.operations;
            Ok(measurement)
        })
    }

    /// Lets the threads work for the time, after as long as it takes each to connect once.
    fn watch(&self, shared: &Shared, progress: &mut dyn FnMut(Progress)) -> Result<Measurement, String> {
        let (nap, is_over) = (Duration::from_millis(10), || shared.ends.load(Ordering::Acquire));
        while shared.connected.load(Ordering::Acquire) < self.connections as u64 && !is_over() {
            std::thread::sleep(nap);
        }
        let machine_before = self.server_pid.and_then(|_| process::machine_cpu_seconds());
        let cpu_before = self.server_pid.and_then(process::cpu_seconds);
        let (start, before) = (Instant::now(), shared.connected.load(Ordering::Acquire));
        shared.begins.store(true, Ordering::Release);
        let mut last = (start, before);
        while start.elapsed() < self.time && !is_over() {
            std::thread::sleep(nap);
            if last.0.elapsed() > Duration::from_millis(200) {
                let (now, connected) = (Instant::now(), shared.connected.load(Ordering::Relaxed));
                let rate = (connected - last.1) as f64 / now.duration_since(last.0).as_secs_f64();
                progress(Progress { share: start.elapsed().as_secs_f64() / self.time.as_secs_f64(), rate });
                last = (now, connected);
            }
        }
        let operations = shared.connected.load(Ordering::Acquire) - before;
        let seconds = start.elapsed().as_secs_f64();
        let server_cpu = cpu_before.and_then(|before| Some(process::cpu_seconds(self.server_pid?)? - before));
        let machine_cpu = machine_before.and_then(|before| Some(process::machine_cpu_seconds()? - before));
        shared.ends.store(true, Ordering::Release);
        Ok(Measurement {
            seconds,
            operations,
            tally: Tally::default(),
            latency: histogram()?,
            lateness: histogram()?,
            stall_ns: 0,
            unanswered: 0,
            client_cpu_max: 0.0,
            client_cpu: 0.0,
            server_cpu,
            machine_cpu,
            added: 0,
            answered: Vec::new(),
        })
    }

    /// One thread's connections, one after the other; the first is not measured.
    fn connect_all(&self, shared: &Shared, index: usize) -> Result<Connected, String> {
        if let Some(&core) = self.cores.get(index % self.cores.len().max(1)) {
            affinity::pin_this_thread(&[core])?;
        }
        let tls = self.target.tls.as_ref().map(|connector| connector.apart(self.resume));
        let target = Target { tls, ..self.target.clone() };
        self.connect(&target, false)?;
        shared.connected.fetch_add(1, Ordering::Release);
        let mut latency = histogram()?;
        while !shared.begins.load(Ordering::Acquire) && !shared.ends.load(Ordering::Acquire) {
            std::thread::sleep(Duration::from_millis(1));
        }
        let cpu = thread_cpu();
        while !shared.ends.load(Ordering::Acquire) {
            let begin = Instant::now();
            self.connect(&target, self.resume)?;
            latency.saturating_record((begin.elapsed().as_nanos() as u64).max(1));
            shared.connected.fetch_add(1, Ordering::Release);
        }
        Ok(Connected { latency, cpu: thread_cpu() - cpu })
    }

    /// One connection. Tickets come before the reply.
    fn connect(&self, target: &Target, resumes: bool) -> Result<(), String> {
        let mut control = target.control()?;
        control.ask(&["PING"])?;
        if control.link().is_resumed() != (resumes && target.tls.is_some()) {
            let text = "resumes no sessions (tls-session-caching?): measure full handshakes, without --resume";
            return Err(format!("{} {text}", target.address));
        }
        control.link().reset_on_close().map_err(|error| format!("a connection cannot be reset: {error}"))
    }
}

/// What one thread has measured.
struct Connected {
    latency: Histogram<u64>,
    cpu: f64,
}

fn histogram() -> Result<Histogram<u64>, String> {
    Histogram::new_with_bounds(1, LATENCY_NS_MAX, 3).map_err(|error| error.to_string())
}
