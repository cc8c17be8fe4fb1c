//! Files that are there as a whole or not at all.
//!
//! What is large passes by the page cache: the system has nothing to write back, and no pages to free when the file is removed.
//! With a million keys of 200 bytes, both took the processor from workers for milliseconds. A file that is shipped is read once
//! more, from the disk.

use std::io::{self, ErrorKind, Write};
use std::path::Path;

use almandine_io::file::{self, File};
use almandine_io::files;
use almandine_io::storage::Buffer;

/// Bytes that are written at once.
const PIECE_BYTES: usize = 1 << 20;
/// Bytes after which what was written is made durable, so that the sync at the end is short.
const SYNC_BYTES: u64 = 32 << 20;

/// Gives a file its name when `write` has written all of it and it is durable, in place of a file that has the name. Until then it
/// has the name `temporary`, in the same directory.
///
/// # Errors
/// As `write` and the system report them; then whatever had the name has it still, and no temporary file is left.
pub(crate) fn write_durably<T, E: From<io::Error>>(
    temporary: &Path,
    path: &Path,
    write: impl FnOnce(SyncedFile) -> Result<(SyncedFile, T), E>,
) -> Result<T, E> {
    let directory = path.parent().unwrap_or(Path::new(""));
    let written = (|| {
        let (out, result) = write(SyncedFile::create(temporary)?)?;
        out.finish()?;
        files::rename(temporary, path)?;
        files::sync_directory(directory)?;
        Ok(result)
    })();
    if written.is_err() {
        let _ = files::remove(temporary);
    }
    written
}

/// A file that becomes durable as it grows.
pub(crate) struct SyncedFile {
    file: File,
    /// The same file past the page cache, where the file system knows that.
    direct: Option<File>,
    piece: Buffer,
    /// Bytes of the piece.
    gathered: usize,
    written: u64,
    unsynced: u64,
}

impl SyncedFile {
    fn create(path: &Path) -> io::Result<Self> {
        let file = files::create(path)?;
        let direct = match file::open(path, true) {
            Err(error) if error.kind() == ErrorKind::InvalidInput => None,
            opened => Some(opened?),
        };
        Ok(Self { file, direct, piece: Buffer::new(PIECE_BYTES), gathered: 0, written: 0, unsynced: 0 })
    }

    /// Writes a whole piece.
    fn write_piece(&mut self) -> io::Result<()> {
        let passed_by = self.direct.as_ref().map(|direct| direct.write_all_at(&self.piece, self.written));
        match passed_by {
            Some(Ok(())) => {}
            Some(Err(error)) if error.kind() != ErrorKind::InvalidInput => return Err(error),
            // Some file systems say it only now.
            _ => {
                self.direct = None;
                self.file.write_all_at(&self.piece, self.written)?;
            }
        }
        self.written += self.piece.len() as u64;
        self.unsynced += self.piece.len() as u64;
        self.gathered = 0;
        if self.unsynced >= SYNC_BYTES {
            self.file.sync_data()?;
            self.unsynced = 0;
        }
        Ok(())
    }

    /// Writes what is gathered, through the page cache since it ends anywhere, and makes the file durable.
    fn finish(self) -> io::Result<()> {
        self.file.write_all_at(&self.piece[..self.gathered], self.written)?;
        self.file.sync_all()
    }
}

/// All is in the file when that is finished.
impl Write for SyncedFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let room = &mut self.piece[self.gathered..];
        let count = room.len().min(bytes.len());
        room[..count].copy_from_slice(&bytes[..count]);
        self.gathered += count;
        if self.gathered == self.piece.len() {
            self.write_piece()?;
        }
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_has_all_that_was_written_wherever_it_ends() {
        let directory = std::env::temp_dir().join(format!("almandine-durable-{}", std::process::id()));
        files::make_directories(&directory).unwrap();
        let (temporary, path) = (directory.join("file.tmp"), directory.join("file"));
        for bytes in [0, 1, PIECE_BYTES - 1, PIECE_BYTES, PIECE_BYTES + 1, 3 * PIECE_BYTES, 34 * PIECE_BYTES + 4097] {
            let all: Vec<u8> = (0..bytes).map(|at| (at ^ at >> 8 ^ at >> 16) as u8).collect();
            let written = write_durably(&temporary, &path, |mut out| {
                // In pieces that end nowhere in particular.
                all.chunks(77_773).try_for_each(|chunk| out.write_all(chunk))?;
                Ok::<_, io::Error>((out, bytes))
            });
            assert_eq!(written.unwrap(), bytes);
            assert!(files::read(&path).unwrap() == all, "{bytes} bytes");
        }
        let refused = write_durably(&temporary, &path, |mut out| {
            out.write_all(&vec![1; 2 * PIECE_BYTES])?;
            Err::<(SyncedFile, ()), _>(io::Error::other("refused"))
        });
        assert_eq!(refused.unwrap_err().to_string(), "refused");
        assert_eq!(
            (files::names(&directory).unwrap(), files::open(&path).unwrap().len().unwrap()),
            (vec!["file".to_owned()], 34 * (1 << 20) + 4097)
        );
        std::fs::remove_dir_all(&directory).unwrap();
    }
}
