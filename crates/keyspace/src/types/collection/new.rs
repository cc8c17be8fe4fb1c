//! A collection made by itself, which becomes the value of a key whatever that was.

use almandine_base::object::Object;
use almandine_datatypes::hash::Placement;
use almandine_store::{Full, Put};

use super::draft::store;
use super::{Body, Collection, Editable};
use crate::{Key, Refusal, Writer};

/// A value that no key has yet.
pub(in crate::types) struct New<C: Collection> {
    packed: Vec<u8>,
    /// Once it is too large to be packed.
    object: Option<Box<C::Object>>,
    placement: Placement,
}

impl Writer<'_> {
    /// An empty value, to be filled and then put to a key.
    #[must_use]
    pub(in crate::types) fn new_collection<C: Collection>(&self) -> New<C> {
        New { packed: Vec::new(), object: None, placement: self.accessor.keyspace.types.placement }
    }

    /// Sets a key to a value, whatever it was.
    ///
    /// # Errors
    /// When the store is full; then nothing has changed.
    pub(in crate::types) fn put_new<C: Collection>(&mut self, key: Key<'_>, new: New<C>, put: Put) -> Result<(), Full> {
        debug_assert!(!C::EMPTY_IS_ABSENT || new.body().elements() > 0, "a value without elements is no key");
        let key = self.current(key);
        let slot = self.accessor.session.entry_to_replace(key);
        store::<C>(slot, &new.packed, new.object, new.placement, put)
    }
}

impl<C: Collection> New<C> {
    /// Bytes of memory that it takes.
    pub(in crate::types) fn memory(&self) -> usize {
        self.packed.capacity() + self.object.as_ref().map_or(0, |object| object.memory())
    }

    /// A value that was made elsewhere: packed bytes, unless there is an object.
    pub(in crate::types) fn of(packed: Vec<u8>, object: Option<Box<C::Object>>, placement: Placement) -> Self {
        Self { packed, object, placement }
    }
}

impl<C: Collection> Editable<C> for New<C> {
    fn body(&self) -> Body<'_, C> {
        match self.object.as_deref() {
            Some(object) => Body::Object(object),
            None => Body::Packed(C::packed(&self.packed)),
        }
    }

    fn packed_mut(&mut self) -> Option<&mut Vec<u8>> {
        self.object.is_none().then_some(&mut self.packed)
    }

    fn unpack(&mut self) {
        if self.object.is_none() {
            self.object = Some(Box::new(C::unpack(C::packed(&self.packed), self.placement)));
        }
    }

    fn change<R>(&mut self, change: impl FnOnce(&mut C::Object) -> R) -> Result<R, Refusal> {
        self.unpack();
        self.object.as_deref_mut().map(change).ok_or(Refusal::Full)
    }
}
