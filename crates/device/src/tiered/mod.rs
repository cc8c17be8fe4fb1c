//! Devices above each other: what is written goes to all, what is read comes from the first that has it.
//!
//! A write returns when the tiers up to the commit tier have it. Each later tier has a thread of its own that writes what is queued
//! for it, in order, and tries again until it succeeds: a tier that fails is behind, it never has holes. What may be queued is
//! bounded; a writer waits for room, and after a while is told which tier is behind.
//!
//! A tier with a capacity forgets its lowest offsets, which are the oldest since logs only grow, as soon as a later tier has them;
//! before that nothing is forgotten, and what does not fit waits as for a full queue. A single write above the capacity is let
//! through alone.
//!
//! So whatever was written and not discarded is held by some tier at every time but while it is written anew. A range leaves a
//! tier's set before its bytes change there and comes back after.

use std::io::{self, ErrorKind};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use almandine_io::clock;
use almandine_io::sync::{Mutex, MutexGuard};
use almandine_io::thread::JoinHandle;

use crate::ranges::Ranges;
use crate::{BlockingSource, Device, Source, error};
use level::{Level, Write};

mod level;

/// A device among others.
pub struct Tier {
    /// Where it keeps things.
    pub device: Arc<dyn Device>,
    /// How much it keeps; without, everything.
    pub capacity: Option<u64>,
    /// What it holds already, as begin and end; see [`crate::FileDevice::held`].
    pub held: Vec<(u64, u64)>,
}

impl Tier {
    /// An empty tier that keeps everything.
    #[must_use]
    pub fn new(device: Arc<dyn Device>) -> Self {
        Self { device, capacity: None, held: Vec::new() }
    }

    /// Bounds what the tier keeps.
    #[must_use]
    pub fn with_capacity(self, bytes: u64) -> Self {
        Self { capacity: Some(bytes), ..self }
    }
}

/// How a [`TieredDevice`] behaves.
#[derive(Debug, Clone)]
pub struct TierOptions {
    /// A write returns when the tiers up to this one have it, counted from 0.
    pub commit: usize,
    /// Bytes that may be queued for each later tier.
    pub backlog_bytes: u64,
    /// How long a write waits for room before it fails.
    pub wait_max: Duration,
    /// Whether what is queued is still written when the device is closed; else it is dropped, for what need not outlive it.
    pub finish: bool,
}

impl Default for TierOptions {
    fn default() -> Self {
        Self { commit: 0, backlog_bytes: 64 << 20, wait_max: Duration::from_secs(10), finish: true }
    }
}

/// How a tier fares.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TierReport {
    /// Bytes that it holds.
    pub held_bytes: u64,
    /// Space that it takes on its device.
    pub used_bytes: u64,
    /// Bytes that are queued for it.
    pub backlog_bytes: u64,
    /// Writes that failed and were or will be tried again.
    pub write_errors: u64,
    /// Reads that failed and were answered by a later tier if one could.
    pub read_errors: u64,
    /// Discards that failed; the space is taken still.
    pub discard_errors: u64,
    /// Bytes that were forgotten to keep to the capacity.
    pub forgotten_bytes: u64,
    /// What the last failed write said.
    pub last_error: Option<String>,
}

/// Tiers, the fastest first.
pub struct TieredDevice {
    tiers: Arc<Tiers>,
    options: TierOptions,
    threads: Vec<JoinHandle<()>>,
}

struct Tiers {
    levels: Vec<Level>,
    /// Written and not discarded, in whichever tier.
    held: Mutex<Ranges>,
}

