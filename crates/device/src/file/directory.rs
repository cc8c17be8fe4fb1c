//! The directory of a [`super::FileDevice`]: whose it is, and what its files are called.
//!
//! Nothing is made, deleted or overwritten before it is certain that the directory holds only files of ours and that no other
//! process uses it. A file system's own `lost+found` is ignored.

use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};

use almandine_io::file::{self, File};
use almandine_io::{files, process};

use super::{FileOptions, OpenMode, Removed, probe_direct};
use crate::{BLOCK_BYTES, error};

/// The file that the process locks which uses a directory.
pub const LOCK: &str = "almandine.lock";
const FORMAT: &str = "almandine.format";
const FORMAT_NEW: &str = "almandine.format.new";
const PROBE: &str = "almandine.probe";
const NOBODYS: &str = "lost+found";
const SUFFIX: &str = ".segment";
/// A label that begins so is of contents that outlive the process.
pub(super) const KEPT_LABEL: &str = "log ";
/// One that begins so, of contents that outlive it when something else counts.
const BEGUN_LABEL: &str = "begins at base ";
const FIRST_LINE: &str = "almandine device 1";

#[derive(Debug)]
pub(super) struct Directory {
    path: PathBuf,
    direct: bool,
    removed: Removed,
    shard: String,
    /// Holds the lock while it is open.
    _lock: File,
}

