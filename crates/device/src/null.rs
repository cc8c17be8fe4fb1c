//! A device that holds nothing: writes vanish, reads are errors. For measuring what writing costs without a disk.

use std::io;

use crate::{Device, Source, error};

/// Takes everything, keeps nothing.
#[derive(Debug, Default, Clone, Copy)]
pub struct NullDevice;

impl Device for NullDevice {
    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        error::check_transfer("write", offset, data)
    }

    fn read(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        error::check_transfer("read", offset, buffer)?;
        Err(error::missing("the null device", offset, buffer.len() as u64))
    }

    fn discard(&self, offset: u64, bytes: u64) -> io::Result<()> {
        error::check_range("discard", offset, bytes)
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }

    fn source(&self, offset: u64, bytes: usize) -> io::Result<Source> {
        error::check_range("read", offset, bytes as u64)?;
        Err(error::missing("the null device", offset, bytes as u64))
    }

    fn used_bytes(&self) -> u64 {
        0
    }
}
