//! What a reader sees of a record.

use crate::record::heap::{self, SharedValue};
use crate::record::{Header, Kind, Record, WORD};
use almandine_base::object::Object;
use std::marker::PhantomData;

/// A record as a reader sees it.
///
/// An optimistic view may show a mixture of two states; the reader's closure only copies from it, and is run again if that
/// happened. A latched view is exact.
pub struct View<'v> {
    pub(super) record: Record,
    pub(super) header: Header,
    pub(super) latched: bool,
    pub(super) session: PhantomData<&'v ()>,
}

impl View<'_> {
    /// Longest value that may be seen without a latch.
    pub const COPIED_MAX: usize = 1024;

    pub(crate) fn latched(record: Record, header: Header) -> Self {
        debug_assert!(!header.has(Header::DEAD), "INV-LOG-1: an entry leads to a live record");
        debug_assert_ne!(header.units(), 0, "INV-LOG-2: a record has words");
        Self { record, header, latched: true, session: PhantomData }
    }

    /// What the value is.
    #[must_use]
    pub fn kind(&self) -> Kind {
        self.header.kind()
    }

    /// When the record expires, in milliseconds since the Unix epoch.
    #[must_use]
    pub fn expiry_ms(&self) -> Option<i64> {
        self.record.expiry(self.header)
    }

    /// Whether the value was built or changed in part rather than set as a whole.
    #[must_use]
    pub fn is_edited(&self) -> bool {
        self.header.has(Header::EDITED)
    }

    /// The entity tag.
    #[must_use]
    pub fn etag(&self) -> Option<u64> {
        self.record.etag(self.header)
    }

    /// Length of the value in bytes; of an object none.
    #[must_use]
    pub fn len(&self) -> usize {
        if self.header.has(Header::HEAP_VALUE) { self.bytes().map_or(0, <[u8]>::len) } else { self.header.value_len() }
    }

    /// Whether the value is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes of memory that the record takes, heap included.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        let value = self.shared().map_or(0, |value| value.memory_bytes());
        let has_key = self.header.has(Header::HEAP_KEY) && !self.header.has(Header::DEAD);
        // SAFETY: the view exists inside the epoch, which delays the end of a live record's key; the handle never changes.
        let key = if has_key { unsafe { heap::HeapKey::bytes(self.record.key_handle()) }.len() } else { 0 };
        self.header.units() * WORD + value + key
    }

    /// The bytes of the value in place; only of a latched view. An object has none.
    #[must_use]
    pub fn bytes(&self) -> Option<&[u8]> {
        if !self.latched {
            return None;
        }
        // SAFETY: the bucket latch is held for as long as this view exists, so no thread writes.
        Some(unsafe {
            if self.header.has(Header::HEAP_VALUE) {
                heap::value(self.record.value_handle(self.header)).as_ref()
            } else {
                self.record.value(self.header)
            }
        })
    }

    /// The object that the value is; only of a latched view.
    #[must_use]
    pub fn object(&self) -> Option<&dyn Object> {
        // SAFETY: the bucket latch is held for as long as this view exists, so no thread writes.
        (self.latched && self.header.has(Header::HEAP_VALUE))
            .then(|| unsafe { heap::value(self.record.value_handle(self.header)) })?
            .as_object()
    }

    /// The bytes of a packed collection in place, when they are too many to be copied; only of a latched view.
    #[must_use]
    pub fn long_bytes(&self) -> Option<&[u8]> {
        self.bytes().filter(|bytes| bytes.len() > Self::COPIED_MAX)
    }

    /// A reference to a heap value, to be read without any latch.
    #[must_use]
    pub fn shared(&self) -> Option<SharedValue> {
        // SAFETY: the bucket latch is held for as long as this view exists.
        (self.latched && self.header.has(Header::HEAP_VALUE)).then(|| unsafe { heap::share(self.record.value_handle(self.header)) })
    }

    /// Whether the value lies on the heap. Then the view is latched.
    #[inline]
    #[must_use]
    pub fn is_heap(&self) -> bool {
        debug_assert!(
            self.latched || !self.header.has(Header::HEAP_VALUE),
            "INV-READ-1: a handle is followed under the latch only"
        );
        self.header.has(Header::HEAP_VALUE)
    }

    /// Appends the value to `target`.
    #[inline(always)]
    pub fn append_to(&self, target: &mut Vec<u8>) {
        if self.latched { self.append_latched(target) } else { self.append_optimistic(target) }
    }

    #[cold]
    fn append_latched(&self, target: &mut Vec<u8>) {
        debug_assert!(self.latched, "INV-READ-1: bytes are borrowed under the latch only");
        target.extend_from_slice(self.bytes().unwrap_or_default());
    }

    #[inline(always)]
    fn append_optimistic(&self, target: &mut Vec<u8>) {
        let len = self.header.value_len();
        debug_assert!(!self.latched && !self.is_heap(), "INV-READ-1: a large value is read under the latch");
        debug_assert!(len <= self.header.value_capacity(), "INV-READ-1: a header is one word, so its lengths belong together");
        target.reserve(len + WORD);
        let start = target.len();
        // SAFETY: the reserve made room for the length rounded up to a word, and the copy initialises `len` bytes.
        unsafe {
            self.record.copy_value(self.header, target.as_mut_ptr().add(start));
            target.set_len(start + len);
        }
    }
}
