//! Files of devices: opened past the page cache, locked against other processes, holes punched.
//!
//! Only what the standard library does not do. It knows nothing of segments or of what the bytes mean.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rustix::fs::{FallocateFlags, FlockOperation, OFlags, SeekFrom};
use rustix::io::Errno;

/// Opens a file for reading and writing and makes it when it is missing, readable by its owner only. `direct` passes by the
/// page cache; then memory, offsets and lengths must be aligned to blocks.
///
/// # Errors
/// As the system reports them; `InvalidInput` when the file system has no direct access.
pub fn open(path: &Path, direct: bool) -> io::Result<File> {
    let flags = if direct { OFlags::DIRECT } else { OFlags::empty() };
    let open = |flags: OFlags| {
        let flags = i32::try_from(flags.bits()).map_err(io::Error::other)?;
        OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).custom_flags(flags).open(path)
    };
    // Access times of a device's file are of no use. Only the file's owner may switch them off.
    match open(flags | OFlags::NOATIME) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => open(flags),
        opened => opened,
    }
}

/// Locks a file against every other open of it until this one is closed; false when another open has it.
///
/// # Errors
/// When the file system cannot lock.
pub fn lock(file: &File) -> io::Result<bool> {
    match rustix::fs::flock(file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(true),
        Err(Errno::WOULDBLOCK) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Gives the space of a range back without changing the file's length; the range reads as zeroes. False when the file system
/// has no holes.
pub fn punch_hole(file: &File, offset: u64, bytes: u64) -> io::Result<bool> {
    match rustix::fs::fallocate(file, FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE, offset, bytes) {
        Ok(()) => Ok(true),
        Err(Errno::OPNOTSUPP | Errno::NOSYS) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// The next range with data at or after `offset`, as begin and end; none when only a hole follows. A file system without holes
/// says that everything is data. Moves the file's own position, which positioned reads and writes do not use.
pub fn next_data(file: &File, offset: u64) -> io::Result<Option<(u64, u64)>> {
    let begin = match rustix::fs::seek(file, SeekFrom::Data(offset)) {
        Ok(begin) => begin,
        Err(Errno::NXIO) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let end = rustix::fs::seek(file, SeekFrom::Hole(begin))?;
    Ok(Some((begin, end)))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt;

    use super::*;

    #[test]
    fn a_lock_excludes_and_a_hole_is_found() {
        let path = std::env::temp_dir().join(format!("almandine-io-file-{}", std::process::id()));
        let (one, two) = (open(&path, false).unwrap(), open(&path, false).unwrap());
        assert!(lock(&one).unwrap());
        assert!(!lock(&two).unwrap());
        drop(one);
        assert!(lock(&two).unwrap());

        two.write_all_at(&[1; 3 * 65536], 0).unwrap();
        if punch_hole(&two, 65536, 65536).unwrap() {
            let mut byte = [9];
            two.read_exact_at(&mut byte, 65536).unwrap();
            assert_eq!(byte, [0]);
            assert_eq!(next_data(&two, 0).unwrap(), Some((0, 65536)));
            assert_eq!(next_data(&two, 65536).unwrap(), Some((2 * 65536, 3 * 65536)));
        }
        assert_eq!(next_data(&two, 3 * 65536).unwrap(), None);
        assert_eq!(two.metadata().unwrap().len(), 3 * 65536);
        std::fs::remove_file(&path).unwrap();
    }
}
