//! Records by their keys: whose a record is, and what its key's hash is.

use super::Shared;
use crate::record::heap::{self, HeapKey};
use crate::record::key::Key;
use crate::record::{Header, Record};

impl Shared {
    /// The live record of `key` at `address`, if that is what is there.
    #[inline]
    pub(crate) fn match_record(&self, address: u64, key: &Key<'_>) -> Option<(Record, Header)> {
        // SAFETY: the address was read from the index inside the epoch.
        let record = unsafe { self.log.record(address) };
        let header = record.header();
        debug_assert_ne!(address, 0, "INV-LOG-1: no record is at address 0");
        self.matches_key(record, header, key).then_some((record, header))
    }

    /// Whether a record is live and the key's.
    #[inline]
    pub(crate) fn matches_key(&self, record: Record, header: Header, key: &Key<'_>) -> bool {
        if header.matches(Header::identity(key.namespace, key.bytes.len())) {
            return key.bytes.len() == header.key_len() && record.key_equals(key.bytes);
        }
        self.matches_heap_key(record, header, key)
    }

    #[cold]
    fn matches_heap_key(&self, record: Record, header: Header, key: &Key<'_>) -> bool {
        header.has(Header::HEAP_KEY)
            && !header.has(Header::DEAD)
            && header.namespace() == key.namespace
            && self.key_of(record, header) == key.bytes
    }

    /// The key of a record.
    #[inline]
    pub(crate) fn key_of<'r>(&self, record: Record, header: Header) -> &'r [u8] {
        debug_assert!(!header.has(Header::DEAD), "INV-LOG-1: dead space has no key");
        if header.has(Header::HEAP_KEY) {
            // SAFETY: the record is read inside the epoch, and its key is freed only after it.
            unsafe { HeapKey::bytes(record.key_handle()) }
        } else {
            record.key_field(header)
        }
    }

    /// The hash of the key of the record at `address`, if it is in memory for a session that saw `head`.
    pub(crate) fn hash_at(&self, address: u64, head: u64) -> Option<u64> {
        (address >= head).then(|| {
            // SAFETY: callers read the address from a latched bucket inside the epoch.
            let record = unsafe { self.log.record(address) };
            self.hash_of(record, record.header())
        })
    }

    /// Frees what records hold on the heap, for a store that ends without sessions. Their handles are not looked at again.
    pub(crate) fn drop_heavy(&mut self) {
        self.epoch.drain();
        let counted = self.counters.totals().heap_bytes;
        let mut bytes = 0;
        if counted != 0 {
            for page in self.log.pages.all() {
                // SAFETY: no session is left that could read, write or release the page, and each record gives its handles up here.
                unsafe {
                    self.log.walk_page(page, |_, record, header| {
                        if header.has(Header::HEAP_VALUE) {
                            let value = heap::from_handle(record.value_handle(header));
                            bytes += value.memory_bytes() as i64;
                        }
                        if header.has(Header::HEAP_KEY) {
                            bytes += HeapKey::bytes(record.key_handle()).len() as i64;
                            HeapKey::free(record.key_handle());
                        }
                    });
                }
            }
        }
        debug_assert_eq!(bytes, counted, "what is on the heap is counted");
    }

    /// The hash of a record's key.
    pub(crate) fn hash_of(&self, record: Record, header: Header) -> u64 {
        self.hash(header.namespace(), self.key_of(record, header))
    }
}
