//! A file as the stream of its bytes.

use std::io::{self, Read};

use almandine_io::file::File;

/// Reads a file from its beginning on.
#[derive(Debug)]
pub struct FileInput {
    file: File,
    offset: u64,
}

impl FileInput {
    /// From the first byte.
    #[must_use]
    pub fn new(file: File) -> Self {
        Self::behind(file, 0)
    }

    /// From the byte at `offset` on.
    #[must_use]
    pub fn behind(file: File, offset: u64) -> Self {
        Self { file, offset }
    }
}

impl Read for FileInput {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.file.read_at(buffer, self.offset)?;
        self.offset += count as u64;
        Ok(count)
    }
}
