//! A hash as it was at one time, to be read without a latch.

use std::sync::Arc;

use almandine_base::object::Object;
use almandine_datatypes::packed::Entry;
use almandine_store::{Kind, SharedValue};

use super::{as_hash, is_live};
use crate::{Key, Keyspace, Reader, Refusal};

/// Bytes of an object from which on it is worth a snapshot: a reply of about so many is made while it is sent.
const LARGE_BYTES: usize = 256 << 10;

pub(super) fn is_large(object: &dyn Object) -> bool {
    object.memory() >= LARGE_BYTES
}

/// A large hash as it was at one time. It holds memory, and nobody up.
pub struct HashSnapshot {
    /// Taken out when it is dropped.
    value: Option<SharedValue>,
    keyspace: Arc<Keyspace>,
    now: u64,
    len: usize,
}

impl HashSnapshot {
    /// How many fields there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Visits fields from the place `from` on, as long as `visit` says so. Returns the place to go on at; None at the end.
    ///
    /// # Errors
    /// When a part of the hash is not in memory.
    pub fn visit_from(&self, from: usize, mut visit: impl FnMut(Entry<'_>) -> bool) -> Result<Option<usize>, Refusal> {
        let Some(object) = self.value.as_ref().and_then(|value| value.as_object()).and_then(as_hash) else { return Ok(None) };
        for (place, entry) in (from..).zip(object.iter_from(from)) {
            let entry = entry?;
            if is_live(&entry, self.now) && !visit(entry) {
                return Ok(Some(place + 1));
            }
        }
        Ok(None)
    }
}

impl Drop for HashSnapshot {
    fn drop(&mut self) {
        if let Some(value) = self.value.take() {
            self.keyspace.store.release(value);
        }
    }
}

impl Reader<'_> {
    /// A snapshot of a key that is a large hash; None: it is not there, small or of another type.
    pub fn large_hash(&mut self, key: Key<'_>) -> Option<HashSnapshot> {
        let key = self.current(key);
        let now = self.now_ms().max(0) as u64;
        let seen = self.accessor.session.read(key, |view| {
            let is_large = view.kind() == Kind::Hash && view.object().is_some_and(is_large);
            if is_large { view.shared() } else { None }
        });
        let value = seen.flatten()?;
        let object = value.as_object().and_then(as_hash)?;
        let due = object.next_due();
        // What is past its time and still there is rare; then the promised number takes a walk.
        let len = if due.is_some_and(|due| due <= now) {
            object.iter().filter(|entry| entry.as_ref().is_ok_and(|entry| is_live(entry, now))).count()
        } else {
            object.len()
        };
        Some(HashSnapshot { value: Some(value), keyspace: Arc::clone(&self.accessor.keyspace), now, len })
    }
}
