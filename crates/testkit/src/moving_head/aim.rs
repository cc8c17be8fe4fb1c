//! When a block's pages are the oldest in memory, as far as `INFO storage` tells. It only aims: the checks do not depend on it.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::{Program, Server, Value};

/// The log's page.
const PAGE_BYTES: u64 = 2 << 20;
/// A block whose page left this number of pages ago is late.
const LATE_PAGES: u64 = 0;
/// How often to look.
const PERIOD: Duration = Duration::from_millis(2);
/// Without a log, or with one that stands still, a block waits for so long.
const PATIENCE: Duration = Duration::from_secs(5);

/// Where the log begins and ends.
pub(super) struct Aim {
    /// Only one pair races at a time: a batch that another one's delays would be late for its own other side.
    pub(super) turn: Mutex<()>,
    follows: bool,
    head_page: AtomicU64,
    tail_page: AtomicU64,
}

/// Where the log was when a block was written.
#[derive(Clone, Copy)]
pub(super) struct Mark {
    pub(super) page: u64,
    pub(super) at: Instant,
}

impl Aim {
    pub(super) fn new(server: &Server) -> Self {
        let follows = *server.program() == Program::Almandine;
        Self { turn: Mutex::new(()), follows, head_page: AtomicU64::new(0), tail_page: AtomicU64::new(0) }
    }

    /// Watches the log until told to stop.
    pub(super) fn follow(&self, server: &Server, stop: &AtomicBool) {
        let mut client = server.client();
        while self.follows && !stop.load(Ordering::Relaxed) {
            let Value::Bulk(text) = client.line("INFO storage") else { panic!("INFO storage") };
            let text = String::from_utf8_lossy(&text);
            let figure = |name: &str| {
                let line = text.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_else(|| panic!("no {name} in INFO"));
                line.trim().parse::<u64>().expect("a number")
            };
            let head = figure("storage_pages_evicted:");
            self.head_page.store(head, Ordering::Relaxed);
            self.tail_page.store(head + figure("storage_log_resident_bytes:") / PAGE_BYTES, Ordering::Relaxed);
            thread::sleep(PERIOD);
        }
    }

    /// Pages that have left memory.
    pub(super) fn head_page(&self) -> u64 {
        self.head_page.load(Ordering::Relaxed)
    }

    pub(super) fn mark(&self) -> Mark {
        Mark { page: self.tail_page.load(Ordering::Relaxed), at: Instant::now() }
    }

    /// Whether to race now what was written at `mark`, `early` pages ahead of its time.
    pub(super) fn is_due(&self, mark: Mark, early: u64) -> bool {
        let waited = mark.at.elapsed();
        if !self.follows {
            return waited > Duration::from_millis(20 * early);
        }
        self.head_page() + early >= mark.page || waited > PATIENCE
    }

    /// Whether the page has left long ago.
    pub(super) fn is_late(&self, mark: Mark) -> bool {
        self.follows && self.head_page() > mark.page + LATE_PAGES
    }
}
