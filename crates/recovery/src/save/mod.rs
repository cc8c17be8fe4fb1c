//! The keyspace as a snapshot file of Redis: all databases as they were at one moment, while clients write.
//!
//! A snapshot is begun where the moment is ([`SnapshotFile::begin`]) and written by a thread that may take its time
//! ([`SnapshotFile::write`]). The file has its name only when all of it is durable: a temporary file beside it is written, synced
//! and renamed, and then the name is made durable. A file that was there before stays until then.
//!
//! Keys that were past their time at the moment are left out, so are such elements of collections.

mod error;
mod options;
mod stale;
pub mod value;

pub use error::SaveError;
pub use options::{SaveOptions, SaveProgress, Saved};
pub use stale::remove_stale;

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use almandine_io::{clock, process, thread};
use almandine_keyspace::{Accessor, CopiedKey, Copying, KeyUse, frequency};
use almandine_rdb::file::{EntryMetadata, FileWriter};

use self::value::Readers;
use crate::durable::write_durably;

/// How often a record that cannot be read is tried again,
const ATTEMPTS: u32 = 50;
/// and the rest between two attempts.
const REST: Duration = Duration::from_millis(100);

/// All databases as they were at one moment. While it lives, writers save for it what they overwrite.
pub struct SnapshotFile {
    copying: Copying,
}

/// The name of a snapshot while this process writes it.
#[must_use]
pub fn temporary(path: &Path) -> PathBuf {
    let directory = path.parent().filter(|directory| !directory.as_os_str().is_empty()).unwrap_or(Path::new("."));
    stale::temporary_of(directory, process::id())
}

impl SnapshotFile {
    /// Begins a snapshot of this moment; None: there is one under way. Within a batch, and not in a unit that holds latches.
    #[must_use]
    pub fn begin(accessor: &mut Accessor) -> Option<Self> {
        let room = options::saved_bytes_max(accessor.keyspace());
        accessor.unit().begin_copying(room).map(|copying| Self { copying })
    }

    /// As [`SnapshotFile::begin`], outside of a batch.
    #[must_use]
    pub fn begin_now(accessor: &mut Accessor) -> Option<Self> {
        accessor.begin_batch(clock::unix_ms());
        let snapshot = Self::begin(accessor);
        accessor.end_batch();
        snapshot
    }

    /// Writes it under this name, durably. Outside of a batch, by an accessor of the same keyspace.
    ///
    /// # Errors
    /// When it cannot be written as a whole; then whatever had the name has it still.
    pub fn write(
        self,
        accessor: &mut Accessor,
        path: &Path,
        options: &SaveOptions,
        progress: &SaveProgress,
    ) -> Result<Saved, SaveError> {
        write_durably(&temporary(path), path, |out| self.write_to(accessor, out, options, progress))
    }

    /// Writes it somewhere. Nothing is made durable.
    ///
    /// # Errors
    /// When it cannot be written as a whole.
    pub fn write_to<W: Write>(
        mut self,
        accessor: &mut Accessor,
        out: W,
        options: &SaveOptions,
        progress: &SaveProgress,
    ) -> Result<(W, Saved), SaveError> {
        let mut file = Writing {
            out: FileWriter::new(out, options.write()),
            options,
            progress,
            now_ms: self.copying.now_ms(),
            sizes: self.copying.databases().map(|database| (database.db, (database.keys, database.expiring))).collect(),
            selected: None,
            value: Vec::new(),
            saved: Saved::default(),
            turns: thread::Turns::new(),
        };
        file.head(accessor)?;
        let (mut attempts, mut failed) = (0, None);
        let keyspace = Arc::clone(accessor.keyspace());
        loop {
            let more = self.copying.next(accessor, |key| {
                progress.kept(keyspace.figures().copying_bytes());
                if failed.is_none() && !progress.is_cancelled() {
                    failed = file.key(&key).err();
                }
            });
            progress.copied(file.out.len(), self.copying.millionths());
            if let Some(error) = failed {
                return Err(error);
            }
            if progress.is_cancelled() {
                return Err(SaveError::Cancelled);
            }
            match more {
                Ok(true) => attempts = 0,
                Ok(false) => break,
                Err(_) if attempts == ATTEMPTS => return Err(SaveError::Unreadable),
                Err(_) => {
                    attempts += 1;
                    thread::sleep(REST);
                }
            }
        }
        if self.copying.lost() != 0 {
            return Err(SaveError::Lost(self.copying.lost()));
        }
        file.end()
    }
}

/// A file that is being written.
struct Writing<'w, W> {
    out: FileWriter<W>,
    options: &'w SaveOptions,
    progress: &'w SaveProgress,
    now_ms: i64,
    /// Of each database its keys, and those of them that expire; taken out when they were written.
    sizes: std::collections::BTreeMap<u16, (u64, u64)>,
    selected: Option<u16>,
    value: Vec<u8>,
    saved: Saved,
    turns: thread::Turns,
}

impl<W: Write> Writing<'_, W> {
    fn head(&mut self, accessor: &Accessor) -> io::Result<()> {
        let used = accessor.keyspace().figures().used_bytes();
        self.options.write_head(&mut self.out, self.now_ms)?;
        self.out.aux("used-mem", used.to_string().as_bytes())?;
        self.options.functions.iter().try_for_each(|code| self.out.function(code))
    }

    fn key(&mut self, copied: &CopiedKey<'_>) -> Result<(), SaveError> {
        if copied.expiry_ms.is_some_and(|at_ms| at_ms <= self.now_ms) {
            return Ok(());
        }
        self.value.clear();
        let written = value::write(copied.value, Readers::Of(self.options.version), &mut self.value);
        let Some(version) = written.map_err(|_| SaveError::Unreadable)? else { return Ok(()) };
        self.saved.count(copied.key, version, self.options)?;
        self.select(copied.db)?;
        let metadata = EntryMetadata {
            expiry_ms: copied.expiry_ms,
            idle_s: if let KeyUse::IdleSeconds(seconds) = copied.used { Some(seconds) } else { None },
            frequency: if let KeyUse::Frequency(steps) = copied.used { Some(frequency::of_steps(steps)) } else { None },
        };
        self.out.entry(copied.key, &self.value, metadata)?;
        self.turns.step(copied.key.len() + self.value.len());
        self.progress.set_keys(self.saved.keys);
        if self.value.capacity() > 1 << 20 {
            self.value = Vec::new();
        }
        self.progress.rest();
        Ok(())
    }

    /// Says which database the keys that follow are in.
    fn select(&mut self, db: u16) -> io::Result<()> {
        if self.selected == Some(db) {
            return Ok(());
        }
        self.selected = Some(db);
        match self.sizes.remove(&db) {
            Some((keys, expiring)) => self.out.database(db.into(), keys, expiring),
            None => self.out.select(db.into()),
        }
    }

    fn end(self) -> Result<(W, Saved), SaveError> {
        let mut saved = self.saved;
        let (out, bytes) = self.out.finish_counted()?;
        saved.bytes = bytes;
        Ok((out, saved))
    }
}

#[cfg(test)]
mod tests;
