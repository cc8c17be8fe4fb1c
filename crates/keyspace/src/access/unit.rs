//! Units of work: several commands that everybody else sees as one step.
//!
//! A unit whose keys are known is *planned*: the buckets of all of its keys are latched together, shared or exclusive as each
//! key needs it, before the first command runs, and released behind the last one. One of a script whose keys show while it runs
//! *grows*: each is latched before the first command that uses it, out of order, which one session at a time may do. A unit that
//! may touch any key (KEYS, FLUSHALL, SWAPDB inside a transaction) runs *alone*: all other workers are outside their batches
//! meanwhile. Within a unit, readers and writers take and release no latches of a plan of their own, and databases keep their
//! namespaces.

use crate::access::accessor::Unit;
use crate::{Accessor, Key, Missing};
use almandine_io::clock;
use almandine_store::{LongUnits, Need};
use std::sync::atomic::Ordering;

impl Accessor {
    /// The unit of work: several commands that all others see as one step.
    #[inline]
    pub fn unit(&mut self) -> UnitOfWork<'_> {
        UnitOfWork { accessor: self }
    }
}

/// The unit of work: several commands that all others see as one step.
pub struct UnitOfWork<'a> {
    pub(crate) accessor: &'a mut Accessor,
}

impl UnitOfWork<'_> {
    /// Whether all other sessions are kept out.
    #[must_use]
    pub fn is_alone(&self) -> bool {
        self.accessor.is_alone()
    }

    /// Begins to plan a unit: it has no keys yet.
    pub fn plan(&mut self) {
        debug_assert!(!self.accessor.in_unit(), "a unit has no other one in it");
        self.accessor.hashes.clear();
        self.accessor.modes.clear();
    }

    /// Adds a key of a database to the plan of the unit, with whether it may be written.
    #[inline]
    pub fn add<'k>(&mut self, db: u16, key: &'k [u8], write: bool) -> Key<'k> {
        let key = self.accessor.key(db, key);
        self.accessor.session.ahead().prefetch(key.hash);
        self.accessor.hashes.push(key.hash);
        self.accessor.modes.push(write);
        key
    }

    /// Begins the unit that was planned: all of its keys are latched, unless a long unit has one
    /// of them and refuses it ([`LongUnits::has_refused`]).
    pub fn begin(&mut self) {
        debug_assert!(!self.accessor.in_unit(), "a unit has no other one in it");
        if !self.accessor.hashes.is_empty() {
            self.accessor.session.plan().lock_each(&self.accessor.hashes, &self.accessor.modes);
        }
        self.accessor.unit = Unit::Planned;
        self.accessor.hold_messages();
    }

    /// Begins a unit whose keys show while it runs, with none of them. False, and no unit, while another session has one, or
    /// serves waiters by latches out of order. It is ended as one that has made keys ready.
    #[must_use]
    pub fn try_begin_growing(&mut self) -> bool {
        debug_assert!(!self.accessor.in_unit(), "a unit has no other one in it");
        debug_assert!(!self.accessor.cold().is_possible(), "INV-LATCH-2: a latch is never held across I/O");
        if !self.accessor.meets_growing {
            self.accessor.keyspace.waiters.meet_growing.store(true, Ordering::Relaxed);
            self.accessor.meets_growing = true;
        }
        let begins = self.accessor.session.plan().try_begin_growing();
        if begins {
            self.accessor.unit = Unit::Growing;
            self.accessor.hold_messages();
        }
        begins
    }

    /// Latches a key that has shown.
    pub fn grow(&mut self, db: u16, key: &[u8]) {
        debug_assert_eq!(self.accessor.unit, Unit::Growing, "INV-LATCH-3: only the server latches out of order");
        let hash = self.accessor.key(db, key).hash;
        self.accessor.session.plan().grow(hash);
    }

    /// Makes sure that a key of the unit is at hand, for what it is needed for. Call it for all of them before the first
    /// command, so that all are read together.
    ///
    /// # Errors
    /// When a record must be read first, or cannot be.
    pub fn require(&mut self, db: u16, key: &[u8], need: Need) -> Result<(), Missing> {
        debug_assert!(self.accessor.in_unit(), "a unit asks for what it needs once it has its latches");
        if !self.accessor.cold().is_possible() {
            return Ok(());
        }
        // A command of the unit may remove it before another one looks it up.
        self.accessor.cold().probe_all(self.accessor.key(db, key), need)
    }

    /// Begins a unit that may touch anything: waits until all other workers have ended their batches.
    pub fn begin_alone(&mut self) {
        debug_assert!(!self.accessor.in_unit(), "a unit has no other one in it");
        self.accessor.session.plan().begin_alone();
        self.accessor.unit = Unit::Alone;
        self.accessor.hold_messages();
    }

    /// Begins a batch without waiting: false, and no batch, while another accessor is alone.
    #[inline]
    pub fn try_begin_batch(&mut self, now_ms: i64) -> bool {
        self.accessor.look_around();
        if self.accessor.follows_clock {
            self.accessor.keyspace.latest_time.note(now_ms);
        }
        self.accessor.session.plan().try_enter(now_ms)
    }

    /// Waits until no other accessor is alone, but for no longer than this. Between batches.
    pub fn await_others(&mut self, time_max: std::time::Duration) {
        self.accessor.session.plan().await_others(time_max);
    }

    /// Says whether time passes within a batch. Not while what happened long ago is replayed.
    pub fn follow_clock(&mut self, follows: bool) {
        self.accessor.follows_clock = follows;
    }

    /// Says that it is later now, if the clock is followed: a unit that has waited until it is alone begins at the end of that
    /// wait. So what has expired for those before it has expired for it, and what it sets has its whole time before it. Returns
    /// the time.
    pub fn pass_time(&mut self) -> i64 {
        if self.accessor.follows_clock {
            let now_ms = clock::unix_ms().max(self.accessor.session.now_ms());
            self.accessor.session.pass_time(now_ms);
            self.accessor.keyspace.latest_time.note(now_ms);
        }
        self.catch_up()
    }

    /// The same for a unit that has the latches of its keys: it is as late as it is for any unit that has had them before. Without
    /// a look at the clock. Returns the time.
    #[inline]
    pub fn catch_up(&mut self) -> i64 {
        let Accessor { session, keyspace, follows_clock, .. } = &mut *self.accessor;
        if *follows_clock {
            session.pass_time(keyspace.latest_time.behind_others(session.now_ms()));
        }
        session.now_ms()
    }

    /// Units of work that another thread goes on with: this one, or those of others. Between two commands of one, `renew` lets
    /// others give back what died, and the log be cut.
    #[inline]
    pub fn long_units(&mut self) -> LongUnits<'_> {
        self.accessor.session.plan().long_units()
    }

    /// Ends a unit.
    pub fn end(&mut self) {
        self.accessor.tell_left();
        self.accessor.end_holding();
        match std::mem::take(&mut self.accessor.unit) {
            Unit::Command => debug_assert!(false, "a unit ends once"),
            Unit::Planned => self.accessor.session.plan().unlock_all(),
            Unit::Growing => {
                #[cfg(not(any(feature = "mutants", loom)))]
                debug_assert!(false, "INV-LATCH-3: the server serves what it was given before it ends");
                self.accessor.session.plan().unlock_all();
            }
            Unit::Alone => self.accessor.session.plan().end_alone(),
        }
        self.accessor.namespaces.clear();
    }

    /// After reads under latches: removes those of their keys that were found past their time, as a read by itself does. Within
    /// a unit that is left to its end.
    pub fn remove_expired<'k>(&mut self, keys: impl Iterator<Item = (u16, &'k [u8])>) {
        if self.accessor.in_unit()
            || !self.accessor.session.notes().has_met_expired()
            || self.accessor.session.notes().holds_expiry()
        {
            return;
        }
        for (db, key) in keys {
            let key = self.accessor.key(db, key);
            // Looking at it removes it.
            let _ = self.accessor.writer(db).modify(key);
        }
        self.accessor.session.notes().forget_met_expired();
    }

    /// Reads from the device, at once, what the command that has just run has missed. For a unit that is alone and cannot begin
    /// anew, because it has changed something; the others wait meanwhile. False in a unit that holds latches: it has all that it
    /// may use.
    pub fn read_missing(&mut self) -> bool {
        debug_assert!(self.accessor.is_alone(), "INV-LATCH-2: a latch is never held across I/O");
        if !self.accessor.is_alone() {
            return false;
        }
        self.accessor.read_wanted();
        true
    }

    /// Reads from the device, at once and outside the epoch, what look-ups have missed; the batch has it then. For a thread that
    /// may wait, between two units.
    pub fn fetch_missed(&mut self) {
        debug_assert!(!self.accessor.in_unit(), "INV-LATCH-2: a latch is never held across I/O");
        self.accessor.read_wanted_outside_epoch();
    }

    /// Whether a key of the unit is known to exist. Looking is no use of it.
    pub fn exists(&mut self, db: u16, key: &[u8]) -> bool {
        let mut reader = self.accessor.reader(db);
        let key = reader.key(key);
        reader.peek(key) == Ok(true)
    }
}

