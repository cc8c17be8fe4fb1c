//! Collections under their exclusive latch: changing an object, replacing what is packed, and the times at which elements expire.

use super::{Act, Guard, Occupied, Payload, Slot};
use crate::changes::events::Event;
use crate::changes::push_element;
use crate::full::Full;
use crate::record::heap::{self, SharedValue};
use crate::record::put::Put;
use crate::record::{Header, Kind};
use crate::session::notes::Concerns;
use crate::shared::consumers::Consumer;
use almandine_base::object::Object;

/// Elements of an object that are removed under one latch.
const ELEMENTS_PER_STEP: usize = 256;
/// Bytes of a value up to which an edit of one that lay on the device is told by the whole value, so that doing it again reads
/// nothing there.
const TOLD_WHOLE_BYTES: usize = 1024;

/// How a change of a packed collection is told where effects are wanted. Elements are in the words of the type; where the whole
/// value is no longer than they are it is told instead, since that needs nothing of what was there.
#[derive(Clone, Copy, Debug)]
pub enum Told<'e> {
    /// By the value that it is now.
    Whole,
    /// By what was done to its elements.
    Edits(&'e [u8]),
    /// By the elements that have expired.
    Expired(&'e [u8]),
}

impl Told<'_> {
    /// Bytes of elements; none where the whole value is told anyway.
    fn len(self) -> Option<usize> {
        match self {
            Told::Whole => None,
            Told::Edits(elements) | Told::Expired(elements) => Some(elements.len()),
        }
    }
}

impl Occupied<'_> {
    /// The object that the value is; None: it lies in the record.
    #[must_use]
    pub fn object(&self) -> Option<&dyn Object> {
        // SAFETY: the exclusive latch is ours, and changes need `&mut self`.
        self.header.has(Header::HEAP_VALUE).then(|| unsafe { heap::value(self.record.value_handle(self.header)) })?.as_object()
    }

    /// When the first element expires, in milliseconds since the Unix epoch.
    #[must_use]
    pub fn next_due(&self) -> Option<i64> {
        self.guard.store.next_due(self.record, self.header)
    }

    /// Whether that time has come.
    #[inline]
    fn is_due(&self) -> bool {
        self.next_due().is_some_and(|due| due <= self.guard.local.now_ms)
    }

    pub(super) fn announce_elements(&mut self, before: Option<i64>) {
        let after = self.next_due();
        self.guard.announce(before, after);
    }
}

/// The elements of a collection, to be changed: of an object in place, of a packed one by another value in its stead.
pub struct ElementsMut<'e, 's> {
    entry: &'e mut Occupied<'s>,
}

impl ElementsMut<'_, '_> {
    /// Changes the object, or a snapshot of it that becomes the value when another thread reads it. [`ElementsMut::changed`]
    /// follows the last change.
    ///
    /// # Errors
    /// When the store is full, or the value is no object; then nothing has changed.
    #[inline]
    pub fn change<R>(self, change: impl FnOnce(&mut dyn Object) -> R) -> Result<R, Full> {
        let entry = self.entry;
        if !entry.header.has(Header::HEAP_VALUE) {
            return Err(Full);
        }
        if !entry.is_heap_mutable() {
            let (kind, put, value) = (entry.kind(), entry.put(), entry.take_heap_value());
            let staged = entry.is_staged().then(|| entry.address());
            entry.move_to_new(kind, Payload::Heap(value), put, 0)?;
            if let Some(address) = staged {
                // The new record is the only one that holds it then, so that it changes in place.
                entry.guard.local.cold.stage.forget(address);
            }
        }
        entry.change_heap_value(|value| value.as_object_mut().map(change)).ok_or(Full)
    }

    /// Whether what is done to elements has to be told.
    #[inline]
    #[must_use]
    pub fn wants_edits(&self) -> bool {
        self.entry.guard.store.consumers.wanted() & (Consumer::Effects as u32 | Consumer::Log as u32) != 0
    }

    /// Says that the object has changed, which had this [`Occupied::next_due`] before. `edits` say what was done, in the words
    /// of its type, if that [is wanted](ElementsMut::wants_edits). `concerns`: which clients hear of it.
    pub fn changed(self, due: Option<i64>, edits: &[u8], concerns: Concerns) {
        let entry = self.entry;
        debug_assert!(entry.object().is_some(), "a value in its record changes as a whole");
        entry.announce_elements(due);
        let kind = entry.kind();
        entry.guard.say_changed(Act::Edit(kind, edits, concerns));
    }

    /// Replaces the value, whatever it was, by a packed one.
    ///
    /// # Errors
    /// When the store is full; then nothing has changed.
    #[inline]
    pub fn replace(self, kind: Kind, packed: &[u8], put: Put, told: Told<'_>) -> Result<(), Full> {
        debug_assert!(self.entry.guard.fits_inline(packed.len()), "a packed collection is in its record");
        let due = self.entry.next_due();
        let entry = self.entry;
        let told = if entry.tells_whole(packed.len(), told) { Told::Whole } else { told };
        entry.replace_bytes(kind, packed, put)?;
        entry.say_told(kind, told);
        entry.announce_elements(due);
        Ok(())
    }

