//! The part of a base that says what its keys have on the device: the table of pages, and where records lie.
//!
//! A record that had left memory before the base began, and has not been changed since, is named by its address and not copied.
//!
//! ```text
//! head, 64 bytes   magic 8 | format 2 | 0 2 | bytes of a page 4 | log 16 | base 8 | hash seed 8 | buckets of the index 8 |
//!                  number of the next page 4 | sum 4
//! block            length 4 | kind 4 | count 8 | sum 4 | entries, `length` bytes
//! pages (1)        number 8 | words: dead 4, live 4 | records 4 | words of the largest 4 | namespace 4 | extent blocks 4 |
//!                  sums 4 each
//! keys (2)         address 6 | known bits 1 | heat 1, 128 more if a copy was in memory | of the hash as many bytes as have known
//!                  bits
//! dead (3)         number of a page 8 | dead words 4, when the walk has ended
//! last block (4)   of each database: number 2, contents 8, namespace 2; its count is that of all keys
//! ```
//! Format 2, where something is encrypted: the first block is of kind 5, a page has a word more in front of its sums, and keys are
//! in blocks of kind 6, whose hashes would tell of keys.
//!
//! ```text
//! ciphers (5)      number 2; of the file's keys 0 | name of a key and its check value 24 | salt 16
//! pages (1)        … extent blocks 4 | count 6, number of the cipher 2 | sums 4 each
//! keys (6)         as keys (2), encrypted | tag 16
//! ```
//! All numbers are little endian. A sum is the CRC-32C of what is before it in its head or block, of the entries, and of the sum
//! before.

use std::collections::BTreeSet;
use std::io::{self, Read, Write};

use almandine_base::limits::DATABASES_MAX;
use almandine_io::file::File;
use almandine_keyspace::{CipherRow, ColdKey, PageNonce, PageRow, StoreDevice};
use almandine_oplog::crc32c;
use almandine_oplog::encryption::{FileCipher, FileKind, KeyMark, LogKeys, MARK_BYTES, SALT_BYTES, TAG_BYTES};

use super::format::{BaseFault, sum};

const MAGIC: [u8; 8] = *b"ALMDDEVC";
const FORMAT: u16 = 1;
/// That of a file in which something is encrypted, or which names what is.
const FORMAT_ENCRYPTED: u16 = 2;
/// In the byte of a key's heat: a copy was in memory.
const WAS_COPIED: u8 = 1 << 7;
const HEAD_BYTES: usize = 64;
const BLOCK_HEAD_BYTES: usize = 20;
/// Bytes of entries from which on a block ends.
const BLOCK_BYTES: usize = 256 << 10;
/// Longer blocks are not written.
const BLOCK_BYTES_MAX: u32 = 1 << 20;
const PAGE_ROW_BYTES: usize = 32;
const NONCE_BYTES: usize = 8;
const CIPHER_BYTES: usize = 2 + MARK_BYTES + SALT_BYTES;
const COLD_BYTES: usize = 8;
const DEAD_BYTES: usize = 12;
const DATABASE_BYTES: usize = 12;

const PAGES: u32 = 1;
const KEYS: u32 = 2;
const DEAD: u32 = 3;
const LAST: u32 = 4;
const CIPHERS: u32 = 5;
const ENCRYPTED_KEYS: u32 = 6;

/// What the file says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceHead {
    /// The log that it belongs to.
    pub log: u128,
    /// The base.
    pub base: u64,
    /// The seed of the hashes.
    pub seed: u64,
    /// Buckets of the index when the base began.
    pub index_buckets: u64,
    /// Pages of the table have smaller numbers, and so have those of all earlier bases. 0 in files of earlier versions.
    pub next_page: u32,
}