impl TieredDevice {
    /// Puts tiers above each other.
    ///
    /// # Errors
    /// When there are none, the commit tier is not among them, the last one has a capacity, or a thread cannot be started.
    pub fn new(tiers: Vec<Tier>, options: TierOptions) -> io::Result<Self> {
        let refused = |text: &str| Err(io::Error::new(ErrorKind::InvalidInput, text.to_owned()));
        if options.commit >= tiers.len() {
            return refused("the commit tier must be one of the tiers, counted from 0");
        }
        if tiers.last().is_some_and(|tier| tier.capacity.is_some()) {
            return refused("the last tier must keep everything: give it no capacity");
        }
        let held = tiers.iter().flat_map(|tier| tier.held.iter().copied()).collect();
        let tiers = Tiers { levels: tiers.into_iter().map(Level::new).collect(), held: Mutex::new(held) };
        let mut device = Self { tiers: Arc::new(tiers), options, threads: Vec::new() };
        for place in device.options.commit + 1..device.tiers.levels.len() {
            let tiers = Arc::clone(&device.tiers);
            let body = move || tiers.levels[place].write_queued(|bytes| tiers.make_room(place, bytes));
            device.threads.push(almandine_io::thread::spawn(&format!("tier-{place}"), body)?);
        }
        Ok(device)
    }

    /// How each tier fares.
    #[must_use]
    pub fn report(&self) -> Vec<TierReport> {
        self.tiers.levels.iter().map(Level::report).collect()
    }

    /// Changes what a tier with a capacity keeps, and forgets what is above it as far as later tiers have it.
    pub fn set_capacity(&self, place: usize, bytes: u64) {
        if let Some(level) = self.tiers.levels.get(place) {
            level.set_capacity(bytes);
            // What cannot be forgotten yet is by a later write.
            self.tiers.make_room(place, 0);
        }
    }

    /// Waits until the later tiers have everything; false when they do not after this time.
    #[must_use]
    pub fn drain(&self, time_max: Duration) -> bool {
        let until = deadline(time_max);
        self.tiers.levels.iter().all(|level| wait(until, || level.backlog() == 0))
    }

    /// Waits until every tier can take this much; says which one cannot.
    fn wait_for_room(&self, bytes: u64) -> io::Result<()> {
        let until = deadline(self.options.wait_max);
        let (now, later) = self.tiers.levels.split_at(self.options.commit + 1);
        // A single write above the bound is let through alone.
        let bound = self.options.backlog_bytes.saturating_sub(bytes);
        for (place, level) in (now.len()..).zip(later) {
            if !wait(until, || level.backlog() <= bound) {
                return Err(self.behind(place));
            }
        }
        for place in 0..now.len() {
            if !wait(until, || self.tiers.make_room(place, bytes)) {
                return Err(self.full(place));
            }
        }
        Ok(())
    }

    fn behind(&self, place: usize) -> io::Error {
        let report = self.tiers.levels[place].report();
        let why = report.last_error.map_or_else(|| "it is too slow".to_owned(), |error| format!("its last error: {error}"));
        let text = format!("tier {place} is behind by {} bytes: {why}", report.backlog_bytes);
        io::Error::new(ErrorKind::TimedOut, text)
    }

    fn full(&self, place: usize) -> io::Error {
        let later = (place + 1..self.tiers.levels.len()).map(|later| self.behind(later).to_string());
        let text = format!(
            "tier {place} is full, and what it holds is not yet below it: give it more capacity than one write ({})",
            later.collect::<Vec<_>>().join("; ")
        );
        io::Error::new(ErrorKind::StorageFull, text)
    }
}

/// The monotonic time in nanoseconds after this long.
fn deadline(time_max: Duration) -> u64 {
    clock::monotonic_ns().saturating_add(u64::try_from(time_max.as_nanos()).unwrap_or(u64::MAX))
}

/// Waits for other threads to make something true; false when they have not by then. For background threads, which may be late.
fn wait(until_ns: u64, condition: impl Fn() -> bool) -> bool {
    while !condition() {
        if clock::monotonic_ns() >= until_ns {
            return false;
        }
        almandine_io::thread::sleep(Duration::from_millis(1));
    }
    true
}

impl Tiers {
    /// The first range at or after an offset that a tier after this one holds.
    fn held_after(&self, place: usize, offset: u64) -> Option<(u64, u64)> {
        self.levels[place + 1..].iter().filter_map(|level| level.next_held(offset)).min()
    }

    /// Forgets ranges that later tiers hold, until this tier can take this many bytes more; false when those are too few.
    fn make_room(&self, place: usize, bytes: u64) -> bool {
        debug_assert!(place + 1 < self.levels.len() || !self.levels[place].forgets(), "the last tier keeps everything");
        self.levels[place].forget(bytes, |offset| self.held_after(place, offset))
    }

