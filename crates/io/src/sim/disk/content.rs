//! What one file holds: the bytes as they are read, those that survive a crash of the machine, and what a broken medium shows
//! instead.
//!
//! Only pages that were written are kept, and those that are durable are shared by both versions, so a large file with little
//! in it is cheap. A missing page is a hole. The medium's faults lie over the pages as they should be (TigerBeetle's storage
//! does so): a fault can be told from what was written, and taken away.

use std::collections::BTreeMap;
use std::sync::Arc;

/// The unit in which memory is kept, in which holes are made, and which a direct write changes whole or not at all.
pub(super) const PAGE_BYTES: usize = 4096;
/// What a write through the page cache changes whole or not at all.
const SECTOR_BYTES: usize = 512;
const SECTORS: usize = PAGE_BYTES / SECTOR_BYTES;
const PAGE: u64 = PAGE_BYTES as u64;

type Page = Arc<[u8; PAGE_BYTES]>;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Content {
    bytes: u64,
    pages: BTreeMap<u64, Page>,
    durable_bytes: u64,
    durable: BTreeMap<u64, Page>,
    unsynced: BTreeMap<u64, Unsynced>,
    shown: BTreeMap<u64, Shown>,
}

/// What of a page a crash may undo.
#[derive(Clone, Copy, Debug, Default)]
struct Unsynced {
    /// A bit for each sector.
    sectors: u8,
    /// All sectors have the same fate.
    whole: bool,
    /// Number of the last write.
    write: u64,
}

/// What a page shows instead of what was written.
#[derive(Debug)]
enum Shown {
    Error,
    Instead(Option<Page>),
}

/// What goes wrong with a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WriteFault {
    None,
    /// The medium keeps what it had.
    Lost,
    /// The medium writes at the page of this number instead.
    Misdirected(u64),
    /// This bit of what is written is wrong.
    Flipped(u64),
    /// This byte of what is written cannot be read.
    Unreadable(u64),
}

/// How bytes are written.
#[derive(Clone, Copy, Debug)]
pub(super) struct How {
    /// Past the page cache.
    pub(super) direct: bool,
    /// Ascends with each write.
    pub(super) write: u64,
    /// An unsynced version of the page becomes durable before it is written anew, as the page cache may decide.
    pub(super) written_back: bool,
    pub(super) fault: WriteFault,
}

impl Content {
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Pages that take space.
    pub(super) fn pages(&self) -> usize {
        self.pages.len()
    }

    /// How many pages a write of this range takes from the free space.
    pub(super) fn new_pages(&self, offset: u64, bytes: usize) -> usize {
        parts(offset, bytes).filter(|part| !self.pages.contains_key(&part.page)).count()
    }

    /// Copies what is there; none when a page of it cannot be read.
    pub(super) fn read(&self, offset: u64, buffer: &mut [u8]) -> Option<usize> {
        let count = usize::try_from(self.bytes.saturating_sub(offset)).unwrap_or(usize::MAX).min(buffer.len());
        for part in parts(offset, count) {
            let page = match self.shown.get(&part.page) {
                Some(Shown::Error) => return None,
                Some(Shown::Instead(page)) => page.as_ref(),
                None => self.pages.get(&part.page),
            };
            let into = &mut buffer[part.of_transfer.clone()];
            match page {
                Some(page) => into.copy_from_slice(&page[part.of_page]),
                None => into.fill(0),
            }
        }
        Some(count)
    }

    pub(super) fn write(&mut self, offset: u64, bytes: &[u8], how: How) {
        let before: Vec<_> = parts(offset, bytes.len()).map(|part| (part.page, self.pages.get(&part.page).cloned())).collect();
        for part in parts(offset, bytes.len()) {
            let bytes = &bytes[part.of_transfer];
            if how.written_back && self.unsynced.contains_key(&part.page) {
                self.make_durable(part.page);
            }
            self.change(part.page, part.of_page, how, |page| page.copy_from_slice(bytes));
        }
        self.bytes = self.bytes.max(offset + bytes.len() as u64);
        self.spoil(offset, before, how.fault);
    }

