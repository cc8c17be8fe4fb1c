//! Heap values: strings too large for a record. The record holds a handle, one counted reference.
//!
//! A reader takes its own reference under a shared latch and then reads without any; a writer that finds itself the only
//! holder, under the exclusive latch, changes the bytes in place. So a value of 512 MB is never copied to be read, and an
//! APPEND to one costs what it appends.
//!
//! A value that no record holds any more may still be on its way to a client. It is in the memory, so it counts ([`outliving_bytes`]), but
//! only then: while a record holds it, it counts as the record's.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};

/// Bytes of bookkeeping per heap value: the reference counts and the vector's header, with the allocator's rounding.
const OVERHEAD_BYTES: usize = 64;

/// Bytes of all values of the process that no record holds, and somebody else does.
static OUTLIVING: AtomicU64 = AtomicU64::new(0);

/// Bytes of values that readers hold and no record does. Of the whole process: a value does not know its store.
pub(crate) fn outliving_bytes() -> u64 {
    OUTLIVING.load(Ordering::Relaxed)
}

/// A large string.
#[derive(Debug)]
pub struct HeapString {
    pub(crate) bytes: Vec<u8>,
    /// Records that hold it; a copy of a record holds it, too.
    records: AtomicU32,
    /// What of it is in [`OUTLIVING`]. Changed by whoever takes the last record's reference or gives a new one.
    outliving: AtomicUsize,
}

impl AsRef<[u8]> for HeapString {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// A shared large string.
pub type SharedString = Arc<HeapString>;

impl HeapString {
    /// A value that no record holds yet.
    pub(crate) fn new(bytes: Vec<u8>) -> Self {
        Self { bytes, records: AtomicU32::new(0), outliving: AtomicUsize::new(0) }
    }

    /// Bytes that this value takes.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.bytes.capacity() + OVERHEAD_BYTES
    }

    fn count_outliving(&self, bytes: usize) {
        let before = self.outliving.swap(bytes, Ordering::Relaxed);
        OUTLIVING.fetch_add(bytes as u64, Ordering::Relaxed);
        OUTLIVING.fetch_sub(before as u64, Ordering::Relaxed);
    }
}

impl Drop for HeapString {
    fn drop(&mut self) {
        debug_assert_eq!(*self.records.get_mut(), 0, "a value lives as long as a record holds it");
        OUTLIVING.fetch_sub(*self.outliving.get_mut() as u64, Ordering::Relaxed);
    }
}

/// Turns a reference into the number that a record holds.
pub(crate) fn into_handle(value: SharedString) -> u64 {
    value.records.fetch_add(1, Ordering::Relaxed);
    if value.outliving.load(Ordering::Relaxed) != 0 {
        value.count_outliving(0);
    }
    Arc::into_raw(value) as usize as u64
}

/// Takes the record's reference back out.
///
/// # Safety
/// The handle came from [`into_handle`] and its record gives it up.
pub(crate) unsafe fn from_handle(handle: u64) -> SharedString {
    debug_assert_ne!(handle, 0, "a handle is an address");
    // SAFETY: by the caller's promise the count that `into_raw` kept is ours.
    let value = unsafe { Arc::from_raw(handle as usize as *const HeapString) };
    let records = value.records.fetch_sub(1, Ordering::Relaxed);
    debug_assert!(records > 0, "a record's reference is counted");
    // Who else holds it lets go of it later than this, so that its drop finds the count.
    if records == 1 && Arc::strong_count(&value) > 1 {
        value.count_outliving(value.memory_bytes());
    }
    value
}

/// A reference of one's own to the value behind a handle.
///
/// # Safety
/// The handle came from [`into_handle`] and the bucket latch is held, so that the record keeps its reference meanwhile.
pub(crate) unsafe fn share(handle: u64) -> SharedString {
    debug_assert_ne!(handle, 0, "a handle is an address");
    let pointer = handle as usize as *const HeapString;
    // SAFETY: the record's reference keeps the count above zero while the latch is held.
    unsafe {
        Arc::increment_strong_count(pointer);
        Arc::from_raw(pointer)
    }
}

/// The bytes behind a handle.
///
/// # Safety
/// As [`share`], for as long as the slice lives; and nobody changes the value meanwhile.
pub(crate) unsafe fn bytes<'r>(handle: u64) -> &'r [u8] {
    debug_assert_ne!(handle, 0, "a handle is an address");
    // SAFETY: the record's reference keeps the value alive under the latch.
    unsafe { &(*(handle as usize as *const HeapString)).bytes }
}

/// A key too long for its record.
pub(crate) struct HeapKey(Box<[u8]>);

impl HeapKey {
    pub(crate) fn into_handle(key: &[u8]) -> u64 {
        debug_assert!(key.len() > crate::record::INLINE_KEY_MAX, "a key that fits is in its record");
        Box::into_raw(Box::new(Self(key.into()))) as usize as u64
    }

    /// # Safety
    /// The handle came from [`HeapKey::into_handle`] and the epoch is held since before the record was found.
    pub(crate) unsafe fn bytes<'r>(handle: u64) -> &'r [u8] {
        debug_assert_ne!(handle, 0, "a handle is an address");
        // SAFETY: the key is freed only after the epoch of its record's death is safe.
        unsafe { &(*(handle as usize as *const Self)).0 }
    }

    /// # Safety
    /// The handle came from [`HeapKey::into_handle`], is given up by its last record, and no reader can see it.
    pub(crate) unsafe fn free(handle: u64) {
        debug_assert_ne!(handle, 0, "a handle is an address");
        // SAFETY: by the caller's promise we are the only owner.
        drop(unsafe { Box::from_raw(handle as usize as *mut Self) });
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    #[test]
    fn a_value_counts_by_itself_only_while_readers_hold_it_and_no_record_does() {
        let value = Arc::new(HeapString::new(vec![1; 100 << 20]));
        let (first, second) = (into_handle(value.clone()), into_handle(value.clone()));
        assert!(outliving_bytes() < 100 * MIB);
        // SAFETY: both handles are from above, and each is given up once.
        unsafe {
            drop(from_handle(first));
            assert!(outliving_bytes() < 100 * MIB, "the other record holds it");
            drop(from_handle(second));
        }
        assert!(outliving_bytes() >= 100 * MIB, "a reader holds it");
        let again = into_handle(value.clone());
        assert!(outliving_bytes() < 100 * MIB, "a record has it again");
        // SAFETY: as above.
        unsafe { drop(from_handle(again)) };
        assert!(outliving_bytes() >= 100 * MIB);
        drop(value);
        assert!(outliving_bytes() < 100 * MIB, "nobody holds it");
    }
}
