//! The cold side of a batch: the staged records, and the look-ups that missed one.

use crate::record::key::Key;
use crate::record::{Header, Record};
use crate::shared::Shared;
use crate::tier::read::stage::{Lookup, Stage};
use std::cell::{Cell, RefCell};

/// What a session knows of the batch's cold records.
#[derive(Default)]
pub(crate) struct ColdSide {
    pub(in crate::session) stage: Stage,
    /// Addresses that look-ups needed and did not have.
    pub(in crate::session) met: RefCell<Vec<u64>>,
    /// A look-up needed a record that the device could not give.
    pub(in crate::session) failed: Cell<bool>,
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

    /// Notes that a look-up found nothing that it could compare, so that what is answered to it is void.
    #[cold]
    pub(in crate::session) fn miss(&self, unknown: &Unknown) {
        debug_assert!(!unknown.is_empty());
        if unknown.absent != 0 {
            self.met.borrow_mut().push(unknown.absent);
        } else {
            self.failed.set(true);
        }
    }

    /// Whether a look-up has missed something since the last time that the owner asked.
    pub(in crate::session) fn has_missed(&self) -> bool {
        self.failed.get() || !self.met.borrow().is_empty()
    }

    /// Whether the record of a cold entry is lost.
    pub(in crate::session) fn is_damaged(&self, address: u64) -> bool {
        matches!(self.stage.get(address), Lookup::Damaged)
    }
}