    /// Changes a range of a page, also in what is shown instead of it.
    fn change(&mut self, page: u64, range: std::ops::Range<usize>, how: How, change: impl Fn(&mut [u8])) {
        let is_whole = range.len() == PAGE_BYTES;
        if is_whole {
            self.shown.remove(&page);
        } else if let Some(Shown::Instead(shown)) = self.shown.get_mut(&page) {
            change(&mut Arc::make_mut(shown.get_or_insert_with(empty))[range.clone()]);
        }
        change(&mut Arc::make_mut(self.pages.entry(page).or_insert_with(empty))[range.clone()]);
        let unsynced = self.unsynced.entry(page).or_default();
        (range.start / SECTOR_BYTES..range.end.div_ceil(SECTOR_BYTES)).for_each(|sector| unsynced.sectors |= 1 << sector);
        unsynced.whole |= how.direct;
        unsynced.write = how.write;
    }

    /// Lays a fault over pages that were just written.
    fn spoil(&mut self, offset: u64, before: Vec<(u64, Option<Page>)>, fault: WriteFault) {
        match fault {
            WriteFault::None => {}
            WriteFault::Lost => self.show_instead(before),
            WriteFault::Misdirected(to) => {
                let first = offset / PAGE;
                let last = self.bytes.div_ceil(PAGE);
                let written = before.iter().map(|(page, _)| (page - first + to, self.pages.get(page).cloned()));
                let elsewhere = written.filter(|(page, _)| *page < last && before.iter().all(|(own, _)| own != page)).collect();
                self.show_instead(before);
                self.show_instead(elsewhere);
            }
            WriteFault::Flipped(bit) => {
                let at = offset + bit / 8;
                let mut page = self.pages.get(&(at / PAGE)).cloned().unwrap_or_else(empty);
                Arc::make_mut(&mut page)[(at % PAGE) as usize] ^= 1 << (bit % 8);
                self.show_instead(vec![(at / PAGE, Some(page))]);
            }
            WriteFault::Unreadable(byte) => {
                self.shown.insert((offset + byte) / PAGE, Shown::Error);
            }
        }
    }

    fn show_instead(&mut self, pages: Vec<(u64, Option<Page>)>) {
        self.shown.extend(pages.into_iter().map(|(number, page)| (number, Shown::Instead(page))));
    }

    /// The medium shows what was written again.
    pub(super) fn heal(&mut self) {
        self.shown.clear();
    }

    /// Makes holes of the whole pages of a range, and zeroes of the rest.
    pub(super) fn punch(&mut self, offset: u64, bytes: u64, write: u64) {
        let end = offset.saturating_add(bytes).min(self.bytes.next_multiple_of(PAGE));
        for number in self.pages_within(offset, end) {
            let (begin, until) = (offset.max(number * PAGE), end.min((number + 1) * PAGE));
            if until - begin == PAGE {
                self.pages.remove(&number);
                self.shown.remove(&number);
                self.unsynced.insert(number, Unsynced { sectors: u8::MAX, whole: true, write });
            } else {
                let range = (begin % PAGE) as usize..(begin % PAGE + (until - begin)) as usize;
                self.change(number, range, How { write, ..PLAIN }, |page| page.fill(0));
            }
        }
    }

    pub(super) fn set_len(&mut self, bytes: u64, write: u64) {
        if bytes < self.bytes {
            self.punch(bytes, self.bytes.next_multiple_of(PAGE) - bytes, write);
        }
        self.bytes = bytes;
    }

    /// The next range of pages that are no holes.
    pub(super) fn next_data(&self, offset: u64) -> Option<(u64, u64)> {
        let first = *self.pages.range(offset / PAGE..).next()?.0;
        let begin = offset.max(first * PAGE);
        let run = self.pages.range(first..).zip(first..).take_while(|((page, _), expected)| *page == expected).count() as u64;
        (begin < self.bytes).then(|| (begin, ((first + run) * PAGE).min(self.bytes)))
    }

    /// Pages that are no holes.
    fn pages_within(&self, begin: u64, end: u64) -> Vec<u64> {
        let pages = begin / PAGE..end.div_ceil(PAGE).max(begin / PAGE);
        self.pages.range(pages).map(|(number, _)| *number).collect()
    }

    /// All that was written is durable.
    pub(super) fn sync(&mut self) {
        for number in self.unsynced.keys().copied().collect::<Vec<_>>() {
            self.make_durable(number);
        }
        self.unsynced.clear();
        self.durable_bytes = self.bytes;
    }

    fn make_durable(&mut self, number: u64) {
        match self.pages.get(&number) {
            Some(page) => self.durable.insert(number, Arc::clone(page)),
            None => self.durable.remove(&number),
        };
    }

