//! A device that fails on purpose, for tests: what a store does about errors is proven with this in front of its device.
//!
//! Faults are drawn by a seed and a count of operations, so a test of one thread repeats exactly. The plan can be changed while
//! the device is used. Reads go through threads of the pool, so that their faults reach workers in the way real ones do.

use std::io::{self, ErrorKind};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use almandine_io::sync::RwLock;

use crate::{BLOCK_BYTES, BlockingSource, Device, Source, error};

/// How many of a million operations fail in which way. The default is none.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FaultPlan {
    /// Reads that fail as a whole.
    pub read_errors: u32,
    /// Reads that fill only a part of the buffer and say so.
    pub short_reads: u32,
    /// Reads that succeed with one bit wrong.
    pub flipped_bits: u32,
    /// Writes that fail with nothing written.
    pub write_errors: u32,
    /// Writes that fail with the first blocks written.
    pub short_writes: u32,
    /// Writes that fail with some of the blocks written.
    pub torn_writes: u32,
    /// Writes that succeed with some of the blocks not written: a disk that lies.
    pub lost_writes: u32,
    /// Discards that fail with nothing discarded.
    pub discard_errors: u32,
    /// Syncs that fail.
    pub sync_errors: u32,
    /// Reads and writes that take longer.
    pub delays: u32,
    /// How much longer at most.
    pub delay_max: Duration,
    /// The device is full at this many bytes.
    pub full_at: Option<u64>,
}

/// How many faults there were.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FaultCounts {
    /// Reads that failed.
    pub reads: u64,
    /// Reads that gave wrong bytes.
    pub flipped: u64,
    /// Writes that failed.
    pub writes: u64,
    /// Writes that lied.
    pub lost: u64,
    /// Discards and syncs that failed.
    pub others: u64,
    /// Reads and writes that were held up.
    pub delays: u64,
}

/// Another device with faults.
pub struct FaultyDevice {
    faults: Arc<Faults>,
}

struct Faults {
    device: Arc<dyn Device>,
    plan: RwLock<FaultPlan>,
    seed: u64,
    operations: AtomicU64,
    counts: Counts,
    /// A sync has failed, so none succeeds any more.
    sync_failed: AtomicBool,
}

#[derive(Default)]
struct Counts {
    reads: AtomicU64,
    flipped: AtomicU64,
    writes: AtomicU64,
    lost: AtomicU64,
    others: AtomicU64,
    delays: AtomicU64,
}

/// The random numbers of one operation.
struct Dice(u64);

impl Dice {
    fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.roll() % limit.max(1)
    }

    fn hits(&mut self, per_million: u32) -> bool {
        self.below(1_000_000) < u64::from(per_million)
    }
}

impl FaultyDevice {
    /// Puts faults before a device.
    #[must_use]
    pub fn new(device: Arc<dyn Device>, seed: u64, plan: FaultPlan) -> Self {
        let (plan, operations, counts) = (RwLock::new(plan), AtomicU64::new(0), Counts::default());
        Self { faults: Arc::new(Faults { device, plan, seed, operations, counts, sync_failed: AtomicBool::new(false) }) }
    }

    /// Changes the plan; operations that are under way keep the one they began with.
    pub fn set_plan(&self, plan: FaultPlan) {
        *self.faults.plan.write().unwrap_or_else(PoisonError::into_inner) = plan;
    }

    /// The faults so far.
    #[must_use]
    pub fn counts(&self) -> FaultCounts {
        let Counts { reads, flipped, writes, lost, others, delays } = &self.faults.counts;
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        FaultCounts {
            reads: read(reads),
            flipped: read(flipped),
            writes: read(writes),
            lost: read(lost),
            others: read(others),
            delays: read(delays),
        }
    }
}

impl Faults {
    /// The plan for one operation and its random numbers.
    fn begin(&self) -> (FaultPlan, Dice) {
        let operation = self.operations.fetch_add(1, Ordering::Relaxed);
        let mut dice = Dice(self.seed ^ operation.wrapping_mul(0xD6E8_FEB8_6659_FD93));
        dice.roll();
        (self.plan.read().unwrap_or_else(PoisonError::into_inner).clone(), dice)
    }

    fn delay(&self, plan: &FaultPlan, dice: &mut Dice) {
        if dice.hits(plan.delays) {
            count(&self.counts.delays);
            let us = u64::try_from(plan.delay_max.as_micros()).unwrap_or(u64::MAX);
            almandine_io::thread::sleep(Duration::from_micros(dice.below(us.saturating_add(1))));
        }
    }

    /// A number of whole blocks smaller than all of them.
    fn some_blocks(bytes: usize, dice: &mut Dice) -> usize {
        let blocks = (bytes / BLOCK_BYTES) as u64;
        usize::try_from(dice.below(blocks)).unwrap_or(0) * BLOCK_BYTES
    }

