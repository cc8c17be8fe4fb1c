//! Keys that are set together: all of them, or none.
//!
//! What can fail comes first, and nothing of it can be seen: values that do not fit their old records are written into new
//! ones, which no entry leads to; then keys that have no entry get one, under their latches. If any of that fails, it is taken
//! back. Only then the old values give way, which cannot fail.

use super::{Act, Guard, Occupied, Payload, Put, Slot, Written};
use crate::counters::add;
use crate::full::{Full, NotSet};
use crate::index::Index;
use crate::index::entry::Entry;
use crate::record::heap::{HeapKey, SharedValue};
use crate::record::key::Key;
use crate::record::{Header, INLINE_KEY_MAX, Kind, Record};
use crate::session::allocate::{drop_heap_key, drop_heap_value, retire};
use crate::session::batch::Session;
use crate::session::cold::Need;
use crate::session::plan::Plan;
use crate::shared::Shared;
use std::sync::atomic::Ordering;

/// Pairs up to this number are compared with each other to find a key that is named twice.
const COMPARED_MAX: usize = 8;

/// A key and the string that it is set to.
#[derive(Clone, Copy)]
pub struct Pair<'k> {
    /// The key.
    pub key: Key<'k>,
    /// Its value.
    pub value: &'k [u8],
    /// The same value on the heap, if it is too large for the record and was copied already.
    pub copy: Option<&'k SharedValue>,
    /// When it expires, in milliseconds since the Unix epoch.
    pub expiry_ms: Option<i64>,
}

impl Pair<'_> {
    fn put(&self) -> Put {
        Put { expiry_ms: self.expiry_ms, ..Put::default() }
    }

    fn payload(&self, guard: &mut Guard<'_>) -> Payload<'_> {
        debug_assert!(self.copy.is_none_or(|copy| (**copy).as_ref() == self.value), "a copy is one of the pair's value");
        debug_assert_eq!(guard.key.hash, self.key.hash, "INV-WHOLE-1: a pair is written under the latch of its own key");
        match self.copy {
            Some(copy) => guard.shared_payload(SharedValue::clone(copy)),
            None => guard.payload(self.value),
        }
    }

    fn is_same_key(&self, other: &Self) -> bool {
        let (own, other) = (&self.key, &other.key);
        own.hash == other.hash && own.namespace == other.namespace && own.bytes == other.bytes
    }
}

/// A record that an entry leads to, and where.
#[derive(Clone, Copy)]
struct Old {
    address: u64,
    record: Record,
    header: Header,
}

/// How one pair is going to be set.
#[derive(Clone, Copy)]
enum Step {
    /// Not at all: a later pair has the same key.
    Superseded,
    /// In the record that the key has; the number of its words that are used then.
    InPlace(Old, usize),
    /// In a new record, which takes the place of the old one.
    Move(Old, Written),
    /// In a new record, of a key that has none.
    Insert(Written),
}

impl Plan<'_> {
    /// Sets all keys, whatever was there before. Of several pairs with one key the last one counts. The lock plan has all of
    /// them; without a plan they are latched together meanwhile.
    ///
    /// # Errors
    /// When the store is full, or what a key had is not at hand; then nothing has changed.
    pub fn upsert_all(&mut self, pairs: &[Pair<'_>]) -> Result<(), NotSet> {
        if let [pair] = pairs {
            return match pair.copy {
                Some(copy) => self.session.upsert_shared(pair.key, SharedValue::clone(copy), pair.put()),
                None => self.session.upsert(pair.key, pair.value, pair.put()),
            };
        }
        if self.session.holds_latches() {
            return self.session.upsert_latched(pairs);
        }
        // Within a unit that is alone, where each verb latches by itself.
        let hashes: Vec<u64> = pairs.iter().map(|pair| pair.key.hash).collect();
        self.lock_all(&hashes, true);
        let outcome = self.session.upsert_latched(pairs);
        self.unlock_all();
        outcome
    }
}