    /// What a sync does that fails as on Linux: the pages are taken for clean and are not durable. They may leave the page cache.
    pub(super) fn forget_unsynced(&mut self, leave_the_cache: bool) {
        for (number, _) in std::mem::take(&mut self.unsynced) {
            if leave_the_cache {
                match self.durable.get(&number) {
                    Some(page) => self.pages.insert(number, Arc::clone(page)),
                    None => self.pages.remove(&number),
                };
            }
        }
    }

    /// The machine crashes: what is not synced is there in its old or its new version.
    pub(super) fn crash(&mut self, choose: &mut dyn FnMut(u64) -> u64) {
        let is_unsynced = !self.unsynced.is_empty() || self.bytes != self.durable_bytes;
        let survives = if is_unsynced { Survives::choose(self.unsynced.len() as u64, choose) } else { Survives::All };
        let mut order: Vec<(u64, Unsynced)> = std::mem::take(&mut self.unsynced).into_iter().collect();
        order.sort_by_key(|(number, unsynced)| (unsynced.write, *number));
        for (place, (number, unsynced)) in (0..).zip(order) {
            let kept = match survives {
                Survives::All => unsynced.sectors,
                Survives::Nothing => 0,
                Survives::First(count) => {
                    if place < count {
                        unsynced.sectors
                    } else {
                        0
                    }
                }
                Survives::Any if unsynced.whole => {
                    if choose(2) == 0 {
                        u8::MAX
                    } else {
                        0
                    }
                }
                Survives::Any => {
                    (0..SECTORS).filter(|_| choose(2) == 0).fold(0, |kept, sector| kept | 1 << sector) & unsynced.sectors
                }
            };
            self.keep(number, kept, unsynced.sectors);
        }
        let has_new_length = match survives {
            Survives::All => true,
            Survives::Nothing => false,
            Survives::First(_) | Survives::Any => self.bytes == self.durable_bytes || choose(2) == 0,
        };
        if has_new_length {
            self.durable_bytes = self.bytes;
        }
        self.bytes = self.durable_bytes;
        self.cut_durable();
        self.pages = self.durable.clone();
    }

    /// Of the unsynced sectors of a page, the crash keeps these.
    fn keep(&mut self, number: u64, kept: u8, unsynced: u8) {
        if kept & unsynced == unsynced {
            return self.make_durable(number);
        }
        self.shown.remove(&number);
        if kept == 0 {
            return;
        }
        let new = self.pages.get(&number).cloned().unwrap_or_else(empty);
        let old = Arc::make_mut(self.durable.entry(number).or_insert_with(empty));
        for sector in (0..SECTORS).filter(|sector| kept & 1 << sector != 0) {
            let range = sector * SECTOR_BYTES..(sector + 1) * SECTOR_BYTES;
            old[range.clone()].copy_from_slice(&new[range]);
        }
    }

    /// Nothing lies behind the end.
    fn cut_durable(&mut self) {
        self.durable.split_off(&self.bytes.div_ceil(PAGE));
        let tail = (self.bytes % PAGE) as usize;
        if tail > 0
            && let Some(page) = self.durable.get_mut(&(self.bytes / PAGE))
            && page[tail..].iter().any(|byte| *byte != 0)
        {
            Arc::make_mut(page)[tail..].fill(0);
        }
    }
}

/// Through the page cache, without a fault.
pub(super) const PLAIN: How = How { direct: false, write: 0, written_back: false, fault: WriteFault::None };

/// Which unsynced pages of a file a crash leaves.
#[derive(Clone, Copy)]
enum Survives {
    All,
    Nothing,
    /// This number of those that were written first.
    First(u64),
    /// Each sector is chosen by itself.
    Any,
}

impl Survives {
    fn choose(pages: u64, choose: &mut dyn FnMut(u64) -> u64) -> Self {
        match choose(4) {
            0 => Self::All,
            1 => Self::Nothing,
            2 => Self::First(choose(pages + 1)),
            _ => Self::Any,
        }
    }
}

/// The part of a transfer that lies in one page.
struct Part {
    page: u64,
    of_page: std::ops::Range<usize>,
    of_transfer: std::ops::Range<usize>,
}

fn parts(offset: u64, bytes: usize) -> impl Iterator<Item = Part> {
    let mut done = 0;
    std::iter::from_fn(move || {
        let at = offset + done as u64;
        let begin = (at % PAGE) as usize;
        let count = (PAGE_BYTES - begin).min(bytes - done);
        done += count;
        (count > 0).then(|| Part { page: at / PAGE, of_page: begin..begin + count, of_transfer: done - count..done })
    })
}

fn empty() -> Page {
    Arc::new([0; PAGE_BYTES])
}