impl DeviceHead {
    fn to_bytes(self, format: u16) -> [u8; HEAD_BYTES] {
        let mut bytes = Vec::with_capacity(HEAD_BYTES);
        bytes.extend_from_slice(&MAGIC);
        bytes.extend_from_slice(&format.to_le_bytes());
        bytes.extend_from_slice(&[0; 2]);
        bytes.extend_from_slice(&(StoreDevice::PAGE_BYTES as u32).to_le_bytes());
        bytes.extend_from_slice(&self.log.to_le_bytes());
        for number in [self.base, self.seed, self.index_buckets] {
            bytes.extend_from_slice(&number.to_le_bytes());
        }
        bytes.extend_from_slice(&self.next_page.to_le_bytes());
        bytes.extend_from_slice(&crc32c::sum(&bytes).to_le_bytes());
        let mut head = [0; HEAD_BYTES];
        head.copy_from_slice(&bytes);
        head
    }

    /// What the head of a file says, and its format.
    fn parse(bytes: &[u8; HEAD_BYTES]) -> Result<(Self, u16), BaseFault> {
        let (summed, sum) = bytes.split_at(HEAD_BYTES - 4);
        let u64_at = |at: usize| take(&bytes[at..]).map_or(0, u64::from_le_bytes);
        if !bytes.starts_with(&MAGIC) {
            return Err(BaseFault::NoBase);
        }
        if crc32c::sum(summed).to_le_bytes() != *sum {
            return Err(BaseFault::Damaged);
        }
        let format = u16::from_le_bytes([bytes[8], bytes[9]]);
        if ![FORMAT, FORMAT_ENCRYPTED].contains(&format) {
            return Err(BaseFault::Format(format));
        }
        if take(&bytes[12..]).map(u32::from_le_bytes) != Some(StoreDevice::PAGE_BYTES as u32) {
            return Err(BaseFault::Another);
        }
        let log = take(&bytes[16..]).map_or(0, u128::from_le_bytes);
        let next_page = take(&bytes[56..]).map_or(0, u32::from_le_bytes);
        Ok((Self { log, base: u64_at(32), seed: u64_at(40), index_buckets: u64_at(48), next_page }, format))
    }
}

/// A database at the end of the walk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceDatabase {
    /// Its number.
    pub db: u16,
    /// What it consisted of.
    pub contents: u64,
    /// The namespace that its records have.
    pub namespace: u16,
}

/// Writes the file.
pub struct DeviceWriter<W> {
    out: W,
    sum: u32,
    /// Of the block, with its kind.
    entries: (u32, Vec<u8>),
    count: u64,
    keys: u64,
    head: [u8; HEAD_BYTES],
    is_encrypted: bool,
    /// What keys are encrypted with.
    cipher: Option<FileCipher>,
}

impl<W: Write> DeviceWriter<W> {
    /// Begins a file with nothing that is encrypted.
    ///
    /// # Errors
    /// As `out` reports them; here and below, nothing is to be expected of the file afterwards.
    pub fn new(out: W, head: DeviceHead) -> io::Result<Self> {
        Self::encrypted(out, head, None, &[])
    }

    /// Begins a file whose keys are encrypted, if there is a cipher, and whose pages were, with these.
    ///
    /// # Errors
    /// As of [`Self::new`].
    pub fn encrypted(mut out: W, head: DeviceHead, cipher: Option<FileCipher>, of_pages: &[CipherRow]) -> io::Result<Self> {
        let is_encrypted = cipher.is_some() || !of_pages.is_empty();
        let head = head.to_bytes(if is_encrypted { FORMAT_ENCRYPTED } else { FORMAT });
        out.write_all(&head)?;
        let entries = (PAGES, Vec::with_capacity(BLOCK_BYTES));
        let mut file = Self { out, sum: sum_of(&head), entries, count: 0, keys: 0, head, is_encrypted, cipher: None };
        let of_file = cipher.as_ref().map(|cipher| CipherRow { number: 0, mark: cipher.mark(), salt: cipher.salt() });
        for CipherRow { number, mark, salt } in of_file.iter().chain(of_pages) {
            let entries = file.begin(CIPHERS)?;
            entries.extend_from_slice(&number.to_le_bytes());
            entries.extend_from_slice(&mark.encode());
            entries.extend_from_slice(salt);
        }
        file.cipher = cipher;
        Ok(file)
    }

