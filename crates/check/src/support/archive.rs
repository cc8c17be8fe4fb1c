//! The bundle: texts in a tar file (POSIX ustar), compressed by gzip.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use flate2::Compression;
use flate2::write::GzEncoder;

/// Bytes of a header, and what contents are filled up to.
const BLOCK: usize = 512;
/// Where a header has its fields: offset and length. A zero ends those of numbers.
const NAME: (usize, usize) = (0, 100);
const MODE: (usize, usize) = (100, 8);
const OWNER: (usize, usize) = (108, 8);
const GROUP: (usize, usize) = (116, 8);
const SIZE: (usize, usize) = (124, 11);
const TIME: (usize, usize) = (136, 11);
const CHECKSUM: (usize, usize) = (148, 8);
const KIND: usize = 156;
const MAGIC: (usize, usize) = (257, 8);

/// A bundle that is being written. Only its owner may read the file.
pub(super) struct Archive {
    out: GzEncoder<File>,
    time_s: u64,
}

impl Archive {
    /// A new file; what is there already is not replaced.
    pub(super) fn create(path: &Path) -> io::Result<Self> {
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
        let time_s = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs());
        Ok(Self { out: GzEncoder::new(file, Compression::default()), time_s })
    }

    /// Adds a text.
    pub(super) fn add(&mut self, name: &str, text: &str) -> io::Result<()> {
        self.out.write_all(&header(name, text.len(), self.time_s)?)?;
        self.out.write_all(text.as_bytes())?;
        self.out.write_all(&vec![0; text.len().next_multiple_of(BLOCK) - text.len()])
    }

    pub(super) fn finish(mut self) -> io::Result<()> {
        self.out.write_all(&[0; 2 * BLOCK])?;
        self.out.finish()?.sync_all()
    }
}

fn header(name: &str, size: usize, time_s: u64) -> io::Result<[u8; BLOCK]> {
    let mut header = [0; BLOCK];
    let mut put = |(offset, length): (usize, usize), text: &str| {
        let field = header[offset..offset + length].get_mut(..text.len()).ok_or(io::ErrorKind::InvalidInput)?;
        field.copy_from_slice(text.as_bytes());
        Ok::<(), io::Error>(())
    };
    put(NAME, name)?;
    put(MODE, "0000600")?;
    put(OWNER, "0000000")?;
    put(GROUP, "0000000")?;
    put(SIZE, &format!("{size:011o}"))?;
    put(TIME, &format!("{time_s:011o}"))?;
    put(MAGIC, "ustar\x0000")?;
    // The sum is that of a header with blanks in the place of the sum.
    put(CHECKSUM, "        ")?;
    header[KIND] = b'0';
    let sum: u32 = header.iter().map(|byte| u32::from(*byte)).sum();
    header[CHECKSUM.0..CHECKSUM.0 + CHECKSUM.1].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    Ok(header)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_does_not_fit_is_refused() {
        assert!(header(&"n".repeat(100), 0, 0).is_ok());
        assert!(header(&"n".repeat(101), 0, 0).is_err());
        assert!(header("n", 1 << 33, 0).is_err(), "a size of twelve digits, of which one would be in the place of the end");
    }
}
