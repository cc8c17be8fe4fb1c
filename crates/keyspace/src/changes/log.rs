//! The operation log of a keyspace, and doing its entries again.

use crate::{Accessor, Key, Keyspace, Refusal, Writer};
use almandine_base::object::Types;
use almandine_io::clock;
use almandine_oplog::{Attributes, LibraryForm, LogEntry, LogValue, Operation, Order, RingOptions, RingSource, Rings, entry};
use almandine_store::{Body, Effect, HeapValue, Kind, Put, SharedValue, StoreDevice};
use std::io;
use std::sync::Arc;

impl Keyspace {
    /// The operation log.
    #[must_use]
    pub fn log(&self) -> KeyspaceLog<'_> {
        KeyspaceLog { keyspace: self }
    }
}

/// The operation log of a keyspace.
#[derive(Clone, Copy)]
pub struct KeyspaceLog<'k> {
    keyspace: &'k Keyspace,
}

impl<'k> KeyspaceLog<'k> {
    /// Makes the rings, once, for the threads that there are and for those that come; nothing is logged before
    /// [`KeyspaceLog::turn`]. What databases hold is numbered from `first_contents` on, which no earlier run over the log has used,
    /// but for databases that [go on](KeyspaceLog::adopt) with what they held.
    ///
    /// # Errors
    /// When a ring cannot be made, or there are rings.
    pub fn install(self, options: RingOptions, first_contents: u64) -> io::Result<RingSource> {
        self.keyspace.store.operation_log().install(options, first_contents)
    }

    /// Whether units of work are logged from now on. Only with rings.
    ///
    /// # Errors
    /// `NotFound` when there are none.
    pub fn turn(self, on: bool) -> io::Result<()> {
        self.keyspace.store.operation_log().turn(on)
    }

    /// As [`KeyspaceLog::turn`], while no unit of work is under way: each is logged whole or not at all. The accessor is outside of
    /// a batch.
    ///
    /// # Errors
    /// `NotFound` when there are no rings.
    pub fn turn_alone(self, accessor: &mut Accessor, on: bool) -> io::Result<()> {
        accessor.begin_batch(clock::unix_ms());
        let turned = accessor.alone(|_| self.turn(on));
        accessor.end_batch();
        turned
    }

    /// Logs a change of the libraries of functions: the version that they have by it, and texts or names. The accessor is in a
    /// batch.
    pub fn functions(self, accessor: &mut Accessor, version: u64, form: LibraryForm, libraries: &[impl AsRef<[u8]>]) {
        let mut all = Vec::new();
        for text in libraries.iter().map(AsRef::as_ref) {
            // A text comes in a command, which is shorter.
            all.extend_from_slice(&u32::try_from(text.len()).unwrap_or(u32::MAX).to_le_bytes());
            all.extend_from_slice(text);
        }
        accessor.session.notes().log_functions(version, form, &all);
    }

    /// The rings, once they are there.
    #[must_use]
    pub fn rings(self) -> Option<Arc<Rings>> {
        self.keyspace.store.operation_log().rings()
    }

    /// Where units of work take their numbers.
    #[must_use]
    pub fn order(self) -> Arc<Order> {
        self.keyspace.store.operation_log().order()
    }

    /// What a database holds, as entries name it; while no other thread changes databases.
    #[must_use]
    pub fn contents(self, db: u16) -> u64 {
        self.keyspace.store.operation_log().contents(self.keyspace.namespace(db))
    }

    /// The device below memory, if there is one: bases name what lies there.
    #[must_use]
    pub fn device(self) -> Option<StoreDevice<'k>> {
        self.keyspace.store.device()
    }

    /// Gives databases the namespaces that their records on the device have, and returns these. While there are no keys.
    pub fn take_namespaces(self, of: &[(u16, u16)]) -> Vec<u16> {
        let Keyspace { store, namespaces, .. } = self.keyspace;
        let taken: Vec<u16> = of.iter().map(|(_, namespace)| *namespace).collect();
        store.take_namespaces(&taken);
        for &(db, namespace) in of {
            namespaces.replace(db, namespace);
        }
        let further = (0..self.keyspace.databases() as u16).filter(|db| of.iter().all(|(known, _)| known != db));
        for db in further {
            if let Ok(fresh) = store.allocate_namespace() {
                namespaces.replace(db, fresh);
            }
        }
        taken
    }

    /// Says that a database holds what an earlier run has called so. Before the log is turned on.
    pub fn adopt(self, db: u16, contents: u64) {
        self.keyspace.store.operation_log().adopt(self.keyspace.namespace(db), contents);
    }
}

impl Writer<'_> {
    /// Does to its key what an entry of the operation log says, which is not one on a database. The batch has time 0.
    ///
    /// # Errors
    /// As for [`Writer::replay`]; and when an image is damaged, or of a type that has none, as if the type were another one.
    pub fn redo(&mut self, key: Key<'_>, entry: &LogEntry<'_>) -> Result<(), Refusal> {
        let shared;
        let effect = match entry.operation {
            Operation::Set { kind, value: LogValue::Bytes(bytes), attributes, .. } => {
                Effect::Set { kind: Kind::of(kind), value: Body::Bytes(bytes), put: put(attributes) }
            }
            Operation::Set { kind, value: LogValue::Image(image), attributes, .. } => {
                shared = self.object_of(Kind::of(kind), image).ok_or(Refusal::WrongKind)?;
                Effect::Set { kind: Kind::of(kind), value: Body::Shared(&shared), put: put(attributes) }
            }
            Operation::Write { offset, bytes } => {
                Effect::Write { offset: usize::try_from(offset).map_err(|_| Refusal::WrongKind)?, bytes }
            }
            Operation::Attributes(attributes) => Effect::Put(put(attributes)),
            Operation::Remove(_) => Effect::Remove,
            Operation::Edit { kind, edits } => Effect::Edit { kind: Kind::of(kind), edits },
            Operation::Expire { kind, elements } => Effect::Expire { kind: Kind::of(kind), elements },
            Operation::Database(_) | Operation::Lost | Operation::Functions { .. } => return Err(Refusal::WrongKind),
        };
        self.replay(key, &effect)
    }

    /// The object that an image shows; none if it is no whole one.
    fn object_of(&self, kind: Kind, image: &[u8]) -> Option<SharedValue> {
        let mut object = self.accessor.keyspace.types.empty(kind)?;
        let mut is_whole = false;
        for part in entry::parts(image) {
            if is_whole {
                return None;
            }
            is_whole = object.read_part(part?).ok()?;
        }
        is_whole.then(|| SharedValue::new(HeapValue::object(object)))
    }
}

fn put(attributes: Attributes) -> Put {
    let Attributes { expiry_ms, etag, edited } = attributes;
    Put { expiry_ms, etag, edited }
}
