//! A collection under its latch, to be changed.

use std::any::Any;
use std::sync::Arc;

use almandine_datatypes::hash::Placement;
use almandine_store::{Concerns, Full, HeapValue, Occupied, Put, Slot, Told, fits_inline};

use super::{Collection, Contents, Editable, downcast};
use crate::{Accessor, Key, Refusal, Writer};

/// Bytes of edits for which an accessor keeps its memory.
const EDITS_KEPT: usize = 64 * 1024;

/// A value to be changed, under its latch. A key that is absent is an empty one. Of a value that is packed nothing is stored before
/// [`Draft::commit`]. An object changes at once: a draft that is dropped instead, because its command fails behind a change,
/// stores and tells what was changed (INV-CHANGE-1, INV-EFFECT-1).
pub(in crate::types) struct Draft<'w, C: Collection> {
    /// Taken when the draft is stored.
    slot: Option<Slot<'w>>,
    /// The packed value as it will be.
    packed: &'w mut Vec<u8>,
    /// The object that it will be, and is not yet.
    fresh: Option<Box<C::Object>>,
    /// It is an object in the store.
    stored: bool,
    changed: bool,
    /// Changes, as Redis counts them.
    counted: i64,
    /// What is done to the value that was there, if a consumer wants effects.
    edits: Option<&'w mut Vec<u8>>,
    /// The object in the store has changes that are not told yet.
    uncommitted: bool,
    /// Nothing is there now that a waiter waits for.
    concerns: Concerns,
    /// When the first element expired before all changes.
    due: Option<i64>,
    now: u64,
    placement: Placement,
}

impl Writer<'_> {
    /// Opens a key as a collection to be changed.
    ///
    /// # Errors
    /// When it is of another type, or must be read from the device first.
    pub(in crate::types) fn open<'s, C: Collection>(&'s mut self, key: Key<'s>) -> Result<Draft<'s, C>, Refusal> {
        let key = self.current(key);
        let now = self.now_ms().max(0) as u64;
        let accessor = &mut *self.accessor;
        let placement = accessor.keyspace.types.placement;
        let Accessor { session, scratch, edits: noted, .. } = accessor;
        scratch.clear();
        let mut slot = session.entry(key)?.expire_elements();
        let (mut stored, mut due, mut edits) = (false, None, None);
        if let Slot::Occupied(entry) = &mut slot {
            if entry.kind() != C::KIND {
                return Err(Refusal::WrongKind);
            }
            due = entry.next_due();
            stored = entry.object().is_some();
            if entry.elements_mut().wants_edits() {
                noted.clear();
                noted.shrink_to(EDITS_KEPT);
                edits = Some(noted);
            }
            if !stored {
                scratch.extend_from_slice(entry.value());
            }
        }
        Ok(Draft {
            slot: Some(slot),
            packed: scratch,
            fresh: None,
            stored,
            changed: false,
            counted: 0,
            edits,
            uncommitted: false,
            concerns: Concerns::All,
            due,
            now,
            placement,
        })
    }
}

impl<C: Collection> Editable<C> for Draft<'_, C> {
    #[inline]
    fn contents(&self) -> Contents<'_, C> {
        let stored = || match &self.slot {
            Some(Slot::Occupied(entry)) if self.stored => entry.object().and_then(downcast::<C>),
            _ => None,
        };
        match self.fresh.as_deref().or_else(stored) {
            Some(object) => Contents::Object(object),
            None => Contents::Packed(C::packed(self.packed)),
        }
    }

    fn packed_mut(&mut self) -> Option<&mut Vec<u8>> {
        (self.fresh.is_none() && !self.stored).then_some(&mut *self.packed)
    }

    fn unpack(&mut self) {
        if self.fresh.is_none() && !self.stored {
            self.fresh = Some(Box::new(C::unpack(C::packed(self.packed), self.placement)));
        }
    }

    fn change<R>(&mut self, change: impl FnOnce(&mut C::Object) -> R) -> Result<R, Refusal> {
        if let Some(fresh) = &mut self.fresh {
            return Ok(change(fresh));
        }
        let Some(Slot::Occupied(entry)) = &mut self.slot else { return Err(Refusal::Full) };
        let changed = entry.elements_mut().change(|object| (object as &mut dyn Any).downcast_mut::<C::Object>().map(change))?;
        self.uncommitted = true;
        changed.ok_or(Refusal::WrongKind)
    }
}

