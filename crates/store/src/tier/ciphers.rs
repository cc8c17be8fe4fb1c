//! What pages and large values on the devices are encrypted with: each page names its cipher by a number, and a count.
//!
//! A run of a server begins a cipher when it first writes a page, and another one when its key is exchanged. Pages stay as they
//! were written; when none is left that a cipher has written, its key is not needed any more. Ciphers are never taken out while a
//! store runs, so readers find them without a lock.

use almandine_io::sync::{Mutex, MutexGuard};
use almandine_oplog::encryption::{KeyMark, LogKeys, NoKey, SALT_BYTES, StorageCipher, StoragePart};
use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, PoisonError};

const COUNT_BITS: u32 = 48;
/// Numbers of ciphers are below this times itself, and not 0.
const SIDE: usize = 256;

/// How a page and its large values were encrypted: the number of the cipher in the highest 16 bits, and the count below; 0: not at
/// all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct PageNonce(u64);

impl PageNonce {
    /// Not encrypted.
    pub const PLAIN: Self = Self(0);

    /// As a base has it.
    #[must_use]
    pub fn from_word(word: u64) -> Self {
        Self(word)
    }

    /// As a base has it.
    #[must_use]
    pub fn to_word(self) -> u64 {
        self.0
    }

    /// Whether it is not encrypted.
    #[must_use]
    pub fn is_plain(self) -> bool {
        self.number() == 0
    }

    /// The number of the cipher.
    #[must_use]
    pub fn number(self) -> u16 {
        (self.0 >> COUNT_BITS) as u16
    }

    fn new(number: u16, count: u64) -> Self {
        debug_assert!(number != 0 && count < 1 << COUNT_BITS, "INV-ENCRYPTION-3: each count has its word");
        Self(u64::from(number) << COUNT_BITS | count)
    }

    fn count(self) -> u64 {
        debug_assert!(!self.is_plain(), "INV-ENCRYPTION-3: what is plain has no count");
        self.0 & ((1 << COUNT_BITS) - 1)
    }
}

/// A cipher as a base names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CipherRow {
    /// Its number, which is not 0.
    pub number: u16,
    /// The key that it was derived from.
    pub mark: KeyMark,
    /// What it was derived with.
    pub salt: [u8; SALT_BYTES],
}

struct Slot {
    cipher: StorageCipher,
    /// Pages in the table that it has encrypted, and one that is being written.
    pages: AtomicU64,
}

type Row = Box<[OnceLock<Slot>]>;

/// See the module.
#[derive(Default)]
pub struct StorageCiphers {
    writing: Mutex<Writing>,
    rows: OnceLock<Box<[OnceLock<Row>]>>,
}

/// What is written with.
#[derive(Default)]
struct Writing {
    keys: Arc<LogKeys>,
    /// The cipher that this run has begun with the first of them.
    number: Option<u16>,
}

impl std::fmt::Debug for StorageCiphers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.slots().map(|(number, slot)| (number, slot.cipher.mark()))).finish()
    }
}

impl StorageCiphers {
    /// Pages are written with the first of these keys, or plain.
    #[must_use]
    pub fn new(keys: Arc<LogKeys>) -> Self {
        Self { writing: Mutex::new(Writing { keys, number: None }), rows: OnceLock::new() }
    }

    fn writing(&self) -> MutexGuard<'_, Writing> {
        self.writing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Pages are written with the first of these keys from now on, or plain.
    pub fn set_keys(&self, keys: Arc<LogKeys>) {
        let mut writing = self.writing();
        if writing.keys.current() != keys.current() {
            writing.number = None;
        }
        writing.keys = keys;
        debug_assert!(
            writing.number.is_none_or(|number| self.slot(number).map(|slot| slot.cipher.mark()) == writing.keys.current()),
            "INV-ENCRYPTION-4: what is written has the first key"
        );
    }

    fn place(&self, number: u16) -> &OnceLock<Slot> {
        debug_assert_ne!(number, 0, "INV-ENCRYPTION-3: 0 says that a page is plain");
        fn side<T>() -> Box<[OnceLock<T>]> {
            (0..SIDE).map(|_| OnceLock::new()).collect()
        }
        let row = &self.rows.get_or_init(side)[usize::from(number) / SIDE];
        &row.get_or_init(side)[usize::from(number) % SIDE]
    }

