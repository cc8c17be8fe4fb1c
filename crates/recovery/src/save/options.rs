//! How a snapshot is written, how far it is, and what became of it.

use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use almandine_io::{memory, thread};
use almandine_keyspace::Keyspace;
use almandine_rdb::file::{FileWriter, WriteOptions, WriteVersion};

use super::error::SaveError;

/// One part in this number of the memory budget is for what writers save for a snapshot, before they have to wait for it,
const SAVED_SHARE: u64 = 8;
/// and at least as many bytes.
const SAVED_BYTES_MIN: u64 = 64 << 20;
/// Microseconds between two looks at whether a file that is written slowly is still wanted.
const REST_US: u64 = 10_000;

/// How a snapshot is written.
#[derive(Clone, Debug)]
pub struct SaveOptions {
    /// The version of the format.
    pub version: WriteVersion,
    /// Whether the file ends with a checksum.
    pub checksum: bool,
    /// Whether strings are compressed where that is shorter.
    pub compression: bool,
    /// Whether a value that no form of that version can say is an error. Else it is written in a newer form, which older servers
    /// refuse, and [`Saved::newer`] says so.
    pub strict: bool,
    /// The version of Redis that the server says it is.
    pub server_version: String,
    /// Further names and what they stand for.
    pub aux: Vec<(String, String)>,
    /// Libraries of functions.
    pub functions: Vec<Vec<u8>>,
}

impl Default for SaveOptions {
    fn default() -> Self {
        Self {
            version: WriteVersion::default(),
            checksum: true,
            compression: true,
            strict: false,
            server_version: String::from("7.4.0"),
            aux: Vec::new(),
            functions: Vec::new(),
        }
    }
}

impl SaveOptions {
    pub(crate) fn write(&self) -> WriteOptions {
        WriteOptions { version: self.version, checksum: self.checksum, compression: self.compression }
    }

    /// Writes by which server a file is written, and of what moment it is.
    pub(crate) fn write_head<W: Write>(&self, out: &mut FileWriter<W>, now_ms: i64) -> io::Result<()> {
        out.aux("redis-ver", self.server_version.as_bytes())?;
        out.aux("redis-bits", b"64")?;
        out.aux("ctime", (now_ms / 1000).to_string().as_bytes())?;
        self.aux.iter().try_for_each(|(name, value)| out.aux(name, value.as_bytes()))
    }
}

/// What became of a snapshot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Saved {
    /// Keys in it.
    pub keys: u64,
    /// Its bytes.
    pub bytes: u64,
    /// The oldest version whose readers know all of its values, if that is newer than the file's own.
    pub newer: Option<u16>,
}

impl Saved {
    /// Another key, whose value this version is the oldest to know.
    pub(crate) fn count(&mut self, key: &[u8], version: u16, options: &SaveOptions) -> Result<(), SaveError> {
        if !options.version.has(version) {
            if options.strict {
                return Err(SaveError::Version { key: key.to_vec(), version });
            }
            self.newer = self.newer.max(Some(version));
        }
        self.keys += 1;
        Ok(())
    }
}

/// How far a snapshot is, for questions meanwhile, and what is asked of it.
#[derive(Debug, Default)]
pub struct SaveProgress {
    keys: AtomicU64,
    bytes: AtomicU64,
    millionths: AtomicU64,
    saved_bytes: AtomicU64,
    saved_bytes_max: AtomicU64,
    cancelled: AtomicBool,
    /// Microseconds to rest behind each key, for tests of what happens meanwhile.
    pub key_delay_us: AtomicU64,
}

impl SaveProgress {
    /// Keys that were written.
    #[must_use]
    pub fn keys(&self) -> u64 {
        self.keys.load(Relaxed)
    }

    /// Bytes that were written.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Relaxed)
    }

    /// How much of it is done, in parts of a million.
    #[must_use]
    pub fn millionths(&self) -> u64 {
        self.millionths.load(Relaxed)
    }

    /// Bytes that are kept of what clients have changed before it came to that: now, and at most since it began.
    #[must_use]
    pub fn saved_bytes(&self) -> (u64, u64) {
        (self.saved_bytes.load(Relaxed), self.saved_bytes_max.load(Relaxed))
    }

    /// Asks for its end, without a file.
    pub fn cancel(&self) {
        self.cancelled.store(true, Relaxed);
    }

    /// Rests behind a key as long as it is asked to, and no longer than it is wanted.
    pub(crate) fn rest(&self) {
        let mut left_us = self.key_delay_us.load(Relaxed);
        while left_us != 0 && !self.is_cancelled() {
            let part_us = left_us.min(REST_US);
            thread::sleep(Duration::from_micros(part_us));
            left_us -= part_us;
        }
    }

    pub(crate) fn is_cancelled(&self) -> bool {
        self.cancelled.load(Relaxed)
    }

    pub(crate) fn set_keys(&self, keys: u64) {
        self.keys.store(keys, Relaxed);
    }

    /// Bytes are kept of what clients have changed. Called by the writing thread only.
    pub(super) fn kept(&self, bytes: u64) {
        self.saved_bytes.store(bytes, Relaxed);
        if bytes > self.saved_bytes_max.load(Relaxed) {
            self.saved_bytes_max.store(bytes, Relaxed);
        }
    }

    /// This is done. Called by the writing thread only.
    pub fn copied(&self, bytes: u64, millionths: u64) {
        self.bytes.store(bytes, Relaxed);
        self.millionths.store(millionths, Relaxed);
    }
}

/// Bytes that writers may save for a snapshot before they have to wait for it.
pub(super) fn saved_bytes_max(keyspace: &Keyspace) -> u64 {
    let budget = match keyspace.settings().budget() {
        0 => memory::physical_bytes(),
        budget => budget,
    };
    (budget / SAVED_SHARE).max(SAVED_BYTES_MIN)
}
