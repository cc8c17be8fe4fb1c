//! Writing: the header, then whatever the caller says, in the order of the file.

use std::io::{self, Write};

use super::opcodes;
use super::squeeze::Squeezer;
use super::version::WriteVersion;
use crate::checksum;
use crate::string::{write_number, write_string};

/// Bytes that are handed on at once.
const CHUNK_BYTES: usize = 256 << 10;

/// How a file is written.
#[derive(Clone, Copy, Debug)]
pub struct WriteOptions {
    /// Its version.
    pub version: WriteVersion,
    /// Whether it ends with a checksum.
    pub checksum: bool,
    /// Whether strings are compressed where that is shorter.
    pub compression: bool,
}

/// What a file says of a key beside its value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EntryMetadata {
    /// When it expires, in milliseconds since 1970.
    pub expiry_ms: Option<i64>,
    /// Seconds since its last use.
    pub idle_s: Option<u64>,
    /// How often it is used, as the logarithm that Redis keeps.
    pub frequency: Option<u8>,
}

/// Writes a file from its beginning to its end.
#[derive(Debug)]
pub struct FileWriter<W> {
    out: W,
    options: WriteOptions,
    pending: Vec<u8>,
    /// Of all that was handed on.
    sum: u64,
    written: u64,
    squeezer: Squeezer,
}

impl<W: Write> FileWriter<W> {
    /// Begins a file.
    #[must_use]
    pub fn new(out: W, options: WriteOptions) -> Self {
        let pending = options.version.magic().to_vec();
        Self { out, options, pending, sum: 0, written: 0, squeezer: Squeezer::default() }
    }

    /// The file's version.
    #[must_use]
    pub fn version(&self) -> WriteVersion {
        self.options.version
    }

    /// Bytes of the file so far.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.written + self.pending.len() as u64
    }

    /// False: there is always a header.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Says what a name stands for.
    ///
    /// # Errors
    /// As `out` reports them; here and below, nothing is to be expected of the file afterwards.
    pub fn aux(&mut self, name: &str, value: &[u8]) -> io::Result<()> {
        self.pending.push(opcodes::AUX);
        write_string(name.as_bytes(), &mut self.pending);
        self.text(value)
    }

    /// Writes a library of functions.
    ///
    /// # Errors
    /// As `out` reports them.
    pub fn function(&mut self, code: &[u8]) -> io::Result<()> {
        self.pending.push(opcodes::FUNCTION);
        self.text(code)
    }

    /// Says that the keys that follow are in a database, which had some before.
    ///
    /// # Errors
    /// As `out` reports them.
    pub fn select(&mut self, number: u64) -> io::Result<()> {
        self.pending.push(opcodes::DATABASE);
        write_number(number, &mut self.pending);
        self.hand_on(CHUNK_BYTES)
    }

    /// Begins the keys of a database: about `keys`, of which `expiring` expire.
    ///
    /// # Errors
    /// As `out` reports them.
    pub fn database(&mut self, number: u64, keys: u64, expiring: u64) -> io::Result<()> {
        self.select(number)?;
        self.pending.push(opcodes::SIZES);
        write_number(keys, &mut self.pending);
        write_number(expiring, &mut self.pending);
        self.hand_on(CHUNK_BYTES)
    }

    /// Writes a key. The first byte of `value` is its type; its strings are not compressed.
    ///
    /// # Errors
    /// As `out` reports them.
    pub fn entry(&mut self, key: &[u8], value: &[u8], metadata: EntryMetadata) -> io::Result<()> {
        let pending = &mut self.pending;
        if let Some(expiry_ms) = metadata.expiry_ms {
            pending.push(opcodes::EXPIRY_MS);
            pending.extend_from_slice(&expiry_ms.to_le_bytes());
        }
        if let Some(idle_s) = metadata.idle_s {
            pending.push(opcodes::IDLE);
            write_number(idle_s, pending);
        }
        if let Some(frequency) = metadata.frequency {
            pending.extend_from_slice(&[opcodes::FREQUENCY, frequency]);
        }
        let Some((value_type, content)) = value.split_first() else { return Err(io::ErrorKind::InvalidInput.into()) };
        pending.push(*value_type);
        if self.options.compression {
            self.squeezer.write_text(key, pending);
            self.squeezer.write_content(*value_type, content, self.options.version.number(), pending);
        } else {
            write_string(key, pending);
            pending.extend_from_slice(content);
        }
        self.hand_on(CHUNK_BYTES)
    }

    /// Ends the file and returns where it went. Nothing is made durable.
    ///
    /// # Errors
    /// As `out` reports them.
    pub fn finish(self) -> io::Result<W> {
        self.finish_counted().map(|(out, _)| out)
    }

    /// As [`FileWriter::finish`], and says how many bytes the file has.
    ///
    /// # Errors
    /// As `out` reports them.
    pub fn finish_counted(mut self) -> io::Result<(W, u64)> {
        self.pending.push(opcodes::END);
        self.hand_on(0)?;
        let sum = if self.options.checksum { self.sum } else { 0 };
        self.out.write_all(&sum.to_le_bytes())?;
        self.out.flush()?;
        Ok((self.out, self.written + size_of_val(&sum) as u64))
    }

    fn text(&mut self, text: &[u8]) -> io::Result<()> {
        if self.options.compression {
            self.squeezer.write_text(text, &mut self.pending);
        } else {
            write_string(text, &mut self.pending);
        }
        self.hand_on(CHUNK_BYTES)
    }

    /// Hands on what is pending when it is more than `len` bytes.
    fn hand_on(&mut self, len: usize) -> io::Result<()> {
        if self.pending.len() <= len {
            return Ok(());
        }
        if self.options.checksum {
            self.sum = checksum(self.sum, &self.pending);
        }
        self.out.write_all(&self.pending)?;
        self.written += self.pending.len() as u64;
        self.pending.clear();
        self.pending.shrink_to(2 * CHUNK_BYTES);
        Ok(())
    }
}