    /// A page of the table, before the first key.
    ///
    /// # Errors
    /// As `out` reports them.
    pub fn page(&mut self, row: &PageRow) -> io::Result<()> {
        let is_encrypted = self.is_encrypted;
        debug_assert!(is_encrypted || row.nonce.is_plain(), "INV-ENCRYPTION-4: a base names the ciphers of its pages");
        let entries = self.begin(PAGES)?;
        entries.extend_from_slice(&row.page.to_le_bytes());
        let words = [row.dead_words, row.live_words, row.records, row.largest, row.namespace, row.extent_blocks];
        words.iter().for_each(|word| entries.extend_from_slice(&word.to_le_bytes()));
        if is_encrypted {
            entries.extend_from_slice(&row.nonce.to_word().to_le_bytes());
        }
        row.sums.iter().for_each(|word| entries.extend_from_slice(&word.to_le_bytes()));
        Ok(())
    }

    /// A key whose record stays on the device.
    ///
    /// # Errors
    /// As `out` reports them.
    pub fn key(&mut self, key: &ColdKey) -> io::Result<()> {
        self.keys += 1;
        let kind = if self.cipher.is_some() { ENCRYPTED_KEYS } else { KEYS };
        let entries = self.begin(kind)?;
        entries.extend_from_slice(&key.address.to_le_bytes()[..6]);
        entries.extend_from_slice(&[key.known_bits as u8, key.heat as u8 | if key.was_copied { WAS_COPIED } else { 0 }]);
        entries.extend_from_slice(&key.hash.to_le_bytes()[..hash_bytes(key.known_bits)]);
        Ok(())
    }

    /// How many words of a page are dead by now, behind the last key.
    ///
    /// # Errors
    /// As `out` reports them.
    pub fn dead(&mut self, page: u64, words: u32) -> io::Result<()> {
        let entries = self.begin(DEAD)?;
        entries.extend_from_slice(&page.to_le_bytes());
        entries.extend_from_slice(&words.to_le_bytes());
        Ok(())
    }

    /// Ends the file and returns where it went. Nothing is made durable.
    ///
    /// # Errors
    /// As `out` reports them.
    pub fn finish(mut self, databases: &[DeviceDatabase]) -> io::Result<W> {
        let entries = self.begin(LAST)?;
        for database in databases {
            entries.extend_from_slice(&database.db.to_le_bytes());
            entries.extend_from_slice(&database.contents.to_le_bytes());
            entries.extend_from_slice(&database.namespace.to_le_bytes());
        }
        self.count = self.keys;
        self.block()?;
        self.out.flush()?;
        Ok(self.out)
    }

    /// The entries of a block of this kind, for another one.
    fn begin(&mut self, kind: u32) -> io::Result<&mut Vec<u8>> {
        if self.entries.0 != kind || self.entries.1.len() >= BLOCK_BYTES {
            if !self.entries.1.is_empty() {
                self.block()?;
            }
            self.entries.0 = kind;
        }
        self.count += 1;
        Ok(&mut self.entries.1)
    }

    fn block(&mut self) -> io::Result<()> {
        let (kind, entries) = (self.entries.0, &mut self.entries.1);
        let cipher = self.cipher.as_mut().filter(|_| kind == ENCRYPTED_KEYS);
        let mut head = Vec::with_capacity(BLOCK_HEAD_BYTES);
        let len = entries.len() + if cipher.is_some() { TAG_BYTES } else { 0 };
        head.extend_from_slice(&u32::try_from(len).map_err(io::Error::other)?.to_le_bytes());
        head.extend_from_slice(&kind.to_le_bytes());
        head.extend_from_slice(&std::mem::take(&mut self.count).to_le_bytes());
        if let Some(cipher) = cipher {
            // Its count is the number of blocks of this kind before it.
            let (_, tag) = cipher.encrypt(&[&self.head[..], &head].concat(), entries)?;
            entries.extend_from_slice(&tag);
        }
        self.sum = sum(self.sum, &head, entries);
        head.extend_from_slice(&self.sum.to_le_bytes());
        self.out.write_all(&head)?;
        self.out.write_all(entries)?;
        entries.clear();
        Ok(())
    }
}

