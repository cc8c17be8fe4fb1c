//! A collection to be read: in place, or a snapshot of it.

use std::sync::Arc;

use almandine_base::object::Object;
use almandine_store::SharedValue;

use super::{Collection, Contents, downcast};
use crate::{Accessor, Key, Keyspace, Missing, Reader, Refusal};

/// Bytes of an object from which on a look at all of it is one at a snapshot, without the latch.
const SNAPSHOT_BYTES: usize = 16 << 10;

/// Bytes of an object from which on it is worth a snapshot of its own: a reply of about as many is made while it is sent.
const LARGE_BYTES: usize = 256 << 10;

pub(in crate::types) fn is_large(object: &dyn Object) -> bool {
    object.memory() >= LARGE_BYTES
}

/// Whether `count` of an object's elements take as much.
pub(in crate::types) fn is_large_part(object: &dyn Object, count: usize) -> bool {
    is_large(object) && object.memory() / object.elements().max(1) * count >= LARGE_BYTES
}

/// How much of a value is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Extent {
    /// Some of its elements.
    Part,
    /// All of it. Of a large one this is a snapshot, so that writers need not wait.
    Whole,
}

/// How a look at a value found it.
enum Seen<R> {
    /// In place, and looked at.
    Done(R),
    /// Its bytes are in the scratch buffer.
    Copied,
    /// It is to be looked at without the latch.
    Shared(SharedValue),
}

impl Reader<'_> {
    /// Opens a key as a type for a look at some of its elements. None: there is no such key.
    ///
    /// # Errors
    /// When it is of another type, or what `look` needs is not in memory.
    #[inline]
    pub fn read_as<C: Collection, R>(
        &mut self,
        key: Key<'_>,
        look: impl FnOnce(&C::View<'_>) -> Result<R, Refusal>,
    ) -> Result<Option<R>, Refusal> {
        self.look_at::<C, R>(key, Extent::Part, |contents, now| look(&C::view(contents, now)))
    }

    /// Opens a key as a type for a look at all of it: of a large one, at a snapshot, so that writers need not wait. None: there is
    /// no such key.
    ///
    /// # Errors
    /// When it is of another type, or what `look` needs is not in memory.
    pub fn read_whole_as<C: Collection, R>(
        &mut self,
        key: Key<'_>,
        look: impl FnOnce(&C::View<'_>) -> Result<R, Refusal>,
    ) -> Result<Option<R>, Refusal> {
        self.look_at::<C, R>(key, Extent::Whole, |contents, now| look(&C::view(contents, now)))
    }

    /// Opens a key as a collection and looks at it at the time that is told. None: there is no such key.
    ///
    /// # Errors
    /// When it is of another type, or what `look` needs is not in memory.
    #[inline]
    fn look_at<C: Collection, R>(
        &mut self,
        key: Key<'_>,
        extent: Extent,
        look: impl FnOnce(Contents<'_, C>, u64) -> Result<R, Refusal>,
    ) -> Result<Option<R>, Refusal> {
        let key = self.current(key);
        let now = self.now_ms().max(0) as u64;
        let Accessor { session, scratch, .. } = &mut *self.accessor;
        let mut look = Some(look);
        let seen = session.read(key, |view| {
            if view.kind() != C::KIND {
                return Err(Refusal::WrongKind);
            }
            let body = match (view.object(), view.long_bytes()) {
                (Some(object), _) if extent == Extent::Whole && object.memory() > SNAPSHOT_BYTES => {
                    return Ok(view.shared().map_or(Seen::Copied, Seen::Shared));
                }
                (Some(object), _) => downcast::<C>(object).map(Contents::Object),
                (None, bytes) => bytes.map(|bytes| Contents::Packed(C::packed(bytes))),
            };
            let Some(body) = body else {
                scratch.clear();
                view.append_to(scratch);
                return Ok(Seen::Copied);
            };
            // The store visits such a value once.
            debug_assert!(look.is_some(), "what is read in place is read once");
            look.take().map_or(Ok(Seen::Copied), |look| unless_expired(body, now, look).map(Seen::Done))
        });
        match seen?.transpose()? {
            None => {
                self.accessor.session.notes().remove_met_expired(key);
                Ok(None)
            }
            Some(Seen::Done(result)) => Ok(result),
            Some(Seen::Copied) => {
                let body = Contents::Packed(C::packed(&self.accessor.scratch));
                look.map_or(Ok(None), |look| unless_expired(body, now, look))
            }
            Some(Seen::Shared(value)) => {
                let object = value.as_object().and_then(downcast::<C>).zip(look);
                let result = object.map_or(Ok(None), |(object, look)| unless_expired(Contents::Object(object), now, look));
                self.accessor.keyspace.store.release(value);
                result
            }
        }
    }

    /// A snapshot of a key that is a large value of a type; None: it is not there, small or of another type.
    ///
    /// # Errors
    /// When it is not in memory.
    pub fn snapshot_as<C: Collection>(&mut self, key: Key<'_>) -> Result<Option<Snapshot<C>>, Missing> {
        let key = self.current(key);
        let now = self.now_ms().max(0) as u64;
        let seen = self.accessor.session.read(key, |view| {
            let is_large = view.kind() == C::KIND && view.object().is_some_and(is_large);
            if is_large { view.shared() } else { None }
        });
        let snapshot = |value| Snapshot {
            value: Some(value),
            keyspace: Arc::clone(&self.accessor.keyspace),
            now,
            of: std::marker::PhantomData,
        };
        Ok(seen?.flatten().map(snapshot))
    }
}

#[inline]
fn unless_expired<C: Collection, R>(
    body: Contents<'_, C>,
    now: u64,
    look: impl FnOnce(Contents<'_, C>, u64) -> Result<R, Refusal>,
) -> Result<Option<R>, Refusal> {
    if C::is_expired(body, now) {
        return Ok(None);
    }
    look(body, now).map(Some)
}

/// A large value as it was at one time, to be read without a latch. It holds memory, and holds no writer up.
pub struct Snapshot<C> {
    /// Taken out when it is dropped.
    value: Option<SharedValue>,
    keyspace: Arc<Keyspace>,
    now: u64,
    of: std::marker::PhantomData<fn() -> C>,
}

impl<C: Collection> Snapshot<C> {
    /// The value; None for one of another type, which there is none of.
    #[must_use]
    pub fn object(&self) -> Option<&C::Object> {
        self.value.as_ref()?.as_object().and_then(downcast::<C>)
    }

    /// When the snapshot was taken, in milliseconds since the Unix epoch.
    #[must_use]
    pub fn now(&self) -> u64 {
        self.now
    }

    /// The value to be read.
    #[must_use]
    pub fn view(&self) -> Option<C::View<'_>> {
        self.object().map(|object| C::view(Contents::Object(object), self.now))
    }

    /// How many elements there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.object().map_or(0, |object| C::live_len(object, self.now))
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl<C> Drop for Snapshot<C> {
    fn drop(&mut self) {
        if let Some(value) = self.value.take() {
            self.keyspace.store.release(value);
        }
    }
}

/// Visits elements, the first of which has the place `from`, as long as `visit` says so. Returns the place to go on at; None at the
/// end.
///
/// # Errors
/// Those of the elements.
pub(in crate::types) fn visit_while<T, E>(
    from: usize,
    elements: impl Iterator<Item = Result<T, E>>,
    mut visit: impl FnMut(T) -> bool,
) -> Result<Option<usize>, Refusal>
where
    Refusal: From<E>,
{
    for (place, element) in (from..).zip(elements) {
        if !visit(element?) {
            return Ok(Some(place + 1));
        }
    }
    Ok(None)
}