    /// Replaces the value, whatever it was, by an object, which is not copied.
    ///
    /// # Errors
    /// When the store is full; then nothing has changed.
    pub fn replace_shared(self, kind: Kind, object: SharedValue, put: Put, told: Told<'_>) -> Result<(), Full> {
        let due = self.entry.next_due();
        let entry = self.entry;
        entry.guard.count_heap(&object);
        entry.move_to_new(kind, Payload::Heap(object), put, 0)?;
        entry.say_told(kind, told);
        entry.announce_elements(due);
        Ok(())
    }
}

impl Occupied<'_> {
    /// Whether a change of the elements, which becomes a packed value of `len` bytes, is told by that.
    #[inline]
    fn tells_whole(&self, len: usize, told: Told<'_>) -> bool {
        let Some(elements) = told.len() else { return true };
        let was_cold = || self.is_staged() || self.header.has(Header::CACHED);
        elements >= len || len <= TOLD_WHOLE_BYTES && was_cold()
    }

    #[inline]
    fn say_told(&mut self, kind: Kind, told: Told<'_>) {
        debug_assert_eq!(self.kind(), kind, "INV-EFFECT-1: elements are told in the words of the value's type");
        debug_assert!(
            told.len().is_none_or(|elements| elements == 0 || self.elements_mut().wants_edits()),
            "INV-EFFECT-1: what nobody wants to know is not gathered"
        );
        self.guard.say_changed(match told {
            Told::Whole => Act::Set(self.record, self.header),
            Told::Edits(edits) => Act::Edit(kind, edits, Concerns::All),
            Told::Expired(elements) => Act::Expire(kind, elements),
        });
    }
}

impl<'s> Occupied<'s> {
    /// The elements of the collection that the value is, to be changed.
    #[inline]
    pub fn elements_mut(&mut self) -> ElementsMut<'_, 's> {
        ElementsMut { entry: self }
    }

    /// Removes elements that are due at `now`, a bounded number of them. What is left is filed anew; a value without elements goes.
    #[cold]
    fn expire_elements(mut self) -> Slot<'s> {
        let now = self.guard.local.now_ms.max(0) as u64;
        let mut expired = Vec::new();
        let left = match self.object() {
            Some(_) => self.expire_in_object(now, &mut expired),
            None => self.expire_packed(now, &mut expired),
        };
        if self.guard.store.tells_events()
            && let Ok(left) = left
            && !expired.is_empty()
        {
            let event = Event::ElementsExpired { kind: self.kind(), elements: &expired, emptied: left == 0 };
            let Guard { store, local, key, .. } = &mut self.guard;
            store.note_event(local, key.namespace, key.bytes, event);
        }
        match left {
            Ok(0) => {
                let mut vacant = self.unlink();
                vacant.guard.say_changed(Act::Remove);
                // No client has asked for it.
                vacant.guard.count_changes(-1);
                Slot::Vacant(vacant)
            }
            // Without room elements stay until there is some; readers pass them over.
            Err(Full) => Slot::Occupied(self),
            Ok(_) => {
                self.guard.count_changes(-1);
                let due = self.next_due();
                self.guard.announce(None, due);
                Slot::Occupied(self)
            }
        }
    }

    /// Returns how many elements are left. Those that go are appended to `expired` if a consumer wants them.
    fn expire_in_object(&mut self, now: u64, expired: &mut Vec<u8>) -> Result<usize, Full> {
        let wanted = self.elements_mut().wants_edits() || self.guard.store.tells_events();
        let left = self.elements_mut().change(|object| {
            // What is not in memory is met again by the next notice.
            let _ = object.expire(now, ELEMENTS_PER_STEP, &mut |element| {
                if wanted {
                    push_element(expired, element);
                }
            });
            object.elements()
        })?;
        if left != 0 {
            let kind = self.kind();
            self.guard.say_changed(Act::Expire(kind, expired));
        }
        Ok(left)
    }

    /// Returns how many elements of a packed collection are left, and appends those that go to `expired` if a consumer wants them.
    fn expire_packed(&mut self, now: u64, expired: &mut Vec<u8>) -> Result<usize, Full> {
        let Some(types) = &self.guard.store.options.types else { return Err(Full) };
        let mut packed = Vec::with_capacity(self.value().len());
        let wanted = self.elements_mut().wants_edits() || self.guard.store.tells_events();
        let left = types.expire(self.kind(), self.value(), now, &mut packed, &mut |element| {
            if wanted {
                push_element(expired, element);
            }
        });
        if left != 0 {
            let (kind, put) = (self.kind(), self.put());
            let told = if self.elements_mut().wants_edits() { Told::Expired(expired) } else { Told::Whole };
            self.elements_mut().replace(kind, &packed, put, told)?;
        }
        Ok(left)
    }
}

impl Slot<'_> {
    /// Removes the elements of a collection that are past their time, a bounded number of them.
    #[inline]
    #[must_use]
    pub fn expire_elements(self) -> Self {
        match self {
            Self::Occupied(entry) if entry.kind() != Kind::String && entry.is_due() => entry.expire_elements(),
            slot => slot,
        }
    }
}
