//! Effects: what was done to keys, for consumers that do it again: an operation log, a replica, a copy that is made while clients
//! write.
//!
//! Effects come from the verbs of the waist, so no command can change a key without one. Each names one key and needs nothing
//! but that key's value before it (INV-EFFECT-1). The effects of one key are in the order of their sequences over all
//! sessions; those of a unit of work are together, and its last one ends the group. A key belongs to a *generation*, which is
//! what a database held from one FLUSHDB to the next; FLUSHDB, FLUSHALL and SWAPDB give databases other generations, which is an
//! effect without a key.
//!
//! Replaying knows no time: what expires is gone when its own effect says so. So it takes place in batches of time 0.

use crate::changes::feed::{ChangeFeed, Listeners};
use crate::{Key, Refusal, Writer};
use almandine_store::{Body, Change, Changes, Consumer, Effect, HeapValue, Kind, Put, SharedValue, Slot};
use std::sync::Arc;

impl Listeners<'_> {
    /// Installs a listener for the effects that no accessor takes ([`ChangeFeed::drain_effects`]), called when a batch has ended.
    /// Those of a unit of work come together. A second call changes nothing.
    pub fn on_effects(self, listener: impl Fn(&Changes) + Send + Sync + 'static) {
        let _ = self.keyspace.listeners.effects.set(Box::new(listener));
    }

    /// Whether effects are noted from now on: each on a key that is latched from now on.
    pub fn note_effects(self, note: bool) {
        self.keyspace.store.listeners().tell_changes(Consumer::Effects, note);
    }
}

impl ChangeFeed<'_> {
    /// Takes the effects of the units of work that have ended, and of removals; between two units, behind
    /// [`ChangeFeed::drain`].
    pub fn drain_effects(&mut self, each: impl FnMut(Change<'_>)) {
        debug_assert!(!self.accessor.in_unit(), "the effects of a unit come together");
        self.accessor.session.notes().drain_effects(each);
    }

    /// The generation of keys that a database has.
    #[must_use]
    pub fn generation(&mut self, db: u16) -> u64 {
        self.accessor.session.notes().generation(self.accessor.keyspace.namespace(db))
    }
}

impl Writer<'_> {
    /// Does to a key what an effect says, which is not one on a database. The batch has time 0.
    ///
    /// # Errors
    /// When the store is full, or the key must be read from the device first; then nothing has changed. When the key has another
    /// type than the effect, which is not the one that follows then.
    pub fn replay(&mut self, key: Key<'_>, effect: &Effect<'_>) -> Result<(), Refusal> {
        debug_assert_eq!(self.now_ms(), 0, "INV-EFFECT-1: replaying knows no time");
        match *effect {
            Effect::Set { kind, value, put } => self.replay_set(key, kind, value, put)?,
            Effect::Write { offset, bytes } => match self.modify(key)? {
                Slot::Occupied(entry) if entry.kind() != Kind::String => return Err(Refusal::WrongKind),
                Slot::Occupied(mut entry) => entry.write_at(offset, bytes)?,
                Slot::Vacant(entry) => entry.insert_at(Kind::String, offset, bytes, Put::EDITED)?,
            },
            Effect::Put(put) => {
                if let Slot::Occupied(mut entry) = self.modify(key)? {
                    entry.set_put(put)?;
                }
            }
            Effect::Remove => {
                self.delete(key)?;
            }
            Effect::Edit { kind, edits } => self.replay_edits(key, kind, edits)?,
            Effect::Expire { kind, elements } => self.replay_expiry(key, kind, elements)?,
            Effect::Database(_) | Effect::Lost => return Err(Refusal::WrongKind),
        }
        Ok(())
    }

    fn replay_set(&mut self, key: Key<'_>, kind: Kind, value: Body<'_>, put: Put) -> Result<(), Refusal> {
        let object = match value {
            Body::Bytes(_) => None,
            Body::Shared(value) => value.as_object().map(|object| SharedValue::new(HeapValue::object(object.snapshot()))),
        };
        let bytes = match value {
            Body::Bytes(bytes) => bytes,
            Body::Shared(value) => Arc::as_ref(value).as_ref(),
        };
        match (self.modify_to_replace(key)?, object) {
            (Slot::Occupied(mut entry), None) => entry.replace(kind, bytes, put)?,
            (Slot::Occupied(mut entry), Some(object)) => entry.replace_shared(kind, object, put)?,
            (Slot::Vacant(entry), None) => entry.insert(kind, bytes, put)?,
            (Slot::Vacant(entry), Some(object)) => entry.insert_shared(kind, object, put)?,
        }
        Ok(())
    }
}
