//! Errors that say what was done to what, and what to do about it. The kind is kept, so that callers can branch on it.

use std::fmt::Display;
use std::io::{self, ErrorKind};
use std::path::Path;

use crate::BLOCK_BYTES;

/// Says which operation on which file failed, and what helps.
pub(crate) fn at_path(operation: &str, path: &Path, error: &io::Error) -> io::Error {
    let path = path.display();
    io::Error::new(error.kind(), format!("cannot {operation} {path}: {error}{}", advice(error)))
}

/// As [`at_path`] for what has no path.
pub(crate) fn at_offset(operation: &str, device: impl Display, offset: u64, bytes: u64, error: &io::Error) -> io::Error {
    let text = format!("cannot {operation} {bytes} bytes at {offset} of {device}: {error}{}", advice(error));
    io::Error::new(error.kind(), text)
}

fn advice(error: &io::Error) -> &'static str {
    const EMFILE: i32 = 24;
    match (error.kind(), error.raw_os_error()) {
        (ErrorKind::StorageFull | ErrorKind::QuotaExceeded, _) => "; free space there or choose a larger file system",
        (ErrorKind::PermissionDenied, _) => "; give the server's user the right to read and write there",
        (ErrorKind::ReadOnlyFilesystem, _) => "; choose a directory on a writable file system",
        (_, Some(EMFILE)) => "; allow more open files (ulimit -n) or larger segments",
        _ => "",
    }
}

/// Refuses what is not whole blocks in aligned memory.
pub(crate) fn check_transfer(operation: &str, offset: u64, memory: &[u8]) -> io::Result<()> {
    let block = BLOCK_BYTES as u64;
    if !memory.as_ptr().addr().is_multiple_of(BLOCK_BYTES) {
        let text = format!("a {operation} needs memory aligned to {block} bytes: use almandine_io::storage::Buffer");
        return Err(io::Error::new(ErrorKind::InvalidInput, text));
    }
    check_range(operation, offset, memory.len() as u64)
}

/// Refuses what is not whole blocks, or ends beyond what a file can have.
pub(crate) fn check_range(operation: &str, offset: u64, bytes: u64) -> io::Result<()> {
    let block = BLOCK_BYTES as u64;
    let whole = offset.is_multiple_of(block) && bytes.is_multiple_of(block);
    let ends = offset.checked_add(bytes).is_some_and(|end| end <= i64::MAX.cast_unsigned());
    if whole && ends {
        return Ok(());
    }
    let text = format!("a {operation} of {bytes} bytes at {offset} is not one of whole blocks of {block} bytes within 8 EiB");
    Err(io::Error::new(ErrorKind::InvalidInput, text))
}

/// The error of reading what is not there.
pub(crate) fn missing(device: impl Display, offset: u64, bytes: u64) -> io::Error {
    let text = format!("{device} holds nothing for {bytes} bytes at {offset}: never written, or discarded");
    io::Error::new(ErrorKind::UnexpectedEof, text)
}
