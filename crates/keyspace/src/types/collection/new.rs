//! A value made by itself, which becomes that of a key whatever that was.

use almandine_base::object::Object;
use almandine_datatypes::hash::Placement;
use almandine_store::{Put, Told};

use super::draft::store;
use super::{Collection, Contents, Editable};
use crate::{Key, Refusal, Writer};

/// A value that no key has yet. Each type adds how it is filled.
pub struct New<C: Collection> {
    packed: Vec<u8>,
    /// Once it is too large to be packed.
    object: Option<Box<C::Object>>,
    pub(in crate::types) placement: Placement,
    pub(in crate::types) limits: C::Limits,
}

impl Writer<'_> {
    /// An empty value, to be filled and then put to a key.
    #[must_use]
    pub fn new_value<C: Collection>(&self, limits: impl Into<C::Limits>) -> New<C> {
        let placement = self.accessor.keyspace.types.placement;
        New { packed: Vec::new(), object: None, placement, limits: limits.into() }
    }

    /// Sets a key to a value, whatever it was. The value has an element, unless it is a stream.
    ///
    /// # Errors
    /// When the store is full, or what the key had is not at hand; then nothing has changed.
    pub fn put_value<C: Collection>(&mut self, key: Key<'_>, new: New<C>, put: Put) -> Result<(), Refusal> {
        debug_assert!(!C::EMPTY_IS_ABSENT || !new.is_empty(), "a value without elements is no key");
        let key = self.current(key);
        let slot = self.accessor.session.entry_to_replace(key)?;
        Ok(store::<C>(slot, &new.packed, new.object, new.placement, put, Told::Whole)?)
    }
}

impl<C: Collection> New<C> {
    /// Takes the place of what was there: packed bytes, unless there is an object.
    pub(in crate::types) fn replace(&mut self, packed: Vec<u8>, object: Option<Box<C::Object>>) {
        (self.packed, self.object) = (packed, object);
    }

    /// How many elements there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.contents().elements()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes of memory that it takes.
    #[must_use]
    pub fn memory(&self) -> usize {
        self.packed.capacity() + self.object.as_ref().map_or(0, |object| object.memory())
    }
}

impl<C: Collection> Editable<C> for New<C> {
    fn contents(&self) -> Contents<'_, C> {
        match self.object.as_deref() {
            Some(object) => Contents::Object(object),
            None => Contents::Packed(C::packed(&self.packed)),
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
