//! The log in files: what was appended is read again, or refused where it was damaged.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

mod archive;
mod backup;
mod backup_store;
mod damage;
mod encryption;
mod packed;
mod recover;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use almandine_oplog::append::{Appender, Leftover, LogOptions};
use almandine_oplog::directory::{Directory, read_manifest, segment_path};
use almandine_oplog::read::{BodyAccess, LogEnd, read_with};
use almandine_oplog::{Fault, LogKeys, RingId, UnitHead};

const SEGMENT_BYTES: u64 = 64 << 10;

/// A directory of one test, that is removed when it ends.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        Self::below(&std::env::temp_dir(), name)
    }

    /// In memory, where there is such a place: for tests that sync often.
    fn quick(name: &str) -> Self {
        let memory = Path::new("/dev/shm");
        Self::below(&if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() }, name)
    }

    fn below(directory: &Path, name: &str) -> Self {
        let path = directory.join(format!("almandine-log-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        Self(path)
    }

    /// Begins a run behind what the log holds.
    fn begin(&self) -> Appender {
        self.begin_with(&[])
    }

    fn begin_with(&self, left: &[Leftover]) -> Appender {
        self.begin_keyed(left, &Arc::default())
    }

    /// The same, encrypted.
    fn begin_keyed(&self, left: &[Leftover], keys: &Arc<LogKeys>) -> Appender {
        let directory = Directory::take(&self.0).unwrap();
        let manifest = directory.manifest().unwrap();
        let from = manifest.base.map_or(0, |base| base.lsn);
        let end = read_with((&self.0, BodyAccess::Keys(keys)), &manifest, from, &mut |_| Ok(())).unwrap();
        let options = LogOptions { segment_bytes: SEGMENT_BYTES, keys: Arc::clone(keys), ..LogOptions::default() };
        Appender::begin(directory, manifest, &end, &options, left, Box::new(|| {})).unwrap()
    }

    /// What the log holds: run, ring and unit of each.
    fn read(&self) -> Result<(Vec<Unit>, LogEnd), Fault> {
        read_units(&self.0)
    }

    /// The file of the last segment.
    fn last_segment(&self) -> PathBuf {
        segment_path(&self.0, read_manifest(&self.0).unwrap().unwrap().segments.last().unwrap().number)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

type Unit = (u64, RingId, Vec<u8>);

fn read_units(path: &Path) -> Result<(Vec<Unit>, LogEnd), Fault> {
    read_units_with(path, BodyAccess::Keys(&LogKeys::NONE))
}

fn read_units_with(path: &Path, access: BodyAccess<'_>) -> Result<(Vec<Unit>, LogEnd), Fault> {
    let mut units = Vec::new();
    let manifest = read_manifest(path)?.unwrap();
    let end = read_with((path, access), &manifest, 0, &mut |group| {
        for slice in group.slices() {
            let slice = slice.unwrap();
            let mut rest = slice.units;
            while let Some((head, _, behind)) = UnitHead::split(rest) {
                assert!(head.number >> 18 <= group.head.epoch, "a group holds what its cut closes");
                units.push((slice.run, slice.ring, rest[..rest.len() - behind.len()].to_vec()));
                rest = behind;
            }
        }
        Ok(())
    })?;
    Ok((units, end))
}

/// A unit of this epoch, the `count`th of its ring.
fn unit(epoch: u64, count: u64, bytes: usize) -> Vec<u8> {
    let head = UnitHead { number: (epoch << 18) + count, bytes: u32::try_from(bytes).unwrap(), entries: 1 };
    let entries: Vec<u8> = (0..bytes).map(|at| (at as u64 * 31 + count) as u8).collect();
    [&head.encode()[..], &entries].concat()
}

/// Appends a group of one unit per ring.
fn append(log: &mut Appender, epoch: u64, sizes: &[usize], durable: bool) -> Vec<Unit> {
    let units: Vec<_> =
        (0_u16..).zip(sizes).map(|(ring, bytes)| (RingId(ring), unit(epoch, u64::from(ring) + 1, *bytes))).collect();
    log.append(epoch, durable, &mut |group| units.iter().for_each(|(ring, unit)| group.push(*ring, unit))).unwrap();
    let run = log.manifest().run;
    units.into_iter().map(|(ring, unit)| (run, ring, unit)).collect()
}
