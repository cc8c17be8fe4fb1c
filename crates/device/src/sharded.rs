//! One device over several: stripes go round them, so that the speed of all is that of one log.
//!
//! A stripe is as large as the pages that are written, so that a page lies on one device and a read needs one device. Which
//! device is first and how large a stripe is are part of what the data means; directories remember it in their label.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use crate::{BLOCK_BYTES, BlockingSource, Device, FileDevice, FileOptions, Removed, Source, error};

/// The size of a page of the log.
pub const STRIPE_BYTES: u64 = 2 << 20;

/// Stripes over several devices.
pub struct ShardedDevice {
    shards: Arc<Shards>,
    removed: Removed,
}

struct Shards {
    devices: Vec<Arc<dyn Device>>,
    stripe_bytes: u64,
}

impl ShardedDevice {
    /// Stripes over these devices, in this order.
    ///
    /// # Errors
    /// When there are none, or a stripe is not made of whole blocks.
    pub fn new(devices: Vec<Arc<dyn Device>>, stripe_bytes: u64) -> io::Result<Self> {
        if devices.is_empty() || stripe_bytes == 0 || !stripe_bytes.is_multiple_of(BLOCK_BYTES as u64) {
            let text = format!(
                "cannot stripe over {} devices by {stripe_bytes} bytes: give at least one and a multiple of {BLOCK_BYTES}",
                devices.len()
            );
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        }
        Ok(Self { shards: Arc::new(Shards { devices, stripe_bytes }), removed: Removed::default() })
    }

    /// Stripes over directories, which when kept must be the same in the same order.
    ///
    /// # Errors
    /// As [`FileDevice::open`] of each of them.
    pub fn open(directories: &[PathBuf], options: &FileOptions) -> io::Result<Self> {
        let count = directories.len();
        let mut devices: Vec<Arc<dyn Device>> = Vec::new();
        let mut removed = Removed::default();
        for (i, directory) in directories.iter().enumerate() {
            let shard = format!(", shard {} of {count} by {STRIPE_BYTES}", i + 1);
            let device = FileDevice::open(directory, &FileOptions { shard, ..options.clone() })?;
            removed.files += device.removed().files;
            removed.bytes += device.removed().bytes;
            devices.push(Arc::new(device));
        }
        Ok(Self { removed, ..Self::new(devices, STRIPE_BYTES)? })
    }

    /// What an earlier run had left in the directories, and is deleted.
    #[must_use]
    pub fn removed(&self) -> Removed {
        self.removed
    }
}

/// A piece of a transfer that lies on one device.
struct Part<'a> {
    device: &'a Arc<dyn Device>,
    /// On that device.
    offset: u64,
    /// Within the whole transfer.
    range: std::ops::Range<usize>,
}

impl Shards {
    fn parts(&self, offset: u64, bytes: usize) -> impl Iterator<Item = Part<'_>> {
        let (stripe, count) = (self.stripe_bytes, self.devices.len() as u64);
        let mut done = 0;
        std::iter::from_fn(move || {
            let at = offset + done as u64;
            let part = usize::try_from(stripe - at % stripe).unwrap_or(bytes).min(bytes - done);
            done += part;
            let (round, shard) = (at / stripe / count, at / stripe % count);
            debug_assert_eq!(self.below(at, shard), round * stripe + at % stripe, "parts and discards agree where an offset lies");
            let device = &self.devices[usize::try_from(shard).ok()?];
            (part > 0).then(|| Part { device, offset: round * stripe + at % stripe, range: done - part..done })
        })
    }

    /// How many bytes below an offset are on a shard: where a range that begins or ends there does so on it.
    fn below(&self, offset: u64, shard: u64) -> u64 {
        let (stripe, count) = (self.stripe_bytes, self.devices.len() as u64);
        let (round, at) = (offset / stripe / count, offset / stripe % count);
        let of_this_round = match at.cmp(&shard) {
            std::cmp::Ordering::Less => 0,
            std::cmp::Ordering::Equal => offset % stripe,
            std::cmp::Ordering::Greater => stripe,
        };
        round * stripe + of_this_round
    }
}

impl BlockingSource for Shards {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        self.parts(offset, buffer.len()).try_for_each(|part| part.device.read(part.offset, &mut buffer[part.range]))
    }
}

impl Device for ShardedDevice {
    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        error::check_transfer("write", offset, data)?;
        self.shards.parts(offset, data.len()).try_for_each(|part| part.device.write(part.offset, &data[part.range]))
    }

    fn read(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        error::check_transfer("read", offset, buffer)?;
        self.shards.read_at(offset, buffer)
    }

    fn discard(&self, offset: u64, bytes: u64) -> io::Result<()> {
        error::check_range("discard", offset, bytes)?;
        let mut result = Ok(());
        let mut given_back = 0;
        for (shard, device) in (0..).zip(&self.shards.devices) {
            let (begin, end) = (self.shards.below(offset, shard), self.shards.below(offset + bytes, shard));
            debug_assert!(begin <= end, "what is below an offset grows with it");
            given_back += end - begin;
            if begin < end {
                // An error of one is no reason to leave space taken on the others.
                result = result.and(device.discard(begin, end - begin));
            }
        }
        debug_assert_eq!(given_back, bytes, "the shards' parts are the range");
        result
    }

    fn sync(&self) -> io::Result<()> {
        self.shards.devices.iter().try_for_each(|device| device.sync())
    }

    fn source(&self, offset: u64, bytes: usize) -> io::Result<Source> {
        error::check_range("read", offset, bytes as u64)?;
        match self.shards.parts(offset, bytes).next() {
            Some(part) if part.range.len() == bytes => part.device.source(part.offset, bytes),
            _ => Ok(Source::Blocking { source: Arc::clone(&self.shards) as Arc<dyn BlockingSource>, offset }),
        }
    }

    fn used_bytes(&self) -> u64 {
        self.shards.devices.iter().map(|device| device.used_bytes()).sum()
    }

    fn end(&self) -> io::Result<u64> {
        let ends: Vec<u64> = self.shards.devices.iter().map(|device| device.end()).collect::<io::Result<_>>()?;
        let rounds = ends.into_iter().max().unwrap_or(0).div_ceil(self.shards.stripe_bytes);
        Ok(rounds * self.shards.stripe_bytes * self.shards.devices.len() as u64)
    }

    fn relabel(&self, label: &str) -> io::Result<()> {
        self.shards.devices.iter().try_for_each(|device| device.relabel(label))
    }
}
