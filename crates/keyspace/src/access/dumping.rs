//! Copying all keys beside writers, each as it is when the walk meets it: the base of an operation log, which the log's effects
//! complete.

use almandine_store::{Body, Kind, Put, Records, Walk};

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
