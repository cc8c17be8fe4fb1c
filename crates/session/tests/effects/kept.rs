//! Effects that outlive their notes.

use almandine_keyspace::{Body, Change, Effect, Kind, Put, SharedValue};

/// An effect that outlives its note.
#[derive(Clone)]
pub(crate) struct Kept {
    pub(crate) generation: u64,
    pub(crate) key: Vec<u8>,
    pub(crate) sequence: u64,
    pub(crate) ends_group: bool,
    pub(crate) effect: Owned,
}

#[derive(Clone)]
pub(crate) enum Owned {
    Set(Kind, OwnedBody, Put),
    Write(usize, Vec<u8>),
    Put(Put),
    Remove,
    Edit(Kind, Vec<u8>),
    Expire(Kind, Vec<u8>),
    Database(u16),
    Lost,
}

#[derive(Clone)]
pub(crate) enum OwnedBody {
    Bytes(Vec<u8>),
    Shared(SharedValue),
}

impl Kept {
    pub(crate) fn of(change: &Change<'_>) -> Self {
        let effect = match change.effect.expect("effects are wanted") {
            Effect::Set { kind, value: Body::Bytes(bytes), put } => Owned::Set(kind, OwnedBody::Bytes(bytes.to_vec()), put),
            Effect::Set { kind, value: Body::Shared(value), put } => Owned::Set(kind, OwnedBody::Shared(value.clone()), put),
            Effect::Write { offset, bytes } => Owned::Write(offset, bytes.to_vec()),
            Effect::Put(put) => Owned::Put(put),
            Effect::Remove => Owned::Remove,
            Effect::Edit { kind, edits } => Owned::Edit(kind, edits.to_vec()),
            Effect::Expire { kind, elements } => Owned::Expire(kind, elements.to_vec()),
            Effect::Database(db) => Owned::Database(db),
            Effect::Lost => Owned::Lost,
        };
        let Change { generation, key, sequence, ends_group, .. } = *change;
        Self { generation, key: key.to_vec(), sequence, ends_group, effect }
    }

    pub(crate) fn effect(&self) -> Effect<'_> {
        match &self.effect {
            Owned::Set(kind, OwnedBody::Bytes(bytes), put) => Effect::Set { kind: *kind, value: Body::Bytes(bytes), put: *put },
            Owned::Set(kind, OwnedBody::Shared(value), put) => Effect::Set { kind: *kind, value: Body::Shared(value), put: *put },
            Owned::Write(offset, bytes) => Effect::Write { offset: *offset, bytes },
            Owned::Put(put) => Effect::Put(*put),
            Owned::Remove => Effect::Remove,
            Owned::Edit(kind, edits) => Effect::Edit { kind: *kind, edits },
            Owned::Expire(kind, elements) => Effect::Expire { kind: *kind, elements },
            Owned::Database(db) => Effect::Database(*db),
            Owned::Lost => Effect::Lost,
        }
    }
}
