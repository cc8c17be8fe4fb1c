//! The greatest resident size of a process over a while, sampled from a thread of its own.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// How often it is looked at: memory that is taken for less than this is not seen.
const EVERY: Duration = Duration::from_millis(20);

/// A watch in progress.
#[derive(Debug)]
pub struct Watch {
    shared: Arc<(AtomicBool, AtomicU64)>,
    thread: Option<JoinHandle<()>>,
}

impl Watch {
    /// Begins.
    pub fn start(pid: u32) -> Self {
        let shared = Arc::new((AtomicBool::new(false), AtomicU64::new(0)));
        let of_thread = shared.clone();
        let thread = thread::spawn(move || {
            while !of_thread.0.load(Ordering::Relaxed) {
                let resident = resident_bytes_cheaply(pid).unwrap_or(0);
                of_thread.1.fetch_max(resident, Ordering::Relaxed);
                thread::sleep(EVERY);
            }
        });
        Self { shared, thread: Some(thread) }
    }

    /// The greatest size so far in bytes.
    pub fn most(&self) -> u64 {
        self.shared.1.load(Ordering::Relaxed)
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.shared.0.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // A thread that only reads a file and sleeps does not panic.
            let _ = thread.join();
        }
    }
}

/// Resident memory in bytes, from counters that may lag by some hundred kilobytes, without a walk through the page tables: that
/// walk stops the process from mapping memory, and so would disturb what is measured.
fn resident_bytes_cheaply(pid: u32) -> Option<u64> {
    let statm = std::fs::read_to_string(format!("/proc/{pid}/statm")).ok()?;
    let pages: u64 = statm.split_ascii_whitespace().nth(1)?.parse().ok()?;
    Some(pages * rustix::param::page_size() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    #[test]
    fn sees_a_peak_that_is_over() {
        let watch = Watch::start(std::process::id());
        let before = resident_bytes_cheaply(std::process::id()).unwrap();
        let block = vec![1u8; 64 << 20];
        let begun = Instant::now();
        while watch.most() <= before + (48 << 20) && begun.elapsed() < Duration::from_secs(20) {
            thread::sleep(EVERY);
        }
        assert_eq!(block.iter().step_by(4096).map(|&b| u64::from(b)).sum::<u64>(), 16 << 10);
        drop(block);
        assert!(watch.most() > before + (48 << 20), "{} {before}", watch.most());
    }
}
