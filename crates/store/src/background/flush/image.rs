//! Images: a closed page as it goes to the device.
//!
//! The copy is made word by word, because sessions may still declare records of a closed page dead; what the copy then says of
//! such a record does not matter, for the index no longer points to it. Handles of heap values and keys become extents.

use crate::log::PAGE_WORDS;
use crate::record::heap::{self, HeapKey, SharedValue};
use crate::record::{Header, Kind, Record, WORD};
use crate::session::Session;
use crate::shared::Shared;
use crate::tier::extent::Extent;
use crate::tier::pages::{Contents, DevicePages, PageInfo};
use crate::tier::write::ExtentWriter;
use crate::tier::{self, Tier};
use almandine_io::storage::{BLOCK_BYTES, Buffer};
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};

/// A record with heap objects, in an image under construction.
struct Heavy {
    at: usize,
    header: Header,
    key: Option<Vec<u8>>,
    value: Option<SharedValue>,
}

/// Copies a closed page into `image`. The extents that it refers to have been written then.
pub(in crate::background) fn make(
    session: &mut Session,
    tier: &Tier,
    page: u64,
    image: &mut Buffer,
    extents: &mut ExtentWriter,
) -> io::Result<Contents> {
    debug_assert_eq!(image.len(), PAGE_WORDS as usize * WORD, "INV-TIER-3: an image is one of a whole page");
    let mut contents = Contents::default();
    let mut heavy = Vec::new();
    copy(session, page, image, &mut contents, &mut heavy);
    let mut written = Vec::new();
    let mut outcome = heavy.iter().try_for_each(|record| write_heavy(tier, record, image, extents, &mut written));
    debug_assert!(outcome.is_err() || written.len() >= heavy.len(), "INV-TIER-3: what is on the heap has an extent");
    // Their records may have gone meanwhile.
    heavy.into_iter().filter_map(|record| record.value).for_each(|value| session.release(value));
    // Also after a failure, so that nothing of this page is written with the next one.
    outcome = outcome.and(extents.finish(tier));
    if let Err(error) = outcome {
        tier.free_extents(written);
        return Err(error);
    }
    debug_assert!(written.iter().all(|extent| extent.blocks() != 0), "INV-TIER-3: an extent has blocks");
    // A value of elements weighs what it takes in memory, however short its image is, so that its death counts as much as its life.
    // What the page takes is never less than what lives on it.
    contents.extent_blocks = contents.extent_blocks.max(written.iter().map(|extent| extent.blocks() as u32).sum());
    Ok(contents)
}

fn copy(session: &mut Session, page: u64, image: &mut Buffer, contents: &mut Contents, heavy: &mut Vec<Heavy>) {
    let store = std::sync::Arc::clone(&session.store);
    session.enter(session.now_ms());
    // SAFETY: a closed page is released only by the flusher, which is what runs this.
    let words = unsafe { store.log.page_words(page) };
    let mut at = 0usize;
    while at < words.len() {
        let header = Header(words[at].load(Ordering::Acquire));
        let units = header.units();
        if units == 0 {
            let next = (at / crate::log::CHUNK_WORDS as usize + 1) * crate::log::CHUNK_WORDS as usize;
            image[at * WORD..next * WORD].fill(0);
            at = next;
            continue;
        }
        put(image, at, header.0);
        debug_assert!(at + units <= words.len(), "INV-LOG-2: records tile their page");
        let end = (at + units).min(words.len());
        if header.has(Header::DEAD) {
            forget(image, at, end);
            at = end;
            continue;
        }
        for (target, word) in image[(at + 1) * WORD..end * WORD].chunks_exact_mut(WORD).zip(&words[at + 1..end]) {
            target.copy_from_slice(&word.load(Ordering::Relaxed).to_ne_bytes());
        }
        if !header.has(Header::CACHED) {
            let slack = Record::slack(header);
            image[(at + slack.start).min(end) * WORD..(at + slack.end).min(end) * WORD].fill(0);
        }
        // Records of dropped namespaces too: until they are swept the index points to them.
        if header.has(Header::HEAP_VALUE) || header.has(Header::HEAP_KEY) {
            match take_heavy(&store, page, at, header, &words[at]) {
                Some(record) => {
                    let lengths = [record.key.as_ref().map(Vec::len), record.value.as_ref().map(|value| value.device_bytes())];
                    let weight = DevicePages::weight(units, lengths);
                    count(contents, header, weight);
                    contents.extent_blocks += (weight - units as u32) / (BLOCK_BYTES / WORD) as u32;
                    let object = record.value.as_ref().and_then(|value| value.as_object());
                    contents.has_due_elements |= object.is_some_and(|object| object.next_due().is_some());
                    heavy.push(record);
                }
                None => {
                    put(image, at, Header::dead(units).0);
                    forget(image, at, end);
                }
            }
        } else {
            contents.has_due_elements |= has_due_elements(&store, image, at, header);
            count(contents, header, units as u32);
        }
        at = end;
    }
    session.leave();
}

