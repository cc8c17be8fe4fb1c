//! Reading a file of a base: a block at a time, each with its checksum before anything of it is used.

use std::io::Read;

use almandine_io::file::File;
use almandine_keyspace::{Kind, Put};
use almandine_oplog::encryption::{COUNT_LAST, FileCipher, FileKind, LogKeys, TAG_BYTES};
use almandine_oplog::read::BodyAccess;

use super::format::{
    BLOCK_HEAD_BYTES, BaseFault, BaseHead, DATABASE_BYTES, EDITED, ENCRYPTED_FORMAT, ENCRYPTION_BYTES, ETAG, EXPIRY, HEAD_BYTES,
    KIND, LAST, LIBRARIES, PART, PARTS, authenticated, parse_encryption, sum, sum_of_head, take_number,
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

/// A block of a file.
pub(super) struct BaseBlock<'b> {
    pub(super) entries: &'b [u8],
    /// Whether the entries are libraries of functions.
    pub(super) has_libraries: bool,
    /// What the numbers of all effects are above that redo does again.
    pub(super) floor: u64,
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
    /// Where the block begins, and what is behind it.
    place: (u64, u64),
    encryption: Encryption,
}

/// How the entries of blocks are read.
enum Encryption {
    /// As they lie there.
    Plain,
    /// Decrypted, with the head of the file and the count of the next one.
    Cipher(Box<(FileCipher, [u8; HEAD_BYTES], u64)>),
    /// Not at all.
    Opaque,
}

impl<R: Read> BaseReader<R> {
    /// Begins to read a file that is not encrypted.
    ///
    /// # Errors
    /// When it is none, of a format that is not known, or encrypted.
    pub fn open(input: R) -> Result<Self, BaseFault> {
        Self::open_with(input, BodyAccess::Keys(&LogKeys::NONE))
    }

    /// Begins to read a file. Of one that is encrypted only [`Self::check_block`] is to be called where nothing else than sums is
    /// read.
    ///
    /// # Errors
    /// When it is none, of a format that is not known, or its key is not there.
    pub fn open_with(mut input: R, access: BodyAccess<'_>) -> Result<Self, BaseFault> {
        let mut bytes = [0; HEAD_BYTES];
        input.read_exact(&mut bytes)?;
        let (head, format) = BaseHead::parse(&bytes)?;
        let (mut sum, mut encryption, mut head_bytes) = (sum_of_head(&bytes), Encryption::Plain, HEAD_BYTES);
        if format == ENCRYPTED_FORMAT {
            let mut behind = [0; ENCRYPTION_BYTES];
            input.read_exact(&mut behind)?;
            let (mark, salt, sum_behind) = parse_encryption(sum, &behind)?;
            encryption = match access {
                BodyAccess::Keys(keys) => {
                    Encryption::Cipher(Box::new((keys.open(FileKind::Base, &mark, salt).map_err(BaseFault::Key)?, bytes, 0)))
                }
                BodyAccess::Sums => Encryption::Opaque,
            };
            (sum, head_bytes) = (sum_behind, HEAD_BYTES + ENCRYPTION_BYTES);
        }
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
            place: (0, head_bytes as u64),
            encryption,
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

    /// Where the last block begins that was read, or tried to be.
    pub fn offset(&self) -> u64 {
        self.place.0
    }

    /// The next item; None: the file has ended as it should.
    ///
    /// # Errors
    /// When the file is damaged or cut off.
    pub fn read_item(&mut self) -> Result<Option<BaseItem<'_>>, BaseFault> {
        if !self.fill()? {
            return Ok(None);
        }
        let block = &self.block[self.at..];
        let mut rest = block;
        let item = if self.has_libraries { take_bytes(&mut rest).map(BaseItem::Library) } else { take_item(&mut rest) };
        let item = item.ok_or(BaseFault::Damaged)?;
        self.at += block.len() - rest.len();
        self.keys += u64::from(matches!(item, BaseItem::Key { .. }));
        Ok(Some(item))
    }

