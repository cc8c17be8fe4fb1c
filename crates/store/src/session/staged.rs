//! The cold side of a batch: the staged records, and the look-ups that missed one.

use crate::key::Key;
use crate::record::{Header, Record};
use crate::shared::Inner;
use crate::tier::stage::{Lookup, Stage};
use std::cell::{Cell, RefCell};

/// What a session knows of the batch's cold records.
#[derive(Default)]
pub(crate) struct ColdSide {
    pub(super) stage: Stage,
    /// Addresses that look-ups needed and did not have.
    pub(super) met: RefCell<Vec<u64>>,
    /// A look-up needed a record that the device could not give.
    pub(super) failed: Cell<bool>,
}

/// The cold entries that a look-up came across.
#[derive(Default)]
pub(super) struct ColdMatches {
    /// The staged record of the key with the highest address.
    best: Option<(u64, Record, Header)>,
    /// The highest address of an entry that may be the key's and is not staged; 0: none.
    unstaged: u64,
    failed: u64,
}

impl ColdMatches {
    #[cold]
    pub(super) fn note(&mut self, store: &Inner, cold: &ColdSide, address: u64, key: &Key<'_>) {
        match cold.stage.get(address) {
            Lookup::Ready(record, header) => {
                if self.best.is_none_or(|(best, ..)| best < address) && store.matches_key(record, header, key) {
                    self.best = Some((address, record, header));
                }
            }
            Lookup::Failed => self.failed = self.failed.max(address),
            Lookup::Absent => self.unstaged = self.unstaged.max(address),
        }
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.best.is_none() && !self.is_open()
    }

    /// Whether entries that may be the key's have not been looked at.
    pub(super) fn is_open(&self) -> bool {
        self.unstaged != 0 || self.failed != 0
    }

    /// The highest address of such an entry.
    pub(super) fn open_address(&self) -> u64 {
        self.unstaged.max(self.failed)
    }

    /// The key's record, if it is among the staged ones and no entry with a higher address may be the key's. Else what is
    /// missing is noted in the session.
    pub(super) fn settle(&self, cold: &ColdSide) -> Option<(u64, Record, Header)> {
        let best = self.best.map_or(0, |(address, ..)| address);
        if self.unstaged > best {
            cold.met.borrow_mut().push(self.unstaged);
            return None;
        }
        if self.failed > best {
            cold.failed.set(true);
            return None;
        }
        self.best
    }
}