/// Whether a packed collection of an image has elements that expire.
fn has_due_elements(store: &Shared, image: &mut Buffer, at: usize, header: Header) -> bool {
    if header.kind() == Kind::String || header.has(Header::CACHED) {
        return false;
    }
    // SAFETY: inside the image, which is aligned to more than a word, and whose words are whole at this place.
    let record = unsafe { Record::new(image.as_mut_ptr().cast::<AtomicU64>().add(at)) };
    store.next_due(record, header).is_some()
}

fn count(contents: &mut Contents, header: Header, words: u32) {
    debug_assert!(words as usize >= header.units(), "INV-LOG-2: a record weighs its words and its extents");
    contents.live_words += words;
    contents.records += 1;
    contents.volatile += u32::from(header.has(Header::EXPIRY));
    contents.largest = contents.largest.max(header.units() as u32);
    contents.namespace = match contents.namespace {
        0 => u32::from(header.namespace()),
        same if same == u32::from(header.namespace()) => same,
        _ => PageInfo::MIXED,
    };
}

/// Leaves out what stands behind the header of a dead record: of what was removed, and of addresses in this process, nothing
/// reaches the device.
fn forget(image: &mut Buffer, at: usize, end: usize) {
    image[(at + 1) * WORD..end * WORD].fill(0);
}

fn put(image: &mut [u8], index: usize, word: u64) {
    if let Some(target) = image.get_mut(index * WORD..(index + 1) * WORD) {
        target.copy_from_slice(&word.to_ne_bytes());
    }
}

/// References to the heap objects of a record, if the index still points to it.
fn take_heavy(store: &Shared, page: u64, at: usize, header: Header, word: &AtomicU64) -> Option<Heavy> {
    // SAFETY: a record of a page that stays in memory meanwhile, inside the epoch.
    let record = unsafe { Record::new(word) };
    debug_assert!((at as u64) < PAGE_WORDS, "INV-LOG-2: a record begins within its page");
    let address = page * PAGE_WORDS + at as u64;
    let hash = store.hash_of(record, header);
    let latch = store.index.lock_shared(hash);
    let number = latch.number();
    let found = store.index.find_latched(number, hash, |candidate| (candidate == address).then_some(()));
    found.map(|_| Heavy {
        at,
        header,
        key: header.has(Header::HEAP_KEY).then(|| store.key_of(record, header).to_vec()),
        // SAFETY: the latch is held and the record is the index's, so it has its reference.
        value: header.has(Header::HEAP_VALUE).then(|| unsafe { heap::share(record.value_handle(header)) }),
    })
}

fn write_heavy(
    tier: &Tier,
    record: &Heavy,
    image: &mut Buffer,
    extents: &mut ExtentWriter,
    written: &mut Vec<Extent>,
) -> io::Result<()> {
    debug_assert!(record.key.is_some() || record.value.is_some(), "only what is on the heap needs extents");
    if let Some(key) = &record.key {
        let extent = extents.put(tier, key)?;
        written.push(extent);
        put(image, record.at + 1, extent.to_word());
    }
    if let Some(value) = &record.value {
        let extent = match value.as_object() {
            None => extents.put(tier, value.as_ref().as_ref())?,
            Some(object) => tier::image::write(tier, extents, object, value.device_bytes())?,
        };
        written.push(extent);
        put(image, record.at + record.header.value_word(), extent.to_word());
    }
    Ok(())
}

/// Drops the heap objects of the records of a page that leaves memory; how many bytes. No session reaches them any more.
pub(in crate::background) fn drop_heavy(session: &mut Session, page: u64) -> i64 {
    let store = std::sync::Arc::clone(&session.store);
    debug_assert!(page < crate::log::Log::page_of(store.log.head()), "INV-TIER-1: only pages below the head leave");
    let mut bytes = 0;
    // SAFETY: the page is below the head for every session, and released only after this.
    unsafe {
        store.log.walk_page(page, |_, record, header| {
            if header.has(Header::HEAP_VALUE) {
                let value = heap::from_handle(record.value_handle(header));
                bytes += value.memory_bytes() as i64;
                store.discard(value);
            }
            if header.has(Header::HEAP_KEY) {
                bytes += HeapKey::bytes(record.key_handle()).len() as i64;
                HeapKey::free(record.key_handle());
            }
        });
    }
    if bytes != 0 {
        crate::counters::add(&store.thread(&session.local).heap_bytes, -bytes);
    }
    bytes
}