/// Something in the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeviceItem {
    /// A page of the table.
    Page(PageRow),
    /// What pages are encrypted with, before them.
    Cipher(CipherRow),
    /// A key whose record is on the device.
    Key(ColdKey),
    /// As many keys, which are encrypted.
    Opaque(u64),
    /// A page, and how many of its words were dead at the end.
    Dead(u64, u32),
    /// All databases: the file has ended as it should.
    End(Vec<DeviceDatabase>),
}

/// Reads the file: a block at a time, each with its checksum before anything of it is used.
pub struct DeviceReader<'k, R> {
    input: R,
    head: DeviceHead,
    sum: u32,
    kind: u32,
    block: Vec<u8>,
    at: usize,
    keys: u64,
    /// What the head of the block says of its entries.
    count: u64,
    head_bytes: [u8; HEAD_BYTES],
    is_encrypted: bool,
    /// With what keys are read that are encrypted.
    with: Option<&'k LogKeys>,
    cipher: Option<FileCipher>,
    /// Blocks of such keys that were read.
    encrypted: u64,
}

impl<R: Read> DeviceReader<'_, R> {
    /// Begins to read a file, of which keys that are encrypted are told by their number.
    ///
    /// # Errors
    /// When it is none, or of a format that is not known, or its pages are of another size.
    pub fn open(input: R) -> Result<Self, BaseFault> {
        Self::begin(input, None)
    }
}

impl<'k, R: Read> DeviceReader<'k, R> {
    /// Begins to read a file with the keys that it may be encrypted with.
    ///
    /// # Errors
    /// As of [`Self::open`].
    pub fn open_with(input: R, keys: &'k LogKeys) -> Result<Self, BaseFault> {
        Self::begin(input, Some(keys))
    }

    fn begin(mut input: R, with: Option<&'k LogKeys>) -> Result<Self, BaseFault> {
        let mut head_bytes = [0; HEAD_BYTES];
        input.read_exact(&mut head_bytes)?;
        let (head, format) = DeviceHead::parse(&head_bytes)?;
        let (sum, is_encrypted) = (sum_of(&head_bytes), format == FORMAT_ENCRYPTED);
        let (kind, block) = (PAGES, Vec::new());
        let (at, keys, count, cipher, encrypted) = (0, 0, 0, None, 0);
        Ok(Self { input, head, sum, kind, block, at, keys, count, head_bytes, is_encrypted, with, cipher, encrypted })
    }

    /// What the file says of itself.
    pub fn head(&self) -> DeviceHead {
        self.head
    }

    /// The next item; [`DeviceItem::End`] is the last one.
    ///
    /// # Errors
    /// When the file is damaged or cut off.
    pub fn read_item(&mut self) -> Result<DeviceItem, BaseFault> {
        if self.at == self.block.len() {
            self.next_block()?;
        }
        if self.kind == LAST {
            return self.read_end();
        }
        let mut rest = &self.block[self.at..];
        let before = rest.len();
        let item = match self.kind {
            PAGES => take_page(&mut rest, self.is_encrypted),
            KEYS => take_key(&mut rest),
            CIPHERS => take_cipher(&mut rest),
            ENCRYPTED_KEYS => {
                // Those of a block that is not decrypted.
                self.at = self.block.len();
                self.keys += self.count;
                return Ok(DeviceItem::Opaque(self.count));
            }
            _ => take_dead(&mut rest),
        };
        self.at += before - rest.len();
        self.keys += u64::from(self.kind == KEYS);
        match item {
            // The file's own.
            Some(DeviceItem::Cipher(CipherRow { number: 0, mark, salt })) => {
                let open = |keys: &LogKeys| keys.open(FileKind::Device, &mark, salt);
                self.cipher = self.with.map(open).transpose().map_err(BaseFault::Key)?;
                self.read_item()
            }
            item => item.ok_or(BaseFault::Damaged),
        }
    }

