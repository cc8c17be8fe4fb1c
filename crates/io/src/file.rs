//! Open files: read and written by position or at their end, opened past the page cache, locked against other processes, holes
//! punched.
//!
//! Everything here may block. It knows nothing of segments or of what the bytes mean.

use std::fs::{self, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::{FallocateFlags, FlockOperation, OFlags, SeekFrom};
use rustix::io::{Errno, ReadWriteFlags};

#[cfg(feature = "sim")]
use crate::sim::{
    disk::{self, OpenFile},
    world,
};

/// An open file. The system closes it, and releases its lock, when it is dropped.
#[derive(Debug)]
pub struct File(pub(crate) Inner);

#[derive(Debug)]
pub(crate) enum Inner {
    System(fs::File),
    #[cfg(feature = "sim")]
    Sim(OpenFile),
}

impl From<fs::File> for File {
    fn from(file: fs::File) -> Self {
        Self(Inner::System(file))
    }
}

#[cfg(feature = "sim")]
impl From<OpenFile> for File {
    fn from(file: OpenFile) -> Self {
        Self(Inner::Sim(file))
    }
}

/// Opens a file for reading and writing and makes it when it is missing, readable by its owner only. `direct` passes by the
/// page cache; then memory, offsets and lengths must be aligned to blocks.
///
/// # Errors
/// As the system reports them; `InvalidInput` when the file system has no direct access.
pub fn open(path: &Path, direct: bool) -> io::Result<File> {
    #[cfg(feature = "sim")]
    if let Some(disk) = world::current_disk() {
        return disk.open(path, disk::How { direct, ..disk::How::default() }).map(File::from);
    }
    let flags = if direct { OFlags::DIRECT } else { OFlags::empty() };
    let open = |flags: OFlags| {
        let flags = i32::try_from(flags.bits()).map_err(io::Error::other)?;
        OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).custom_flags(flags).open(path)
    };
    // Access times of a device's file are of no use. Only the file's owner may switch them off.
    let opened = match open(flags | OFlags::NOATIME) {
        Err(error) if error.kind() == ErrorKind::PermissionDenied => open(flags),
        opened => opened,
    };
    opened.map(File::from)
}

