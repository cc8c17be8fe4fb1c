//! The device of a server of the model: pages that never change, and the tables that bases have of them.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex};

use almandine_oplog::archive::{ArchiveFault, PageSource, PageTable, PageTarget, TakeBytes};

/// Pages by their numbers, each with what it consists of.
pub(super) type Table = BTreeMap<u64, u64>;

/// What a page has: no other one has the same.
fn contents(page: u64, seed: u64) -> Vec<u8> {
    let bytes = usize::try_from(100 + seed % 3_000).unwrap();
    format!("page {page} of {seed} ").into_bytes().into_iter().cycle().take(bytes).collect()
}

/// Writes what a base says of pages.
pub(super) fn write_table(path: &Path, next: u64, table: &Table) {
    let rows: String = table.iter().map(|(page, seed)| format!("{page} {seed}\n")).collect();
    std::fs::write(path, format!("{next} 0\n{rows}")).unwrap();
}

/// Reads it: the next page, and those that there are.
pub(super) fn read_table(path: &Path) -> (u64, Table) {
    let text = std::fs::read_to_string(path).unwrap();
    let mut rows = text.lines().map(|line| line.split_once(' ').unwrap()).map(|(a, b)| (a.parse().unwrap(), b.parse().unwrap()));
    (rows.next().unwrap().0, rows.collect())
}

/// What is done while a page is read.
type Meanwhile = Box<dyn FnOnce(&mut BTreeMap<u64, Vec<u8>>) + Send>;

#[derive(Default)]
struct Stored {
    pages: BTreeMap<u64, Vec<u8>>,
    meanwhile: Option<Meanwhile>,
}

/// The device, as the server and the thread that ships use it.
#[derive(Clone, Default)]
pub(super) struct Device {
    stored: Arc<Mutex<Stored>>,
    /// Of the base that is shipped, or fetched.
    table: Table,
}

impl Device {
    pub(super) fn write(&self, page: u64, seed: u64) {
        self.put_bytes(page, contents(page, seed));
    }

    pub(super) fn put_bytes(&self, page: u64, bytes: Vec<u8>) {
        let before = self.stored.lock().unwrap().pages.insert(page, bytes);
        assert!(before.is_none(), "a page is written once");
    }

    pub(super) fn free(&self, page: u64) {
        assert!(self.stored.lock().unwrap().pages.remove(&page).is_some(), "a page goes back once");
    }

    pub(super) fn keep_only(&self, table: &Table) {
        self.stored.lock().unwrap().pages.retain(|page, _| table.contains_key(page));
    }

    pub(super) fn meanwhile(&self, what: impl FnOnce(&mut BTreeMap<u64, Vec<u8>>) + Send + 'static) {
        self.stored.lock().unwrap().meanwhile = Some(Box::new(what));
    }

    pub(super) fn bytes(&self, page: u64) -> Vec<u8> {
        self.stored.lock().unwrap().pages.get(&page).cloned().unwrap_or_default()
    }
}

impl PageSource for Device {
    fn open(&mut self, table: &Path) -> Result<PageTable, ArchiveFault> {
        let (next, table) = read_table(table);
        self.table = table;
        Ok(PageTable { pages: self.table.keys().copied().collect(), next })
    }

    fn read(&mut self, page: u64, take: &mut TakeBytes<'_>) -> Result<(), ArchiveFault> {
        let mut stored = self.stored.lock().unwrap();
        let Stored { pages, meanwhile } = &mut *stored;
        if let Some(meanwhile) = meanwhile.take() {
            meanwhile(pages);
        }
        let bytes = pages.get(&page).cloned().unwrap_or_default();
        drop(stored);
        if bytes.is_empty() {
            return Err(ArchiveFault::Pages(format!("page {page} is damaged")));
        }
        let (first, rest) = bytes.split_at(bytes.len() / 3);
        take(first)?;
        take(rest)
    }
}

impl PageTarget for Device {
    fn check(&mut self, again: bool) -> Result<(), ArchiveFault> {
        assert!(again || self.stored.lock().unwrap().pages.is_empty(), "a fetch begins with nothing");
        Ok(())
    }

    fn begin(&mut self, _: u128, table: &Path) -> Result<PageTable, ArchiveFault> {
        self.stored.lock().unwrap().pages.clear();
        self.open(table)
    }

    fn put(&mut self, page: u64, bytes: &[u8]) -> Result<(), ArchiveFault> {
        self.stored.lock().unwrap().pages.entry(page).or_default().extend_from_slice(bytes);
        Ok(())
    }

    fn end(&mut self) -> Result<(), ArchiveFault> {
        for (page, seed) in &self.table {
            // Large ones are compared by their test.
            if *seed != 0 && self.bytes(*page) != contents(*page, *seed) {
                return Err(ArchiveFault::Damaged(format!("page {page} is not what its base names")));
            }
        }
        assert_eq!(self.stored.lock().unwrap().pages.len(), self.table.len());
        Ok(())
    }
}
