//! Writing a file of a base.

use std::io::{self, Write};

use almandine_base::object::ImageCursor;
use almandine_base::steps;
use almandine_io::thread::Turns;
use almandine_keyspace::{Body, DumpedKey, Missing};
use almandine_oplog::encryption::{FileCipher, TAG_BYTES};

use super::format::{
    BLOCK_HEAD_BYTES, BaseHead, EDITED, ENCRYPTED_FORMAT, ETAG, EXPIRY, FORMAT, HEAD_BYTES, LAST, LIBRARIES, PART, PARTS,
    authenticated, encryption_bytes, push_number, sum, sum_of_head,
};

/// Bytes of entries from which on a block ends.
const BLOCK_BYTES: usize = 256 << 10;
/// Bytes of a part of a large value.
const PART_BYTES: usize = 64 << 10;

/// A database, as some moment of the walk found it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BaseDatabase {
    /// Its number.
    pub db: u16,
    /// What it consisted of.
    pub contents: u64,
    /// Keys, about.
    pub keys: u64,
}

/// All databases, as one moment of the walk found them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BaseDatabases {
    /// The number of the last unit that had changed what they consist of.
    pub number: u64,
    /// Each of them.
    pub all: Vec<BaseDatabase>,
}

/// Writes a file of a base.
pub struct BaseWriter<W> {
    out: W,
    entries: Vec<u8>,
    /// Of the block.
    keys: u32,
    all_keys: u64,
    sum: u32,
    bytes: u64,
    position: u64,
    /// The least since the block began; none: the one of the block before.
    floor: Option<u64>,
    last_floor: u64,
    /// Where the entries are encrypted, with the head.
    cipher: Option<(FileCipher, [u8; HEAD_BYTES])>,
    turns: Turns,
}

impl<W: Write> BaseWriter<W> {
    /// Begins a file.
    ///
    /// # Errors
    /// As `out` reports them; here and below, nothing is to be expected of the file afterwards.
    pub fn new(out: W, head: BaseHead) -> io::Result<Self> {
        Self::with_cipher(out, head, None)
    }

    /// Begins a file whose entries are encrypted, if there is a cipher for it.
    ///
    /// # Errors
    /// As of [`Self::new`].
    pub fn with_cipher(mut out: W, head: BaseHead, cipher: Option<FileCipher>) -> io::Result<Self> {
        let head = head.to_bytes(if cipher.is_some() { ENCRYPTED_FORMAT } else { FORMAT });
        out.write_all(&head)?;
        let (mut bytes, mut sum) = (head.len() as u64, sum_of_head(&head));
        if let Some(cipher) = &cipher {
            let encryption = encryption_bytes(sum, cipher);
            out.write_all(&encryption)?;
            bytes += encryption.len() as u64;
            sum = encryption.last_chunk().map_or(0, |sum| u32::from_le_bytes(*sum));
        }
        let (entries, cipher) = (Vec::with_capacity(2 * BLOCK_BYTES), cipher.map(|cipher| (cipher, head)));
        let turns = Turns::new();
        Ok(Self { out, entries, keys: 0, all_keys: 0, sum, bytes, position: 0, floor: None, last_floor: 0, cipher, turns })
    }

    /// Bytes of the file, those of a block that is not written yet included.
    pub fn bytes(&self) -> u64 {
        self.bytes + self.entries.len() as u64
    }

    /// Keys in the file.
    pub fn keys(&self) -> u64 {
        self.all_keys
    }

    /// Writes a key.
    ///
    /// # Errors
    /// As `out` reports them; or a part of the value is not in memory.
    pub fn key(&mut self, key: &DumpedKey<'_>) -> io::Result<()> {
        steps::take(1);
        let out = &mut self.entries;
        let flag = |flag: u8, has: bool| if has { flag } else { 0 };
        let bytes = match key.value {
            Body::Bytes(bytes) => Some(bytes),
            Body::Shared(value) if value.as_object().is_none() => Some(value.as_ref().as_ref()).filter(|it| it.len() <= PART_BYTES),
            Body::Shared(_) => None,
        };
        let put = key.put;
        let flags = flag(EXPIRY, put.expiry_ms.is_some()) | flag(ETAG, put.etag.is_some()) | flag(EDITED, put.edited);
        out.push(key.kind as u8 | flags | flag(PARTS, bytes.is_none()));
        push_number(key.contents, out);
        push_number(key.number, out);
        push_number(key.key.len() as u64, out);
        out.extend_from_slice(key.key);
        if let Some(expiry_ms) = put.expiry_ms {
            out.extend_from_slice(&expiry_ms.to_le_bytes());
        }
        if let Some(etag) = put.etag {
            out.extend_from_slice(&etag.to_le_bytes());
        }
        let bytes_or_none = bytes.unwrap_or_default();
        push_number(bytes_or_none.len() as u64, out);
        out.extend_from_slice(bytes_or_none);
        self.keys += 1;
        self.all_keys += 1;
        if bytes.is_none() {
            self.parts(key)?;
        }
        self.turns.step(key.key.len() + bytes_or_none.len());
        self.end_block(BLOCK_BYTES)
    }

