//! Which append-only files of Redis' form this server has written itself.
//!
//! `EXPORTED` in the directory of the log says it, durably before there is such a file:
//!
//! ```text
//! almandine-exported 1
//! snapshot <bytes> <crc32c of its first and last 4 KiB>, or: snapshot none
//! older
//! begun <name>
//! file <bytes> <crc32c of the last 4 KiB> <name>
//! ```
//!
//! `snapshot` is the snapshot as it was when the newest of the files was begun: where it is another one now, it is the younger of
//! both, whatever clocks say. `older` is there when a log has begun behind the files. A file that was `begun` may be there in part.

use std::io::{self, ErrorKind};
use std::path::Path;

use almandine_io::files;
use almandine_oplog::crc32c;

use super::mark::{describe, of_file, of_redis};
use super::source::bytes_of;

/// The file.
const NAME: &str = "EXPORTED";
const FIRST_LINE: &str = "almandine-exported 1";
/// Bytes at the beginning of a snapshot that its sum is of: among them is when it was written.
const SUMMED_BYTES: u64 = 4096;

/// What `EXPORTED` says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Own {
    /// The snapshot that there was.
    pub(super) snapshot: Option<(u64, u32)>,
    /// A log has begun behind the files.
    pub(super) is_older: bool,
    /// Of each file a line.
    pub(super) lines: Vec<String>,
}

impl Own {
    /// What is said in a directory; nothing, where this server has written no such file.
    ///
    /// # Errors
    /// When it cannot be read, or has another form.
    pub(crate) fn read(directory: &Path) -> io::Result<Option<Self>> {
        let path = directory.join(NAME);
        let failed = |why: &dyn std::fmt::Display| io::Error::other(format!("{} cannot be read: {why}", path.display()));
        let text = match files::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(failed(&error)),
        };
        let mut lines = text.lines();
        if lines.next() != Some(FIRST_LINE) {
            return Err(failed(&"it has another form than this version knows"));
        }
        let snapshot = lines.next().and_then(|line| line.strip_prefix("snapshot ")).ok_or_else(|| failed(&"it is cut"))?;
        let snapshot = match snapshot.split_once(' ') {
            Some((bytes, sum)) => bytes.parse().ok().zip(u32::from_str_radix(sum, 16).ok()),
            None => None,
        };
        let mut own = Self { snapshot, ..Self::default() };
        for line in lines {
            match line {
                "older" => own.is_older = true,
                line => own.lines.push(line.to_owned()),
            }
        }
        Ok(Some(own))
    }

    /// Says it, durably.
    ///
    /// # Errors
    /// As the system reports them.
    pub(super) fn write(&self, directory: &Path) -> io::Result<()> {
        let snapshot = self.snapshot.map_or("none".to_owned(), |(bytes, sum)| format!("{bytes} {sum:08x}"));
        let mut text = format!("{FIRST_LINE}\nsnapshot {snapshot}\n");
        if self.is_older {
            text.push_str("older\n");
        }
        self.lines.iter().for_each(|line| text.extend([line, "\n"]));
        files::replace(directory.join(NAME), text)
    }

    /// Whether a file is one of them, and as it was.
    pub(super) fn has(&self, name: &str, path: &Path) -> bool {
        let begun = begun(name);
        self.lines.contains(&begun) || file(name, path).is_ok_and(|line| self.lines.contains(&line))
    }

    /// Whether a log has begun behind them.
    pub(crate) fn is_before_log(&self) -> bool {
        self.is_older
    }

    /// Whether all files of Redis in a directory are of them.
    ///
    /// # Errors
    /// As the system reports them.
    pub(crate) fn has_all(&self, directory: &Path) -> io::Result<bool> {
        Ok(of_redis(directory)?.iter().all(|name| self.has(name, &directory.join(name))))
    }

    /// Whether there is a snapshot of this name that was written behind them.
    ///
    /// # Errors
    /// As the system reports them.
    pub(crate) fn is_before(&self, snapshot: &Path) -> io::Result<bool> {
        let there = describe_snapshot(snapshot)?;
        Ok(there.is_some() && there != self.snapshot)
    }
}

/// A log has begun behind the files that this server has written: they do not count beside it.
///
/// # Errors
/// As the system reports them.
pub(crate) fn end_own(directory: &Path) -> io::Result<()> {
    match Own::read(directory)? {
        Some(own) if !own.is_older => Own { is_older: true, ..own }.write(directory),
        _ => Ok(()),
    }
}

/// The line of a file that is about to be written.
pub(super) fn begun(name: &str) -> String {
    format!("begun {}", name.escape_default())
}

/// The line of a file.
///
/// # Errors
/// As the system reports them.
pub(super) fn file(name: &str, path: &Path) -> io::Result<String> {
    let (bytes, sum) = describe(path)?;
    Ok(format!("file {bytes} {sum:08x} {}", name.escape_default()))
}

/// Bytes and sum of a snapshot; none where there is none.
///
/// # Errors
/// As the system reports them.
pub(super) fn describe_snapshot(path: &Path) -> io::Result<Option<(u64, u32)>> {
    if bytes_of(path)?.is_none() {
        return Ok(None);
    }
    let (bytes, end_sum) = describe(path)?;
    let mut begin = vec![0; usize::try_from(bytes.min(SUMMED_BYTES)).unwrap_or(0)];
    files::open(path).and_then(|file| file.read_exact_at(&mut begin, 0)).map_err(|error| of_file(path, &error))?;
    Ok(Some((bytes, crc32c::added(end_sum, &begin))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::redis_files::scratch::Scratch;

    #[test]
    fn what_was_said_is_read_and_a_file_that_was_changed_is_another_one() {
        let scratch = Scratch::new("redis-files-own");
        let (directory, snapshot) = (scratch.path(), scratch.path().join("dump.rdb"));
        assert_eq!(Own::read(directory).unwrap(), None);
        let manifest = directory.join("appendonly.aof.manifest");
        files::write(&manifest, b"one").unwrap();
        let mut own = Own { lines: vec![begun("appendonly.aof.1.base.rdb")], ..Own::default() };
        assert!(!own.has_all(directory).unwrap());
        own.lines.push(file("appendonly.aof.manifest", &manifest).unwrap());
        files::write(directory.join("appendonly.aof.1.base.rdb"), b"anything").unwrap();
        for (is_older, there) in [(false, None), (true, Some(&b"0123456789"[..]))] {
            if let Some(bytes) = there {
                files::write(&snapshot, bytes).unwrap();
            }
            own = Own { is_older, snapshot: describe_snapshot(&snapshot).unwrap(), ..own };
            own.write(directory).unwrap();
            assert_eq!(Own::read(directory).unwrap().as_ref(), Some(&own));
            assert!(own.has_all(directory).unwrap() && !own.is_before(&snapshot).unwrap());
        }
        // Of the same length, and with the same end.
        files::write(&snapshot, b"1123456789").unwrap();
        assert!(own.is_before(&snapshot).unwrap());
        files::remove(&snapshot).unwrap();
        assert!(!own.is_before(&snapshot).unwrap(), "there is none");
        files::write(&manifest, b"two").unwrap();
        assert!(!own.has_all(directory).unwrap());
        files::write(directory.join(NAME), b"almandine-exported 2\n").unwrap();
        assert!(Own::read(directory).unwrap_err().to_string().contains("another form"));
    }
}