    /// The next block as a whole, or what is left of it; None: the file has ended as it should. [`BaseReader::count_keys`] is to be
    /// called before the next one.
    pub(super) fn read_block(&mut self) -> Result<Option<BaseBlock<'_>>, BaseFault> {
        if !self.fill()? {
            return Ok(None);
        }
        let entries = &self.block[self.at..];
        self.at = self.block.len();
        Ok(Some(BaseBlock { entries, has_libraries: self.has_libraries, floor: self.floor }))
    }

    /// Whether the entries cannot be read.
    pub fn is_opaque(&self) -> bool {
        matches!(self.encryption, Encryption::Opaque)
    }

    /// Reads a block by its sum alone, and says how many keys it has, as its head does; None: the file has ended as it should.
    ///
    /// # Errors
    /// As of [`Self::read_item`].
    pub fn check_block(&mut self) -> Result<Option<u64>, BaseFault> {
        if self.databases.is_some() {
            return Ok(None);
        }
        let keys = self.next_block()?;
        self.at = self.block.len();
        self.keys += keys;
        Ok(Some(keys))
    }

    /// The last block had this number of keys.
    pub(super) fn count_keys(&mut self, keys: u64) {
        self.keys += keys;
    }

    /// Reads a block if nothing is left of the one before. False when the file has ended.
    fn fill(&mut self) -> Result<bool, BaseFault> {
        while self.at == self.block.len() {
            if self.databases.is_some() {
                return Ok(false);
            }
            self.next_block()?;
        }
        Ok(true)
    }

    /// Reads a block, and says how many keys it has.
    fn next_block(&mut self) -> Result<u64, BaseFault> {
        self.place.0 = self.place.1;
        let mut head = [0; BLOCK_HEAD_BYTES];
        self.input.read_exact(&mut head)?;
        let (summed, expected) = head.split_at(BLOCK_HEAD_BYTES - 4);
        let u32_at = |at: usize| head[at..].first_chunk().map_or(0, |chunk| u32::from_le_bytes(*chunk));
        let u64_at = |at: usize| head[at..].first_chunk().map_or(0, |chunk| u64::from_le_bytes(*chunk));
        let (len, keys) = (u32_at(0), u32_at(4));
        self.place.1 += BLOCK_HEAD_BYTES as u64 + u64::from(len);
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
        self.decrypt(&head, keys == LAST)?;
        self.has_libraries = keys == LIBRARIES && self.format > 1;
        if keys != LAST {
            if self.has_libraries {
                self.libraries = u64_at(8);
            } else {
                (self.position, self.floor) = (u64_at(8), u64_at(16));
            }
            let keys = if self.has_libraries { 0 } else { keys.into() };
            return if self.block.is_empty() { Err(BaseFault::Damaged) } else { Ok(keys) };
        }
        let databases = match self.is_opaque() {
            true => BaseDatabases::default(),
            false => parse_databases(&self.block, self.format).ok_or(BaseFault::Damaged)?,
        };
        let more = self.input.read(&mut [0])?;
        let has_count = u64_at(16) == databases.all.len() as u64 || self.is_opaque();
        if u64_at(8) != self.keys || !has_count || more != 0 {
            return Err(BaseFault::Damaged);
        }
        self.block.clear();
        self.databases = Some(databases);
        Ok(0)
    }

    /// Decrypts the block where it is encrypted.
    fn decrypt(&mut self, head: &[u8; BLOCK_HEAD_BYTES], is_last: bool) -> Result<(), BaseFault> {
        let Encryption::Cipher(with) = &mut self.encryption else { return Ok(()) };
        let (cipher, file, count) = &mut **with;
        let at = if is_last { COUNT_LAST } else { *count };
        *count += 1;
        self.block = decrypted(cipher, (file, head), at, &self.block)?;
        Ok(())
    }
}

/// The entries of a block that has this count.
fn decrypted(
    cipher: &FileCipher,
    (file, head): (&[u8; HEAD_BYTES], &[u8]),
    count: u64,
    block: &[u8],
) -> Result<Vec<u8>, BaseFault> {
    let body = block.len().checked_sub(TAG_BYTES).ok_or(BaseFault::Damaged)?;
    let mut plain = vec![0; body];
    let with = authenticated(file, &head[..BLOCK_HEAD_BYTES - 4]);
    cipher.decrypt(count, &with, block.split_at(body), &mut plain).map_err(|_| BaseFault::Damaged)?;
    Ok(plain)
}