    /// Decrypts the block of keys that was read.
    fn decrypt(&mut self, head: &[u8]) -> Result<(), BaseFault> {
        let Some(cipher) = &self.cipher else { return Ok(()) };
        let len = self.block.len().checked_sub(TAG_BYTES).ok_or(BaseFault::Damaged)?;
        let mut plain = vec![0; len];
        let head = [&self.head_bytes[..], head].concat();
        cipher.decrypt(self.encrypted, &head, self.block.split_at(len), &mut plain).map_err(|_| BaseFault::Damaged)?;
        self.encrypted += 1;
        (self.block, self.kind) = (plain, KEYS);
        Ok(())
    }

    fn next_block(&mut self) -> Result<(), BaseFault> {
        let mut head = [0; BLOCK_HEAD_BYTES];
        self.input.read_exact(&mut head)?;
        let (summed, expected) = head.split_at(BLOCK_HEAD_BYTES - 4);
        let len = take(&head).map_or(0, u32::from_le_bytes);
        self.kind = take(&head[4..]).map_or(0, u32::from_le_bytes);
        let count = take(&head[8..]).map_or(0, u64::from_le_bytes);
        let known = if self.is_encrypted { PAGES..=ENCRYPTED_KEYS } else { PAGES..=LAST };
        if len > BLOCK_BYTES_MAX || !known.contains(&self.kind) {
            return Err(BaseFault::Damaged);
        }
        self.count = count;
        (self.block, self.at) = (vec![0; len as usize], 0);
        self.input.read_exact(&mut self.block)?;
        self.sum = sum(self.sum, summed, &self.block);
        let is_last = self.kind == LAST;
        if self.sum.to_le_bytes() != *expected || (self.block.is_empty() && !is_last) || (is_last && count != self.keys) {
            return Err(BaseFault::Damaged);
        }
        if self.kind == ENCRYPTED_KEYS { self.decrypt(summed) } else { Ok(()) }
    }

    fn read_end(&mut self) -> Result<DeviceItem, BaseFault> {
        let databases: Vec<DeviceDatabase> = self.block.chunks_exact(DATABASE_BYTES).filter_map(database).collect();
        let more = self.input.read(&mut [0])?;
        if self.block.len() != databases.len() * DATABASE_BYTES || more != 0 {
            return Err(BaseFault::Damaged);
        }
        Ok(DeviceItem::End(databases))
    }
}

/// The databases that the file's last block seems to have: only reading it shows whether it has these.
///
/// # Errors
/// When it cannot be read, or has no such block.
pub fn peek_databases(file: &File) -> Result<Vec<DeviceDatabase>, BaseFault> {
    let len = file.len()?;
    let most = BLOCK_HEAD_BYTES + DATABASES_MAX * DATABASE_BYTES;
    let mut tail = vec![0; usize::try_from(len).unwrap_or(usize::MAX).min(most)];
    let from = len - tail.len() as u64;
    file.read_exact_at(&mut tail, from)?;
    let of_count = |count: usize| {
        let (_, block) = tail.split_at_checked(tail.len().checked_sub(BLOCK_HEAD_BYTES + count * DATABASE_BYTES)?)?;
        let (head, entries) = block.split_at_checked(BLOCK_HEAD_BYTES)?;
        let is_last = head[..4] == (entries.len() as u32).to_le_bytes() && head[4..8] == LAST.to_le_bytes();
        is_last.then(|| entries.chunks_exact(DATABASE_BYTES).filter_map(database).collect())
    };
    (0..=DATABASES_MAX).find_map(of_count).ok_or(BaseFault::Truncated)
}

/// The keys that a file and the pages that it names are encrypted with. None of these is needed for that.
///
/// # Errors
/// When it cannot be read, is no such file, or is damaged.
pub fn peek_keys<R: Read>(input: R) -> Result<BTreeSet<KeyMark>, BaseFault> {
    let (mut reader, mut marks) = (DeviceReader::open(input)?, BTreeSet::new());
    while reader.is_encrypted {
        reader.next_block()?;
        if reader.kind != CIPHERS {
            break;
        }
        let mut rest = &reader.block[..];
        while !rest.is_empty() {
            let Some(DeviceItem::Cipher(row)) = take_cipher(&mut rest) else { return Err(BaseFault::Damaged) };
            marks.insert(row.mark);
        }
    }
    Ok(marks)
}