impl File {
    /// Reads from a position as many bytes as there are at once: 0 at the end of the file.
    pub fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        match &self.0 {
            Inner::System(file) => file.read_at(buffer, offset),
            #[cfg(feature = "sim")]
            Inner::Sim(file) => file.read_at(buffer, offset),
        }
    }

    /// Fills the buffer from a position.
    ///
    /// # Errors
    /// `UnexpectedEof` when the file ends before.
    pub fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        match &self.0 {
            Inner::System(file) => file.read_exact_at(buffer, offset),
            #[cfg(feature = "sim")]
            Inner::Sim(file) => {
                all(buffer.len(), |done| file.read_at(&mut buffer[done..], offset + done as u64), ErrorKind::UnexpectedEof)
            }
        }
    }

    /// Writes at a position as many bytes as can be written at once.
    pub fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        match &self.0 {
            Inner::System(file) => file.write_at(bytes, offset),
            #[cfg(feature = "sim")]
            Inner::Sim(file) => file.write_at(bytes, offset),
        }
    }

    /// Writes all of the bytes at a position.
    pub fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        match &self.0 {
            Inner::System(file) => file.write_all_at(bytes, offset),
            #[cfg(feature = "sim")]
            Inner::Sim(file) => all(bytes.len(), |done| file.write_at(&bytes[done..], offset + done as u64), ErrorKind::WriteZero),
        }
    }

    /// Writes all of the bytes at a position, and returns when they survive a crash of the machine; what was written before need
    /// not.
    pub fn write_durable_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        match &self.0 {
            Inner::System(file) => {
                let mut done = 0;
                while done < bytes.len() {
                    let rest = [io::IoSlice::new(&bytes[done..])];
                    done += match rustix::io::pwritev2(file, &rest, offset + done as u64, ReadWriteFlags::DSYNC) {
                        Ok(0) => return Err(ErrorKind::WriteZero.into()),
                        Ok(count) => count,
                        Err(Errno::INTR) => 0,
                        // A file system that does not know the flag.
                        Err(Errno::OPNOTSUPP | Errno::NOSYS) => {
                            file.write_all_at(&bytes[done..], offset + done as u64)?;
                            return file.sync_data();
                        }
                        Err(error) => return Err(error.into()),
                    }
                }
                Ok(())
            }
            #[cfg(feature = "sim")]
            Inner::Sim(file) => {
                self.write_all_at(bytes, offset)?;
                file.sync()
            }
        }
    }

    /// Returns when what was written survives a crash of the machine.
    pub fn sync_all(&self) -> io::Result<()> {
        match &self.0 {
            Inner::System(file) => file.sync_all(),
            #[cfg(feature = "sim")]
            Inner::Sim(file) => file.sync(),
        }
    }

    /// Does what [`Self::sync_all`] does, but for times and what else is not needed to read the bytes.
    pub fn sync_data(&self) -> io::Result<()> {
        match &self.0 {
            Inner::System(file) => file.sync_data(),
            #[cfg(feature = "sim")]
            Inner::Sim(file) => file.sync(),
        }
    }

    /// Cuts the file off, or makes it longer by a hole.
    pub fn set_len(&self, bytes: u64) -> io::Result<()> {
        match &self.0 {
            Inner::System(file) => file.set_len(bytes),
            #[cfg(feature = "sim")]
            Inner::Sim(file) => file.set_len(bytes),
        }
    }

    /// The file's length.
    #[expect(clippy::len_without_is_empty, reason = "it asks the system, and may fail")]
    pub fn len(&self) -> io::Result<u64> {
        match &self.0 {
            Inner::System(file) => Ok(file.metadata()?.len()),
            #[cfg(feature = "sim")]
            Inner::Sim(file) => file.len(),
        }
    }

    /// Locks the file against every other open of it until this one is closed; false when another open has it.
    ///
    /// # Errors
    /// When the file system cannot lock.
    pub fn lock(&self) -> io::Result<bool> {
        match &self.0 {
            Inner::System(file) => match rustix::fs::flock(file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => Ok(true),
                Err(Errno::WOULDBLOCK) => Ok(false),
                Err(error) => Err(error.into()),
            },
            #[cfg(feature = "sim")]
            Inner::Sim(file) => file.lock(),
        }
    }

    /// Gives the space of a range back without changing the file's length; the range reads as zeroes. False when the file system
    /// has no holes.
    pub fn punch_hole(&self, offset: u64, bytes: u64) -> io::Result<bool> {
        match &self.0 {
            Inner::System(file) => {
                match rustix::fs::fallocate(file, FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE, offset, bytes) {
                    Ok(()) => Ok(true),
                    Err(Errno::OPNOTSUPP | Errno::NOSYS) => Ok(false),
                    Err(error) => Err(error.into()),
                }
            }
            #[cfg(feature = "sim")]
            Inner::Sim(file) => file.punch_hole(offset, bytes).map(|()| true),
        }
    }

    /// Makes a range read as zeroes, with its space reserved, and the file as long; nothing is written for it. False when the file
    /// system cannot.
    pub fn reserve_zeroes(&self, offset: u64, bytes: u64) -> io::Result<bool> {
        match &self.0 {
            Inner::System(file) => match rustix::fs::fallocate(file, FallocateFlags::ZERO_RANGE, offset, bytes) {
                Ok(()) => Ok(true),
                Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL) => Ok(false),
                Err(error) => Err(error.into()),
            },
            #[cfg(feature = "sim")]
            Inner::Sim(_) => Ok(false),
        }
    }

    /// The next range with data at or after `offset`, as begin and end; none when only a hole follows. A file system without holes
    /// says that everything is data. Moves the file's own position, which positioned reads and writes do not use.
    pub fn next_data(&self, offset: u64) -> io::Result<Option<(u64, u64)>> {
        match &self.0 {
            Inner::System(file) => {
                let begin = match rustix::fs::seek(file, SeekFrom::Data(offset)) {
                    Ok(begin) => begin,
                    Err(Errno::NXIO) => return Ok(None),
                    Err(error) => return Err(error.into()),
                };
                let end = rustix::fs::seek(file, SeekFrom::Hole(begin))?;
                Ok(Some((begin, end)))
            }
            #[cfg(feature = "sim")]
            Inner::Sim(file) => file.next_data(offset),
        }
    }

    /// Gives the file the permissions of the one with this name.
    pub(crate) fn copy_permissions(&self, from: &Path) -> io::Result<()> {
        match &self.0 {
            Inner::System(file) => file.set_permissions(fs::metadata(from)?.permissions()),
            #[cfg(feature = "sim")]
            Inner::Sim(file) => file.copy_permissions(from),
        }
    }

    /// The descriptor, which is open as long as this is.
    pub(crate) fn descriptor(&self) -> RawFd {
        match &self.0 {
            Inner::System(file) => file.as_raw_fd(),
            // No descriptor: a ring does not read it.
            #[cfg(feature = "sim")]
            Inner::Sim(_) => -1,
        }
    }
}

/// Repeats a transfer until all bytes of it are done.
#[cfg(feature = "sim")]
fn all(bytes: usize, mut transfer: impl FnMut(usize) -> io::Result<usize>, end: ErrorKind) -> io::Result<()> {
    let mut done = 0;
    while done < bytes {
        done += match transfer(done)? {
            0 => return Err(end.into()),
            count => count,
        };
    }
    Ok(())
}

/// At the end of a file that was opened for appending, else behind what this open has written so.
impl Write for File {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.0 {
            Inner::System(file) => file.write(bytes),
            #[cfg(feature = "sim")]
            Inner::Sim(file) => file.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_excludes_and_a_hole_is_found() {
        let path = std::env::temp_dir().join(format!("almandine-io-file-{}", std::process::id()));
        let (one, two) = (open(&path, false).unwrap(), open(&path, false).unwrap());
        assert!(one.lock().unwrap());
        assert!(!two.lock().unwrap());
        drop(one);
        assert!(two.lock().unwrap());

        two.write_all_at(&[1; 3 * 65536], 0).unwrap();
        if two.punch_hole(65536, 65536).unwrap() {
            let mut byte = [9];
            two.read_exact_at(&mut byte, 65536).unwrap();
            assert_eq!(byte, [0]);
            assert_eq!(two.next_data(0).unwrap(), Some((0, 65536)));
            assert_eq!(two.next_data(65536).unwrap(), Some((2 * 65536, 3 * 65536)));
        }
        assert_eq!(two.next_data(3 * 65536).unwrap(), None);
        assert_eq!(two.len().unwrap(), 3 * 65536);

        two.write_durable_at(b"durable", 65530).unwrap();
        let mut back = [0; 7];
        two.read_exact_at(&mut back, 65530).unwrap();
        assert_eq!(&back, b"durable");
        std::fs::remove_file(&path).unwrap();
    }
}