    fn slot(&self, number: u16) -> Option<&Slot> {
        self.rows.get()?[usize::from(number) / SIDE].get()?[usize::from(number) % SIDE].get()
    }

    fn slots(&self) -> impl Iterator<Item = (u16, &Slot)> {
        let rows = self.rows.get().into_iter().flatten().enumerate().filter_map(|(at, row)| Some((at, row.get()?)));
        rows.flat_map(|(at, row)| {
            row.iter().enumerate().filter_map(move |(in_row, slot)| Some(((at * SIDE + in_row) as u16, slot.get()?)))
        })
    }

    /// What the next image is to be encrypted with. It counts as a page from now on. One thread draws.
    ///
    /// # Errors
    /// When no cipher can be begun.
    pub(crate) fn draw(&self) -> io::Result<PageNonce> {
        let (keys, number) = {
            let writing = self.writing();
            (Arc::clone(&writing.keys), writing.number)
        };
        let number = match number {
            Some(number) => number,
            None => match self.begin(&keys)? {
                Some(number) => number,
                None => return Ok(PageNonce::PLAIN),
            },
        };
        let slot = self.slot(number).ok_or_else(|| no_cipher(number))?;
        slot.pages.fetch_add(1, Ordering::Relaxed);
        let drawn = slot.cipher.draw().map(|count| PageNonce::new(number, count));
        drawn.inspect_err(|_| _ = slot.pages.fetch_sub(1, Ordering::Relaxed))
    }

    /// Begins a cipher with the first of these keys, if there is one.
    fn begin(&self, keys: &Arc<LogKeys>) -> io::Result<Option<u16>> {
        let Some(cipher) = keys.begin_storage()? else { return Ok(None) };
        debug_assert_eq!(keys.current(), Some(cipher.mark()), "INV-ENCRYPTION-4: what is written has the first key");
        let free = (1..=u16::MAX).find(|number| self.slot(*number).is_none());
        let number = free.ok_or_else(|| io::Error::other("pages of too many starts are encrypted"))?;
        self.put(number, cipher);
        let mut writing = self.writing();
        // Else they were exchanged meanwhile: what is written from then on has another one.
        if Arc::ptr_eq(&writing.keys, keys) {
            writing.number = Some(number);
        }
        Ok(Some(number))
    }

    fn put(&self, number: u16, cipher: StorageCipher) {
        let put = self.place(number).set(Slot { cipher, pages: AtomicU64::new(0) });
        debug_assert!(put.is_ok(), "INV-ENCRYPTION-3: a number is one of one cipher");
    }

    /// Takes a cipher that an earlier run has written with, before any of its pages. One that is there already stays.
    ///
    /// # Errors
    /// When its key is not there.
    pub fn load(&self, row: &CipherRow) -> Result<(), NoKey> {
        let keys = Arc::clone(&self.writing().keys);
        let cipher = keys.open_storage(&row.mark, row.salt)?;
        if row.number != 0 && self.slot(row.number).is_none() {
            self.put(row.number, cipher);
        }
        Ok(())
    }

    /// Encrypts or decrypts bytes of a page or of large values that lie at this place.
    ///
    /// # Errors
    /// When the cipher is not there; then the bytes are anything.
    pub(crate) fn apply(&self, nonce: PageNonce, part: StoragePart, at: u64, bytes: &mut [u8]) -> io::Result<()> {
        if nonce.is_plain() {
            return Ok(());
        }
        let slot = self.slot(nonce.number()).ok_or_else(|| no_cipher(nonce.number()))?;
        slot.cipher.apply(part, nonce.count(), at, bytes)
    }

