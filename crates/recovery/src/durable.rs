//! Files that are there as a whole or not at all.

use std::io::{self, Write};
use std::path::Path;

use almandine_io::file::File;
use almandine_io::files;

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
        let (out, result) = write(SyncedFile { file: files::create(temporary)?, unsynced: 0 })?;
        out.file.sync_all()?;
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
    unsynced: u64,
}

impl Write for SyncedFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.file.write(bytes)?;
        self.unsynced += written as u64;
        if self.unsynced >= SYNC_BYTES {
            self.file.sync_data()?;
            self.unsynced = 0;
        }
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}
