//! Heap values: strings too large for a record, and objects. The record holds a handle, one counted reference.
//!
//! A reader takes its own reference under a shared latch and then reads without any; a writer that finds itself the only
//! holder, under the exclusive latch, changes the value in place. So a value of 512 MB is never copied to be read, and an
//! APPEND to one costs what it appends. An object with another holder is changed as a snapshot of it, made in constant time.
//!
//! A value that no record holds any more may still be on its way to a client. It is in the memory, so it counts
//! ([`Outliving`]), but only then: while a record holds it, it counts as the record's.

use almandine_base::object::Object;
use std::sync::Arc;
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering};

/// Bytes of bookkeeping per heap value: the reference counts and the vector's header, with the allocator's rounding.
const OVERHEAD_BYTES: usize = 64;

/// Bytes of a store's values that have a holder, but no record.
#[derive(Default)]
pub(crate) struct Outliving {
    all: AtomicU64,
    /// Of these, those of objects: they are short-lived, as snapshots that are being written, and values that were read for one
    /// command.
    objects: AtomicU64,
}

impl Outliving {
    /// Bytes of values that readers hold and no record does.
    pub(crate) fn bytes(&self) -> u64 {
        self.all.load(Ordering::Relaxed)
    }

    /// Of these, bytes of objects.
    pub(crate) fn object_bytes(&self) -> u64 {
        self.objects.load(Ordering::Relaxed)
    }

    /// Counts bytes that came and went.
    fn count(&self, is_object: bool, came: usize, went: usize) {
        for count in [Some(&self.all), is_object.then_some(&self.objects)].into_iter().flatten() {
            count.fetch_add(came as u64, Ordering::Relaxed);
            let before = count.fetch_sub(went as u64, Ordering::Relaxed);
            debug_assert!(before >= went as u64, "what goes was counted");
        }
    }
}

/// What a heap value is.
enum Body {
    String(Vec<u8>),
    Object {
        object: Box<dyn Object>,
        /// What the value counts as on the device; 0: what it takes in memory. So it counts the same when it is written and
        /// when it goes.
        weight: usize,
    },
}

/// A value too large for a record.
pub struct HeapValue {
    body: Body,
    /// Records that hold it; a copy of a record holds it, too.
    records: AtomicU32,
    /// What of it is in the store's [`Outliving`]. Changed where the last record's reference is taken or a new one is given.
    outliving: AtomicUsize,
    /// The store's count, a counted reference; null until the value has come to a store.
    store: AtomicPtr<Outliving>,
}

impl std::fmt::Debug for HeapValue {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("HeapValue").field("memory_bytes", &self.memory_bytes()).finish_non_exhaustive()
    }
}

/// The bytes of a string; an object has none.
impl AsRef<[u8]> for HeapValue {
    fn as_ref(&self) -> &[u8] {
        match &self.body {
            Body::String(bytes) => bytes,
            Body::Object { .. } => &[],
        }
    }
}

/// A shared heap value. One of an object is a snapshot of it.
pub type SharedValue = Arc<HeapValue>;

impl HeapValue {
    fn of(body: Body) -> Self {
        Self { body, records: AtomicU32::new(0), outliving: AtomicUsize::new(0), store: AtomicPtr::default() }
    }

    /// A string that no record holds yet.
    #[must_use]
    pub fn string(bytes: Vec<u8>) -> Self {
        Self::of(Body::String(bytes))
    }

    /// An object that no record holds yet.
    #[must_use]
    pub fn object(object: Box<dyn Object>) -> Self {
        Self::weighing(object, 0)
    }

    /// An object that was read from the device, where it counts as `weight`.
    pub(crate) fn weighing(object: Box<dyn Object>, weight: usize) -> Self {
        Self::of(Body::Object { object, weight })
    }

    /// The object that it is, if it is one.
    #[must_use]
    pub fn as_object(&self) -> Option<&dyn Object> {
        match &self.body {
            Body::String(_) => None,
            Body::Object { object, .. } => Some(object.as_ref()),
        }
    }

