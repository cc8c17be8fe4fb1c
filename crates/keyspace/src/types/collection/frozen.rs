//! A value as it was at one time, of any type: what a computation works on that takes longer than a latch may be held.

use std::sync::Arc;

use almandine_base::step;
use almandine_store::{Body, Kind, SharedValue};

use super::{Collection, Contents, downcast};
use crate::{Accessor, Key, Keyspace, Missing, Reader, Refusal};

/// The value of a key as it was at one time, or that there was none. It holds memory, and holds no writer up.
pub struct Frozen {
    value: Option<(Kind, Held)>,
    keyspace: Arc<Keyspace>,
    now: u64,
}

/// A value as it is stored, of any type.
#[derive(Clone, Copy)]
pub struct Stored<'v> {
    /// Its type.
    pub kind: Kind,
    /// The bytes of a string or of a packed collection; or a large string or an object.
    pub body: Body<'v>,
    /// When it is looked at, in milliseconds since the Unix epoch: elements that have expired by then are absent.
    pub now: u64,
}

impl<'v> Stored<'v> {
    /// The bytes of a string.
    ///
    /// # Errors
    /// When it is of another type.
    pub fn string(self) -> Result<&'v [u8], Refusal> {
        match self.body {
            _ if self.kind != Kind::String => Err(Refusal::WrongKind),
            Body::Bytes(bytes) => Ok(bytes),
            Body::Shared(value) => Ok(value.as_ref().as_ref()),
        }
    }

    /// A collection. None: there is nothing of it but elements past their time.
    ///
    /// # Errors
    /// When it is of another type.
    pub fn collection<C: Collection>(self) -> Result<Option<C::View<'v>>, Refusal> {
        let contents = match self.body {
            _ if self.kind != C::KIND => return Err(Refusal::WrongKind),
            Body::Bytes(bytes) => Some(Contents::Packed(C::packed(bytes))),
            Body::Shared(value) => value.as_object().and_then(downcast::<C>).map(Contents::Object),
        };
        let live = contents.filter(|contents| !C::is_expired(*contents, self.now));
        Ok(live.map(|contents| C::view(contents, self.now)))
    }
}

enum Held {
    /// The bytes of a string or of a packed collection.
    Copied(Box<[u8]>),
    /// A large string or an object. Taken out when it is dropped.
    Shared(Option<SharedValue>),
}

impl Frozen {
    /// The bytes of a string. None: there was no key.
    ///
    /// # Errors
    /// When it is of another type.
    pub fn string(&self) -> Result<Option<&[u8]>, Refusal> {
        self.stored().map(Stored::string).transpose()
    }

    /// A collection. None: there was no key, or nothing of it but elements past their time.
    ///
    /// # Errors
    /// When it is of another type.
    pub fn collection<C: Collection>(&self) -> Result<Option<C::View<'_>>, Refusal> {
        self.stored().map_or(Ok(None), Stored::collection::<C>)
    }

    /// The value, whatever its type. None: there was no key.
    #[must_use]
    pub fn stored(&self) -> Option<Stored<'_>> {
        let (kind, held) = self.value.as_ref()?;
        let body = match held {
            Held::Copied(bytes) => Body::Bytes(bytes),
            Held::Shared(value) => Body::Shared(value.as_ref()?),
        };
        Some(Stored { kind: *kind, body, now: self.now })
    }

    /// When it was frozen, in milliseconds since the Unix epoch.
    #[must_use]
    pub fn now(&self) -> u64 {
        self.now
    }
}

impl Drop for Frozen {
    fn drop(&mut self) {
        if let Some((_, Held::Shared(value))) = &mut self.value
            && let Some(value) = value.take()
        {
            self.keyspace.store.release(value);
        }
    }
}

impl Reader<'_> {
    /// Keeps a key's value as it is now, of whatever type: a copy of a small one, a counted reference to a large one.
    ///
    /// # Errors
    /// When it is not in memory.
    pub fn freeze(&mut self, key: Key<'_>) -> Result<Frozen, Missing> {
        let key = self.current(key);
        let now = self.now_ms().max(0) as u64;
        let Accessor { session, scratch, keyspace, .. } = &mut *self.accessor;
        let value = session.read(key, |view| match view.shared() {
            Some(value) => (view.kind(), Held::Shared(Some(value))),
            None => {
                scratch.clear();
                view.append_to(scratch);
                (view.kind(), Held::Copied(scratch.as_slice().into()))
            }
        })?;
        if value.is_none() {
            session.notes().remove_met_expired(key);
        }
        Ok(Frozen { value, keyspace: Arc::clone(keyspace), now })
    }

    /// Whether a key's value is the one that was frozen. A large one that has been changed and changed back is not.
    ///
    /// # Errors
    /// When it is not in memory.
    pub fn is_still(&mut self, key: Key<'_>, frozen: &Frozen) -> Result<bool, Missing> {
        let key = self.current(key);
        let Accessor { session, scratch, .. } = &mut *self.accessor;
        let same = session.read(key, |view| match &frozen.value {
            Some((kind, _)) if *kind != view.kind() => false,
            Some((_, Held::Shared(Some(value)))) => view.shared().is_some_and(|now| Arc::ptr_eq(&now, value)),
            Some((_, Held::Copied(bytes))) => {
                scratch.clear();
                view.append_to(scratch);
                **bytes == **scratch
            }
            None | Some((_, Held::Shared(None))) => false,
        });
        Ok(step!(CompareSources, same?.unwrap_or(frozen.value.is_none()), else true))
    }
}
