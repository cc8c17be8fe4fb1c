//! Heap values: strings too large for a record. The record holds a handle, one counted reference.
//!
//! A reader takes its own reference under a shared latch and then reads without any; a writer that finds itself the only
//! holder, under the exclusive latch, changes the bytes in place. So a value of 512 MB is never copied to be read, and an
//! APPEND to one costs what it appends.

use std::sync::Arc;

/// Bytes of bookkeeping per heap value: the reference counts and the vector's header, with the allocator's rounding.
const OVERHEAD_BYTES: usize = 64;

/// A large string.
#[derive(Debug)]
pub struct HeapString(pub(crate) Vec<u8>);

impl AsRef<[u8]> for HeapString {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

/// A shared large string.
pub type SharedString = Arc<HeapString>;

impl HeapString {
    /// Bytes that this value takes.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.0.capacity() + OVERHEAD_BYTES
    }
}

/// Turns a reference into the number that a record holds.
pub(crate) fn into_handle(value: SharedString) -> u64 {
    Arc::into_raw(value) as usize as u64
}

/// Takes the record's reference back out.
///
/// # Safety
/// The handle came from [`into_handle`] and its record gives it up.
pub(crate) unsafe fn from_handle(handle: u64) -> SharedString {
    // SAFETY: by the caller's promise the count that `into_raw` kept is ours.
    unsafe { Arc::from_raw(handle as usize as *const HeapString) }
}

/// A reference of one's own to the value behind a handle.
///
/// # Safety
/// The handle came from [`into_handle`] and the bucket latch is held, so that the record keeps its reference meanwhile.
pub(crate) unsafe fn share(handle: u64) -> SharedString {
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
    // SAFETY: the record's reference keeps the value alive under the latch.
    unsafe { &(*(handle as usize as *const HeapString)).0 }
}

/// A key too long for its record.
pub(crate) struct HeapKey(Box<[u8]>);

impl HeapKey {
    pub(crate) fn into_handle(key: &[u8]) -> u64 {
        Box::into_raw(Box::new(Self(key.into()))) as usize as u64
    }

    /// # Safety
    /// The handle came from [`HeapKey::into_handle`] and the epoch is held since before the record was found.
    pub(crate) unsafe fn bytes<'r>(handle: u64) -> &'r [u8] {
        // SAFETY: the key is freed only after the epoch of its record's death is safe.
        unsafe { &(*(handle as usize as *const Self)).0 }
    }

    /// # Safety
    /// The handle came from [`HeapKey::into_handle`], is given up by its last record, and no reader can see it.
    pub(crate) unsafe fn free(handle: u64) {
        // SAFETY: by the caller's promise we are the only owner.
        drop(unsafe { Box::from_raw(handle as usize as *mut Self) });
    }
}
