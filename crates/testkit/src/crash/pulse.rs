//! How long a sync takes on a busy machine, a thread's late wake-up included: the measure of what `everysec` may lose.

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// Between two syncs.
const REST: Duration = Duration::from_millis(20);
/// What any machine may take.
const LEAST: Duration = Duration::from_millis(100);

/// A thread that syncs a file of its own again and again.
pub(super) struct Pulse {
    ended: Arc<AtomicBool>,
    thread: JoinHandle<Duration>,
}

impl Pulse {
    /// In a directory.
    pub(super) fn start(directory: &Path) -> Self {
        let mut file = File::create(directory.join("pulse")).expect("a file on the machine's disk");
        let ended = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&ended);
        let thread = thread::spawn(move || {
            let mut longest = LEAST;
            while !flag.load(Ordering::Relaxed) {
                let began = Instant::now();
                thread::sleep(REST);
                file.write_all(&[1; 4096]).and_then(|()| file.sync_all()).expect("a sync");
                longest = longest.max(began.elapsed().saturating_sub(REST));
            }
            longest
        });
        Self { ended, thread }
    }

    /// The longest that it saw.
    pub(super) fn end(self) -> Duration {
        self.ended.store(true, Ordering::Relaxed);
        self.thread.join().expect("the pulse ends")
    }
}