impl Directory {
    /// Opens or makes the directory; gives the segments' size and the indices of those that are there, in ascending order.
    pub(super) fn open(path: PathBuf, options: &FileOptions) -> io::Result<(Self, u64, Vec<u64>)> {
        let size = options.segment_bytes;
        if size == 0 || !size.is_multiple_of(BLOCK_BYTES as u64) {
            let text = format!("a segment of {size} bytes is not made of blocks of {BLOCK_BYTES}: choose a multiple");
            return Err(io::Error::new(ErrorKind::InvalidInput, text));
        }
        files::make_directories(&path).map_err(|e| error::at_path("make directory", &path, &e))?;
        refuse_foreign_files(&path)?;
        let lock = lock(&path)?;
        let mut indices = segments(&path)?;
        let label = format!("{}{}", options.label, options.shard);
        let recorded = read_format(&path.join(FORMAT))?.map(|(bytes, label)| (bytes, counted(label, options)));
        for stale in [FORMAT_NEW, PROBE] {
            remove_if_there(&path.join(stale))?;
        }
        let mut removed = Removed::default();
        let segment_bytes = match (options.mode, recorded) {
            (OpenMode::Keep, Some((recorded_bytes, recorded))) => {
                if recorded != label {
                    return Err(io::Error::new(ErrorKind::InvalidInput, mismatch(&path, &recorded, &label)));
                }
                recorded_bytes
            }
            (OpenMode::Keep, None) if !indices.is_empty() => {
                let text = format!("{} has segments but no {FORMAT}, which says their size: begin empty", path.display());
                return Err(io::Error::new(ErrorKind::InvalidData, text));
            }
            (OpenMode::Empty, Some((_, recorded)))
                if recorded.starts_with(KEPT_LABEL) && recorded != label && !indices.is_empty() =>
            {
                let text = format!(
                    "{} holds data of {recorded:?}, which would be deleted: start the server with that (appendonly yes, its dir \
                     and appenddirname), name another directory, or remove this one",
                    path.display()
                );
                return Err(io::Error::new(ErrorKind::AlreadyExists, text));
            }
            _ => {
                for index in indices.drain(..) {
                    let segment = segment_path(&path, index);
                    removed.files += 1;
                    removed.bytes += files::disk_bytes(&segment).unwrap_or(0);
                    remove_if_there(&segment)?;
                }
                // Before a segment can be one of another size.
                sync_directory(&path)?;
                write_format(&path, size, &label)?;
                size
            }
        };
        debug_assert!(segment_bytes > 0 && segment_bytes.is_multiple_of(BLOCK_BYTES as u64), "read_format refuses others");
        debug_assert!(indices.is_sorted_by(|a, b| a < b), "a segment has one name");
        debug_assert_eq!(
            read_format(&path.join(FORMAT))?.map(|(bytes, _)| bytes),
            Some(segment_bytes),
            "what is written is read back"
        );
        let direct = options.direct && probe_direct(&path.join(PROBE))?;
        let directory = Self { path, direct, removed, shard: options.shard.clone(), _lock: lock };
        directory.sync()?;
        Ok((directory, segment_bytes, indices))
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn removed(&self) -> Removed {
        self.removed
    }

    pub(super) fn direct(&self) -> bool {
        self.direct
    }

    pub(super) fn segment_path(&self, index: u64) -> PathBuf {
        segment_path(&self.path, index)
    }

    /// Gives what is there another label, durably.
    pub(super) fn relabel(&self, segment_bytes: u64, label: &str) -> io::Result<()> {
        let label = format!("{label}{}", self.shard);
        let recorded = read_format(&self.path.join(FORMAT))?;
        if recorded.as_ref().is_none_or(|(_, recorded)| *recorded != label) {
            write_format(&self.path, segment_bytes, &label)?;
        }
        // Also that of one that was renamed before, and then failed.
        self.sync()
    }

    /// Makes durable which files there are.
    pub(super) fn sync(&self) -> io::Result<()> {
        sync_directory(&self.path)
    }
}

/// The label of contents that are a part of `label` when that has begun to count, at this base or a later one; until then they are
/// a part of nothing. So that label and what says what counts need not change at once.
#[must_use]
pub fn begun_label(base: u64, label: &str) -> String {
    format!("{BEGUN_LABEL}{base} of {label}")
}

/// What a label that was found is by what counts. Where that is not known, it may be so.
fn counted(label: String, options: &FileOptions) -> String {
    let Some((base, of)) = label.strip_prefix(BEGUN_LABEL).and_then(|begun| begun.split_once(" of ")) else { return label };
    let is_counted = options.counts.as_ref().is_none_or(|(counts, since)| {
        of == format!("{counts}{}", options.shard) && base.parse().is_ok_and(|base: u64| base <= *since)
    });
    if is_counted { of.to_owned() } else { label }
}

/// Why what is there cannot be kept.
fn mismatch(path: &Path, recorded: &str, label: &str) -> String {
    let path = path.display();
    if label.starts_with(KEPT_LABEL) && !recorded.starts_with(KEPT_LABEL) {
        return format!(
            "{path} holds nothing of {label:?} any more: a server went on without that log (CONFIG SET appendonly no, or a start \
             without it), and what the log needs of this directory is given up. Move the log's directory (appenddirname) away to \
             begin a new log"
        );
    }
    format!("{path} was made as {recorded:?} and is opened as {label:?}: give the directories as before, or begin empty")
}

fn sync_directory(path: &Path) -> io::Result<()> {
    files::sync_directory(path).map_err(|e| error::at_path("sync directory", path, &e))
}

fn segment_path(directory: &Path, index: u64) -> PathBuf {
    directory.join(format!("{index:012}{SUFFIX}"))
}

/// The index in a segment's name; none for any other name.
fn segment_index(name: &str) -> Option<u64> {
    let index: u64 = name.strip_suffix(SUFFIX)?.parse().ok()?;
    (format!("{index:012}{SUFFIX}") == name).then_some(index)
}

fn names(path: &Path) -> io::Result<Vec<String>> {
    files::names(path).map_err(|e| error::at_path("list directory", path, &e))
}

fn segments(path: &Path) -> io::Result<Vec<u64>> {
    let mut indices: Vec<u64> = names(path)?.iter().filter_map(|name| segment_index(name)).collect();
    indices.sort_unstable();
    Ok(indices)
}

/// Whether a file in the directory of a device has a name that a device gives.
#[must_use]
pub fn is_of_device(name: &str) -> bool {
    [LOCK, FORMAT, FORMAT_NEW, PROBE].contains(&name) || segment_index(name).is_some()
}

fn refuse_foreign_files(path: &Path) -> io::Result<()> {
    let Some(foreign) = names(path)?.into_iter().find(|name| *name != NOBODYS && !is_of_device(name)) else { return Ok(()) };
    let text = format!(
        "{} holds {foreign:?}, which is not of this server: choose a directory of its own for the storage, or move the file away",
        path.display()
    );
    Err(io::Error::new(ErrorKind::AlreadyExists, text))
}

fn lock(path: &Path) -> io::Result<File> {
    let lock_path = path.join(LOCK);
    let mut file = file::open(&lock_path, false).map_err(|e| error::at_path("open", &lock_path, &e))?;
    if !file.lock().map_err(|e| error::at_path("lock", &lock_path, &e))? {
        let mut holder = [0; 64];
        let bytes = file.read_at(&mut holder, 0).unwrap_or(0);
        let holder = String::from_utf8_lossy(&holder[..bytes]);
        let text = format!(
            "{} is in use by process {}: stop it, or choose another directory",
            path.display(),
            if holder.trim().is_empty() { "(unknown)" } else { holder.trim() }
        );
        return Err(io::Error::new(ErrorKind::ResourceBusy, text));
    }
    // The number is for messages of other processes only: a full disk may lack room for it.
    let _ = file.set_len(0).and_then(|()| writeln!(file, "{}", process::id()));
    Ok(file)
}

fn remove_if_there(path: &Path) -> io::Result<()> {
    match files::remove(path) {
        Err(e) if e.kind() != ErrorKind::NotFound => Err(error::at_path("delete", path, &e)),
        _ => Ok(()),
    }
}

/// The segments' size and the label that the directory was made with.
fn read_format(path: &Path) -> io::Result<Option<(u64, String)>> {
    let text = match files::read_to_string(path) {
        Ok(text) => text,
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(error::at_path("read", path, &e)),
    };
    let mut lines = text.lines();
    let parsed = (|| {
        lines.next().filter(|line| *line == FIRST_LINE)?;
        let size: u64 = lines.next()?.strip_prefix("segment-bytes ")?.parse().ok()?;
        let label = lines.next()?.strip_prefix("label ")?.to_owned();
        (size > 0 && size.is_multiple_of(BLOCK_BYTES as u64)).then_some((size, label))
    })();
    let text = || format!("{} is not as this version writes it: begin empty, or use the version that wrote it", path.display());
    parsed.map(Some).ok_or_else(|| io::Error::new(ErrorKind::InvalidData, text()))
}

/// Written beside and renamed, so that it is there whole or not at all.
fn write_format(directory: &Path, segment_bytes: u64, label: &str) -> io::Result<()> {
    let path = directory.join(FORMAT_NEW);
    let label = label.replace('\n', " ");
    debug_assert!(segment_bytes.is_multiple_of(BLOCK_BYTES as u64), "read_format refuses other sizes");
    let write = || -> io::Result<()> {
        let mut file = files::create(&path)?;
        write!(file, "{FIRST_LINE}\nsegment-bytes {segment_bytes}\nlabel {label}\n")?;
        file.sync_all()?;
        files::rename(&path, directory.join(FORMAT))
    };
    write().map_err(|e| error::at_path("write", &path, &e))
}
