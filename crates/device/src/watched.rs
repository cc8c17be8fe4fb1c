//! How devices fare, for INFO and the log: whether writes succeed, and what the last error said.
//!
//! Reads of workers pass it by, since they go to the device's [`Source`]; the store counts their errors.

use std::io;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, PoisonError};

use almandine_io::sync::Mutex;

use crate::{Device, Source};

/// Whether a device takes writes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum DeviceState {
    /// It does.
    #[default]
    Sound = 0,
    /// There is no space left.
    Full = 1,
    /// It refuses them for another reason.
    Failing = 2,
}

impl DeviceState {
    /// One word.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sound => "ok",
            Self::Full => "full",
            Self::Failing => "failing",
        }
    }
}

/// What is known of one or several devices; shared with INFO and the log.
#[derive(Debug, Default)]
pub struct Health {
    state: AtomicU8,
    write_errors: AtomicU64,
    last_error: Mutex<String>,
}

impl Health {
    /// Whether the last write succeeded, or the device has had room since.
    #[must_use]
    pub fn state(&self) -> DeviceState {
        match self.state.load(Ordering::Relaxed) {
            0 => DeviceState::Sound,
            1 => DeviceState::Full,
            _ => DeviceState::Failing,
        }
    }

    /// Writes and syncs that failed so far.
    #[must_use]
    pub fn write_errors(&self) -> u64 {
        self.write_errors.load(Ordering::Relaxed)
    }

    /// What the last of them said; empty when there was none.
    #[must_use]
    pub fn last_error(&self) -> String {
        self.last_error.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Space was given back: a device that was full may take the next write, which nothing may ask for before memory is short.
    fn note_room(&self) {
        let (full, sound) = (DeviceState::Full as u8, DeviceState::Sound as u8);
        // Another error than that is no matter of room.
        let _ = self.state.compare_exchange(full, sound, Ordering::Relaxed, Ordering::Relaxed);
    }

    fn note<T>(&self, result: io::Result<T>) -> io::Result<T> {
        let state = match &result {
            Ok(_) => DeviceState::Sound,
            Err(error) => {
                *self.last_error.lock().unwrap_or_else(PoisonError::into_inner) = error.to_string();
                self.write_errors.fetch_add(1, Ordering::Relaxed);
                match error.kind() {
                    io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => DeviceState::Full,
                    _ => DeviceState::Failing,
                }
            }
        };
        self.state.store(state as u8, Ordering::Relaxed);
        result
    }
}

/// Another device, whose writes are watched.
pub struct WatchedDevice {
    device: Arc<dyn Device>,
    health: Arc<Health>,
}

impl WatchedDevice {
    /// Watches a device; several may share what is known of them.
    #[must_use]
    pub fn new(device: Arc<dyn Device>, health: Arc<Health>) -> Self {
        Self { device, health }
    }
}

impl Device for WatchedDevice {
    fn block_bytes(&self) -> usize {
        self.device.block_bytes()
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.health.note(self.device.write(offset, data))
    }

    fn read(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        self.device.read(offset, buffer)
    }

    fn discard(&self, offset: u64, bytes: u64) -> io::Result<()> {
        let before = self.device.used_bytes();
        let discarded = self.device.discard(offset, bytes);
        if self.device.used_bytes() < before {
            self.health.note_room();
        }
        discarded
    }

    fn sync(&self) -> io::Result<()> {
        self.health.note(self.device.sync())
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