impl Accessor {
    /// Whether a unit of several commands has begun.
    #[inline]
    pub(crate) fn in_unit(&self) -> bool {
        self.unit != Unit::Command
    }

    /// Whether all others are kept out.
    pub(crate) fn is_alone(&self) -> bool {
        self.unit == Unit::Alone
    }

    /// Does something alone, within a unit that is alone already or in one of its own.
    pub(crate) fn alone<R>(&mut self, work: impl FnOnce(&mut Self) -> R) -> R {
        if self.is_alone() {
            return work(self);
        }
        self.unit().begin_alone();
        let result = work(self);
        // While it stays alone, the worker serves the waiters of keys that are ready now.
        if !self.serving().has_ready() {
            self.unit().end();
        }
        result
    }
}

#[cfg(test)]
mod tests {
    use crate::types::testing::{batch, keyspace};
    use crate::{Accessor, Missing, Put, Refusal, Slot};
    use std::time::Duration;

    const NAMES: [&[u8]; 3] = [b"first", b"cold", b"last"];

    fn get(accessor: &mut Accessor, name: &[u8]) -> Option<Vec<u8>> {
        batch(accessor, |accessor| {
            let mut reader = accessor.reader(0);
            let key = reader.key(name);
            Ok(reader.read(key)?.map(|value| value.to_vec()))
        })
    }

