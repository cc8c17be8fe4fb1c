//! A set that grows from nothing: packed as long as it can be.

use almandine_base::object::{Missing, Object};

use crate::hashed::Placement;
use crate::set::{PackedSet, SetEncoding, SetLimits};

use super::source::Source;
use crate::set::object::SetObject;

/// A set that is no key's yet.
#[derive(Clone, Debug)]
pub struct Builder {
    packed: Vec<u8>,
    /// Once it is too large to be packed.
    object: Option<Box<SetObject>>,
    placement: Placement,
    limits: SetLimits,
}

impl Builder {
    /// Bytes of memory that it takes.
    #[must_use]
    pub fn memory(&self) -> usize {
        self.packed.capacity() + self.object.as_ref().map_or(0, |object| object.memory())
    }

    /// An empty set. Its encoding will be that of a set that was given one member after the other.
    #[must_use]
    pub fn new(placement: Placement, limits: SetLimits) -> Self {
        Self { packed: Vec::new(), object: None, placement, limits }
    }

    /// Whether a set of `len` members has the encoding of large sets, whatever they are.
    pub(in crate::set) fn is_table(&self, len: usize) -> bool {
        len > self.limits.integers.max(self.limits.entries)
    }

    /// Begins with all members of a large set, in constant time. Of less than [`Builder::is_table`] asks for none may be removed.
    pub(in crate::set) fn begin_with(&mut self, set: &SetObject) {
        let mut object = set.clone();
        object.set_encoding(SetEncoding::HashTable);
        self.object = Some(Box::new(object));
    }

    /// The set as it is.
    #[must_use]
    pub fn as_source(&self) -> Source<'_> {
        match &self.object {
            Some(object) => Source::Object(object),
            None => Source::Packed(PackedSet::new(&self.packed)),
        }
    }

    /// How many members there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.as_source().len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Adds a member. Says whether it is new.
    ///
    /// # Errors
    /// [`Missing`]: a part of the large set that it began with is not in memory.
    pub fn add(&mut self, member: &[u8]) -> Result<bool, Missing> {
        let Self { packed, object, placement, limits } = self;
        if object.is_none() {
            match PackedSet::add(packed, member) {
                Ok(false) => return Ok(false),
                Ok(true) => {
                    let set = PackedSet::new(packed);
                    let encoding = set.encoding().after(member, set.len(), *limits);
                    PackedSet::set_encoding(packed, encoding);
                    return Ok(true);
                }
                Err(_) => *object = Some(Box::new(SetObject::from_packed(&PackedSet::new(packed), *placement))),
            }
        }
        let Some(object) = object else { return Ok(false) };
        let is_new = object.add(member)?;
        if is_new && object.encoding() != SetEncoding::HashTable {
            object.set_encoding(object.encoding().after(member, object.len(), *limits));
        }
        Ok(is_new)
    }

    /// Removes a member of what [`Builder::begin_with`] gave.
    pub(in crate::set) fn remove(&mut self, member: &[u8]) -> Result<bool, Missing> {
        self.object.as_mut().map_or(Ok(false), |object| object.remove(member))
    }

    /// Takes the set out: packed bytes, unless there is an object.
    #[must_use]
    pub fn take(&mut self) -> (Vec<u8>, Option<Box<SetObject>>) {
        (std::mem::take(&mut self.packed), self.object.take())
    }
}
