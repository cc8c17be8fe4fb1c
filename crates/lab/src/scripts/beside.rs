//! Scripts that are called at a rate beside what is measured.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;

use super::load::Load;
use almandine_bench::control::{Reply, Target};

/// Connections that call, each from a thread of its own: with two workers, each has one.
const CONNECTIONS: usize = 2;
/// Queues or keys that are called for.
const KEYS: usize = 16;

/// Calls that go on until they are ended.
pub(crate) struct Beside {
    ends: Arc<AtomicBool>,
    callers: Vec<JoinHandle<Result<Histogram<u64>, String>>>,
}

impl Beside {
    /// Begins to call, at a rate per second, `together` at a time.
    pub(crate) fn begin(target: &Target, load: Load, rate: f64, together: usize) -> Result<Self, String> {
        let requests = Arc::new(load.prepare(target, KEYS, false)?);
        let ends = Arc::new(AtomicBool::new(false));
        let callers = (0..CONNECTIONS).map(|first| {
            let (target, requests, ends) = (target.clone(), Arc::clone(&requests), Arc::clone(&ends));
            let pace = (rate / CONNECTIONS as f64, together);
            std::thread::spawn(move || call(&target, &requests, first, pace, &ends))
        });
        Ok(Self { callers: callers.collect(), ends })
    }

    /// Ends the calls, and says how long each batch took, in nanoseconds.
    pub(crate) fn end(self) -> Result<Histogram<u64>, String> {
        self.ends.store(true, Relaxed);
        let mut all = histogram()?;
        for caller in self.callers {
            let took = caller.join().map_err(|_| "a caller has panicked")??;
            all.add(took).map_err(|error| error.to_string())?;
        }
        Ok(all)
    }
}

fn histogram() -> Result<Histogram<u64>, String> {
    Histogram::new_with_max(10_000_000_000, 3).map_err(|error| error.to_string())
}

fn call(
    target: &Target,
    requests: &[Vec<u8>],
    first: usize,
    (rate, together): (f64, usize),
    ends: &AtomicBool,
) -> Result<Histogram<u64>, String> {
    let mut control = target.control()?;
    let (begin, mut calls, mut took) = (Instant::now(), 0, histogram()?);
    while !ends.load(Relaxed) {
        let batch = (0..together).map(|number| &requests[(first + calls + number) % requests.len()]);
        let batch: Vec<u8> = batch.flatten().copied().collect();
        let sent = Instant::now();
        control.send_raw(&batch)?;
        for _ in 0..together {
            if let Reply::Error(error) = control.next_reply()? {
                return Err(format!("a call was answered with {error}"));
            }
        }
        took.saturating_record(sent.elapsed().as_nanos() as u64);
        calls += together;
        let due = begin + Duration::from_secs_f64(calls as f64 / rate);
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
    }
    Ok(took)
}
