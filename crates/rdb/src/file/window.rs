//! The part of a file that is in memory: the item that is being read, from its first byte on, and what has arrived behind it.
//!
//! ```text
//! bytes: … before, summed │ item, read so far │ arrived, unread │ room
//!                       begin                at               filled
//! ```
//!
//! It grows with what has arrived, never with what was announced.

use std::io::{ErrorKind, Read};

use super::fault::{Fault, FileError};
use super::shape::Steps;
use crate::{checksum, string};

/// Bytes asked for at once.
const CHUNK_BYTES: usize = 64 << 10;
/// A window that had to grow beyond this is given back.
const KEPT_BYTES_MAX: usize = 16 * CHUNK_BYTES;

#[derive(Debug)]
pub(super) struct Window<R> {
    input: R,
    bytes: Vec<u8>,
    begin: usize,
    at: usize,
    filled: usize,
    /// Of the first byte, in the file.
    offset: u64,
    /// Of all bytes before `begin`; `None` when the checksum is not asked for.
    sum: Option<u64>,
}

impl<R: Read> Window<R> {
    pub(super) fn new(input: R, is_summed: bool) -> Self {
        Self { input, bytes: Vec::new(), begin: 0, at: 0, filled: 0, offset: 0, sum: is_summed.then_some(0) }
    }

    /// Begins an item with the next byte.
    pub(super) fn begin_item(&mut self) {
        self.sum = self.sum.map(|sum| checksum(sum, &self.bytes[self.begin..self.at]));
        self.begin = self.at;
    }

    /// The bytes of the item that were read.
    pub(super) fn item(&self) -> &[u8] {
        &self.bytes[self.begin..self.at]
    }

    /// How many these are.
    pub(super) fn item_len(&self) -> usize {
        self.at - self.begin
    }

    /// Bytes of the file that were read.
    pub(super) fn offset(&self) -> u64 {
        self.offset + self.at as u64
    }

    /// The checksum of all bytes before the item.
    pub(super) fn sum(&self) -> Option<u64> {
        self.sum
    }

    /// Something is wrong where the window stands.
    pub(super) fn fault(&self, fault: Fault) -> FileError {
        FileError { offset: self.offset(), fault }
    }

    /// The next byte.
    pub(super) fn byte(&mut self) -> Result<u8, FileError> {
        self.array::<1>().map(|[byte]| byte)
    }

    /// The next `N` bytes.
    pub(super) fn array<const N: usize>(&mut self) -> Result<[u8; N], FileError> {
        self.need(N)?;
        let bytes = self.bytes[self.at..].first_chunk::<N>().copied();
        self.at += N;
        bytes.ok_or_else(|| self.fault(Fault::Truncated))
    }

    /// Has `len` unread bytes arrive.
    fn need(&mut self, len: usize) -> Result<(), FileError> {
        while self.filled - self.at < len {
            self.fill()?;
        }
        Ok(())
    }

    fn fill(&mut self) -> Result<(), FileError> {
        if self.filled == self.bytes.len() {
            self.make_room();
        }
        let read = loop {
            match self.input.read(&mut self.bytes[self.filled..]) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                read => break read,
            }
        };
        let offset = self.offset + self.filled as u64;
        match read {
            Ok(0) => Err(FileError { offset, fault: Fault::Truncated }),
            Ok(read) => {
                self.filled += read;
                Ok(())
            }
            Err(error) => Err(FileError { offset, fault: Fault::Io(error) }),
        }
    }

    /// Moves the item to the front, and doubles the window when that gains little.
    fn make_room(&mut self) {
        self.bytes.copy_within(self.begin..self.filled, 0);
        self.offset += self.begin as u64;
        self.at -= self.begin;
        self.filled -= self.begin;
        self.begin = 0;
        if self.filled > self.bytes.len() / 2 || self.bytes.is_empty() {
            self.bytes.resize((2 * self.bytes.len()).max(CHUNK_BYTES), 0);
        } else if self.bytes.len() > KEPT_BYTES_MAX && self.filled < CHUNK_BYTES / 2 {
            self.bytes.truncate(CHUNK_BYTES);
            self.bytes.shrink_to_fit();
        }
    }
}

/// Moves over what is read, and leaves it in the item.
impl<R: Read> Steps for Window<R> {
    type Fault = FileError;

    fn bytes(&mut self, len: u64) -> Result<(), FileError> {
        let len = usize::try_from(len).map_err(|_| self.fault(Fault::Malformed("length")))?;
        self.need(len)?;
        self.at += len;
        Ok(())
    }

    fn byte(&mut self) -> Result<u8, FileError> {
        Self::byte(self)
    }

    fn number(&mut self) -> Result<u64, FileError> {
        let first = {
            self.need(1)?;
            self.bytes[self.at]
        };
        self.need(string::number_bytes(first))?;
        let mut rest = &self.bytes[self.at..self.filled];
        let number = string::read_number(&mut rest).ok_or_else(|| self.fault(Fault::Malformed("length")))?;
        self.at += string::number_bytes(first);
        Ok(number)
    }

    fn text(&mut self) -> Result<(), FileError> {
        self.need(1)?;
        match string::form(self.bytes[self.at]) {
            string::Form::Plain => {
                let len = self.number()?;
                self.bytes(len)
            }
            string::Form::Integer(bytes) => self.bytes(1 + bytes as u64),
            string::Form::Compressed => {
                self.at += 1;
                let len = self.number()?;
                self.number()?;
                self.bytes(len)
            }
            string::Form::Unknown => Err(self.fault(Fault::Malformed("string"))),
        }
    }
}
