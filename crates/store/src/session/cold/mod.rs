//! Cold keys: what a session does about records that are on the device only.
//!
//! A look-up that needs such a record uses the attached stage, or notes the address as wanted and returns [`Missing`]. For commands
//! that change several keys the runner asks before the first change, under the command's latches ([`Cold::probe`]).

pub(crate) mod copies;
pub(crate) mod staged;

use super::batch::Session;
use crate::record::key::Key;
use crate::record::{Header, Record};
use crate::session::cold::copies::keep_warm;
use crate::tier::read::room::Admitted;
use crate::tier::read::stage::{Begin, Fetch, Fetcher, Lookup, Stage, Why};
use almandine_base::object::Missing;
use almandine_io::storage::Buffer;
use std::io;

/// For which use a key's record must be in memory or staged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// To be read, perhaps in order to be changed.
    Read,
    /// To be replaced or removed, whatever it was. One that can never be read again does not stand in the way of that.
    Overwrite,
}

impl Session {
    /// What a session has to do with records that are on the device only.
    #[inline]
    #[must_use]
    pub fn cold(&self) -> Cold<'_> {
        Cold { session: self }
    }

    /// The stage that look-ups use.
    #[inline]
    pub fn staging(&mut self) -> Staging<'_> {
        Staging { session: self }
    }

    /// What the attached stage has at an address; for the store's own threads.
    pub(crate) fn staged(&self, address: u64) -> Lookup {
        self.local.cold.stage.get(address)
    }

    /// The staged record of a cold entry that a scan came across. None: it is lost, and its key cannot be known any more.
    pub(super) fn scan_cold(&self, address: u64) -> Result<Option<(Record, Header)>, Missing> {
        debug_assert!(address < self.local.head, "INV-TIER-1: cold is what lies below the head");
        match self.local.cold.stage.get(address) {
            Lookup::Ready(record, header) => Ok(Some((record, header))),
            Lookup::Damaged => Ok(None),
            Lookup::Failed => Err(Missing::Unreadable),
            Lookup::Absent => {
                self.local.cold.wanted.borrow_mut().push(address);
                Err(Missing::Cold)
            }
        }
    }

    /// Notes those records as wanted that are staged, for a stage to come.
    pub(super) fn want_again(&self, addresses: impl Iterator<Item = u64>) {
        let stage = &self.local.cold.stage;
        let staged = addresses.filter(|&address| matches!(stage.get(address), Lookup::Ready(..)));
        self.local.cold.wanted.borrow_mut().extend(staged);
    }
}

/// The stage that a session's look-ups use: the records of cold keys that were read for one batch.
pub struct Staging<'s> {
    session: &'s mut Session,
}

impl Staging<'_> {
    /// Attaches staged records, which look-ups use until [`Staging::detach`].
    pub fn attach(self, stage: Stage) {
        debug_assert!(self.session.local.cold.stage.is_empty(), "INV-TIER-3: a batch has one stage");
        self.session.local.cold.stage = stage;
    }

    /// Takes the attached records back, after making cached copies of those that are worth it. Inside a batch.
    pub fn detach(self) -> Stage {
        let Session { store, local } = self.session;
        let stage = std::mem::take(&mut local.cold.stage);
        if !stage.is_empty() {
            keep_warm(store, local, &stage);
        }
        stage
    }

    /// Takes the attached records back without making cached copies.
    pub(crate) fn detach_quietly(self) -> Stage {
        std::mem::take(&mut self.session.local.cold.stage)
    }
}

/// What a session has to do with records that are on the device only.
#[derive(Clone, Copy)]
pub struct Cold<'s> {
    session: &'s Session,
}

