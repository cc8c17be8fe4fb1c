//! The command logs: the last commands that took long, were large, or were answered at length. A log's mutex is taken for such
//! commands only.

use std::collections::VecDeque;
use std::sync::PoisonError;

use almandine_io::sync::{Mutex, MutexGuard};

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
    /// The command and its arguments.
    pub arguments: Shortened,
    /// The client's address.
    pub address: String,
    /// The client's name.
    pub name: String,
}

/// A command and its arguments, as an entry keeps them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Shortened {
    /// Those that are kept; the last one says how many are left out.
    pub words: Vec<Vec<u8>>,
    /// How many there were, the command's name included.
    pub count: usize,
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

/// Shortens arguments for an entry, as Redis words it: to `words_max` (`slowlog-max-argc`).
pub fn shorten<'a>(arguments: impl ExactSizeIterator<Item = &'a [u8]>, words_max: usize) -> Shortened {
    let count = arguments.len();
    let kept = if count > words_max { words_max.saturating_sub(1) } else { count };
    let mut words: Vec<Vec<u8>> = arguments.take(kept).map(shorten_one).collect();
    if kept < count {
        words.push(format!("... ({} more arguments)", count - kept).into_bytes());
    }
    Shortened { words, count }
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
        SlowEntry { id: 0, time_s: 1, value, arguments: Shortened::default(), address: String::new(), name: String::new() }
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
        let short = shorten(arguments.iter().copied(), 32);
        assert_eq!((short.words.len(), short.count), (32, 40));
        assert_eq!(short.words[31], b"... (9 more arguments)");
        assert_eq!(shorten(arguments.into_iter(), 40).words.len(), 40);
        let long = vec![b'y'; 130];
        assert!(shorten([long.as_slice()].into_iter(), 32).words[0].ends_with(b"... (2 more bytes)"));
    }
}
