//! One tier: what it holds, what is queued for it, and the thread's work that writes the queue.
//!
//! The queue's lock is taken before that of the held ranges. A queued write knows which parts of it are still current: what is
//! discarded or written anew meanwhile is cut out, so that old bytes never count as held, even if they were on their way.

use std::collections::VecDeque;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use almandine_io::storage::Buffer;
use almandine_io::sync::{Condvar, Mutex, MutexGuard, RwLock};

use super::{Tier, TierReport};
use crate::ranges::Ranges;
use crate::{BLOCK_BYTES, Device, Source};

const RETRY_AFTER: Duration = Duration::from_millis(100);
const RETRY_AFTER_MAX: Duration = Duration::from_secs(5);
/// How much more than needed is forgotten at a time: a share of the capacity, up to a bound.
const SLACK_SHARE: u64 = 32;
const SLACK_BYTES_MAX: u64 = 4 << 20;

/// Data on its way to later tiers.
pub(super) struct Write {
    offset: u64,
    data: Buffer,
}

impl Write {
    pub(super) fn copy(offset: u64, bytes: &[u8]) -> Self {
        debug_assert!(bytes.len().is_multiple_of(BLOCK_BYTES), "writes are whole blocks");
        let mut data = Buffer::new(bytes.len());
        data.copy_from_slice(bytes);
        Self { offset, data }
    }

    fn end(&self) -> u64 {
        self.offset + self.data.len() as u64
    }
}

pub(super) struct Level {
    device: Arc<dyn Device>,
    /// Whole blocks.
    capacity: Option<AtomicU64>,
    held: RwLock<Ranges>,
    /// Held shared by writes, alone by forgetting, which must not discard what is being written.
    forgetting: RwLock<()>,
    queue: Mutex<Queue>,
    /// Something was queued, or the device is closed.
    queued: Condvar,
    read_errors: AtomicU64,
    discard_errors: AtomicU64,
    forgotten: AtomicU64,
}

#[derive(Default)]
struct Queue {
    /// The first is the one that is being written.
    entries: VecDeque<Entry>,
    bytes: u64,
    closed: bool,
    write_errors: u64,
    last_error: Option<String>,
}

struct Entry {
    write: Arc<Write>,
    current: Ranges,
}

/// Why a queued write did not go through.
enum Failure {
    Device(io::Error),
    /// Later tiers must take something first.
    Full,
}

impl Level {
    pub(super) fn new(tier: Tier) -> Self {
        Self {
            device: tier.device,
            capacity: tier.capacity.map(|bytes| AtomicU64::new(whole_blocks(bytes))),
            held: RwLock::new(tier.held.into_iter().collect()),
            forgetting: RwLock::new(()),
            queue: Mutex::default(),
            queued: Condvar::new(),
            read_errors: AtomicU64::new(0),
            discard_errors: AtomicU64::new(0),
            forgotten: AtomicU64::new(0),
        }
    }