    /// Writes some blocks and not others; at least one is missing.
    fn tear(&self, offset: u64, data: &[u8], dice: &mut Dice) -> io::Result<()> {
        let missing = Self::some_blocks(data.len(), dice) / BLOCK_BYTES;
        debug_assert!(data.is_empty() || missing * BLOCK_BYTES < data.len(), "a torn write lacks a block");
        for (i, block) in data.chunks(BLOCK_BYTES).enumerate() {
            if i != missing && dice.hits(500_000) {
                self.device.write(offset + (i * BLOCK_BYTES) as u64, block)?;
            }
        }
        Ok(())
    }
}

fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

fn fault(kind: ErrorKind, text: &str, offset: u64, bytes: usize) -> io::Error {
    io::Error::new(kind, format!("injected: {text} of {bytes} bytes at {offset}"))
}

impl BlockingSource for Faults {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        let (plan, mut dice) = self.begin();
        self.delay(&plan, &mut dice);
        if dice.hits(plan.read_errors) {
            count(&self.counts.reads);
            return Err(fault(ErrorKind::Other, "failed read", offset, buffer.len()));
        }
        if dice.hits(plan.short_reads) {
            count(&self.counts.reads);
            let part: Range<usize> = 0..Self::some_blocks(buffer.len(), &mut dice);
            self.device.read(offset, &mut buffer[part])?;
            return Err(fault(ErrorKind::UnexpectedEof, "short read", offset, buffer.len()));
        }
        self.device.read(offset, buffer)?;
        if !buffer.is_empty() && dice.hits(plan.flipped_bits) {
            count(&self.counts.flipped);
            let bit = dice.below(buffer.len() as u64 * 8);
            buffer[usize::try_from(bit / 8).unwrap_or(0)] ^= 1 << (bit % 8);
        }
        Ok(())
    }
}

impl Device for FaultyDevice {
    fn block_bytes(&self) -> usize {
        self.faults.device.block_bytes()
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        error::check_transfer("write", offset, data)?;
        let Faults { device, counts, .. } = &*self.faults;
        let (plan, mut dice) = self.faults.begin();
        self.faults.delay(&plan, &mut dice);
        let failed = |kind, text| {
            count(&counts.writes);
            Err(fault(kind, text, offset, data.len()))
        };
        if plan.full_at.is_some_and(|full| device.used_bytes() + data.len() as u64 > full) {
            return failed(ErrorKind::StorageFull, "write on a full device");
        }
        if dice.hits(plan.write_errors) {
            return failed(ErrorKind::Other, "failed write");
        }
        if dice.hits(plan.short_writes) {
            device.write(offset, &data[..Faults::some_blocks(data.len(), &mut dice)])?;
            return failed(ErrorKind::WriteZero, "short write");
        }
        if dice.hits(plan.torn_writes) {
            self.faults.tear(offset, data, &mut dice)?;
            return failed(ErrorKind::Other, "torn write");
        }
        if dice.hits(plan.lost_writes) {
            count(&counts.lost);
            return self.faults.tear(offset, data, &mut dice);
        }
        device.write(offset, data)
    }

    fn read(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        error::check_transfer("read", offset, buffer)?;
        self.faults.read_at(offset, buffer)
    }

    fn discard(&self, offset: u64, bytes: u64) -> io::Result<()> {
        error::check_range("discard", offset, bytes)?;
        let (plan, mut dice) = self.faults.begin();
        if dice.hits(plan.discard_errors) {
            count(&self.faults.counts.others);
            return Err(io::Error::other(format!("injected: failed discard of {bytes} bytes at {offset}")));
        }
        self.faults.device.discard(offset, bytes)
    }

    fn sync(&self) -> io::Result<()> {
        let (plan, mut dice) = self.faults.begin();
        if dice.hits(plan.sync_errors) {
            count(&self.faults.counts.others);
            self.faults.sync_failed.store(true, Ordering::Relaxed);
            return Err(io::Error::other("injected: failed sync"));
        }
        if self.faults.sync_failed.load(Ordering::Relaxed) {
            return Err(io::Error::other("an injected sync failed before; what the device holds is uncertain"));
        }
        self.faults.device.sync()
    }

    fn source(&self, offset: u64, bytes: usize) -> io::Result<Source> {
        // Asked for its errors only: what is read comes through here.
        self.faults.device.source(offset, bytes)?;
        Ok(Source::Blocking { source: Arc::clone(&self.faults) as Arc<dyn BlockingSource>, offset })
    }

    fn used_bytes(&self) -> u64 {
        self.faults.device.used_bytes()
    }

    fn end(&self) -> io::Result<u64> {
        self.faults.device.end()
    }
}