    /// Says that all keys up to a position of the walk have been written, and that redo does again only what is numbered above
    /// `floor`.
    pub fn passed(&mut self, position: u64, floor: u64) {
        self.position = position;
        self.floor = Some(self.floor.map_or(floor, |before| before.min(floor)));
    }

    /// Writes libraries of functions: all that there are at a moment of the walk, which have this version.
    ///
    /// # Errors
    /// As `out` reports them.
    pub fn libraries(&mut self, version: u64, texts: &[Vec<u8>]) -> io::Result<()> {
        self.end_block(0)?;
        for text in texts {
            push_number(text.len() as u64, &mut self.entries);
            self.entries.extend_from_slice(text);
            self.block(LIBRARIES, version, 0)?;
        }
        Ok(())
    }

    /// Ends the file and returns where it went. Nothing is made durable.
    ///
    /// # Errors
    /// As `out` reports them.
    pub fn finish(mut self, databases: &BaseDatabases) -> io::Result<W> {
        self.end_block(0)?;
        self.entries.extend_from_slice(&databases.number.to_le_bytes());
        for database in &databases.all {
            self.entries.extend_from_slice(&database.db.to_le_bytes());
            self.entries.extend_from_slice(&database.contents.to_le_bytes());
            self.entries.extend_from_slice(&database.keys.to_le_bytes());
        }
        self.block(LAST, self.all_keys, databases.all.len() as u64)?;
        self.out.flush()?;
        Ok(self.out)
    }

    /// Writes a value in parts.
    fn parts(&mut self, key: &DumpedKey<'_>) -> io::Result<()> {
        let Body::Shared(value) = key.value else { return Ok(()) };
        let Some(object) = value.as_object() else {
            let bytes: &[u8] = value.as_ref().as_ref();
            let mut parts = bytes.chunks(PART_BYTES).peekable();
            while let Some(part) = parts.next() {
                self.part(part, parts.peek().is_none())?;
            }
            return Ok(());
        };
        let (mut cursor, mut part) = (Some(ImageCursor::default()), Vec::new());
        while let Some(from) = cursor {
            part.clear();
            let written = object.write_part(from, PART_BYTES, &mut part);
            cursor = written.map_err(|missing: Missing| io::Error::other(format!("a part of a value is {missing:?}")))?;
            self.part(&part, cursor.is_none())?;
        }
        Ok(())
    }

    fn part(&mut self, part: &[u8], last: bool) -> io::Result<()> {
        self.entries.extend_from_slice(&[PART, u8::from(last)]);
        push_number(part.len() as u64, &mut self.entries);
        self.entries.extend_from_slice(part);
        self.turns.step(part.len());
        self.end_block(BLOCK_BYTES)
    }

    /// Ends the block if it has more than `len` bytes.
    fn end_block(&mut self, len: usize) -> io::Result<()> {
        if self.entries.len() <= len {
            return Ok(());
        }
        let keys = std::mem::take(&mut self.keys);
        self.last_floor = self.floor.take().unwrap_or(self.last_floor);
        self.block(keys, self.position, self.last_floor)
    }

    fn block(&mut self, keys: u32, second: u64, third: u64) -> io::Result<()> {
        let tag_bytes = if self.cipher.is_some() { TAG_BYTES } else { 0 };
        let len = u32::try_from(self.entries.len() + tag_bytes).map_err(io::Error::other)?;
        let mut head = Vec::with_capacity(BLOCK_HEAD_BYTES);
        head.extend_from_slice(&len.to_le_bytes());
        head.extend_from_slice(&keys.to_le_bytes());
        head.extend_from_slice(&second.to_le_bytes());
        head.extend_from_slice(&third.to_le_bytes());
        if let Some((mut cipher, file)) = self.cipher.take() {
            let with = authenticated(&file, &head);
            let tag = if keys == LAST {
                cipher.encrypt_last(&with, &mut self.entries)?
            } else {
                let (_, tag) = cipher.encrypt(&with, &mut self.entries)?;
                self.cipher = Some((cipher, file));
                tag
            };
            self.entries.extend_from_slice(&tag);
        }
        self.sum = sum(self.sum, &head, &self.entries);
        head.extend_from_slice(&self.sum.to_le_bytes());
        self.out.write_all(&head)?;
        self.out.write_all(&self.entries)?;
        self.bytes += (head.len() + self.entries.len()) as u64;
        self.entries.clear();
        self.entries.shrink_to(4 * BLOCK_BYTES);
        Ok(())
    }
}