impl Session {
    fn upsert_latched(&mut self, pairs: &[Pair<'_>]) -> Result<(), NotSet> {
        debug_assert!(self.holds_latches(), "INV-WHOLE-1: what is changed together is latched together");
        let superseded = superseded(pairs);
        let mut steps = Vec::with_capacity(pairs.len());
        for (at, pair) in pairs.iter().enumerate() {
            let step = match superseded.binary_search(&at) {
                Ok(_) => Ok(Step::Superseded),
                Err(_) => self.prepare(pair),
            };
            match step {
                Ok(step) => steps.push(step),
                Err(refusal) => {
                    self.take_back(pairs, &steps, 0);
                    return Err(refusal);
                }
            }
        }
        debug_assert_eq!(steps.len(), pairs.len(), "INV-WHOLE-1: all of them are prepared before the first can be seen");
        let mut uncounted = 0;
        for (at, (pair, step)) in pairs.iter().zip(&steps).enumerate() {
            if let Step::Insert(written) = step {
                if self.guard(pair).link(written, uncounted).is_err() {
                    self.take_back(pairs, &steps, at);
                    return Err(NotSet::Full);
                }
                uncounted += 1;
            }
        }
        for (pair, step) in pairs.iter().zip(&steps) {
            self.enter_prepared(pair, step);
        }
        Ok(())
    }

    /// Writes what cannot be written in place.
    #[inline]
    fn prepare(&mut self, pair: &Pair<'_>) -> Result<Step, NotSet> {
        debug_assert!(self.holds_latches(), "INV-WHOLE-1: what is changed together is latched together");
        match self.look_up(pair.key, Need::Overwrite)? {
            Slot::Occupied(mut occupied) => {
                let Occupied { position, record, header, .. } = occupied;
                let old = Old { address: position.entry().address(), record, header };
                if let Some(words) = occupied.words_in_place(Kind::String, pair.value.len(), pair.put()) {
                    return Ok(Step::InPlace(old, words));
                }
                let payload = pair.payload(&mut occupied.guard);
                Ok(Step::Move(old, occupied.prepare(Kind::String, payload, pair.put(), 0)?))
            }
            Slot::Vacant(mut vacant) => {
                let payload = pair.payload(&mut vacant.guard);
                Ok(Step::Insert(vacant.guard.prepare(Kind::String, payload, pair.put(), 0)?))
            }
        }
    }

    /// Gives the old value of a prepared pair up for the new one.
    #[inline]
    fn enter_prepared(&mut self, pair: &Pair<'_>, step: &Step) {
        match step {
            Step::Superseded => self.guard(pair).say_changed(Act::Nothing),
            Step::Insert(written) => self.guard(pair).count_new(Kind::String, written, pair.put()),
            Step::InPlace(old, words) => {
                if let Some(mut occupied) = self.occupied(pair, old) {
                    occupied.write_in_place(pair.value, pair.put(), *words);
                    let (record, header) = (occupied.record, occupied.header);
                    occupied.guard.say_changed(Act::Replace(record, header, pair.value));
                }
            }
            Step::Move(old, written) => {
                if let Some(mut occupied) = self.occupied(pair, old) {
                    occupied.enter(*written);
                    let (record, header) = (occupied.record, occupied.header);
                    occupied.guard.say_changed(Act::Set(record, header));
                }
            }
        }
    }

    /// Gives up what has been prepared, and the entries of the first `linked` pairs.
    #[cold]
    fn take_back(&mut self, pairs: &[Pair<'_>], steps: &[Step], linked: usize) {
        debug_assert!(linked == 0 || steps.len() == pairs.len(), "INV-WHOLE-1: entries are made when all records are written");
        for (at, (pair, step)) in pairs.iter().zip(steps).enumerate() {
            match step {
                Step::Superseded | Step::InPlace(..) => {}
                Step::Move(old, written) => {
                    if let Some(mut occupied) = self.occupied(pair, old) {
                        occupied.forget(*written);
                    }
                }
                Step::Insert(written) => {
                    let mut guard = self.guard(pair);
                    if at < linked {
                        guard.unlink(written);
                    }
                    guard.forget(*written);
                }
            }
        }
    }

    /// The plan's latch on a pair's bucket.
    #[inline]
    fn guard<'s>(&'s mut self, pair: &Pair<'s>) -> Guard<'s> {
        let Self { store, local } = self;
        let number = Index::bucket_of(pair.key.hash, store.index.len());
        debug_assert!(store.index.bucket(number).is_latched_exclusively(), "INV-WHOLE-1: nobody sees what may be taken back");
        Guard { store, local, number, latch: None, key: pair.key }
    }

    /// A pair's key with the record that it had when it was looked up.
    #[inline]
    fn occupied<'s>(&'s mut self, pair: &Pair<'s>, old: &Old) -> Option<Occupied<'s>> {
        let guard = self.guard(pair);
        let store: &'s Shared = guard.store;
        let same = |address: u64| (address == old.address).then_some(());
        let found = store.index.find_latched(guard.number, pair.key.hash, same);
        debug_assert!(found.is_some(), "INV-WHOLE-1: an entry stays as it was looked up for as long as its bucket is latched");
        let (position, ()) = found?;
        Some(Occupied { guard, position, record: old.record, header: old.header })
    }
}

impl Guard<'_> {
    /// Writes a record with a key of its own.
    pub(super) fn prepare(&mut self, kind: Kind, payload: Payload<'_>, put: Put, slack: usize) -> Result<Written, Full> {
        let mut key_handle = 0;
        if self.key.bytes.len() > INLINE_KEY_MAX {
            key_handle = HeapKey::into_handle(self.key.bytes);
            add(&self.store.thread(self.local).heap_bytes, self.key.bytes.len() as i64);
        }
        let written = self.write(kind, payload, put, key_handle, slack);
        if written.is_err() && key_handle != 0 {
            add(&self.store.thread(self.local).heap_bytes, -(self.key.bytes.len() as i64));
            // SAFETY: the key was boxed above and no record that holds it exists.
            unsafe { HeapKey::free(key_handle) };
        }
        written
    }

    /// Gives such a record up, which no entry leads to.
    #[cold]
    pub(super) fn forget(&mut self, written: Written) {
        debug_assert_eq!(self.entries_to(&written), 0, "INV-LOG-1: no entry leads to a record that dies");
        let Written { address, record, header } = written;
        drop_heap_value(self.store, self.local, record, header);
        drop_heap_key(self.store, self.local, record, header);
        retire(self.store, self.local, address, record, header);
    }

    /// Entries that lead to a record.
    fn entries_to(&self, written: &Written) -> usize {
        let mut entries = 0;
        let _ = self.store.index.find_latched(self.number, self.key.hash, |address| {
            entries += usize::from(address == written.address);
            None::<()>
        });
        entries
    }

    /// Adds an entry for a key that has none, beside a number of others that have got one and are not counted yet.
    pub(super) fn link(&mut self, written: &Written, uncounted: i64) -> Result<(), ()> {
        let Self { store, local, number, key, .. } = self;
        debug_assert_ne!(written.address, 0, "INV-LOG-1: no record is at address 0");
        let tag = store.index.tag(*number, key.hash);
        let entry = Entry::new(tag, written.address).with_heat(local.heat.first(store, key.hash));
        let [records, _] = store.counters.namespace(local.thread, key.namespace);
        store.namespaces.regions.note(key.namespace, key.hash, records.load(Ordering::Relaxed), uncounted);
        store.index.insert(*number, entry)?;
        debug_assert_eq!(self.entries(), 1, "INV-TIER-2: a key has one entry");
        Ok(())
    }

    /// Takes the entry out again.
    #[cold]
    fn unlink(&mut self, written: &Written) {
        let same = |address: u64| (address == written.address).then_some(());
        let found = self.store.index.find_latched(self.number, self.key.hash, same);
        debug_assert!(found.is_some(), "INV-WHOLE-1: what is taken back is still there");
        if let Some((position, ())) = found {
            self.store.index.remove(self.number, position);
        }
    }

    /// A key that has got an entry is counted and told.
    pub(super) fn count_new(&mut self, kind: Kind, written: &Written, put: Put) {
        debug_assert_eq!(
            written.header.has(Header::EXPIRY),
            put.expiry_ms.is_some(),
            "INV-EXP-1: an expiry that is set is announced"
        );
        debug_assert_eq!(self.entries_to(written), 1, "INV-LOG-1: what counts is reachable");
        self.count_live(1, i64::from(put.expiry_ms.is_some()));
        self.announce(None, put.expiry_ms);
        if kind == Kind::String {
            self.say_last_change(Act::Make(written.record, written.header));
        } else {
            self.announce(None, self.store.next_due(written.record, written.header));
            self.say_changed(Act::Make(written.record, written.header));
        }
    }
}

/// Which pairs have a key that a later pair has, too; ascending.
fn superseded(pairs: &[Pair<'_>]) -> Vec<usize> {
    if pairs.len() <= COMPARED_MAX {
        let is_again = |at: &usize| pairs[at + 1..].iter().any(|later| later.is_same_key(&pairs[*at]));
        return (0..pairs.len()).filter(is_again).collect();
    }
    let mut found = Vec::new();
    // Open addressing: the numbers of pairs, from one on, by the hashes of their keys.
    let places = (2 * pairs.len()).next_power_of_two();
    let mut table = vec![0u32; places];
    for (at, pair) in pairs.iter().enumerate().rev() {
        // The low bits choose the bucket, the high ones are as good.
        let mut place = (pair.key.hash >> 32) as usize & (places - 1);
        loop {
            match table[place] {
                0 => {
                    table[place] = at as u32 + 1;
                    break;
                }
                other if pairs[other as usize - 1].is_same_key(pair) => {
                    found.push(at);
                    break;
                }
                _ => place = (place + 1) & (places - 1),
            }
        }
    }
    found.reverse();
    debug_assert!(found.is_sorted(), "INV-WHOLE-1: each pair is superseded once");
    found
}
