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
//! All numbers are little endian. A sum is the CRC-32C of what is before it in its head or block, of the entries, and of the sum
//! before.

use std::io::{self, Read, Write};

use almandine_base::limits::DATABASES_MAX;
use almandine_io::file::File;
use almandine_keyspace::{ColdKey, PageRow, StoreDevice};
use crc32c::crc32c;

use super::format::{BaseFault, sum};

const MAGIC: [u8; 8] = *b"ALMDDEVC";
const FORMAT: u16 = 1;
/// In the byte of a key's heat: a copy was in memory.
const WAS_COPIED: u8 = 1 << 7;
const HEAD_BYTES: usize = 64;
const BLOCK_HEAD_BYTES: usize = 20;
/// Bytes of entries from which on a block ends.
const BLOCK_BYTES: usize = 256 << 10;
/// Longer blocks are not written.
const BLOCK_BYTES_MAX: u32 = 1 << 20;
const PAGE_ROW_BYTES: usize = 32;
const COLD_BYTES: usize = 8;
const DEAD_BYTES: usize = 12;
const DATABASE_BYTES: usize = 12;

const PAGES: u32 = 1;
const KEYS: u32 = 2;
const DEAD: u32 = 3;
const LAST: u32 = 4;

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
    fn to_bytes(self) -> [u8; HEAD_BYTES] {
        let mut bytes = Vec::with_capacity(HEAD_BYTES);
        bytes.extend_from_slice(&MAGIC);
        bytes.extend_from_slice(&FORMAT.to_le_bytes());
        bytes.extend_from_slice(&[0; 2]);
        bytes.extend_from_slice(&(StoreDevice::PAGE_BYTES as u32).to_le_bytes());
        bytes.extend_from_slice(&self.log.to_le_bytes());
        for number in [self.base, self.seed, self.index_buckets] {
            bytes.extend_from_slice(&number.to_le_bytes());
        }
        bytes.extend_from_slice(&self.next_page.to_le_bytes());
        bytes.extend_from_slice(&crc32c(&bytes).to_le_bytes());
        let mut head = [0; HEAD_BYTES];
        head.copy_from_slice(&bytes);
        head
    }

    fn parse(bytes: &[u8; HEAD_BYTES]) -> Result<Self, BaseFault> {
        let (summed, sum) = bytes.split_at(HEAD_BYTES - 4);
        let u64_at = |at: usize| take(&bytes[at..]).map_or(0, u64::from_le_bytes);
        if !bytes.starts_with(&MAGIC) {
            return Err(BaseFault::NoBase);
        }
        if crc32c(summed).to_le_bytes() != *sum {
            return Err(BaseFault::Damaged);
        }
        let format = u16::from_le_bytes([bytes[8], bytes[9]]);
        if format != FORMAT {
            return Err(BaseFault::Format(format));
        }
        if take(&bytes[12..]).map(u32::from_le_bytes) != Some(StoreDevice::PAGE_BYTES as u32) {
            return Err(BaseFault::Another);
        }
        let log = take(&bytes[16..]).map_or(0, u128::from_le_bytes);
        let next_page = take(&bytes[56..]).map_or(0, u32::from_le_bytes);
        Ok(Self { log, base: u64_at(32), seed: u64_at(40), index_buckets: u64_at(48), next_page })
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
}

impl<W: Write> DeviceWriter<W> {
    /// Begins a file.
    ///
    /// # Errors
    /// As `out` reports them; here and below, nothing is to be expected of the file afterwards.
    pub fn new(mut out: W, head: DeviceHead) -> io::Result<Self> {
        let bytes = head.to_bytes();
        out.write_all(&bytes)?;
        Ok(Self { out, sum: sum_of(&bytes), entries: (PAGES, Vec::with_capacity(BLOCK_BYTES)), count: 0, keys: 0 })
    }

    /// A page of the table, before the first key.
    ///
    /// # Errors
    /// As `out` reports them.
    pub fn page(&mut self, row: &PageRow) -> io::Result<()> {
        let entries = self.begin(PAGES)?;
        entries.extend_from_slice(&row.page.to_le_bytes());
        let words = [row.dead_words, row.live_words, row.records, row.largest, row.namespace, row.extent_blocks];
        words.iter().chain(&row.sums).for_each(|word| entries.extend_from_slice(&word.to_le_bytes()));
        Ok(())
    }

