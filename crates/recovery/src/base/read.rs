//! Reading a file of a base: a block at a time, each with its checksum before anything of it is used.

use std::io::Read;

use almandine_keyspace::{Kind, Put};

use super::format::{
    BLOCK_HEAD_BYTES, BaseFault, BaseHead, DATABASE_BYTES, EDITED, ETAG, EXPIRY, HEAD_BYTES, KIND, LAST, LIBRARIES, PART, PARTS,
    sum, sum_of_head, take_number,
};
use super::write::{BaseDatabase, BaseDatabases};

/// Something in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BaseItem<'b> {
    /// A key.
    Key {
        /// The contents that it belongs to.
        contents: u64,
        /// The number of the last effect that it has.
        number: u64,
        /// Its name.
        key: &'b [u8],
        /// Its type.
        kind: Kind,
        /// What goes with its value.
        put: Put,
        /// Its value; none where that follows in parts.
        value: Option<&'b [u8]>,
    },
    /// A part of the value of the key before.
    Part {
        /// Its bytes.
        bytes: &'b [u8],
        /// Whether it is the last one.
        last: bool,
    },
    /// The text of a library of functions.
    Library(&'b [u8]),
}

/// Reads a file of a base.
pub struct BaseReader<R> {
    input: R,
    head: BaseHead,
    format: u16,
    sum: u32,
    block: Vec<u8>,
    /// Whether the block is one of libraries.
    has_libraries: bool,
    /// How much of the block was read.
    at: usize,
    position: u64,
    floor: u64,
    keys: u64,
    databases: Option<BaseDatabases>,
    libraries: u64,
}

impl<R: Read> BaseReader<R> {
    /// Begins to read a file.
    ///
    /// # Errors
    /// When it is none, or of a format that is not known.
    pub fn open(mut input: R) -> Result<Self, BaseFault> {
        let mut bytes = [0; HEAD_BYTES];
        input.read_exact(&mut bytes)?;
        let (head, format) = BaseHead::parse(&bytes)?;
        let sum = sum_of_head(&bytes);
        let block = Vec::new();
        let (has_libraries, libraries) = (false, 0);
        Ok(Self {
            input,
            head,
            format,
            sum,
            block,
            has_libraries,
            at: 0,
            position: 0,
            floor: 0,
            keys: 0,
            databases: None,
            libraries,
        })
    }

    /// What the file says of itself.
    pub fn head(&self) -> BaseHead {
        self.head
    }

    /// How far the walk was behind the block of the last item, and what the numbers of all effects are above that redo does again.
    pub fn passed(&self) -> (u64, u64) {
        (self.position, self.floor)
    }

    /// The version of the libraries that were read; 0: there were none.
    pub fn libraries_version(&self) -> u64 {
        self.libraries
    }

    /// The databases, when all items were read.
    pub fn databases(&self) -> Option<&BaseDatabases> {
        self.databases.as_ref()
    }

    /// The next item; None: the file has ended as it should.
    ///
    /// # Errors
    /// When the file is damaged or cut off.
    pub fn read_item(&mut self) -> Result<Option<BaseItem<'_>>, BaseFault> {
        while self.at == self.block.len() {
            if self.databases.is_some() {
                return Ok(None);
            }
            self.read_block()?;
        }
        let block = &self.block[self.at..];
        let mut rest = block;
        let item = if self.has_libraries { take_bytes(&mut rest).map(BaseItem::Library) } else { take_item(&mut rest) };
        let item = item.ok_or(BaseFault::Damaged)?;
        self.at += block.len() - rest.len();
        self.keys += u64::from(matches!(item, BaseItem::Key { .. }));
        Ok(Some(item))
    }

    fn read_block(&mut self) -> Result<(), BaseFault> {
        let mut head = [0; BLOCK_HEAD_BYTES];
        self.input.read_exact(&mut head)?;
        let (summed, expected) = head.split_at(BLOCK_HEAD_BYTES - 4);
        let u32_at = |at: usize| head[at..].first_chunk().map_or(0, |chunk| u32::from_le_bytes(*chunk));
        let u64_at = |at: usize| head[at..].first_chunk().map_or(0, |chunk| u64::from_le_bytes(*chunk));
        let (len, keys) = (u32_at(0), u32_at(4));
        self.block.clear();
        self.at = 0;
        // Memory is taken for bytes that are there, not for a length.
        if self.input.by_ref().take(len.into()).read_to_end(&mut self.block)? as u64 != u64::from(len) {
            return Err(BaseFault::Truncated);
        }
        self.sum = sum(self.sum, summed, &self.block);
        if self.sum.to_le_bytes() != *expected {
            return Err(BaseFault::Damaged);
        }
        self.has_libraries = keys == LIBRARIES && self.format > 1;
        if keys != LAST {
            if self.has_libraries {
                self.libraries = u64_at(8);
            } else {
                (self.position, self.floor) = (u64_at(8), u64_at(16));
            }
            return if self.block.is_empty() { Err(BaseFault::Damaged) } else { Ok(()) };
        }
        let (number, all) =
            if self.format > 1 { self.block.split_at_checked(8).ok_or(BaseFault::Damaged)? } else { self.block.split_at(0) };
        let number = number.first_chunk().map_or(0, |chunk| u64::from_le_bytes(*chunk));
        let databases = all.chunks_exact(DATABASE_BYTES).map(|bytes| BaseDatabase {
            db: u16::from_le_bytes([bytes[0], bytes[1]]),
            contents: bytes[2..].first_chunk().map_or(0, |chunk| u64::from_le_bytes(*chunk)),
            keys: bytes[10..].first_chunk().map_or(0, |chunk| u64::from_le_bytes(*chunk)),
        });
        let databases: Vec<BaseDatabase> = databases.collect();
        let more = self.input.read(&mut [0])?;
        let is_whole = all.len() == databases.len() * DATABASE_BYTES;
        if u64_at(8) != self.keys || u64_at(16) != databases.len() as u64 || more != 0 || !is_whole {
            return Err(BaseFault::Damaged);
        }
        self.block.clear();
        self.databases = Some(BaseDatabases { number, all: databases });
        Ok(())
    }
}

fn take_item<'b>(rest: &mut &'b [u8]) -> Option<BaseItem<'b>> {
    let tag = *rest.split_off_first()?;
    if tag == PART {
        let last = *rest.split_off_first()?;
        let bytes = take_bytes(rest)?;
        return (last <= 1).then_some(BaseItem::Part { bytes, last: last == 1 });
    }
    let kind = Kind::of(tag & KIND);
    if kind as u8 != tag & KIND {
        return None;
    }
    let (contents, number) = (take_number(rest)?, take_number(rest)?);
    let key = take_bytes(rest)?;
    let mut word = |has: bool| if has { rest.split_off(..8)?.first_chunk().map(|chunk| Some(*chunk)) } else { Some(None) };
    let expiry_ms = word(tag & EXPIRY != 0)?.map(i64::from_le_bytes);
    let etag = word(tag & ETAG != 0)?.map(u64::from_le_bytes);
    let put = Put { expiry_ms, etag, edited: tag & EDITED != 0 };
    let value = take_bytes(rest)?;
    let in_parts = tag & PARTS != 0;
    if in_parts && !value.is_empty() {
        return None;
    }
    Some(BaseItem::Key { contents, number, key, kind, put, value: (!in_parts).then_some(value) })
}

fn take_bytes<'b>(rest: &mut &'b [u8]) -> Option<&'b [u8]> {
    let len = usize::try_from(take_number(rest)?).ok()?;
    rest.split_off(..len)
}