    fn set(accessor: &mut Accessor, name: &[u8]) {
        batch(accessor, |accessor| {
            let mut writer = accessor.writer(0);
            let key = writer.key(name);
            writer.upsert(key, b"before", Put::default())
        });
    }

    /// The time of a unit is no earlier than that of a worker's batch before it, whatever threads of the background do meanwhile,
    /// which enter with no time.
    #[test]
    fn the_background_sets_no_unit_back() {
        let keyspace = keyspace(false);
        let [mut worker, mut other, mut background] = [(); 3].map(|()| keyspace.accessor().unwrap());
        worker.unit().follow_clock(true);
        other.unit().follow_clock(true);
        assert!(worker.unit().try_begin_batch(50_000));
        background.begin_batch(0);
        assert_eq!(background.unit().catch_up(), 0, "it follows no clock");
        background.end_batch();
        assert!(other.unit().try_begin_batch(49_990));
        assert_eq!(other.unit().catch_up(), 50_000);
        other.end_batch();
        worker.end_batch();
    }

    const COLD: Refusal = Refusal::Missing(Missing::Cold);

    /// What MSET, RENAME, COPY and BITOP do with a string in the middle that is on the device: nothing, before it is read.
    #[test]
    fn a_cold_string_in_the_middle_changes_nothing() {
        let keyspace = keyspace(true);
        let mut accessor = keyspace.accessor().unwrap();
        set(&mut accessor, b"cold");
        assert!(keyspace.store.empty_memory(Duration::from_secs(20)));
        set(&mut accessor, b"first");
        set(&mut accessor, b"last");
        accessor.begin_batch(0);
        let mut writer = accessor.writer(0);
        writer.plan().lock_all(NAMES.into_iter());
        let pairs = NAMES.map(|name| (name, &b"after"[..], None));
        assert_eq!(writer.upsert_all(pairs.into_iter(), &crate::Copies::default()), Err(COLD));
        let [first, cold, _] = NAMES.map(|name| writer.key(name));
        assert!(matches!(writer.copy(0, b"cold"), Err(Missing::Cold)), "the source of RENAME");
        let value = writer.copy(0, b"first").unwrap().unwrap();
        assert_eq!(writer.transfer((0, b"first"), (0, b"cold"), value), Err(COLD));
        let value = writer.copy(0, b"first").unwrap().unwrap();
        assert_eq!(writer.put(0, b"cold", value), Err(COLD));
        assert_eq!(writer.exists_in(0, b"cold"), Err(Missing::Cold));
        assert!(writer.freeze(first).is_ok() && matches!(writer.freeze(cold), Err(Missing::Cold)));
        assert_eq!(writer.upsert_owned(cold, vec![b'v'; 100_000], Put::default()), Err(COLD));
        assert_eq!(writer.delete(cold), Err(Missing::Cold));
        assert_eq!((writer.exists(cold), writer.heat().touch(cold)), (Err(Missing::Cold), Err(Missing::Cold)));
        assert!(writer.metadata(cold).is_err() && writer.heat().idle_ms(cold).is_err() && writer.modify(cold).is_err());
        drop(writer);
        accessor.end_batch();
        for name in NAMES {
            assert_eq!(get(&mut accessor, name).as_deref(), Some(&b"before"[..]));
        }
        assert_eq!(keyspace.dbsize(0), 3);
    }