    /// The object, to be changed.
    pub(crate) fn as_object_mut(&mut self) -> Option<&mut dyn Object> {
        match &mut self.body {
            Body::String(_) => None,
            Body::Object { object, weight } => {
                *weight = 0;
                Some(object.as_mut())
            }
        }
    }

    /// The bytes of a string, to be changed.
    pub(crate) fn as_bytes_mut(&mut self) -> Option<&mut Vec<u8>> {
        match &mut self.body {
            Body::String(bytes) => Some(bytes),
            Body::Object { .. } => None,
        }
    }

    /// A value of its own that is equal: a copy of a string, a snapshot of an object.
    pub(crate) fn duplicate(&self) -> Self {
        match &self.body {
            Body::String(bytes) => Self::string(bytes.clone()),
            Body::Object { object, .. } => Self::object(object.snapshot()),
        }
    }

    /// Bytes that this value takes.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        let body = match &self.body {
            Body::String(bytes) => bytes.capacity(),
            Body::Object { object, .. } => object.memory(),
        };
        body + OVERHEAD_BYTES
    }

    /// Bytes as which the value counts on the device.
    pub(crate) fn device_bytes(&self) -> usize {
        match &self.body {
            Body::String(bytes) => bytes.len(),
            Body::Object { object, weight: 0 } => object.memory(),
            Body::Object { weight, .. } => *weight,
        }
    }

    /// Frees about `limit` parts of the value; true when what is left can be dropped at once.
    pub(crate) fn drop_step(&mut self, limit: usize) -> bool {
        match &mut self.body {
            Body::String(_) => true,
            Body::Object { object, .. } => object.drop_step(limit),
        }
    }

    /// Comes to the store that counts in `outliving`, and stays its own.
    fn come_to(&self, outliving: &Arc<Outliving>) {
        if self.store.load(Ordering::Relaxed).is_null() {
            let own = Arc::into_raw(Arc::clone(outliving)).cast_mut();
            let first = self.store.compare_exchange(std::ptr::null_mut(), own, Ordering::AcqRel, Ordering::Relaxed);
            if first.is_err() {
                // SAFETY: the reference that was made above, and that no other thread has seen.
                drop(unsafe { Arc::from_raw(own) });
            }
        }
    }

    /// The count of its store.
    fn store(&self) -> Option<&Outliving> {
        // SAFETY: null, or a counted reference that the value keeps while it lives.
        unsafe { self.store.load(Ordering::Acquire).as_ref() }
    }

    /// Counts by itself, in `outliving`, until a record holds it.
    pub(crate) fn count_until_held(&self, outliving: &Arc<Outliving>) {
        debug_assert_eq!(self.records.load(Ordering::Relaxed), 0, "no record holds it yet");
        self.come_to(outliving);
        self.count_outliving(self.memory_bytes());
    }

    /// Counts by itself no longer, because it counts elsewhere.
    pub(crate) fn count_no_more(&mut self) {
        self.count_outliving(0);
    }

    fn count_outliving(&self, bytes: usize) {
        let before = self.outliving.swap(bytes, Ordering::Relaxed);
        debug_assert!(bytes == 0 || self.store().is_some(), "what counts has a store");
        if let Some(store) = self.store() {
            store.count(self.as_object().is_some(), bytes, before);
        }
    }
}

impl Drop for HeapValue {
    fn drop(&mut self) {
        debug_assert_eq!(*self.records.get_mut(), 0, "a value lives as long as a record holds it");
        let store = *self.store.get_mut();
        if !store.is_null() {
            // SAFETY: the reference that `come_to` made, given up once.
            let store = unsafe { Arc::from_raw(store) };
            store.count(self.as_object().is_some(), 0, *self.outliving.get_mut());
        }
    }
}

