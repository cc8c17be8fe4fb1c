//! Keys that are set together: whichever allocation fails, nothing has changed.

#![cfg(all(debug_assertions, not(loom)))]
#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use almandine_device::MemoryDevice;
use almandine_store::{
    Consumer, CopyReads, Fetcher, Missing, Need, NotSet, Options, Pair, Put, Session, Stage, Storage, Store, limit_allocations,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Ahead of every clock, so that the background does not take for expired what is not.
const NOW_MS: i64 = 5_000_000_000_000;
/// Lengths of values: in their record, in one of the longest records, on the heap.
const LENGTHS: [usize; 4] = [0, 10, 1_500, 40_000];

/// What a test looks at: a key's value and expiry, by the key's name.
type Contents = Vec<(Vec<u8>, Option<(Vec<u8>, Option<i64>)>)>;

struct Rig {
    store: Store,
    session: Option<Session>,
    namespace: u16,
    stage: Stage,
    fetcher: Fetcher,
    changes: Arc<AtomicU64>,
}

/// The counters that a command without effect leaves as they were.
#[derive(Debug, PartialEq, Eq)]
struct Counts {
    keys: (u64, u64),
    live: [i64; 2],
    log_live_bytes: u64,
    heap_bytes: u64,
    changes: u64,
}

impl Rig {
    fn new(options: Options) -> Self {
        let store = Store::open(options).unwrap();
        let namespace = store.allocate_namespace().unwrap();
        let session = store.session();
        let changes = Arc::new(AtomicU64::new(0));
        let told = Arc::clone(&changes);
        store.listeners().on_change(move |_| {
            told.fetch_add(1, Ordering::Relaxed);
        });
        store.listeners().tell_changes(Consumer::Watch, true);
        Self { store, session, namespace, stage: Stage::default(), fetcher: Fetcher::default(), changes }
    }

    fn in_memory() -> Self {
        Self::new(Options { background: false, ..Options::default() })
    }

    fn with_device() -> Self {
        let storage =
            Storage { pages: Arc::new(MemoryDevice::new()), values: Arc::new(MemoryDevice::new()), ciphers: Arc::default() };
        Self::new(Options { memory_bytes_max: 1 << 28, storage: Some(storage), ..Options::default() })
    }

    /// Runs `work` in a batch with all of these keys latched and at hand.
    fn batch<R>(&mut self, keys: &[Vec<u8>], mut work: impl FnMut(&mut Session, u16) -> R) -> R {
        let session = self.session.as_mut().unwrap();
        loop {
            session.enter(NOW_MS);
            session.staging().attach(std::mem::take(&mut self.stage));
            let hashes: Vec<u64> = keys.iter().map(|key| session.key(self.namespace, key).hash).collect();
            session.plan().lock_all(&hashes, true);
            let mut probed = Ok(());
            for key in keys {
                probed = probed.and(session.cold().probe(session.key(self.namespace, key), Need::Read));
            }
            assert_ne!(probed, Err(Missing::Unreadable));
            let result = probed.map(|()| work(session, self.namespace));
            session.plan().unlock_all();
            self.stage = session.staging().detach();
            session.leave();
            match result {
                Ok(result) => return result,
                Err(_) => session.cold().stage_blocking(&mut session.cold().take_wanted(), &mut self.stage, &mut self.fetcher),
            }
        }
    }

    fn set_all(&mut self, pairs: &[(Vec<u8>, Vec<u8>, Option<i64>)]) -> Result<(), NotSet> {
        let keys: Vec<Vec<u8>> = pairs.iter().map(|pair| pair.0.clone()).collect();
        self.batch(&keys, |session, namespace| {
            let pairs: Vec<Pair<'_>> = pairs
                .iter()
                .map(|(key, value, expiry_ms)| Pair { key: session.key(namespace, key), value, copy: None, expiry_ms: *expiry_ms })
                .collect();
            session.plan().upsert_all(&pairs)
        })
    }

    fn contents(&mut self, keys: &[Vec<u8>]) -> Contents {
        self.batch(keys, |session, namespace| {
            let mut contents = Vec::new();
            for name in keys {
                let key = session.key(namespace, name);
                let mut value = Vec::new();
                let found = session
                    .read(key, |view| {
                        value.clear();
                        view.append_to(&mut value);
                        view.expiry_ms()
                    })
                    .unwrap();
                contents.push((name.clone(), found.map(|expiry_ms| (value, expiry_ms))));
            }
            contents
        })
    }

    /// With the session at its end, so that the unused rest of its chunk counts as free.
    fn counts(&mut self) -> Counts {
        self.session = None;
        let (memory, totals) = (self.store.figures().memory(), self.store.figures().totals());
        let counts = Counts {
            keys: self.store.figures().namespace_len(self.namespace),
            live: [totals.live, totals.volatile],
            log_live_bytes: memory.log_live_bytes,
            heap_bytes: memory.heap_bytes,
            changes: self.changes.load(Ordering::Relaxed),
        };
        self.session = self.store.session();
        counts
    }

    /// Sets the pairs with fewer allocations than that takes, then with enough. Returns how many it took.
    fn set_all_at_last(&mut self, pairs: &[(Vec<u8>, Vec<u8>, Option<i64>)]) -> u64 {
        let keys: Vec<Vec<u8>> = pairs.iter().map(|pair| pair.0.clone()).collect();
        let (contents, counts) = (self.contents(&keys), self.counts());
        let taken = (0..)
            .find(|&count| {
                limit_allocations(Some(count));
                let outcome = self.set_all(pairs);
                limit_allocations(None);
                if outcome.is_err() {
                    assert_eq!(self.contents(&keys), contents, "INV-WHOLE-1: after {count} allocations");
                    assert_eq!(self.counts(), counts, "INV-WHOLE-1: after {count} allocations");
                }
                outcome.is_ok()
            })
            .unwrap();
        let last = |name: &Vec<u8>| pairs.iter().rev().find(|pair| pair.0 == *name).unwrap();
        let expected: Contents = keys.iter().map(|name| (name.clone(), Some((last(name).1.clone(), last(name).2)))).collect();
        assert_eq!(self.contents(&keys), expected);
        assert_eq!(self.counts().changes - counts.changes, pairs.len() as u64);
        taken
    }
}

/// Names of keys, some too long for their record.
fn name(number: usize) -> Vec<u8> {
    let mut name = format!("key:{number}").into_bytes();
    if number % 3 == 2 {
        name.resize(700, b'k');
    }
    name
}

/// Keys in all states of which one can tell: absent, and with values of each length, with and without an expiry.
fn fill(rig: &mut Rig) -> Vec<Vec<u8>> {
    let mut names = Vec::new();
    for (number, len) in LENGTHS.iter().flat_map(|&len| [len; 6]).enumerate() {
        let name = name(number);
        rig.batch(std::slice::from_ref(&name), |session, namespace| {
            let expiry_ms = (number % 2 == 0).then_some(NOW_MS + 500_000);
            session.upsert(session.key(namespace, &name), &vec![b'o'; len], Put { expiry_ms, ..Put::default() }).unwrap();
        });
        names.push(name);
    }
    names.extend((100..109).map(name));
    names
}

fn pairs_of(names: &[Vec<u8>], len: usize, expiry_ms: Option<i64>) -> Vec<(Vec<u8>, Vec<u8>, Option<i64>)> {
    let value = |at: usize| vec![b'a' + (at % 20) as u8; len];
    names.iter().enumerate().map(|(at, name)| (name.clone(), value(at), expiry_ms)).collect()
}

/// INV-WHOLE-1, in memory: values of every length give way to values of every length.
#[test]
fn whichever_allocation_fails_nothing_has_changed() {
    for len in LENGTHS {
        for expiry_ms in [None, Some(NOW_MS + 1)] {
            let mut rig = Rig::in_memory();
            let names = fill(&mut rig);
            let taken = rig.set_all_at_last(&pairs_of(&names, len, expiry_ms));
            assert!(taken >= 9, "at least the new keys need space: {taken} allocations");
            // Once more over what is there now: what fits stays where it is.
            let again = rig.set_all_at_last(&pairs_of(&names, len, expiry_ms));
            assert!(if len < 40_000 { again == 0 } else { again == names.len() as u64 }, "{again} allocations");
        }
    }
}

/// INV-WHOLE-1, with every old value on the device.
#[test]
fn values_on_the_device_stay_what_they_were() {
    for len in LENGTHS {
        let mut rig = Rig::with_device();
        // What is read leaves no copies that count.
        rig.store.settings().set_copy_reads(CopyReads::None);
        let names = fill(&mut rig);
        rig.session = None;
        assert!(rig.store.empty_memory(Duration::from_secs(20)));
        rig.session = rig.store.session();
        let keys = names.clone();
        let (contents, keys_before) = (rig.contents(&keys), rig.store.figures().namespace_len(rig.namespace));
        let heap_before = rig.store.figures().memory().heap_bytes;
        let pairs = pairs_of(&names, len, None);
        let taken = (0..)
            .find(|&count| {
                limit_allocations(Some(count));
                let outcome = rig.set_all(&pairs);
                limit_allocations(None);
                if outcome.is_err() {
                    assert_eq!(rig.contents(&keys), contents, "after {count} allocations");
                    assert_eq!(rig.store.figures().namespace_len(rig.namespace), keys_before);
                    assert_eq!(rig.store.figures().memory().heap_bytes, heap_before);
                    assert_eq!(rig.changes.load(Ordering::Relaxed), 24);
                }
                outcome.is_ok()
            })
            .unwrap();
        assert_eq!(taken, names.len() as u64, "each takes a new record");
        assert!(rig.contents(&keys).iter().all(|(_, value)| value.as_ref().is_some_and(|(value, _)| value.len() == len)));
    }
}

/// INV-WHOLE-1, where the index has to take overflow buckets: the entries that were made before go again.
#[test]
fn entries_that_were_made_go_again() {
    let mut rig = Rig::in_memory();
    let session = rig.session.as_ref().unwrap();
    let buckets = rig.store.figures().index_buckets();
    assert!(buckets.is_power_of_two());
    let in_one = |name: &Vec<u8>| session.key(rig.namespace, name).hash % buckets == 7;
    let names: Vec<Vec<u8>> = (0..).map(|number: u64| number.to_le_bytes().to_vec()).filter(in_one).take(40).collect();
    let pairs = pairs_of(&names, 10, None);
    assert!(rig.set_all(&pairs[..3]).is_ok());
    let taken = rig.set_all_at_last(&pairs);
    assert!(taken > 37 + 3, "37 records and some overflow buckets: {taken}");
}

/// Of several pairs with one key the last one counts, also when the first of them would be written in place, or moved, or on
/// the heap.
#[test]
fn the_last_of_several_values_of_a_key_counts() {
    for (old, first, second) in
        [(None, 10, 20), (Some(10), 10, 1_500), (Some(1_500), 40_000, 100), (Some(1_500), 5, 1_000), (Some(40_000), 1, 2)]
    {
        for others in [0, 20] {
            let mut rig = Rig::in_memory();
            let twice = name(0);
            if let Some(len) = old {
                assert!(rig.set_all(&[(twice.clone(), vec![b'o'; len], None)]).is_ok());
            }
            let names: Vec<Vec<u8>> = (1..=others).map(name).collect();
            let mut pairs = pairs_of(&names, 10, None);
            pairs.insert(others / 2, (twice.clone(), vec![b'1'; first], Some(NOW_MS + 5)));
            pairs.push((twice.clone(), vec![b'2'; second], None));
            rig.set_all_at_last(&pairs);
            assert_eq!(rig.counts().keys, (others as u64 + 1, 0));
        }
    }
}

/// A key that has expired is removed by the look at it, whether the others can be set or not.
#[test]
fn expired_values_give_way() {
    let mut rig = Rig::in_memory();
    let names: Vec<Vec<u8>> = (0..6).map(name).collect();
    assert!(rig.set_all(&pairs_of(&names, 50, Some(NOW_MS - 1))).is_ok());
    limit_allocations(Some(5));
    assert_eq!(rig.set_all(&pairs_of(&names, 50, None)), Err(NotSet::Full));
    limit_allocations(None);
    assert_eq!(rig.counts().keys, (0, 0));
    assert!(rig.set_all(&pairs_of(&names, 50, None)).is_ok());
    assert_eq!(rig.counts().keys, (6, 0));
}

/// A session without a lock plan gets one for as long as it takes.
#[test]
fn without_a_plan_the_keys_are_latched_together() {
    let mut rig = Rig::in_memory();
    let names: Vec<Vec<u8>> = (0..30).map(name).collect();
    let set = |rig: &mut Rig, len: usize| {
        let session = rig.session.as_mut().unwrap();
        session.enter(NOW_MS);
        let value = vec![b'v'; len];
        let keys: Vec<_> = names.iter().map(|name| session.key(rig.namespace, name)).collect();
        let outcome = session
            .plan()
            .upsert_all(&keys.into_iter().map(|key| Pair { key, value: &value, copy: None, expiry_ms: None }).collect::<Vec<_>>());
        session.leave();
        outcome
    };
    assert!(set(&mut rig, 10).is_ok());
    limit_allocations(Some(7));
    assert_eq!(set(&mut rig, 1_500), Err(NotSet::Full));
    limit_allocations(None);
    assert!(rig.contents(&names).iter().all(|(_, value)| value.as_ref().is_some_and(|(value, _)| value.len() == 10)));
    assert_eq!(rig.counts().keys, (30, 0));
}

/// INV-SCAN-2: a namespace that gets large by several keys at a time is scanned as one that gets large key by key.
#[test]
fn keys_that_come_several_at_a_time_are_all_scanned() {
    for together in [2, 7, 1000] {
        let mut rig = Rig::in_memory();
        let names: Vec<Vec<u8>> = (0..40_000).map(|number| format!("{number}").into_bytes()).collect();
        let session = rig.session.as_mut().unwrap();
        for names in names.chunks(together) {
            session.enter(NOW_MS);
            let pair = |name| Pair { key: session.key(rig.namespace, name), value: b"value", copy: None, expiry_ms: None };
            let pairs: Vec<Pair<'_>> = names.iter().map(|name| pair(name)).collect();
            session.plan().upsert_all(&pairs).unwrap();
            session.leave();
        }
        let (mut cursor, mut seen) = (0, 0);
        loop {
            session.enter(NOW_MS);
            cursor = session.keys(rig.namespace).scan(cursor, 1000, |_, _| seen += 1).cursor;
            session.leave();
            if cursor == 0 {
                break;
            }
        }
        assert_eq!(seen, names.len(), "{together} at a time");
    }
}

/// A key that a unit removes is looked up again among others with its tag: these are at hand, too.
#[test]
fn what_is_looked_up_behind_a_removal_is_at_hand() {
    const KEYS: usize = 20_000;
    let mut rig = Rig::with_device();
    rig.store.settings().set_copy_reads(CopyReads::None);
    let names: Vec<Vec<u8>> = (0..KEYS).map(|number| format!("{number}").into_bytes()).collect();
    let session = rig.session.as_mut().unwrap();
    for name in &names {
        session.enter(NOW_MS);
        let key = session.key(rig.namespace, name);
        session.upsert(key, b"value", Put::default()).unwrap();
        session.leave();
    }
    rig.session = None;
    assert!(rig.store.empty_memory(Duration::from_secs(20)));
    rig.session = rig.store.session();
    let in_memory: Vec<&Vec<u8>> = names.iter().step_by(2).collect();
    for name in &in_memory {
        rig.batch(&[(*name).clone()], |session, namespace| {
            session.upsert(session.key(namespace, name), b"value", Put::default()).unwrap();
        });
    }
    let (mut session, mut beside) = (rig.session.take().unwrap(), 0);
    for name in in_memory {
        let mut stage = Stage::default();
        loop {
            session.enter(NOW_MS);
            session.staging().attach(stage);
            let key = session.key(rig.namespace, name);
            session.plan().lock_all(&[key.hash], true);
            let ready = session.cold().probe_all(key, Need::Read).is_ok();
            if ready {
                assert_eq!(session.delete(key), Ok(true));
                assert_eq!(session.read(key, |_| ()), Ok(None), "a record with the tag of {name:?} was not read");
            }
            session.plan().unlock_all();
            stage = session.staging().detach();
            session.leave();
            if ready {
                break;
            }
            beside += session.cold().wanted();
            session.cold().stage_blocking(&mut session.cold().take_wanted(), &mut stage, &mut rig.fetcher);
        }
    }
    assert_ne!(beside, 0, "no two keys had one tag");
}