/// What a last block has.
fn parse_databases(block: &[u8], format: u16) -> Option<BaseDatabases> {
    let (number, all) = if format > 1 { block.split_at_checked(8)? } else { block.split_at(0) };
    let number = number.first_chunk().map_or(0, |chunk| u64::from_le_bytes(*chunk));
    let databases = all.chunks_exact(DATABASE_BYTES).map(|bytes| BaseDatabase {
        db: u16::from_le_bytes([bytes[0], bytes[1]]),
        contents: bytes[2..].first_chunk().map_or(0, |chunk| u64::from_le_bytes(*chunk)),
        keys: bytes[10..].first_chunk().map_or(0, |chunk| u64::from_le_bytes(*chunk)),
    });
    let databases: Vec<BaseDatabase> = databases.collect();
    (all.len() == databases.len() * DATABASE_BYTES).then_some(BaseDatabases { number, all: databases })
}

/// What a file says of itself, how long it is, and the databases that its last block seems to have. Its sum follows from all
/// before, so that only reading the file shows whether it has these.
///
/// # Errors
/// When it cannot be read, is no base, or its key is not there.
pub fn peek(file: &File, keys: &LogKeys) -> Result<(BaseHead, u64, BaseDatabases), BaseFault> {
    let mut file_head = [0; HEAD_BYTES];
    file.read_exact_at(&mut file_head, 0)?;
    let (head, format) = BaseHead::parse(&file_head)?;
    let cipher = match format {
        ENCRYPTED_FORMAT => {
            let mut behind = [0; ENCRYPTION_BYTES];
            file.read_exact_at(&mut behind, HEAD_BYTES as u64)?;
            let (mark, salt, _) = parse_encryption(sum_of_head(&file_head), &behind)?;
            Some(keys.open(FileKind::Base, &mark, salt).map_err(BaseFault::Key)?)
        }
        _ => None,
    };
    let tag_bytes = if cipher.is_some() { TAG_BYTES } else { 0 };
    let len = file.len()?;
    let mut tail = vec![0; LAST_BLOCK_BYTES_MAX.min(usize::try_from(len).unwrap_or(usize::MAX))];
    let from = len - tail.len() as u64;
    file.read_exact_at(&mut tail, from)?;
    let databases = (0..=DATABASES_MAX).find_map(|count| {
        let bytes = count * DATABASE_BYTES + if format > 1 { 8 } else { 0 } + tag_bytes;
        let (_, block) = tail.split_at_checked(tail.len().checked_sub(BLOCK_HEAD_BYTES + bytes)?)?;
        let (head, entries) = block.split_at_checked(BLOCK_HEAD_BYTES)?;
        let is_last = head[..4] == (bytes as u32).to_le_bytes()
            && head[4..8] == LAST.to_le_bytes()
            && head[16..24] == (count as u64).to_le_bytes();
        if !is_last {
            return None;
        }
        match &cipher {
            Some(cipher) => {
                decrypted(cipher, (&file_head, head), COUNT_LAST, entries).ok().and_then(|it| parse_databases(&it, format))
            }
            None => parse_databases(entries, format),
        }
    });
    Ok((head, len, databases.ok_or(BaseFault::Truncated)?))
}

/// More databases than this are not configured.
const DATABASES_MAX: usize = 4096;
/// Bytes that the last block of a file does not exceed.
const LAST_BLOCK_BYTES_MAX: usize = BLOCK_HEAD_BYTES + 8 + DATABASES_MAX * DATABASE_BYTES + TAG_BYTES;

/// Takes a key or a part from the beginning of `rest`.
pub(crate) fn take_item<'b>(rest: &mut &'b [u8]) -> Option<BaseItem<'b>> {
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

/// Takes what stands behind its length from the beginning of `rest`.
pub(super) fn take_bytes<'b>(rest: &mut &'b [u8]) -> Option<&'b [u8]> {
    let len = usize::try_from(take_number(rest)?).ok()?;
    rest.split_off(..len)
}