fn database(bytes: &[u8]) -> Option<DeviceDatabase> {
    let u16_at = |at: usize| bytes.get(at..).and_then(take).map(u16::from_le_bytes);
    Some(DeviceDatabase {
        db: u16_at(0)?,
        contents: bytes.get(2..).and_then(take).map(u64::from_le_bytes)?,
        namespace: u16_at(10)?,
    })
}

fn take<const N: usize>(bytes: &[u8]) -> Option<[u8; N]> {
    bytes.first_chunk().copied()
}

fn sum_of(head: &[u8; HEAD_BYTES]) -> u32 {
    take(&head[HEAD_BYTES - 4..]).map_or(0, u32::from_le_bytes)
}

/// Bytes that have the known bits of a hash.
fn hash_bytes(known_bits: u32) -> usize {
    known_bits.min(u64::BITS).div_ceil(8) as usize
}

fn take_page(rest: &mut &[u8], is_encrypted: bool) -> Option<DeviceItem> {
    let row = rest.split_off(..PAGE_ROW_BYTES)?;
    let nonce = if is_encrypted { rest.split_off(..NONCE_BYTES)? } else { &[0; NONCE_BYTES] };
    let sums = rest.split_off(..PageRow::SUMS * 4)?;
    let word = |at: usize| take(&row[8 + 4 * at..]).map(u32::from_le_bytes);
    Some(DeviceItem::Page(PageRow {
        page: take(row).map(u64::from_le_bytes)?,
        dead_words: word(0)?,
        live_words: word(1)?,
        records: word(2)?,
        largest: word(3)?,
        namespace: word(4)?,
        extent_blocks: word(5)?,
        nonce: PageNonce::from_word(take(nonce).map(u64::from_le_bytes)?),
        sums: sums.chunks_exact(4).filter_map(take).map(u32::from_le_bytes).collect(),
    }))
}

fn take_cipher(rest: &mut &[u8]) -> Option<DeviceItem> {
    let bytes = rest.split_off(..CIPHER_BYTES)?;
    let (number, mark) = (take(bytes).map(u16::from_le_bytes)?, KeyMark::decode(&take(&bytes[2..])?));
    Some(DeviceItem::Cipher(CipherRow { number, mark, salt: take(&bytes[2 + MARK_BYTES..])? }))
}

fn take_key(rest: &mut &[u8]) -> Option<DeviceItem> {
    let fixed = rest.split_off(..COLD_BYTES)?;
    let (known_bits, heat) = (u32::from(fixed[6]), u64::from(fixed[7] & !WAS_COPIED));
    let was_copied = fixed[7] & WAS_COPIED != 0;
    let mut address = [0; 8];
    address[..6].copy_from_slice(&fixed[..6]);
    let bits = rest.split_off(..hash_bytes(known_bits))?;
    let mut hash = [0; 8];
    hash[..bits.len()].copy_from_slice(bits);
    let (address, hash) = (u64::from_le_bytes(address), u64::from_le_bytes(hash));
    let is_sound = address != 0 && known_bits <= u64::BITS && hash.checked_shr(known_bits).unwrap_or(0) == 0;
    is_sound.then_some(DeviceItem::Key(ColdKey { address, hash, known_bits, heat, was_copied }))
}