/// Turns a reference into the number that a record holds, of the store that counts in `outliving`.
pub(crate) fn into_handle(value: SharedValue, outliving: &Arc<Outliving>) -> u64 {
    value.come_to(outliving);
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
pub(crate) unsafe fn from_handle(handle: u64) -> SharedValue {
    debug_assert_ne!(handle, 0, "a handle is an address");
    // SAFETY: by the caller's promise the count that `into_raw` kept is ours.
    let value = unsafe { Arc::from_raw(handle as usize as *const HeapValue) };
    let records = value.records.fetch_sub(1, Ordering::Relaxed);
    debug_assert!(records > 0, "a record's reference is counted");
    // Other holders drop it later than this, so that the drop finds the count.
    if records == 1 && Arc::strong_count(&value) > 1 {
        value.count_outliving(value.memory_bytes());
    }
    value
}

/// A reference of one's own to the value behind a handle.
///
/// # Safety
/// The handle came from [`into_handle`] and the bucket latch is held, so that the record keeps its reference meanwhile.
pub(crate) unsafe fn share(handle: u64) -> SharedValue {
    debug_assert_ne!(handle, 0, "a handle is an address");
    let pointer = handle as usize as *const HeapValue;
    // SAFETY: the record's reference keeps the count above zero while the latch is held.
    unsafe {
        Arc::increment_strong_count(pointer);
        Arc::from_raw(pointer)
    }
}

/// The value behind a handle.
///
/// # Safety
/// As [`share`], for as long as the reference lives; and no thread changes the value meanwhile.
pub(crate) unsafe fn value<'r>(handle: u64) -> &'r HeapValue {
    debug_assert_ne!(handle, 0, "a handle is an address");
    // SAFETY: the record's reference keeps the value alive under the latch.
    unsafe { &*(handle as usize as *const HeapValue) }
}

/// Makes the value behind a handle one without another holder, and gives it to be changed. The handle may be another one
/// afterwards.
///
/// # Safety
/// The handle came from [`into_handle`], and the caller holds the exclusive latch of its record's bucket for as long as the
/// reference lives.
pub(crate) unsafe fn unique<'r>(handle: &mut u64, outliving: &Arc<Outliving>) -> &'r mut HeapValue {
    debug_assert_ne!(*handle, 0, "a handle is an address");
    // SAFETY: the latch is exclusive, so the record's reference is ours to look at; it stays the record's.
    let mut held = std::mem::ManuallyDrop::new(unsafe { Arc::from_raw(*handle as usize as *const HeapValue) });
    if Arc::get_mut(&mut held).is_none() {
        // SAFETY: as above; the record gives its reference up here, and gets the new one.
        let shared = unsafe { from_handle(*handle) };
        *handle = into_handle(Arc::new(shared.duplicate()), outliving);
    }
    // SAFETY: the count is one, the record's, and no thread can share the value without the latch.
    unsafe { &mut *(*handle as usize as *mut HeapValue) }
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
        let outliving = Arc::new(Outliving::default());
        let value = Arc::new(HeapValue::string(vec![1; 1 << 20]));
        let (first, second) = (into_handle(value.clone(), &outliving), into_handle(value.clone(), &outliving));
        assert_eq!(outliving.bytes(), 0);
        // SAFETY: both handles are from above, and each is given up once.
        unsafe {
            drop(from_handle(first));
            assert_eq!(outliving.bytes(), 0, "the other record holds it");
            drop(from_handle(second));
        }
        assert!(outliving.bytes() >= MIB, "a reader holds it");
        let again = into_handle(value.clone(), &outliving);
        assert_eq!(outliving.bytes(), 0, "a record has it again");
        // SAFETY: as above.
        unsafe { drop(from_handle(again)) };
        assert!(outliving.bytes() >= MIB);
        drop(value);
        assert_eq!(outliving.bytes(), 0, "nobody holds it");
    }

    #[test]
    fn a_value_counts_in_its_own_store_and_may_outlive_it() {
        let (one, other) = (Arc::new(Outliving::default()), Arc::new(Outliving::default()));
        let value = Arc::new(HeapValue::string(vec![1; 1000]));
        let mut handle = into_handle(value.clone(), &one);
        // SAFETY: the handle is from above; this thread is the only one.
        unsafe { unique(&mut handle, &one) };
        assert!(one.bytes() >= 1000, "the record has a copy, the reader the value");
        // SAFETY: the handle is the record's, and given up once.
        drop(unsafe { from_handle(handle) });
        let left = Arc::downgrade(&one);
        drop(one);
        assert_eq!((other.bytes(), left.upgrade().is_some()), (0, true));
        drop(value);
        assert!(left.upgrade().is_none(), "with the last value");
    }
}
