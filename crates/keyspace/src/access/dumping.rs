//! Copying all keys beside writers, each as it is when the walk meets it: the base of an operation log, which the log's effects
//! complete.

use almandine_store::{AdoptFault, Adoption, Body, ColdKey, DeviceBase, Fetcher, Kind, Put, Records, Walk};

use crate::{Accessor, Missing};

/// A walk through a part of all keys. It costs writers nothing; what each key has is of the moment at which it was met.
pub struct Dumping {
    walk: Walk,
    records: Records,
}

/// A key as the walk met it.
#[derive(Clone, Copy)]
pub struct DumpedKey<'d> {
    /// The contents that it belongs to: of a database from one FLUSHDB to the next ([`almandine_store::Change::generation`]).
    pub contents: u64,
    /// Its name.
    pub key: &'d [u8],
    /// The sequence of the last effect that it has: of its own, or of a neighbour that shares the counter.
    pub number: u64,
    /// Its type.
    pub kind: Kind,
    /// Its value.
    pub value: Body<'d>,
    /// What goes with the value.
    pub put: Put,
}

impl Dumping {
    /// The walk through part `part` of `parts`, a power of two up to 1,024.
    #[must_use]
    pub fn part(part: u64, parts: u64) -> Self {
        Self { walk: Walk::part(part, parts), records: Records::default() }
    }

    /// As [`Dumping::part`]; keys whose records lie on the device below an address are named ([`Dumping::cold`]), not copied.
    #[must_use]
    pub fn part_above(part: u64, parts: u64, below: u64) -> Self {
        Self { walk: Walk::part_above(part, parts, below), records: Records::default() }
    }

    /// Keys that the last step has named, whose records stay on the device.
    #[must_use]
    pub fn cold(&self) -> &[ColdKey] {
        self.records.cold()
    }

    /// How far it is, in the order of scans; 0 behind the last key of all.
    #[must_use]
    pub fn position(&self) -> u64 {
        self.walk.position()
    }

    /// Copies some more keys and visits them, outside of latches and epochs. Outside of a batch; false: that was all of the part.
    ///
    /// # Errors
    /// When a record on the device cannot be read; the next call tries again.
    pub fn next(&mut self, accessor: &mut Accessor, mut visit: impl FnMut(DumpedKey<'_>)) -> Result<bool, Missing> {
        self.records.clear();
        let walked = self.walk.next(&mut accessor.session, &mut self.records);
        for record in self.records.iter() {
            visit(DumpedKey {
                contents: record.generation,
                key: record.key,
                number: record.sequence,
                kind: record.kind,
                value: record.value,
                put: record.put,
            });
        }
        walked
    }
}

/// What a thread does with what bases name on the device.
pub struct DeviceAccess<'a> {
    accessor: &'a mut Accessor,
}

impl<'a> DeviceAccess<'a> {
    /// By this access to the keyspace.
    pub fn new(accessor: &'a mut Accessor) -> Self {
        Self { accessor }
    }

    /// Begins a base that names records on the device, if there is one: before the cut of the log that the base begins with.
    /// Outside of a batch.
    pub fn begin_base(self) -> Option<DeviceBase> {
        Some(self.accessor.keyspace.store.device()?.begin_base(&mut self.accessor.session))
    }

    /// The namespace that the records of a database have. Inside a batch.
    #[must_use]
    pub fn namespace_of(self, db: u16) -> u16 {
        self.accessor.keyspace.namespace(db)
    }

    /// Makes entries for records on the device that a base has named, as far as these databases' namespaces have them; how many.
    /// Outside of a batch.
    ///
    /// # Errors
    /// When the index is full, or a record that must be read cannot be.
    pub fn adopt(self, cold: &[ColdKey], namespaces: &[u16], fetcher: &mut Fetcher) -> Result<u64, AdoptFault> {
        self.accessor.session.enter(0);
        let mut adoption = Adoption::new(&mut self.accessor.session, namespaces);
        let mut adopt = |adopted: u64, key: &ColdKey| Ok(adopted + u64::from(adoption.adopt(key, fetcher)?));
        let adopted = cold.iter().try_fold(0, &mut adopt);
        self.accessor.session.leave();
        adopted
    }

    /// Behind all of these, outside of a batch, while nothing changes: looks at what only the records themselves tell.
    ///
    /// # Errors
    /// When a page is missing, cannot be read, or is damaged.
    pub fn survey(self, namespaces: &[u16]) -> Result<(), AdoptFault> {
        Adoption::new(&mut self.accessor.session, namespaces).survey()
    }
}