fn take_dead(rest: &mut &[u8]) -> Option<DeviceItem> {
    let bytes = rest.split_off(..DEAD_BYTES)?;
    Some(DeviceItem::Dead(take(bytes).map(u64::from_le_bytes)?, take(&bytes[8..]).map(u32::from_le_bytes)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: DeviceHead = DeviceHead { log: 0x0F0E, base: 7, seed: 0x5EED, index_buckets: 1024, next_page: 0xC0DE };

    fn row(page: u64) -> PageRow {
        let sums = (0..PageRow::SUMS as u32).collect();
        PageRow {
            page,
            dead_words: 1,
            live_words: 2,
            records: 3,
            largest: 4,
            namespace: 5,
            extent_blocks: 6,
            nonce: PageNonce::PLAIN,
            sums,
        }
    }

    fn file() -> (Vec<u8>, Vec<DeviceItem>) {
        let mut writer = DeviceWriter::new(Vec::new(), HEAD).unwrap();
        let keys = [(22, 0x3F_FFFF), (3, 5), (0, 0), (64, u64::MAX)].map(|(known_bits, hash)| ColdKey {
            address: 0xABCD_1234_5678,
            hash,
            known_bits,
            heat: 7,
            was_copied: true,
        });
        let databases =
            vec![DeviceDatabase { db: 0, contents: 1 << 40, namespace: 9 }, DeviceDatabase { db: 3, contents: 2, namespace: 1 }];
        writer.page(&row(11)).unwrap();
        writer.page(&row(1 << 33)).unwrap();
        keys.iter().for_each(|key| writer.key(key).unwrap());
        writer.dead(11, 77).unwrap();
        let mut items = vec![DeviceItem::Page(row(11)), DeviceItem::Page(row(1 << 33))];
        items.extend(keys.map(DeviceItem::Key));
        items.push(DeviceItem::Dead(11, 77));
        items.push(DeviceItem::End(databases.clone()));
        (writer.finish(&databases).unwrap(), items)
    }

    fn read(file: &[u8]) -> Result<Vec<DeviceItem>, BaseFault> {
        let reader = DeviceReader::open(file)?;
        assert_eq!(reader.head(), HEAD);
        items_of(reader)
    }

    fn items_of(mut reader: DeviceReader<&[u8]>) -> Result<Vec<DeviceItem>, BaseFault> {
        let mut items = Vec::new();
        loop {
            items.push(reader.read_item()?);
            if matches!(items.last(), Some(DeviceItem::End(_))) {
                return Ok(items);
            }
        }
    }

    #[test]
    fn what_was_written_is_read_and_each_flipped_byte_and_prefix_is_refused() {
        let (file, items) = file();
        assert_eq!(read(&file).unwrap(), items);
        // Each byte of the head, of the blocks' heads and of what is small; of the sums of pages some.
        for at in (0..file.len()).filter(|at| *at < 200 || at % 61 == 0 || *at + 200 > file.len()) {
            let mut damaged = file.clone();
            damaged[at] ^= 1;
            assert!(read(&damaged).is_err(), "byte {at}");
            assert!(read(&file[..at]).is_err(), "{at} bytes");
        }
        assert!(read(&[&file[..], b"x"].concat()).is_err());
    }

    /// What later versions must be able to read, but for the sums of pages.
    #[test]
    fn golden_bytes() {
        assert_eq!(HEAD.to_bytes(FORMAT)[56..60], [0xDE, 0xC0, 0, 0]);
        let mut writer = DeviceWriter::new(Vec::new(), DeviceHead { next_page: 0, ..HEAD }).unwrap();
        writer.key(&ColdKey { address: 0xABCD_1234_5678, hash: 0x3F_FFFE, known_bits: 22, heat: 7, was_copied: false }).unwrap();
        writer.dead(11, 77).unwrap();
        let file = writer.finish(&[DeviceDatabase { db: 3, contents: 2, namespace: 9 }]).unwrap();
        let text: String = file.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(text, GOLDEN);
    }

    fn keys(byte: u8) -> LogKeys {
        LogKeys::parse(format!("one {}", format!("{byte:02x}").repeat(32)).as_bytes()).unwrap()
    }

    /// A file with a page and a key, whose cipher has this salt.
    fn encrypted(salt: [u8; SALT_BYTES]) -> (Vec<u8>, CipherRow, Vec<DeviceItem>) {
        let (keys, key) = (keys(1), ColdKey { address: 0x1234, hash: 5, known_bits: 22, heat: 7, was_copied: false });
        let row = CipherRow { number: 3, mark: keys.current().unwrap(), salt: [9; SALT_BYTES] };
        let page = PageRow { nonce: PageNonce::from_word(3 << 48 | 17), ..self::row(11) };
        let cipher = keys.open(FileKind::Device, &row.mark, salt).unwrap();
        let mut writer = DeviceWriter::encrypted(Vec::new(), HEAD, Some(cipher), &[row]).unwrap();
        writer.page(&page).unwrap();
        writer.key(&key).unwrap();
        let file = writer.finish(&[]).unwrap();
        let items = vec![DeviceItem::Cipher(row), DeviceItem::Page(page), DeviceItem::Key(key), DeviceItem::End(Vec::new())];
        (file, row, items)
    }

    fn read_with(file: &[u8], keys: Option<&LogKeys>) -> Result<Vec<DeviceItem>, BaseFault> {
        items_of(keys.map_or_else(|| DeviceReader::open(file), |keys| DeviceReader::open_with(file, keys))?)
    }

    #[test]
    fn keys_are_encrypted_and_pages_are_told_without_the_key() {
        let (file, row, items) = encrypted([7; SALT_BYTES]);
        assert_eq!(read_with(&file, Some(&keys(1))).unwrap(), items);
        let mut without = items.clone();
        without[2] = DeviceItem::Opaque(1);
        assert_eq!(read_with(&file, None).unwrap(), without);
        assert_eq!(peek_keys(&file[..]).unwrap(), BTreeSet::from([row.mark]));
        assert!(matches!(read_with(&file, Some(&keys(2))), Err(BaseFault::Key(_))));
        assert!(matches!(read_with(&file, Some(&LogKeys::NONE)), Err(BaseFault::Key(_))));
        let (plain, _) = self::file();
        assert_eq!((peek_keys(&plain[..]).unwrap().len(), plain[8]), (0, 1), "as before");
        for at in (0..file.len()).filter(|at| *at < 300 || at % 61 == 0 || *at + 100 > file.len()) {
            let mut damaged = file.clone();
            damaged[at] ^= 1;
            assert!(read_with(&damaged, Some(&keys(1))).is_err(), "byte {at}");
            assert!(read_with(&file[..at], None).is_err(), "{at} bytes");
        }
    }

    /// What later versions must be able to read: format 2, but for the sums of the page.
    #[test]
    fn golden_bytes_of_what_is_encrypted() {
        let (file, ..) = encrypted([7; SALT_BYTES]);
        let sums = 64 + 20 + 2 * CIPHER_BYTES + 20 + PAGE_ROW_BYTES + NONCE_BYTES;
        let text = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        assert_eq!(text(&file[..sums]), GOLDEN_HEADS);
        assert_eq!(text(&file[sums + PageRow::SUMS * 4..]), GOLDEN_KEYS);
    }

    const GOLDEN_HEADS: &str = "\
        414c4d444445564302000000000020000e0f00000000000000000000000000000700000000000000ed5e0000000000000004\
        000000000000dec00000e5e7d67a54000000050000000200000000000000deb84ade00006f6e650000000000000000000000\
        0000144c5127a12d63620707070707070707070707070707070703006f6e6500000000000000000000000000144c5127a12d\
        63620909090909090909090909090909090928080000010000000100000000000000c78316230b0000000000000001000000\
        02000000030000000400000005000000060000001100000000000300";
    const GOLDEN_KEYS: &str = "1b00000006000000010000000000000080d7304653c4d54e0f7fe4fa57c633523114a4e6b567db551b1f27e398701c000000\
        00040000000100000000000000a933a85d";

    const GOLDEN: &str = "414c4d444445564301000000000020000e0f00000000000000000000000000000700000000000000ed5e0000000000000004\
        00000000000000000000012da8fd0b000000020000000100000000000000c9cca85b78563412cdab1607feff3f0c00000003\
        000000010000000000000004955a340b000000000000004d0000000c00000004000000010000000000000009ca774a030002\
        000000000000000900";
}