    fn held(&self) -> MutexGuard<'_, Ranges> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl BlockingSource for Tiers {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        let end = offset + buffer.len() as u64;
        let mut at = offset;
        while at < end {
            let rest = &mut buffer[(at - offset) as usize..];
            let read = self.read_piece(at, rest)?;
            debug_assert!(read > 0, "each piece brings the end nearer");
            at += read as u64;
        }
        debug_assert_eq!(at, end, "pieces do not reach beyond the buffer");
        Ok(())
    }
}

impl Tiers {
    /// Reads as much as one tier has; says how much that is.
    fn read_piece(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let mut failure = None;
        // A tier may forget what is being read, and then a later one has it. That this happens again and again is a tier far too
        // small for its readers.
        for _ in 0..8 {
            let mut forgotten = false;
            for level in &self.levels {
                let Some(until) = level.held_until(offset) else { continue };
                let bytes = buffer.len().min(usize::try_from(until - offset).unwrap_or(usize::MAX));
                match level.read(offset, &mut buffer[..bytes]) {
                    Ok(()) if level.holds(offset, offset + bytes as u64) => return Ok(bytes),
                    Ok(()) => forgotten = true,
                    Err(error) if level.holds(offset, offset + bytes as u64) => failure = Some(error),
                    Err(_) => forgotten = true,
                }
            }
            if !forgotten {
                break;
            }
        }
        Err(failure.unwrap_or_else(|| error::missing("the tiered device", offset, buffer.len() as u64)))
    }
}

impl Device for TieredDevice {
    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        error::check_transfer("write", offset, data)?;
        let bytes = data.len() as u64;
        self.wait_for_room(bytes)?;
        let (now, later) = self.tiers.levels.split_at(self.options.commit + 1);
        // What a later tier has of this range is old from here on.
        for level in later {
            level.outdate(offset, offset + bytes);
        }
        for level in now {
            level.write(offset, data)?;
        }
        if !later.is_empty() {
            let write = Arc::new(Write::copy(offset, data));
            for level in later {
                level.queue(&write);
            }
        }
        debug_assert!(!now.is_empty(), "the commit tier is one of the tiers");
        self.tiers.held().insert(offset, offset + bytes);
        Ok(())
    }

    fn read(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        error::check_transfer("read", offset, buffer)?;
        self.tiers.read_at(offset, buffer)
    }

    fn discard(&self, offset: u64, bytes: u64) -> io::Result<()> {
        error::check_range("discard", offset, bytes)?;
        // An error of one is no reason to leave space taken on the others.
        let mut result = Ok(());
        for level in &self.tiers.levels {
            result = result.and(level.discard(offset, offset + bytes));
        }
        if result.is_ok() {
            self.tiers.held().remove(offset, offset + bytes);
        }
        result
    }

    /// Makes durable what the tiers up to the commit tier have.
    fn sync(&self) -> io::Result<()> {
        self.tiers.levels[..=self.options.commit].iter().try_for_each(Level::sync)
    }

    fn source(&self, offset: u64, bytes: usize) -> io::Result<Source> {
        error::check_range("read", offset, bytes as u64)?;
        let end = offset + bytes as u64;
        match self.tiers.levels.iter().find(|level| level.held_until(offset).is_some()) {
            // What a tier cannot forget is read from it without looking again.
            Some(level) if !level.forgets() && level.holds(offset, end) => level.source(offset, bytes),
            Some(_) => Ok(Source::Blocking { source: Arc::clone(&self.tiers) as Arc<dyn BlockingSource>, offset }),
            None => Err(error::missing("the tiered device", offset, bytes as u64)),
        }
    }

    /// What is written and not discarded, once, however many tiers hold it; [`TieredDevice::report`] has each tier's own.
    fn used_bytes(&self) -> u64 {
        self.tiers.held().bytes()
    }
}

impl Drop for TieredDevice {
    /// Writes what is queued as long as that succeeds, if it is to.
    fn drop(&mut self) {
        for level in &self.tiers.levels {
            level.close(self.options.finish);
        }
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}
