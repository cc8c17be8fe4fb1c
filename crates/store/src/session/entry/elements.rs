//! Collections under their exclusive latch: changing an object, and the times at which elements expire.

use super::{Act, Guard, Occupied, Payload, Slot};
use crate::changes::events::Event;
use crate::changes::push_element;
use crate::full::Full;
use crate::record::heap;
use crate::record::{Header, Kind};
use crate::session::notes::Concerns;
use crate::shared::consumers::Consumer;
use almandine_base::object::Object;

/// Elements of an object that are removed under one latch.
const ELEMENTS_PER_STEP: usize = 256;

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

/// The object that a value is, to be changed.
pub struct ObjectMut<'e, 's> {
    entry: &'e mut Occupied<'s>,
}

impl ObjectMut<'_, '_> {
    /// Changes the object, or a snapshot of it that becomes the value when another thread reads it. [`ObjectMut::changed`] follows
    /// the last change.
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
    #[must_use]
    pub fn wants_edits(self) -> bool {
        debug_assert_ne!(self.entry.kind(), Kind::String, "INV-EFFECT-1: only collections are told by their elements");
        self.entry.guard.store.consumers.wanted() & Consumer::Effects as u32 != 0
    }

    /// Says that the object has changed, which had this [`Occupied::next_due`] before. `edits` say what was done, in the words
    /// of its type, if that [is wanted](ObjectMut::wants_edits). `concerns`: which clients hear of it.
    pub fn changed(self, due: Option<i64>, edits: &[u8], concerns: Concerns) {
        let entry = self.entry;
        debug_assert!(entry.object().is_some(), "a value in its record changes as a whole");
        entry.announce_elements(due);
        let kind = entry.kind();
        entry.guard.say_changed(Act::Edit(kind, edits, concerns));
    }
}

impl<'s> Occupied<'s> {
    /// The object that the value is, to be changed.
    #[inline]
    pub fn object_mut(&mut self) -> ObjectMut<'_, 's> {
        ObjectMut { entry: self }
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
        let wanted = self.object_mut().wants_edits() || self.guard.store.tells_events();
        let left = self.object_mut().change(|object| {
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
        let wanted = self.guard.store.tells_events();
        let left = types.expire(self.kind(), self.value(), now, &mut packed, &mut |element| {
            if wanted {
                push_element(expired, element);
            }
        });
        if left != 0 {
            let (kind, put) = (self.kind(), self.put());
            self.replace(kind, &packed, put)?;
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
