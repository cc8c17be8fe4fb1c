//! HOTKEYS: which keys take most of the time, and most of the network, while it is on.
//!
//! Each worker adds up what its own commands cost in a sketch of its own, under a mutex that only HOTKEYS takes beside it. While it
//! is off, commands cost one load more per batch.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use almandine_io::sync::{Mutex, MutexGuard};
use almandine_io::usage::{self, ProcessorTime};
use almandine_io::{clock, entropy};
use crossbeam_utils::CachePadded;

use super::top_keys::{TopKeys, heaviest};
use crate::lock::lock;

/// Places of a worker's sketch for each key that is asked for.
const PLACES_PER_KEY: usize = 32;

/// What HOTKEYS START asks for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HotKeysOptions {
    /// CPU: by time.
    pub by_time: bool,
    /// NET: by bytes.
    pub by_bytes: bool,
    /// Most keys of each list.
    pub keys_max: usize,
    /// Milliseconds after which it stops; 0 for never.
    pub duration_ms: i64,
    /// One command in this number is sampled.
    pub sample_ratio: u32,
}

/// One round of it, from START on.
#[derive(Clone, Copy, Debug)]
struct Session {
    options: HotKeysOptions,
    start_ms: i64,
    start_time: ProcessorTime,
    /// When it was stopped, and what the process had used then.
    end: Option<(i64, ProcessorTime)>,
}

/// What one worker has seen.
#[derive(Debug, Default)]
struct Seen {
    sample_ratio: u32,
    random: u64,
    /// Of all commands with keys.
    elapsed_ns: u64,
    bytes: u64,
    /// Of those that were looked at.
    sampled_bytes: u64,
    by_time: TopKeys,
    by_bytes: TopKeys,
}

/// HOTKEYS of all workers.
#[derive(Debug, Default)]
pub struct HotKeys {
    active: AtomicBool,
    session: Mutex<Option<Session>>,
    workers: Box<[CachePadded<Mutex<Seen>>]>,
}

/// What HOTKEYS GET answers.
#[derive(Clone, Debug)]
pub struct HotKeysReport {
    /// What was asked for.
    pub options: HotKeysOptions,
    /// Whether it is on.
    pub active: bool,
    /// Time of all commands with keys, in nanoseconds.
    pub elapsed_ns: u64,
    /// Bytes of all commands with keys, and of their replies.
    pub bytes: u64,
    /// Of these, bytes of the commands that were looked at.
    pub sampled_bytes: u64,
    /// When it began, Unix milliseconds.
    pub start_ms: i64,
    /// How long it was on, in milliseconds.
    pub duration_ms: i64,
    /// What the process has used meanwhile, in microseconds.
    pub processor: ProcessorTime,
    /// Keys and the nanoseconds that they took at least, the most first.
    pub by_time: Vec<(Box<[u8]>, u64)>,
    /// Keys and the bytes that they took at least, the most first.
    pub by_bytes: Vec<(Box<[u8]>, u64)>,
}

impl HotKeys {
    pub(crate) fn new(workers: usize) -> Self {
        Self { workers: (0..workers).map(|_| CachePadded::default()).collect(), ..Self::default() }
    }

    /// Whether it is on.
    #[inline]
    #[must_use]
    pub fn is_active(&self) -> bool {
        self.active.load(Relaxed)
    }

    /// Begins anew. False: it is on already.
    pub fn start(&self, options: HotKeysOptions) -> bool {
        let mut session = lock(&self.session);
        if self.is_active() {
            return false;
        }
        let places = options.keys_max * PLACES_PER_KEY;
        let sketch = |wanted: bool| TopKeys::new(if wanted { places } else { 0 });
        for worker in &self.workers {
            *lock(worker) = Seen {
                sample_ratio: options.sample_ratio,
                random: entropy::seed() | 1,
                by_time: sketch(options.by_time),
                by_bytes: sketch(options.by_bytes),
                ..Seen::default()
            };
        }
        *session = Some(Session { options, start_ms: clock::unix_ms(), start_time: usage::process(), end: None });
        self.active.store(true, Relaxed);
        true
    }

    /// Ends it; what was found stays. Says whether it was on.
    pub fn stop(&self) -> bool {
        let mut session = lock(&self.session);
        self.end(&mut session, clock::unix_ms())
    }

    fn end(&self, session: &mut MutexGuard<'_, Option<Session>>, now_ms: i64) -> bool {
        match &mut **session {
            Some(session) if session.end.is_none() => session.end = Some((now_ms, usage::process())),
            _ => return false,
        }
        self.active.store(false, Relaxed);
        true
    }

    /// Ends it when its time is over. Called ten times a second.
    pub(crate) fn expire(&self, now_ms: i64) {
        if !self.is_active() {
            return;
        }
        let mut session = lock(&self.session);
        let over = |session: &Session| {
            session.options.duration_ms > 0 && now_ms.saturating_sub(session.start_ms) >= session.options.duration_ms
        };
        if session.as_ref().is_some_and(over) {
            self.end(&mut session, now_ms);
        }
    }