impl Cold<'_> {
    /// Whether records may be on a device: whether any of these methods has a use.
    #[inline]
    #[must_use]
    pub fn is_possible(self) -> bool {
        self.session.local.head != 0
    }

    /// Takes the addresses of the records that look-ups and probes have missed.
    pub fn take_wanted(self) -> Vec<u64> {
        let wanted = self.session.local.cold.wanted.take();
        debug_assert!(!wanted.contains(&0), "INV-LOG-1: no record is at address 0");
        wanted
    }

    /// Forgets them.
    pub fn forget_wanted(self) {
        self.session.local.cold.wanted.borrow_mut().clear();
    }

    /// How many records have been missed.
    #[must_use]
    pub fn wanted(self) -> usize {
        self.session.local.cold.wanted.borrow().len()
    }

    /// Bytes of these records on the device, about.
    #[must_use]
    pub fn wanted_bytes(self) -> u64 {
        let mut wanted = self.session.local.cold.wanted.borrow_mut();
        // Commands of a unit may need a record several times.
        wanted.sort_unstable();
        wanted.dedup();
        debug_assert!(!wanted.contains(&0), "INV-LOG-1: no record is at address 0");
        self.session.store.tier.as_ref().map_or(0, |tier| tier.estimate(&wanted))
    }

    /// Whether a record is unreadable in this batch because there is no room for it.
    #[must_use]
    pub fn lacks_room(self) -> bool {
        self.session.local.cold.stage.lacks_room()
    }

    /// Notes as wanted the records that must be staged before `key` can be used: none if its record is in memory or staged. Inside
    /// a batch, with or without the key's latch.
    ///
    /// # Errors
    /// [`Missing`]: a record is not staged, or the device cannot give it.
    pub fn probe(self, key: Key<'_>, need: Need) -> Result<(), Missing> {
        self.probe_until(key, need, true)
    }

    /// As [`Cold::probe`], for a key that is used several times and may be removed in between: its record, once found, does not
    /// end the search. Other records with its tag are staged, too, because a look-up meets them when the key is gone.
    ///
    /// # Errors
    /// As for [`Cold::probe`].
    pub fn probe_all(self, key: Key<'_>, need: Need) -> Result<(), Missing> {
        self.probe_until(key, need, false)
    }

    fn probe_until(self, key: Key<'_>, need: Need, first: bool) -> Result<(), Missing> {
        if !self.is_possible() {
            return Ok(());
        }
        let wanted = &mut *self.session.local.cold.wanted.borrow_mut();
        debug_assert!(
            self.session.local.participant.is_inside(),
            "INV-TIER-1: what is above the head stays in memory within the batch only"
        );
        let (store, head) = (&*self.session.store, self.session.local.head);
        let from = wanted.len();
        loop {
            let (mut found, mut unreadable) = (false, false);
            let mut look = |address: u64| {
                let is_key = if address >= head {
                    store.match_record(address, &key).is_some()
                } else {
                    match self.session.local.cold.stage.get(address) {
                        Lookup::Ready(record, header) => store.matches_key(record, header, &key),
                        Lookup::Absent => {
                            wanted.push(address);
                            false
                        }
                        Lookup::Failed => {
                            unreadable = true;
                            false
                        }
                        Lookup::Damaged => {
                            unreadable |= need == Need::Read;
                            false
                        }
                    }
                };
                found |= is_key;
                (is_key && first).then_some(())
            };
            let valid = if let Some(number) = self.session.held_bucket(key.hash) {
                let _ = store.index.find_latched(number, key.hash, look);
                true
            } else {
                let entered = store.index.begin_read(key.hash);
                let walked = store.index.find_optimistic(entered, |_, entry| look(entry.address()));
                store.index.bucket(entered.number).validate(entered.seen) && walked.is_ok()
            };
            if !valid || found && first {
                wanted.truncate(from);
            }
            if valid && unreadable && !found {
                return Err(Missing::Unreadable);
            }
            if valid {
                return if wanted.len() == from { Ok(()) } else { Err(Missing::Cold) };
            }
        }
    }

    /// Plans the reads of the records at these addresses, which it takes out of `wanted`.
    pub fn plan(self, wanted: &mut Vec<u64>, stage: &mut Stage, fetches: &mut Vec<Fetch>) {
        match &self.session.store.tier {
            Some(tier) => tier.plan(wanted, Why::CLIENT, stage, fetches),
            None => wanted.clear(),
        }
    }

    /// Forgets large values that were staged and are no key's any more: it was changed or moved since they were read. Inside a
    /// batch.
    pub fn forget_stale(self, stage: &mut Stage) {
        debug_assert!(self.session.local.participant.is_inside(), "INV-TIER-1: the index is looked at within the batch");
        let store = &*self.session.store;
        stage.forget_large(|address, record, header| {
            let entered = store.index.begin_read(store.hash_of(record, header));
            let found = store.index.find_optimistic(entered, |_, entry| (entry.address() == address).then_some(()));
            // A session that changes the bucket meanwhile may change this key: it is left for the next time.
            found == Ok(None) && store.index.bucket(entered.number).validate(entered.seen)
        });
    }

    /// Asks for room for the large value that a read is the beginning of, beside the `held` bytes of others of the same batch.
    pub fn admit(self, stage: &mut Stage, fetch: &mut Fetch, held: u64) -> Begin {
        let Some(tier) = self.session.store.tier.as_ref().filter(|_| fetch.needs() != 0) else { return Begin::Now };
        match self.session.store.admit(tier, fetch.needs(), held) {
            Admitted::Now(room) => {
                fetch.take_room(room);
                Begin::Now
            }
            Admitted::Later => Begin::Later,
            Admitted::Never => {
                stage.refuse(fetch.address(), held == 0);
                Begin::Never
            }
        }
    }

    /// Asks the cache for what [`Cold::accept`] needs to know of a read.
    #[inline]
    pub fn prefetch_fetched(self, fetch: &Fetch) {
        if let Some(tier) = &self.session.store.tier {
            tier.prefetch_fetched(fetch);
        }
    }

    /// Takes a finished read into the stage. `fetches` gets the reads that it shows to be needed too.
    pub fn accept(self, stage: &mut Stage, fetch: Fetch, buffer: Buffer, result: io::Result<()>, fetches: &mut Vec<Fetch>) {
        if let Some(tier) = &self.session.store.tier {
            tier.accept(stage, fetch, buffer, result, fetches);
        }
    }

    /// Reads the records at these addresses, blocking; for threads that may. Outside a batch.
    pub fn stage_blocking(self, wanted: &mut Vec<u64>, stage: &mut Stage, fetcher: &mut Fetcher) {
        debug_assert!(!self.session.holds_latches(), "INV-LATCH-2: a latch is never held across I/O");
        match &self.session.store.tier {
            Some(tier) => tier.stage_blocking(stage, wanted, Why::CLIENT, fetcher),
            None => wanted.clear(),
        }
    }
}