    /// A page that an earlier run has written is in the table from now on.
    pub(crate) fn adopt_page(&self, nonce: PageNonce) {
        debug_assert!(
            nonce.is_plain() || self.slot(nonce.number()).is_some(),
            "INV-ENCRYPTION-4: a base names the ciphers of its pages"
        );
        if let Some(slot) = self.slot(nonce.number()) {
            slot.pages.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// A page has left the table, or does not come to it.
    pub(crate) fn forget_page(&self, nonce: PageNonce) {
        if let Some(slot) = self.slot(nonce.number()) {
            let before = slot.pages.fetch_sub(1, Ordering::Relaxed);
            debug_assert_ne!(before, 0, "INV-ENCRYPTION-4: pages of a cipher are counted");
        }
    }

    /// The ciphers of all pages in the table.
    pub(crate) fn rows(&self) -> Vec<CipherRow> {
        let row = |(number, Slot { cipher, .. }): (u16, &Slot)| CipherRow { number, mark: cipher.mark(), salt: cipher.salt() };
        self.slots().filter(|(_, slot)| slot.pages.load(Ordering::Relaxed) != 0).map(row).collect()
    }

    /// The keys that pages in the table need, and how many pages that are; and the one that pages are written with.
    #[must_use]
    pub fn keys(&self) -> BTreeMap<KeyMark, u64> {
        let writing = self.writing().number;
        let mut keys = BTreeMap::new();
        for (number, slot) in self.slots() {
            let pages = slot.pages.load(Ordering::Relaxed);
            if pages != 0 || writing == Some(number) {
                *keys.entry(slot.cipher.mark()).or_default() += pages;
            }
        }
        keys
    }
}

fn no_cipher(number: u16) -> io::Error {
    io::Error::other(format!("the cipher {number} of the storage is not known"))
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn keys(text: &str) -> Arc<LogKeys> {
        Arc::new(LogKeys::parse(text.as_bytes()).expect("keys"))
    }

    #[test]
    fn pages_name_their_ciphers_and_these_their_keys() {
        let (one, two) = (format!("one {}", "01".repeat(32)), format!("two {}\none {}", "02".repeat(32), "01".repeat(32)));
        let ciphers = StorageCiphers::default();
        assert_eq!((ciphers.draw().unwrap(), ciphers.rows()), (PageNonce::PLAIN, Vec::new()));
        ciphers.set_keys(keys(&one));
        let nonces = [0; 3].map(|_| ciphers.draw().unwrap());
        assert!(nonces.iter().all(|nonce| nonce.number() == 1) && nonces[0] != nonces[1], "{nonces:?}");
        assert_eq!(PageNonce::from_word(nonces[2].to_word()), nonces[2]);
        ciphers.set_keys(keys(&one));
        let same = ciphers.draw().unwrap();
        assert_eq!(same.number(), 1, "the same key");
        [same, nonces[1], nonces[2]].into_iter().for_each(|nonce| ciphers.forget_page(nonce));
        ciphers.set_keys(keys(&two));
        let later = ciphers.draw().unwrap();
        assert_eq!(later.number(), 2);
        let named = |ciphers: &StorageCiphers| -> Vec<(String, u64)> {
            ciphers.keys().into_iter().map(|(mark, pages)| (mark.name(), pages)).collect()
        };
        assert_eq!(named(&ciphers), [("one".to_owned(), 1), ("two".to_owned(), 1)]);

        let next = StorageCiphers::new(keys(&two));
        ciphers.rows().iter().for_each(|row| next.load(row).unwrap());
        assert_eq!(next.draw().unwrap().number(), 3, "another run, the same key");
        let mut page = *b"of the first run";
        ciphers.apply(nonces[0], StoragePart::Page, 64, &mut page).unwrap();
        assert_ne!(&page, b"of the first run");
        next.apply(nonces[0], StoragePart::Page, 64, &mut page).unwrap();
        assert_eq!(&page, b"of the first run");
        assert!(next.apply(PageNonce::new(9, 0), StoragePart::Page, 0, &mut page).is_err());

        ciphers.forget_page(nonces[0]);
        assert_eq!(named(&ciphers), [("two".to_owned(), 1)]);
        let other = StorageCiphers::new(keys(&one));
        let row = ciphers.rows()[0];
        assert_eq!(other.load(&row), Err(NoKey::Missing(row.mark)));
    }
}
