//! A bound on the space that several devices take together: what would exceed it is refused as on a full disk.

use std::io::{self, ErrorKind};
use std::sync::{Arc, PoisonError};

use almandine_io::sync::RwLock;

use crate::{Device, Source};

/// The bound, and the devices that share it.
pub struct Quota {
    bytes: u64,
    devices: RwLock<Vec<Arc<dyn Device>>>,
}

impl Quota {
    /// A bound in bytes.
    #[must_use]
    pub fn new(bytes: u64) -> Arc<Self> {
        Arc::new(Self { bytes, devices: RwLock::default() })
    }

    /// Puts a device under the bound. A writer that runs beside another may exceed it by what it writes.
    #[must_use]
    pub fn limit(self: &Arc<Self>, device: Arc<dyn Device>) -> LimitedDevice {
        self.devices.write().unwrap_or_else(PoisonError::into_inner).push(Arc::clone(&device));
        LimitedDevice { device, quota: Arc::clone(self) }
    }

    fn check(&self, bytes: usize) -> io::Result<()> {
        let devices = self.devices.read().unwrap_or_else(PoisonError::into_inner);
        let used: u64 = devices.iter().map(|device| device.used_bytes()).sum();
        if used.saturating_add(bytes as u64) <= self.bytes {
            return Ok(());
        }
        let text = format!("{used} of {} bytes that may be stored are used: allow more, or delete data", self.bytes);
        Err(io::Error::new(ErrorKind::StorageFull, text))
    }
}

/// Another device under a [`Quota`].
pub struct LimitedDevice {
    device: Arc<dyn Device>,
    quota: Arc<Quota>,
}

impl Device for LimitedDevice {
    fn block_bytes(&self) -> usize {
        self.device.block_bytes()
    }

    /// What is written anew counts twice while it is checked, so that the bound is never exceeded by a write that fails halfway.
    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.quota.check(data.len())?;
        self.device.write(offset, data)
    }

    fn read(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        self.device.read(offset, buffer)
    }

    fn discard(&self, offset: u64, bytes: u64) -> io::Result<()> {
        self.device.discard(offset, bytes)
    }

    fn sync(&self) -> io::Result<()> {
        self.device.sync()
    }

    fn source(&self, offset: u64, bytes: usize) -> io::Result<Source> {
        self.device.source(offset, bytes)
    }

    fn used_bytes(&self) -> u64 {
        self.device.used_bytes()
    }

    fn end(&self) -> io::Result<u64> {
        self.device.end()
    }

    fn relabel(&self, label: &str) -> io::Result<()> {
        self.device.relabel(label)
    }
}