impl<C: Collection> Draft<'_, C> {
    /// Whether the key was there.
    pub(in crate::types) fn existed(&self) -> bool {
        matches!(self.slot, Some(Slot::Occupied(_)))
    }

    /// The time of the batch, in milliseconds since the Unix epoch.
    pub(in crate::types) fn now(&self) -> u64 {
        self.now
    }

    /// Whether there may be elements past their time that are not yet removed.
    pub(in crate::types) fn may_have_expired(&self) -> bool {
        self.due.is_some_and(|due| due <= self.now as i64)
    }

    /// Whether a consumer wants to know what is done to the value that was there.
    pub(in crate::types) fn is_noted(&self) -> bool {
        self.edits.is_some()
    }

    /// Says that the last change was refused, and has changed nothing.
    pub(in crate::types) fn refused(&mut self) {
        self.uncommitted = self.changed && self.stored;
    }

    /// Notes what is done to the value that was there, where a consumer wants effects: `write` appends an edit.
    #[inline]
    pub(in crate::types) fn note(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        if let Some(edits) = &mut self.edits {
            write(edits);
        }
    }

    /// Says that the value has changed; `counted` is the number of changes as Redis counts them.
    #[inline]
    pub(in crate::types) fn changed(&mut self, counted: i64) {
        self.changed = true;
        self.counted += counted;
    }

    /// Whether there are changes, as Redis counts them.
    pub(in crate::types) fn counts_changes(&self) -> bool {
        self.changed && self.counted > 0
    }

    /// Says how many changes all of them together count as.
    pub(in crate::types) fn count_as(&mut self, counted: i64) {
        self.counted = counted;
    }

    /// Says which clients the changes concern.
    pub(in crate::types) fn concerns(&mut self, concerns: Concerns) {
        self.concerns = concerns;
    }

    /// Says that all changes together count as one.
    pub(in crate::types) fn count_once(&mut self) {
        self.counted = self.counted.min(1);
    }

    /// Stores what has changed. A value without elements is no key, unless the type says so.
    ///
    /// # Errors
    /// When the store is full; then a packed value is as it was.
    pub(in crate::types) fn commit(mut self) -> Result<(), Refusal> {
        self.store_changes(true)
    }

    /// As [`Draft::commit`], but an object stays one, however small it is: so it does where elements expire.
    ///
    /// # Errors
    /// As for [`Draft::commit`].
    pub(in crate::types) fn commit_in_form(mut self) -> Result<(), Refusal> {
        self.store_changes(false)
    }

    fn store_changes(&mut self, packs: bool) -> Result<(), Refusal> {
        self.uncommitted = false;
        if !self.changed {
            return Ok(());
        }
        let existed = self.existed();
        let is_gone = C::EMPTY_IS_ABSENT && self.contents().elements() == 0;
        let Some(mut slot) = self.slot.take() else { return Ok(()) };
        if !is_gone || existed {
            slot.count_changes(self.counted - 1);
        }
        let (slot, put) = match slot {
            Slot::Occupied(entry) if is_gone => {
                entry.remove();
                return Ok(());
            }
            Slot::Vacant(_) if is_gone => return Ok(()),
            Slot::Occupied(entry) if self.stored => {
                let out = packs.then_some(&mut *self.packed);
                return commit_object::<C>(entry, out, self.due, self.edits.as_deref(), self.concerns);
            }
            Slot::Occupied(entry) => {
                let put = Put { edited: false, ..entry.put() };
                (Slot::Occupied(entry), put)
            }
            vacant @ Slot::Vacant(_) => (vacant, Put::default()),
        };
        Ok(store::<C>(slot, self.packed, self.fresh.take(), self.placement, put, told(self.edits.as_deref()))?)
    }

    #[cold]
    fn store_failed(&mut self) {
        debug_assert!(self.stored, "a value that is no object in the store changes when it is committed");
        // A change that its type has not counted yet is one all the same.
        if !self.changed {
            self.changed(1);
        }
        let stored = self.store_changes(true);
        debug_assert!(stored.is_ok(), "INV-CHANGE-1: a change of an object in the store needs no room to be told");
    }
}

impl<C: Collection> Drop for Draft<'_, C> {
    #[inline]
    fn drop(&mut self) {
        if self.uncommitted {
            self.store_failed();
        }
    }
}

/// Edits tell a change where they are noted, else the whole value.
#[inline]
fn told(edits: Option<&Vec<u8>>) -> Told<'_> {
    edits.map_or(Told::Whole, |edits| Told::Edits(edits))
}

/// Makes a value that is no object in the store yet that of a key. `told`: how, if the key was there.
pub(super) fn store<C: Collection>(
    slot: Slot<'_>,
    packed: &[u8],
    mut object: Option<Box<C::Object>>,
    placement: Placement,
    put: Put,
    told: Told<'_>,
) -> Result<(), Full> {
    let key_len = match &slot {
        Slot::Occupied(entry) => entry.key().bytes.len(),
        Slot::Vacant(entry) => entry.key().bytes.len(),
    };
    if object.is_none() && !fits_inline(key_len, packed.len()) {
        object = Some(Box::new(C::unpack(C::packed(packed), placement)));
    }
    let object = object.map(|object| Arc::new(HeapValue::object(object)));
    match (slot, object) {
        (Slot::Occupied(mut entry), None) => entry.elements_mut().replace(C::KIND, packed, put, told),
        (Slot::Occupied(mut entry), Some(object)) => entry.elements_mut().replace_shared(C::KIND, object, put, told),
        (Slot::Vacant(entry), None) => entry.insert(C::KIND, packed, put),
        (Slot::Vacant(entry), Some(object)) => entry.insert_shared(C::KIND, object, put),
    }
}

/// Says that an object has changed, or packs it when it has become small and there are bytes to pack it in.
fn commit_object<C: Collection>(
    mut entry: Occupied<'_>,
    out: Option<&mut Vec<u8>>,
    due: Option<i64>,
    edits: Option<&Vec<u8>>,
    concerns: Concerns,
) -> Result<(), Refusal> {
    if let Some(out) = out
        && let Some(object) = entry.object().and_then(downcast::<C>)
    {
        out.clear();
        let (packed, put) = (C::pack(object, out)? && fits_inline(entry.key().bytes.len(), out.len()), entry.put());
        if packed && entry.elements_mut().replace(C::KIND, out, put, told(edits)).is_ok() {
            return Ok(());
        }
    }
    entry.elements_mut().changed(due, edits.map_or(&[], Vec::as_slice), concerns);
    Ok(())
}