    /// Forgets what was found. False: it is on.
    pub fn reset(&self) -> bool {
        let mut session = lock(&self.session);
        if self.is_active() {
            return false;
        }
        *session = None;
        self.workers.iter().for_each(|worker| *lock(worker) = Seen::default());
        true
    }

    /// Adds a command of a worker with its keys, of which it has `count`: how long it took, and the bytes of it and its reply. Each
    /// key has an even share.
    pub fn record<'k>(&self, worker: usize, keys: impl Iterator<Item = &'k [u8]>, count: usize, cost: (u64, u64)) {
        let seen = &mut *lock(&self.workers[worker]);
        let (elapsed_ns, bytes) = cost;
        seen.elapsed_ns += elapsed_ns;
        seen.bytes += bytes;
        if count == 0 || !seen.is_sampled() {
            return;
        }
        seen.sampled_bytes += bytes;
        for key in keys {
            seen.by_time.add(key, elapsed_ns / count as u64);
            seen.by_bytes.add(key, bytes / count as u64);
        }
    }

    /// What was found so far; `None` when it has not been started since the last reset.
    #[must_use]
    pub fn report(&self) -> Option<HotKeysReport> {
        let Session { options, start_ms, start_time, end } = (*lock(&self.session))?;
        let (end_ms, end_time) = end.unwrap_or_else(|| (clock::unix_ms(), usage::process()));
        let seen: Vec<MutexGuard<'_, Seen>> = self.workers.iter().map(|worker| lock(worker)).collect();
        let sum = |of: fn(&Seen) -> u64| seen.iter().map(|seen| of(seen)).sum();
        Some(HotKeysReport {
            options,
            active: end.is_none(),
            elapsed_ns: sum(|seen| seen.elapsed_ns),
            bytes: sum(|seen| seen.bytes),
            sampled_bytes: sum(|seen| seen.sampled_bytes),
            start_ms,
            duration_ms: (end_ms - start_ms).max(0),
            processor: ProcessorTime {
                user_us: end_time.user_us.saturating_sub(start_time.user_us),
                system_us: end_time.system_us.saturating_sub(start_time.system_us),
            },
            by_time: heaviest(seen.iter().map(|seen| &seen.by_time), options.keys_max),
            by_bytes: heaviest(seen.iter().map(|seen| &seen.by_bytes), options.keys_max),
        })
    }
}

impl Seen {
    /// Whether this command is one of those that are looked at: each is with the same probability (xorshift64).
    fn is_sampled(&mut self) -> bool {
        if self.sample_ratio <= 1 {
            return self.sample_ratio == 1;
        }
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random.is_multiple_of(u64::from(self.sample_ratio))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OPTIONS: HotKeysOptions = HotKeysOptions { by_time: true, by_bytes: true, keys_max: 2, duration_ms: 0, sample_ratio: 1 };

    #[test]
    fn it_is_started_once_and_reset_when_it_is_stopped() {
        let hot = HotKeys::new(2);
        assert!(hot.report().is_none() && !hot.stop() && hot.reset());
        assert!(hot.start(OPTIONS) && !hot.start(OPTIONS) && !hot.reset());
        hot.record(0, [&b"a"[..], b"b"].into_iter(), 2, (10, 7));
        hot.record(1, [&b"b"[..]].into_iter(), 1, (1, 100));
        hot.record(1, [].into_iter(), 0, (1000, 1000));
        assert!(hot.stop() && !hot.stop() && !hot.is_active());
        let report = hot.report().unwrap();
        assert_eq!((report.elapsed_ns, report.bytes, report.sampled_bytes, report.active), (1011, 1107, 107, false));
        assert_eq!(report.by_time, [(b"b".as_slice().into(), 6), (b"a".as_slice().into(), 5)]);
        assert_eq!(report.by_bytes, [(b"b".as_slice().into(), 103), (b"a".as_slice().into(), 3)]);
        assert!(hot.reset() && hot.report().is_none());
    }

    #[test]
    fn only_what_is_asked_for_is_kept_and_its_time_ends() {
        let hot = HotKeys::new(1);
        assert!(hot.start(HotKeysOptions { by_time: false, duration_ms: 1000, ..OPTIONS }));
        hot.record(0, [&b"a"[..]].into_iter(), 1, (10, 7));
        let start_ms = hot.report().unwrap().start_ms;
        hot.expire(start_ms + 999);
        assert!(hot.is_active());
        hot.expire(start_ms + 1000);
        let report = hot.report().unwrap();
        assert_eq!((report.active, report.duration_ms, report.by_time.len(), report.by_bytes.len()), (false, 1000, 0, 1));
    }

    #[test]
    fn a_sample_has_its_share_of_the_commands() {
        let hot = HotKeys::new(1);
        assert!(hot.start(HotKeysOptions { sample_ratio: 10, ..OPTIONS }));
        (0..100_000).for_each(|_| hot.record(0, [&b"k"[..]].into_iter(), 1, (1, 1)));
        let report = hot.report().unwrap();
        assert_eq!(report.bytes, 100_000);
        assert!((9_000..11_000).contains(&report.sampled_bytes), "{}", report.sampled_bytes);
    }
}
