//! Values as handlers get them.

use almandine_store::{Kind, Put, SharedValue};
use bytes::Bytes;
use std::ops::Deref;

/// A value that was read: a copy, or a reference to a large string. Either way it does not change any more.
pub struct Value<'v> {
    pub(crate) bytes: Held<'v>,
    pub(crate) kind: Kind,
    pub(crate) put: Put,
}

pub(crate) enum Held<'v> {
    Copied(&'v [u8]),
    Shared(SharedValue),
}

impl Deref for Value<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match &self.bytes {
            Held::Copied(bytes) => bytes,
            Held::Shared(value) => value.as_ref().as_ref(),
        }
    }
}

impl Value<'_> {
    /// What the value is.
    #[must_use]
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// When it expires, in milliseconds since the Unix epoch.
    #[must_use]
    pub fn expiry_ms(&self) -> Option<i64> {
        self.put.expiry_ms
    }

    /// Whether it was built or changed in part (APPEND, SETRANGE, BITOP) rather than set as a whole.
    #[must_use]
    pub fn is_edited(&self) -> bool {
        self.put.edited
    }

    /// Its entity tag.
    #[must_use]
    pub fn etag(&self) -> Option<u64> {
        self.put.etag
    }

    /// A large value to be sent without a copy; `None` for small ones.
    #[must_use]
    pub fn shared(&self) -> Option<Bytes> {
        match &self.bytes {
            Held::Copied(_) => None,
            Held::Shared(value) => Some(to_bytes(value)),
        }
    }
}

/// The bytes of a large value as a counted slice.
pub(crate) fn to_bytes(value: &SharedValue) -> Bytes {
    Bytes::from_owner(Arced(value.clone()))
}

struct Arced(SharedValue);

impl AsRef<[u8]> for Arced {
    fn as_ref(&self) -> &[u8] {
        self.0.as_ref().as_ref()
    }
}

/// A value detached from the store, on its way to another key.
pub struct Owned {
    /// What the value is.
    pub kind: Kind,
    /// Expiry, entity tag and history.
    pub put: Put,
    pub(crate) bytes: OwnedBytes,
}

pub(crate) enum OwnedBytes {
    Inline(Vec<u8>),
    Shared(SharedValue),
}

impl Owned {
    /// The value.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        match &self.bytes {
            OwnedBytes::Inline(bytes) => bytes,
            OwnedBytes::Shared(value) => value.as_ref().as_ref(),
        }
    }
}