    /// No code panics between changes that belong together, so a poisoned state is whole.
    fn locked(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn with_held<T>(&self, look: impl FnOnce(&Ranges) -> T) -> T {
        look(&self.held.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn change_held<T>(&self, change: impl FnOnce(&mut Ranges) -> T) -> T {
        change(&mut self.held.write().unwrap_or_else(PoisonError::into_inner))
    }

    pub(super) fn held_until(&self, offset: u64) -> Option<u64> {
        self.with_held(|held| held.held_until(offset))
    }

    pub(super) fn holds(&self, begin: u64, end: u64) -> bool {
        self.with_held(|held| held.contains(begin, end))
    }

    pub(super) fn next_held(&self, offset: u64) -> Option<(u64, u64)> {
        self.with_held(|held| held.next(offset))
    }

    pub(super) fn set_capacity(&self, bytes: u64) {
        if let Some(capacity) = &self.capacity {
            capacity.store(whole_blocks(bytes), Ordering::Relaxed);
        }
    }

    pub(super) fn forgets(&self) -> bool {
        self.capacity.is_some()
    }

    pub(super) fn read(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        self.device.read(offset, buffer).inspect_err(|_| {
            self.read_errors.fetch_add(1, Ordering::Relaxed);
        })
    }

    pub(super) fn source(&self, offset: u64, bytes: usize) -> io::Result<Source> {
        self.device.source(offset, bytes)
    }

    pub(super) fn sync(&self) -> io::Result<()> {
        self.device.sync()
    }

    pub(super) fn backlog(&self) -> u64 {
        self.locked().bytes
    }

    pub(super) fn report(&self) -> TierReport {
        let queue = self.locked();
        TierReport {
            held_bytes: self.with_held(Ranges::bytes),
            used_bytes: self.device.used_bytes(),
            backlog_bytes: queue.bytes,
            write_errors: queue.write_errors,
            read_errors: self.read_errors.load(Ordering::Relaxed),
            discard_errors: self.discard_errors.load(Ordering::Relaxed),
            forgotten_bytes: self.forgotten.load(Ordering::Relaxed),
            last_error: queue.last_error.clone(),
        }
    }

    /// Writes at once.
    pub(super) fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let end = offset + data.len() as u64;
        let _writing = self.forgetting.read();
        self.change_held(|held| held.remove(offset, end));
        self.device.write(offset, data)?;
        self.change_held(|held| held.insert(offset, end));
        Ok(())
    }

    /// What this tier has of a range, or is about to get, is not current any more.
    pub(super) fn outdate(&self, begin: u64, end: u64) {
        let mut queue = self.locked();
        for entry in &mut queue.entries {
            entry.current.remove(begin, end);
        }
        self.change_held(|held| held.remove(begin, end));
    }

    pub(super) fn discard(&self, begin: u64, end: u64) -> io::Result<()> {
        self.outdate(begin, end);
        self.give_back(begin, end)
    }

    fn give_back(&self, begin: u64, end: u64) -> io::Result<()> {
        self.device.discard(begin, end - begin).inspect_err(|_| {
            self.discard_errors.fetch_add(1, Ordering::Relaxed);
        })
    }

    /// Forgets the lowest offsets that a later tier holds until this many bytes fit; false when there are too few.
    pub(super) fn forget(&self, bytes: u64, held_after: impl Fn(u64) -> Option<(u64, u64)>) -> bool {
        let Some(capacity) = self.capacity.as_ref().map(|capacity| capacity.load(Ordering::Relaxed)) else { return true };
        let bytes = bytes.min(capacity);
        if self.with_held(Ranges::bytes) + bytes <= capacity {
            return true;
        }
        let _alone = self.forgetting.write();
        // More than is needed, so that small writes do not each give a little space back: that is a call to the file system.
        let slack = whole_blocks((capacity / SLACK_SHARE).min(SLACK_BYTES_MAX));
        loop {
            let excess = (self.with_held(Ranges::bytes) + bytes).saturating_sub(capacity);
            if excess == 0 {
                return true;
            }
            let excess = excess + slack;
            let Some((begin, end)) = self.with_held(|held| first_common(held, &held_after)) else { return false };
            debug_assert!(begin < end && self.holds(begin, end), "what is forgotten is held here, and below");
            let end = end.min(begin + excess);
            self.change_held(|held| held.remove(begin, end));
            self.forgotten.fetch_add(end - begin, Ordering::Relaxed);
            // A failure is counted; what could not be given back is overwritten or discarded some time.
            let _ = self.give_back(begin, end);
        }
    }

    pub(super) fn queue(&self, write: &Arc<Write>) {
        let mut queue = self.locked();
        debug_assert_eq!(queue.bytes == 0, queue.entries.is_empty(), "the backlog is that of the queue");
        queue.bytes += write.data.len() as u64;
        let current = [(write.offset, write.end())].into_iter().collect();
        queue.entries.push_back(Entry { write: Arc::clone(write), current });
        self.queued.notify_all();
    }

    /// Lets [`Level::write_queued`] end when nothing is queued any more, or at an error. What is queued is written or not.
    pub(super) fn close(&self, finish: bool) {
        let mut queue = self.locked();
        queue.closed = true;
        // The first may be on its way.
        for entry in queue.entries.iter_mut().filter(|_| !finish) {
            entry.current = Ranges::default();
        }
        self.queued.notify_all();
    }

    /// The thread's work: writes what is queued until closed.
    pub(super) fn write_queued(&self, make_room: impl Fn(u64) -> bool) {
        let mut failures = 0;
        while let Some((write, parts)) = self.next_queued() {
            let result = if make_room(parts.bytes()) { self.write_parts(&write, &parts) } else { Err(Failure::Full) };
            let gone = self.written(&parts, result.is_ok());
            // Discarded or written anew while it was on its way; in the latter case the new bytes come later in the queue.
            for (begin, end) in gone.iter() {
                let _ = self.give_back(begin, end);
            }
            match result {
                Ok(()) => failures = 0,
                Err(failure) => {
                    if !self.wait_to_retry(failure, failures) {
                        return;
                    }
                    failures += 1;
                }
            }
        }
    }

    /// Waits for a write and its current parts; none when closed and empty.
    fn next_queued(&self) -> Option<(Arc<Write>, Ranges)> {
        let mut queue = self.locked();
        loop {
            match queue.entries.front() {
                Some(entry) if entry.current.is_empty() => queue.pop(),
                Some(entry) => return Some((Arc::clone(&entry.write), entry.current.clone())),
                None if queue.closed => return None,
                None => queue = self.queued.wait(queue).unwrap_or_else(PoisonError::into_inner),
            }
        }
    }

    fn write_parts(&self, write: &Write, parts: &Ranges) -> Result<(), Failure> {
        let _writing = self.forgetting.read();
        for (begin, end) in parts.iter() {
            debug_assert!(write.offset <= begin && end <= write.end(), "parts lie within their write");
            let part = (begin - write.offset) as usize..(end - write.offset) as usize;
            self.device.write(begin, &write.data[part]).map_err(Failure::Device)?;
        }
        Ok(())
    }

    /// After an attempt at the first write: what is still current of it is held if it succeeded. Gives what no longer is.
    fn written(&self, parts: &Ranges, ok: bool) -> Ranges {
        let mut queue = self.locked();
        let gone = queue.entries.front().map(|entry| parts.without(&entry.current)).unwrap_or_default();
        debug_assert!(gone.bytes() <= parts.bytes(), "what is no longer current was a part of the write");
        if ok && let Some(entry) = queue.pop_entry() {
            self.change_held(|held| {
                for (begin, end) in entry.current.iter() {
                    held.insert(begin, end);
                }
            });
        }
        gone
    }

    /// Waits a while, longer each time; false when closed meanwhile.
    fn wait_to_retry(&self, failure: Failure, failures: u32) -> bool {
        let mut queue = self.locked();
        let mut pause = RETRY_AFTER;
        if let Failure::Device(error) = failure {
            queue.write_errors += 1;
            queue.last_error = Some(error.to_string());
            pause = (RETRY_AFTER * 2_u32.saturating_pow(failures.min(10))).min(RETRY_AFTER_MAX);
        }
        let wait = self.queued.wait_timeout_while(queue, pause, |queue| !queue.closed);
        !wait.unwrap_or_else(PoisonError::into_inner).closed
    }
}

impl Queue {
    fn pop_entry(&mut self) -> Option<Entry> {
        let entry = self.entries.pop_front()?;
        debug_assert!(entry.write.data.len() as u64 <= self.bytes, "the backlog is that of the queue");
        self.bytes -= entry.write.data.len() as u64;
        Some(entry)
    }

    fn pop(&mut self) {
        self.pop_entry();
    }
}

/// What is forgotten, and so the capacity, is whole blocks.
fn whole_blocks(bytes: u64) -> u64 {
    bytes / BLOCK_BYTES as u64 * BLOCK_BYTES as u64
}

/// The lowest range that is in the set and also in the other one, which says what it has at or after an offset.
fn first_common(held: &Ranges, other: impl Fn(u64) -> Option<(u64, u64)>) -> Option<(u64, u64)> {
    let mut from = 0;
    loop {
        let (begin, end) = held.next(from)?;
        let (other_begin, other_end) = other(begin)?;
        if other_begin < end {
            return Some((other_begin, end.min(other_end)));
        }
        from = other_begin;
    }
}
