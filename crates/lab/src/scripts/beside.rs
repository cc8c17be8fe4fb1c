//! Scripts that are called at a rate beside what is measured.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::load::Load;
use almandine_bench::control::{Reply, Target};

/// Connections that call, each from a thread of its own: with two workers, each has one.
const CONNECTIONS: usize = 2;
/// Calls that a connection sends together.
const TOGETHER: usize = 8;
/// Queues or keys that are called for.
const KEYS: usize = 16;

/// Calls that go on until they are ended.
pub(crate) struct Beside {
    ends: Arc<AtomicBool>,
    callers: Vec<JoinHandle<Result<u64, String>>>,
}

impl Beside {
    /// Begins to call, at a rate per second.
    pub(crate) fn begin(target: &Target, load: Load, rate: f64) -> Result<Self, String> {
        let requests = Arc::new(load.prepare(target, KEYS, false)?);
        let ends = Arc::new(AtomicBool::new(false));
        let callers = (0..CONNECTIONS).map(|first| {
            let (target, requests, ends) = (target.clone(), Arc::clone(&requests), Arc::clone(&ends));
            std::thread::spawn(move || call(&target, &requests, first, rate / CONNECTIONS as f64, &ends))
        });
        Ok(Self { callers: callers.collect(), ends })
    }

    /// Ends the calls, and says how many there were.
    pub(crate) fn end(self) -> Result<u64, String> {
        self.ends.store(true, Relaxed);
        let ended = self.callers.into_iter().map(|caller| caller.join().map_err(|_| "a caller has panicked".to_owned())?);
        ended.sum()
    }
}

fn call(target: &Target, requests: &[Vec<u8>], first: usize, rate: f64, ends: &AtomicBool) -> Result<u64, String> {
    let mut control = target.control()?;
    let (begin, mut calls) = (Instant::now(), 0);
    while !ends.load(Relaxed) {
        let together = (0..TOGETHER).map(|number| &requests[(first + calls + number) % requests.len()]);
        control.send_raw(&together.flatten().copied().collect::<Vec<u8>>())?;
        for _ in 0..TOGETHER {
            if let Reply::Error(error) = control.next_reply()? {
                return Err(format!("a call was answered with {error}"));
            }
        }
        calls += TOGETHER;
        let due = begin + Duration::from_secs_f64(calls as f64 / rate);
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
    }
    Ok(calls as u64)
}