    /// A key that the plan leaves out, or has shared only, is no absent one, and nothing is done to it.
    #[test]
    fn a_key_outside_the_plan_is_unplanned() {
        let keyspace = keyspace(false);
        let mut accessor = keyspace.accessor().unwrap();
        // Two keys may have one bucket: one of these has another.
        let names: Vec<Vec<u8>> = (0..100).map(|number| format!("{number}").into_bytes()).collect();
        names.iter().for_each(|name| set(&mut accessor, name));
        accessor.begin_batch(0);
        accessor.unit().plan();
        accessor.unit().add(0, b"written", true);
        accessor.unit().add(0, b"read", false);
        accessor.unit().begin();
        let mut writer = accessor.writer(0);
        let mut outside = 0;
        for name in &names {
            let key = writer.key(name);
            let read = writer.read(key).map(|value| value.is_some());
            if read == Ok(true) {
                continue;
            }
            outside += 1;
            assert_eq!(read, Err(Missing::Unplanned));
            assert_eq!(writer.exists(key), Err(Missing::Unplanned));
            assert_eq!(writer.delete(key), Err(Missing::Unplanned));
            assert_eq!(writer.upsert(key, b"after", Put::default()), Err(Refusal::Missing(Missing::Unplanned)));
            assert!(matches!(writer.modify(key), Err(Missing::Unplanned)));
        }
        assert!(outside > 90);
        let read = writer.key(b"read");
        assert_eq!(writer.read(read).map(|value| value.is_some()), Ok(false));
        assert_eq!(writer.upsert(read, b"after", Put::default()), Err(Refusal::Missing(Missing::Unplanned)));
        let written = writer.key(b"written");
        assert!(matches!(writer.modify(written), Ok(Slot::Vacant(_))));
        drop(writer);
        accessor.unit().end();
        accessor.end_batch();
        for name in &names {
            assert_eq!(get(&mut accessor, name).as_deref(), Some(&b"before"[..]));
        }
    }
}
