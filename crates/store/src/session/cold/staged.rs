//! The cold side of a batch: the staged records, and the look-ups that missed one.

use crate::index::Position;
use crate::record::key::Key;
use crate::record::{Header, Record};
use crate::session::thread_state::ThreadState;
use crate::shared::Shared;
use crate::tier::read::stage::{Lookup, Stage};
use almandine_base::object::Missing;
use std::cell::RefCell;

/// What a session knows of the batch's cold records.
#[derive(Default)]
pub(crate) struct ColdSide {
    pub(in crate::session) stage: Stage,
    /// Addresses of records that look-ups and probes needed and did not have.
    pub(in crate::session) wanted: RefCell<Vec<u64>>,
}

/// Cold entries that may be a key's, and whose records could not be compared with it.
#[derive(Default)]
pub(in crate::session) struct Unknown {
    /// The address of one that is not staged; 0: none.
    absent: u64,
    failed: bool,
    damaged: bool,
}

impl Unknown {
    #[inline]
    pub(in crate::session) fn is_empty(&self) -> bool {
        self.absent == 0 && !self.failed && !self.damaged
    }

    /// Whether all of them are lost: waiting or reading again does not help.
    pub(in crate::session) fn is_lost(&self) -> bool {
        self.damaged && self.absent == 0 && !self.failed
    }
}

impl ColdSide {
    /// The staged record of a cold entry, if it is the key's. An entry that cannot be compared goes to `unknown`.
    #[cold]
    pub(in crate::session) fn match_staged(
        &self,
        store: &Shared,
        address: u64,
        key: &Key<'_>,
        unknown: &mut Unknown,
    ) -> Option<(Record, Header)> {
        debug_assert_ne!(address, 0, "INV-LOG-1: no record is at address 0, which stands for none that is absent");
        match self.stage.get(address) {
            Lookup::Ready(record, header) => return store.matches_key(record, header, key).then_some((record, header)),
            Lookup::Absent => unknown.absent = address,
            Lookup::Failed => unknown.failed = true,
            Lookup::Damaged => unknown.damaged = true,
        }
        None
    }

    /// Whether a key of which no record was found has none. An entry that could not be compared with it is noted as wanted.
    #[inline]
    pub(in crate::session) fn absence(&self, unknown: &Unknown) -> Result<(), Missing> {
        if unknown.is_empty() { Ok(()) } else { Err(self.miss(unknown)) }
    }

    #[cold]
    pub(in crate::session) fn miss(&self, unknown: &Unknown) -> Missing {
        debug_assert!(!unknown.is_empty(), "INV-TIER-2: a key without an entry that may be its own is absent");
        if unknown.absent == 0 {
            return Missing::Unreadable;
        }
        self.wanted.borrow_mut().push(unknown.absent);
        Missing::Cold
    }

    /// Whether the record of a cold entry is lost.
    pub(in crate::session) fn is_damaged(&self, address: u64) -> bool {
        matches!(self.stage.get(address), Lookup::Damaged)
    }
}

/// A record with the entry that points to it.
pub(in crate::session) type Entered<'s> = (Position<'s>, (Record, Header));

/// The record of a key in its latched bucket, in memory or staged, and the entries that could not be compared with the key.
#[inline]
pub(in crate::session) fn find_latched<'s>(
    store: &'s Shared,
    local: &ThreadState,
    number: u64,
    key: &Key<'_>,
) -> (Option<Entered<'s>>, Unknown) {
    debug_assert!(store.index.bucket(number).is_latched(), "INV-LATCH-1: an entry is looked up under its latch");
    let mut unknown = Unknown::default();
    let found = store.index.find_latched(number, key.hash, |address| {
        if address < local.head {
            return local.cold.match_staged(store, address, key, &mut unknown);
        }
        store.match_record(address, key)
    });
    (found, unknown)
}
