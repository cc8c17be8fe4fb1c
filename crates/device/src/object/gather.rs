//! Gathering: writes smaller than an object wait in memory until they fill one, so that none of them costs a request.
//!
//! For what is written one after another at growing offsets, as the extents of large values. One object is under construction at
//! a time; it is uploaded when it is full, when a write goes on to another object, and by [`crate::Device::sync`]. Until then it
//! is read from memory. An upload that fails leaves it there, and the write that needed it fails.
//!
//! Locks are taken in this order: that of writing, that of an object's number, those of the state and of what is gathered.

use std::io;
use std::sync::PoisonError;

use almandine_io::sync::{Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard};
use object_store::ObjectStoreExt;

use super::{Failed, Objects};

/// What one device gathers.
#[derive(Default)]
pub(super) struct Gathering {
    /// Held by a write or a sync from its beginning to its end.
    writing: Mutex<()>,
    open: RwLock<Option<Open>>,
}

/// The object under construction.
struct Open {
    index: u64,
    data: Vec<u8>,
    /// The store has an object of this number.
    uploaded: bool,
    /// What it has is not what is here.
    changed: bool,
}

impl Gathering {
    fn alone(&self) -> MutexGuard<'_, ()> {
        self.writing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn open(&self) -> RwLockReadGuard<'_, Option<Open>> {
        self.open.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self) -> RwLockWriteGuard<'_, Option<Open>> {
        self.open.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads a part of the object under construction; false if that is another one.
    pub(super) fn read(&self, index: u64, position: u64, buffer: &mut [u8]) -> bool {
        let open = self.open();
        let Some(object) = open.as_ref().filter(|object| object.index == index) else { return false };
        let Some(bytes) = object.data.get(position as usize..position as usize + buffer.len()) else { return false };
        buffer.copy_from_slice(bytes);
        true
    }

    /// Nothing of an object is needed any more. Says whether the store may have it.
    pub(super) fn forget(&self, index: u64) -> bool {
        let mut open = self.change();
        if open.as_ref().is_none_or(|object| object.index != index) {
            return true;
        }
        open.take().is_some_and(|object| object.uploaded)
    }
}

impl Objects {
    /// Writes a part of one object, sooner or later.
    pub(super) fn write_gathered(&self, gathering: &Gathering, index: u64, position: u64, data: &[u8]) -> io::Result<()> {
        let _alone = gathering.alone();
        let open = gathering.open().as_ref().map(|object| object.index);
        if open != Some(index) {
            if open.is_some() {
                self.upload(gathering, false)?;
            }
            if self.state().lengths.contains_key(&index) {
                return self.put(index, position, data);
            }
        }
        if self.gather(gathering, index, position, data) {
            self.upload(gathering, false)?;
        }
        Ok(())
    }

    /// Brings what is gathered to the store.
    pub(super) fn sync_gathered(&self, gathering: &Gathering) -> io::Result<()> {
        let _alone = gathering.alone();
        self.upload(gathering, true)
    }

    /// Puts data into the object under construction, which becomes this one if there is none. Says whether it is full.
    fn gather(&self, gathering: &Gathering, index: u64, position: u64, data: &[u8]) -> bool {
        let _object = self.lock(index);
        let (begin, end) = (position as usize, position as usize + data.len());
        let mut open = gathering.change();
        let object = open.get_or_insert_with(|| Open { index, data: Vec::new(), uploaded: false, changed: true });
        debug_assert_eq!(object.index, index, "one object at a time is under construction");
        let grown = end.saturating_sub(object.data.len());
        object.data.resize(object.data.len() + grown, 0);
        object.data[begin..end].copy_from_slice(data);
        object.changed = true;
        debug_assert!(object.data.len() as u64 <= self.object_bytes, "an object is one range of offsets");
        let offset = index * self.object_bytes + position;
        let mut state = self.change();
        state.lengths.insert(index, object.data.len() as u64);
        state.bytes += grown as u64;
        state.held.insert(offset, offset + data.len() as u64);
        object.data.len() as u64 == self.object_bytes
    }

    fn upload(&self, gathering: &Gathering, keep: bool) -> io::Result<()> {
        let Some(index) = gathering.open().as_ref().map(|object| object.index) else { return Ok(()) };
        let _object = self.lock(index);
        let changed = match &*gathering.open() {
            // It may have been discarded before the lock was taken.
            Some(object) if object.index == index => object.changed.then(|| object.data.clone()),
            _ => return Ok(()),
        };
        if let Some(data) = changed {
            let bytes = data.len() as u64;
            self.runtime
                .block_on(self.store.put(&self.path(index), data.into()))
                .map_err(|e| self.failed(Failed::Write, index * self.object_bytes, bytes, &e))?;
        }
        let mut open = gathering.change();
        debug_assert!(open.as_ref().is_some_and(|object| object.index == index), "the object's lock keeps it there");
        if !keep {
            *open = None;
        } else if let Some(object) = open.as_mut() {
            (object.uploaded, object.changed) = (true, false);
        }
        Ok(())
    }
}
