//! Which files of Redis a log has begun with.
//!
//! `IMPORTED` in the directory of the log has a line for each, and is durable before the manifest names the first base:
//!
//! ```text
//! almandine-imported 1
//! file <bytes> <crc32c of the last 4 KiB, hexadecimal> <name>
//! ```
//!
//! A name in the directory of the log is as it is, that of a single file in the node's directory begins with `../`.

use std::ffi::OsString;
use std::io::{self, ErrorKind};
use std::path::Path;

use almandine_io::files;
use almandine_oplog::crc32c;

use super::own::Own;
use super::source::{Source, bytes_of};

/// The file.
const NAME: &str = "IMPORTED";
const FIRST_LINE: &str = "almandine-imported 1";
/// Bytes at the end of a file that its sum is of: what is appended, or cut off, changes its length.
const SUMMED_BYTES: u64 = 4096;

/// Whether a file in the directory of a log is one of Redis' or Valkey's.
fn is_of_redis(name: &str) -> bool {
    name.ends_with(".manifest") || name.ends_with(".aof") || name.ends_with(".base.rdb")
}

/// Says which files the log in `directory` begins with, durably.
///
/// # Errors
/// As the system reports them.
pub(crate) fn mark(directory: &Path, source: &Source) -> io::Result<()> {
    let mut text = format!("{FIRST_LINE}\n");
    let mut line = |path: &Path, name: &str| {
        let (bytes, sum) = describe(path)?;
        text.push_str(&format!("file {bytes} {sum:08x} {}\n", name.escape_default()));
        io::Result::Ok(())
    };
    for name in of_redis(directory)? {
        line(&directory.join(&name), &name)?;
    }
    for (path, _) in source.files.iter().filter(|(path, _)| path.parent() != Some(directory)) {
        line(path, &format!("../{}", path.file_name().map_or_else(OsString::new, Into::into).to_string_lossy()))?;
    }
    files::replace(directory.join(NAME), text)
}

/// Looks whether files of Redis that lie in the directory of a log, or in that of the node, are those that it began with. Which of
/// them are gone does not matter, nor do such that this server has written before the log, or beside it.
///
/// # Errors
/// When there are others, or they are not what they were.
pub(crate) fn check(directory: &Path) -> io::Result<()> {
    let path = directory.join(NAME);
    let known = match files::read_to_string(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == ErrorKind::NotFound => String::new(),
        Err(error) => return Err(io::Error::other(format!("{} cannot be read: {error}", path.display()))),
    };
    let own = Own::read(directory)?.filter(|own| own.is_older);
    let is_known = |name: &str, path: &Path| {
        if own.as_ref().is_some_and(|own| own.has(name, path)) {
            return true;
        }
        let Ok((bytes, sum)) = describe(path) else { return false };
        let line = format!("file {bytes} {sum:08x} {}", name.escape_default());
        known.lines().any(|known| known == line)
    };
    let refuse = |name: &str| {
        Err(io::Error::other(format!(
            "{} has the log of this server, and {name}, a file of an append-only file of Redis or Valkey that this log did not \
             begin with, or that was changed since. Which of both counts is not known. Move the files of Redis to another \
             directory to go on with the log, or the log (MANIFEST, LOCK, IMPORTED, base-*, log-* and spare-*) to begin a new one \
             with the files of Redis",
            directory.display()
        )))
    };
    for name in of_redis(directory)? {
        if !is_known(&name, &directory.join(&name)) {
            return refuse(&name);
        }
    }
    let alone = known.lines().filter_map(|line| line.splitn(4, ' ').nth(3)).filter(|name| name.starts_with("../"));
    for name in alone {
        let path = directory.join(name);
        if bytes_of(&path)?.is_some() && !is_known(name, &path) {
            return refuse(name);
        }
    }
    Ok(())
}

/// The names of the files of Redis in a directory.
pub(super) fn of_redis(directory: &Path) -> io::Result<Vec<String>> {
    let mut names = files::names(directory).map_err(|error| of_file(directory, &error))?;
    names.retain(|name| is_of_redis(name));
    names.sort_unstable();
    Ok(names)
}

/// An error with the file that it is about.
pub(super) fn of_file(path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

/// Bytes of a file, and the sum of its end.
pub(super) fn describe(path: &Path) -> io::Result<(u64, u32)> {
    let of_file = |error: io::Error| of_file(path, &error);
    let file = files::open(path).map_err(of_file)?;
    let bytes = file.len().map_err(of_file)?;
    let begin = bytes.saturating_sub(SUMMED_BYTES);
    let mut end = vec![0; usize::try_from(bytes - begin).unwrap_or(0)];
    file.read_exact_at(&mut end, begin).map_err(of_file)?;
    Ok((bytes, crc32c::sum(&end)))
}

#[cfg(test)]
mod tests {
    use crate::redis_files::scratch::Scratch;

    use super::*;

    #[test]
    fn files_of_redis_are_known_by_their_names() {
        let theirs = ["appendonly.aof.manifest", "appendonly.aof.1.base.rdb", "appendonly.aof.1.incr.aof", "appendonly.aof"];
        assert!(theirs.iter().all(|name| is_of_redis(name)));
        assert!(!["MANIFEST", "LOCK", "IMPORTED", "log-00000001", "base-00000001.0"].iter().any(|name| is_of_redis(name)));
    }

    #[test]
    fn files_that_are_others_than_those_refuse_the_start() {
        let scratch = Scratch::new("redis-files-mark");
        let directory = scratch.path().join("log");
        files::make_directories(&directory).unwrap();
        let (part, alone) = (directory.join("a.1.incr.aof"), scratch.path().join("a.aof"));
        check(&directory).unwrap();
        files::write(&part, b"*1").unwrap();
        assert!(check(&directory).unwrap_err().to_string().contains("a.1.incr.aof"));
        files::write(&alone, b"*2").unwrap();
        let source = Source { files: vec![(part.clone(), 2), (alone.clone(), 2)], manifest: None };
        mark(&directory, &source).unwrap();
        check(&directory).unwrap();
        for path in [&part, &alone] {
            let before = files::read(path).unwrap();
            for changed in [&b"*3"[..], b"*", b"*12"] {
                files::write(path, changed).unwrap();
                let text = check(&directory).unwrap_err().to_string();
                assert!(text.contains("or that was changed since"), "{text}");
            }
            files::write(path, before).unwrap();
            check(&directory).unwrap();
        }
        files::write(directory.join("a.2.incr.aof"), b"").unwrap();
        assert!(check(&directory).unwrap_err().to_string().contains("a.2.incr.aof"));
        [directory.join("a.2.incr.aof"), part, alone].iter().for_each(|path| files::remove(path).unwrap());
        check(&directory).unwrap();
    }
}
