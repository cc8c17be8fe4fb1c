//! The ACL log: what users were denied lately, equal events together.

use std::collections::VecDeque;
use std::sync::PoisonError;

use almandine_io::sync::{Mutex, MutexGuard};

/// Equal events within this time are one entry.
const GROUPED_MS_MAX: i64 = 60_000;
/// Newest entries that are looked through for an equal one.
const LOOKED_THROUGH_MAX: usize = 10;

/// What was denied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// A command.
    Command,
    /// A key.
    Key,
    /// A channel.
    Channel,
    /// A database.
    Database,
    /// A user that a connection could not become.
    Authentication,
    /// The same, by the certificate that it has shown.
    Certificate,
}

impl Reason {
    /// The word of ACL LOG.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Command => "command",
            Self::Key => "key",
            Self::Channel => "channel",
            Self::Database => "database",
            Self::Authentication => "auth",
            Self::Certificate => "tls-cert",
        }
    }
}

/// Where it was denied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogContext {
    /// To a command by itself.
    TopLevel,
    /// In a transaction.
    Multi,
    /// To a command that a script has called.
    Lua,
}

impl LogContext {
    /// The word of ACL LOG.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::TopLevel => "toplevel",
            Self::Multi => "multi",
            Self::Lua => "lua",
        }
    }
}

/// Events of one kind.
#[derive(Clone, Debug)]
pub struct Entry {
    /// Number of the entry since the start of the process.
    pub id: u64,
    /// How many events.
    pub count: u64,
    /// What was denied.
    pub reason: Reason,
    /// Where.
    pub context: LogContext,
    /// The command, key, channel or database.
    pub object: Vec<u8>,
    /// To whom, or to whom one wanted to be.
    pub username: Vec<u8>,
    /// The first event, Unix milliseconds.
    pub created_ms: i64,
    /// The last event, Unix milliseconds.
    pub updated_ms: i64,
    /// The client of the last event, as CLIENT LIST shows it.
    pub client_info: String,
}

impl Entry {
    /// One event; its id is given by the log.
    #[must_use]
    pub fn new(reason: Reason, context: LogContext, object: &[u8], username: &[u8], now_ms: i64, client_info: String) -> Self {
        Self {
            id: 0,
            count: 1,
            reason,
            context,
            object: object.to_vec(),
            username: username.to_vec(),
            created_ms: now_ms,
            updated_ms: now_ms,
            client_info,
        }
    }

    fn is_like(&self, other: &Self) -> bool {
        self.reason == other.reason
            && self.context == other.context
            && (self.updated_ms - other.updated_ms).abs() <= GROUPED_MS_MAX
            && self.object == other.object
            && self.username == other.username
    }
}

/// The log.
#[derive(Debug, Default)]
pub struct AclLog {
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    entries: VecDeque<Entry>,
    next_id: u64,
}

impl AclLog {
    /// Adds an event, and drops the oldest entries beyond `entries_max`.
    pub fn add(&self, mut event: Entry, entries_max: usize) {
        let mut inner = self.lock();
        let equal = inner.entries.iter().take(LOOKED_THROUGH_MAX).position(|entry| entry.is_like(&event));
        if let Some(mut entry) = equal.and_then(|at| inner.entries.remove(at)) {
            entry.count += 1;
            entry.updated_ms = event.updated_ms;
            entry.client_info = event.client_info;
            inner.entries.push_front(entry);
            return;
        }
        event.id = inner.next_id;
        inner.next_id += 1;
        inner.entries.push_front(event);
        inner.entries.truncate(entries_max);
    }

    /// The newest `count` entries, newest first.
    #[must_use]
    pub fn newest(&self, count: usize) -> Vec<Entry> {
        self.lock().entries.iter().take(count).cloned().collect()
    }

    /// ACL LOG RESET. Ids go on.
    pub fn reset(&self) {
        self.lock().entries.clear();
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(object: &str, now_ms: i64) -> Entry {
        Entry::new(Reason::Key, LogContext::TopLevel, object.as_bytes(), b"u", now_ms, format!("at {now_ms}"))
    }

    #[test]
    fn equal_events_are_together_for_a_minute() {
        let log = AclLog::default();
        log.add(event("a", 0), 10);
        log.add(event("b", 1), 10);
        log.add(event("a", 60_000), 10);
        let entries = log.newest(9);
        assert_eq!((entries[0].count, entries[0].id, entries[0].created_ms, entries[0].updated_ms), (2, 0, 0, 60_000));
        assert_eq!((entries[0].client_info.as_str(), entries.len()), ("at 60000", 2));
        log.add(event("a", 120_001), 10);
        assert_eq!((log.newest(1)[0].count, log.newest(1)[0].id, log.newest(9).len()), (1, 2, 3));
    }

    #[test]
    fn the_oldest_are_dropped_and_ids_go_on() {
        let log = AclLog::default();
        (0..20).for_each(|n| log.add(event(&n.to_string(), n), 5));
        assert_eq!(log.newest(99).iter().map(|entry| entry.id).collect::<Vec<_>>(), [19, 18, 17, 16, 15]);
        log.reset();
        log.add(event("a", 0), 0);
        assert!(log.newest(1).is_empty());
        log.add(event("a", 0), 1);
        assert_eq!(log.newest(1)[0].id, 21);
    }
}
