//! The command logs: the last commands that took long, were large, or were answered at length. A log's mutex is taken for such commands
//! only.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Most arguments that an entry keeps; the last one then says how many are left out.
const ARGUMENTS_MAX: usize = 32;
/// Longest argument that an entry keeps.
const ARGUMENT_BYTES_MAX: usize = 128;

/// One command that was worth noting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlowEntry {
    /// Number of the entry since the start of the process.
    pub id: u64,
    /// When it ran, Unix seconds.
    pub time_s: i64,
    /// How long, in microseconds; or how large, in bytes.
    pub value: u64,
    /// The command and its arguments, shortened.
    pub arguments: Vec<Vec<u8>>,
    /// The client's address.
    pub address: String,
    /// The client's name.
    pub name: String,
}

/// One of the logs.
#[derive(Debug, Default)]
pub struct SlowLog {
    inner: Mutex<Inner>,
}

/// All of them. SLOWLOG is `slow`.
#[derive(Debug, Default)]
pub struct CommandLogs {
    /// Commands that took long.
    pub slow: SlowLog,
    /// Commands with large arguments.
    pub large_request: SlowLog,
    /// Commands with a large reply.
    pub large_reply: SlowLog,
}

#[derive(Debug, Default)]
struct Inner {
    entries: VecDeque<SlowEntry>,
    next_id: u64,
}

impl SlowLog {
    /// Adds an entry (its `id` is assigned here) and drops the oldest ones beyond `entries_max`. A log without room counts none.
    pub fn add(&self, mut entry: SlowEntry, entries_max: usize) {
        let mut inner = self.lock();
        if entries_max == 0 {
            inner.entries.clear();
            return;
        }
        entry.id = inner.next_id;
        inner.next_id += 1;
        inner.entries.push_front(entry);
        inner.entries.truncate(entries_max);
    }

    /// The newest `count` entries, newest first.
    #[must_use]
    pub fn newest(&self, count: usize) -> Vec<SlowEntry> {
        self.lock().entries.iter().take(count).cloned().collect()
    }

    /// Entries held.
    #[must_use]
    pub fn len(&self) -> usize {
        self.lock().entries.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// SLOWLOG RESET. Ids go on.
    pub fn reset(&self) {
        self.lock().entries.clear();
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Shortens arguments for an entry, as Redis words it.
pub fn shorten<'a>(arguments: impl ExactSizeIterator<Item = &'a [u8]>) -> Vec<Vec<u8>> {
    let count = arguments.len();
    let kept = if count > ARGUMENTS_MAX { ARGUMENTS_MAX - 1 } else { count };
    let mut shortened: Vec<Vec<u8>> = arguments.take(kept).map(shorten_one).collect();
    if kept < count {
        shortened.push(format!("... ({} more arguments)", count - kept).into_bytes());
    }
    shortened
}

fn shorten_one(argument: &[u8]) -> Vec<u8> {
    if argument.len() <= ARGUMENT_BYTES_MAX {
        return argument.to_vec();
    }
    let mut kept = argument[..ARGUMENT_BYTES_MAX].to_vec();
    kept.extend_from_slice(format!("... ({} more bytes)", argument.len() - ARGUMENT_BYTES_MAX).as_bytes());
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(value: u64) -> SlowEntry {
        SlowEntry { id: 0, time_s: 1, value, arguments: vec![], address: String::new(), name: String::new() }
    }

    #[test]
    fn keeps_the_newest_and_counts_on_over_a_reset() {
        let log = SlowLog::default();
        (0..5).for_each(|n| log.add(entry(n), 3));
        assert_eq!(log.newest(2).iter().map(|e| e.id).collect::<Vec<_>>(), [4, 3]);
        assert_eq!(log.len(), 3);
        log.reset();
        log.add(entry(9), 3);
        assert_eq!(log.newest(10)[0].id, 5);
        log.add(entry(9), 0);
        assert!(log.is_empty());
        log.add(entry(9), 3);
        assert_eq!(log.newest(10)[0].id, 6);
    }

    #[test]
    fn long_commands_are_shortened() {
        let arguments = vec![b"x".as_slice(); 40];
        let short = shorten(arguments.into_iter());
        assert_eq!(short.len(), 32);
        assert_eq!(short[31], b"... (9 more arguments)");
        let long = vec![b'y'; 130];
        assert!(shorten([long.as_slice()].into_iter())[0].ends_with(b"... (2 more bytes)"));
    }
}