    /// A key whose record stays on the device.
    ///
    /// # Errors
    /// As `out` reports them.
    pub fn key(&mut self, key: &ColdKey) -> io::Result<()> {
        self.keys += 1;
        let entries = self.begin(KEYS)?;
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
        let mut head = Vec::with_capacity(BLOCK_HEAD_BYTES);
        head.extend_from_slice(&u32::try_from(entries.len()).map_err(io::Error::other)?.to_le_bytes());
        head.extend_from_slice(&kind.to_le_bytes());
        head.extend_from_slice(&std::mem::take(&mut self.count).to_le_bytes());
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
    /// A key whose record is on the device.
    Key(ColdKey),
    /// A page, and how many of its words were dead at the end.
    Dead(u64, u32),
    /// All databases: the file has ended as it should.
    End(Vec<DeviceDatabase>),
}

/// Reads the file: a block at a time, each with its checksum before anything of it is used.
pub struct DeviceReader<R> {
    input: R,
    head: DeviceHead,
    sum: u32,
    kind: u32,
    block: Vec<u8>,
    at: usize,
    keys: u64,
}

impl<R: Read> DeviceReader<R> {
    /// Begins to read a file.
    ///
    /// # Errors
    /// When it is none, or of a format that is not known, or its pages are of another size.
    pub fn open(mut input: R) -> Result<Self, BaseFault> {
        let mut bytes = [0; HEAD_BYTES];
        input.read_exact(&mut bytes)?;
        let head = DeviceHead::parse(&bytes)?;
        Ok(Self { input, head, sum: sum_of(&bytes), kind: PAGES, block: Vec::new(), at: 0, keys: 0 })
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
            PAGES => take_page(&mut rest),
            KEYS => take_key(&mut rest),
            _ => take_dead(&mut rest),
        };
        self.at += before - rest.len();
        self.keys += u64::from(self.kind == KEYS);
        item.ok_or(BaseFault::Damaged)
    }

    fn next_block(&mut self) -> Result<(), BaseFault> {
        let mut head = [0; BLOCK_HEAD_BYTES];
        self.input.read_exact(&mut head)?;
        let (summed, expected) = head.split_at(BLOCK_HEAD_BYTES - 4);
        let len = take(&head).map_or(0, u32::from_le_bytes);
        self.kind = take(&head[4..]).map_or(0, u32::from_le_bytes);
        let count = take(&head[8..]).map_or(0, u64::from_le_bytes);
        if len > BLOCK_BYTES_MAX || !(PAGES..=LAST).contains(&self.kind) {
            return Err(BaseFault::Damaged);
        }
        (self.block, self.at) = (vec![0; len as usize], 0);
        self.input.read_exact(&mut self.block)?;
        self.sum = sum(self.sum, summed, &self.block);
        let is_last = self.kind == LAST;
        if self.sum.to_le_bytes() != *expected || (self.block.is_empty() && !is_last) || (is_last && count != self.keys) {
            return Err(BaseFault::Damaged);
        }
        Ok(())
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

fn take_page(rest: &mut &[u8]) -> Option<DeviceItem> {
    let row = rest.split_off(..PAGE_ROW_BYTES)?;
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
        sums: sums.chunks_exact(4).filter_map(take).map(u32::from_le_bytes).collect(),
    }))
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
        PageRow { page, dead_words: 1, live_words: 2, records: 3, largest: 4, namespace: 5, extent_blocks: 6, sums }
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
        let mut reader = DeviceReader::open(file)?;
        assert_eq!(reader.head(), HEAD);
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
        assert_eq!(HEAD.to_bytes()[56..60], [0xDE, 0xC0, 0, 0]);
        let mut writer = DeviceWriter::new(Vec::new(), DeviceHead { next_page: 0, ..HEAD }).unwrap();
        writer.key(&ColdKey { address: 0xABCD_1234_5678, hash: 0x3F_FFFE, known_bits: 22, heat: 7, was_copied: false }).unwrap();
        writer.dead(11, 77).unwrap();
        let file = writer.finish(&[DeviceDatabase { db: 3, contents: 2, namespace: 9 }]).unwrap();
        let text: String = file.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(text, GOLDEN);
    }

    const GOLDEN: &str = "414c4d444445564301000000000020000e0f00000000000000000000000000000700000000000000ed5e0000000000000004\
        00000000000000000000012da8fd0b000000020000000100000000000000c9cca85b78563412cdab1607feff3f0c00000003\
        000000010000000000000004955a340b000000000000004d0000000c00000004000000010000000000000009ca774a030002\
        000000000000000900";
}
