//! A store that begins with what another one has left on the device: with a base of it, and what was done since the base began.

#![cfg(not(loom))]

use almandine_base::steps;
use almandine_device::MemoryDevice;
use almandine_io::storage::Buffer;
use almandine_store::{
    AdoptFault, Adoption, Body, ColdKey, KeptDevice, Missing, PageRow, Put, Records, Session, Storage, Store, StoreDevice, Walk,
};
use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

#[path = "support/client.rs"]
mod client;

#[path = "support/encrypted.rs"]
mod encrypted;

use client::{Client, NOW_MS, open};
use encrypted::ciphers;

const MIB: u64 = 1 << 20;

struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % sides
    }
}

type Name = (u16, Vec<u8>);
type Value = (Vec<u8>, Option<i64>);

/// What clients do, and what came of it.
struct Load {
    /// None between two stores.
    client: Option<Client>,
    model: BTreeMap<Name, Value>,
    dice: Dice,
    namespaces: [u16; 2],
    /// The last keys that were changed, and what they have now.
    done: Vec<(Name, Option<Value>)>,
}

impl Load {
    fn step(&mut self) {
        let (dice, client) = (&mut self.dice, self.client.as_mut().expect("a store"));
        // One namespace has pages of its own for most of the time.
        let namespace = self.namespaces[usize::from(dice.roll(40) == 0)];
        let mut key = format!("key:{}", dice.roll(30_000)).into_bytes();
        if dice.roll(300) == 0 {
            key.resize(5_000, b'k');
        }
        if dice.roll(5) == 0 {
            client.delete(namespace, &key);
            self.model.remove(&(namespace, key.clone()));
            return self.done.push(((namespace, key), None));
        }
        let len = match dice.roll(40) {
            0 => 20_000 + dice.roll(30_000),
            1..=4 => dice.roll(4_000),
            _ => dice.roll(400),
        };
        let first = dice.roll(256) as u8;
        let value: Vec<u8> = (0..len).map(|at| first.wrapping_add(at as u8)).collect();
        let expiry_ms = (dice.roll(20) == 0).then(|| NOW_MS + 1 + dice.roll(1_000_000) as i64);
        client.set(namespace, &key, &value, Put { expiry_ms, ..Put::default() });
        self.model.insert((namespace, key.clone()), (value.clone(), expiry_ms));
        self.done.push(((namespace, key), Some((value, expiry_ms))));
    }
}

/// What a base has.
#[derive(Default)]
struct Base {
    pages: Vec<PageRow>,
    cold: Vec<ColdKey>,
    copied: Vec<(Name, Value)>,
    index_buckets: u64,
    next_page: u64,
}

impl Base {
    /// Takes what the walk's next step has.
    fn go_on(&mut self, walk: &mut Walk, session: &mut Session, records: &mut Records) -> Result<bool, Missing> {
        records.clear();
        let more = walk.next(session, records);
        self.cold.extend_from_slice(records.cold());
        for record in records.iter() {
            let value = match record.value {
                Body::Bytes(bytes) => bytes.to_vec(),
                Body::Shared(value) => (**value).as_ref().to_vec(),
            };
            self.copied.push(((record.namespace, record.key.to_vec()), (value, record.put.expiry_ms)));
        }
        more
    }
}

fn write_base(store: &Store, load: &mut Load) -> Base {
    let device = store.device().expect("a device");
    let mut session = store.session().expect("a session");
    let begun = device.begin_base(&mut session);
    load.done.clear();
    let (index_buckets, next_page) = (begun.index_buckets, begun.next_page());
    let mut base = Base { pages: device.pages(begun).collect(), index_buckets, next_page, ..Base::default() };
    let mut records = Records::default();
    for part in 0..4 {
        let mut walk = Walk::part_above(part, 4, begun.below);
        let mut more = true;
        while more {
            more = base.go_on(&mut walk, &mut session, &mut records).expect("a device that reads");
            (0..3).for_each(|_| load.step());
        }
    }
    for row in &mut base.pages {
        row.dead_words = device.dead_words(row);
    }
    device.sync().expect("a device that keeps");
    device.end_base(begun, true);
    base
}

fn recovered(storage: &Storage, base: &Base, redo: &[(Name, Option<Value>)], namespaces: &[u16]) -> Arc<Store> {
    begun_with(storage, base, redo, namespaces, |_| {})
}

fn begun_with(
    storage: &Storage,
    base: &Base,
    redo: &[(Name, Option<Value>)],
    namespaces: &[u16],
    set_up: impl FnOnce(StoreDevice<'_>),
) -> Arc<Store> {
    let (store, mut client) = adopted(storage, base, namespaces, set_up);
    Adoption::new(&mut client.session, namespaces).survey().expect("sound pages");
    let all = base.copied.iter().map(|(name, value)| (name, Some(value)));
    for ((namespace, key), value) in all.chain(redo.iter().map(|(name, value)| (name, value.as_ref()))) {
        match value {
            Some((value, expiry_ms)) => client.set(*namespace, key, value, Put { expiry_ms: *expiry_ms, ..Put::default() }),
            None => client.delete(*namespace, key),
        }
    }
    drop(client);
    store
}

/// A store that has taken over what a base names, and has not looked at it.
fn adopted(storage: &Storage, base: &Base, namespaces: &[u16], set_up: impl FnOnce(StoreDevice<'_>)) -> (Arc<Store>, Client) {
    let store = Arc::new(open(storage, Some(KeptDevice { index_buckets: base.index_buckets, next_page: base.next_page })));
    store.take_namespaces(namespaces);
    let device = store.device().expect("a device");
    device.keep_for_bases();
    set_up(device);
    assert!(base.pages.iter().all(|row| device.adopt_page(row)));
    let mut client = Client::new(&store);
    for group in base.cold.chunks(100) {
        client.session.enter(0);
        for cold in group {
            Adoption::new(&mut client.session, namespaces).adopt(cold, &mut client.fetcher).expect("room");
        }
        client.session.leave();
    }
    (store, client)
}

fn compare(store: &Arc<Store>, load: &Load, when: &str) {
    let mut client = Client::new(store);
    for ((namespace, key), value) in &load.model {
        let found = client.get(*namespace, key);
        assert!(found.as_ref() == Some(value), "{when}: {namespace} {}", String::from_utf8_lossy(&key[..key.len().min(20)]));
    }
    for namespace in load.namespaces {
        let of: Vec<&Value> = load.model.iter().filter(|((of, _), _)| *of == namespace).map(|(_, value)| value).collect();
        let volatile = of.iter().filter(|(_, expiry_ms)| expiry_ms.is_some()).count();
        assert_eq!(store.figures().namespace_len(namespace), (of.len() as u64, volatile as u64), "{when}: {namespace}");
    }
}

/// Bases one after the other, each with churn, flushes and compaction beside and behind it, and a start from each.
fn starts_from_bases(seed: u64) {
    let storage = Storage { pages: Arc::new(MemoryDevice::new()), values: Arc::new(MemoryDevice::new()), ciphers: ciphers() };
    let mut store = Arc::new(open(&storage, None));
    let namespaces = [0; 2].map(|_| store.allocate_namespace().expect("a namespace"));
    store.device().expect("a device").keep_for_bases();
    let client = Some(Client::new(&store));
    let mut load = Load { client, model: BTreeMap::new(), dice: Dice(seed), namespaces, done: Vec::new() };
    (0..40_000).for_each(|_| load.step());
    for round in 0..2 {
        let base = write_base(&store, &mut load);
        assert!(base.cold.len() > 1_000 && base.copied.len() > 50, "{} {}", base.cold.len(), base.copied.len());
        // Pages of the base are compacted, and others written.
        (0..25_000).for_each(|_| load.step());
        load.client = None;
        let compacted = store.figures().tier().expect("a device").pages_compacted;
        assert!(compacted > 0 || round == 0, "{round}: pages of the base are given up");
        Arc::into_inner(store).expect("the last one");
        store = recovered(&storage, &base, &load.done, &namespaces);
        load.client = Some(Client::new(&store));
        compare(&store, &load, &format!("round {round}"));
        let named: HashSet<u64> = base.pages.iter().map(|row| row.page).collect();
        assert_eq!(named.len(), base.pages.len());
    }
}

#[test]
fn a_store_begins_with_a_base_and_what_was_done_since() {
    starts_from_bases(1);
}

/// A base that has seen records of a namespace says at its end which database has it: none of another one may have it by then.
#[test]
fn a_namespace_is_not_used_again_while_a_base_is_written() {
    let storage = Storage { pages: Arc::new(MemoryDevice::new()), values: Arc::new(MemoryDevice::new()), ciphers: ciphers() };
    let store = Arc::new(open(&storage, None));
    let namespace = store.allocate_namespace().expect("a namespace");
    let mut client = Client::new(&store);
    (0..100u8).for_each(|number| client.set(namespace, &[number], b"value", Put::default()));
    let device = store.device().expect("a device");
    let base = device.begin_base(&mut store.session().expect("a session"));
    store.drop_namespace(namespace);
    while store.figures().work().namespaces_swept == 0 {
        std::thread::sleep(Duration::from_millis(1));
    }
    assert_ne!(store.allocate_namespace().expect("a namespace"), namespace);
    device.end_base(base, false);
    assert_eq!(store.allocate_namespace().expect("a namespace"), namespace);
}

/// INV-RETAIN-1: without the first two steps a start misses pages that a base has named, or finds keys of another database.
/// INV-BASE-1: without the third a base lacks keys. INV-SCAN-1: without the fourth a copy may never be complete.
#[cfg(feature = "mutants")]
#[test]
fn mutants_are_noticed() {
    let own = std::env::current_exe().expect("the path of the test");
    for (mutant, test) in [
        ("RetainPages", "a_store_begins_with_a_base_and_what_was_done_since"),
        ("HoldNamespaces", "a_namespace_is_not_used_again_while_a_base_is_written"),
        ("FollowMoved", "what_leaves_memory_under_a_base_is_copied_by_its_pages"),
        ("GoOnPages", "a_page_number_is_not_used_again_when_the_last_pages_have_gone_back"),
        ("StageWhole", "a_walk_gets_on_when_records_leave_memory_between_its_slices"),
    ] {
        let run = std::process::Command::new(&own).args(["--exact", test]).env("ALMANDINE_MUTANT", mutant).output();
        let run = run.expect("the test starts");
        let said = String::from_utf8_lossy(&run.stdout).into_owned();
        assert!(!run.status.success() && said.contains("test result: FAILED. 0 passed; 1 failed"), "{mutant}: {said}");
    }
}

/// INV-SCAN-1: records of a bucket that leave memory one after the other are read together in the end.
#[test]
fn a_walk_gets_on_when_records_leave_memory_between_its_slices() {
    let storage = Storage { pages: Arc::new(MemoryDevice::new()), values: Arc::new(MemoryDevice::new()), ciphers: ciphers() };
    let store = Arc::new(open(&storage, None));
    let namespace = store.allocate_namespace().expect("a namespace");
    let store_half = |half: usize| {
        let mut client = Client::new(&store);
        (half..20_000).step_by(2).for_each(|key| client.set(namespace, key.to_string().as_bytes(), b"value", Put::default()));
        drop(client);
        assert!(store.empty_memory(Duration::from_secs(20)));
    };
    let (mut session, mut records) = (store.session().expect("a session"), Records::default());
    let mut walk = Walk::part(0, 1);
    store_half(0);
    assert_eq!(walk.next(&mut session, &mut records), Ok(true));
    assert_eq!((walk.position(), records.iter().count()), (0, 0), "half of each bucket is to be read");
    store_half(1);
    for _ in 0..2 {
        assert_eq!(walk.next(&mut session, &mut records), Ok(true));
    }
    assert_ne!(walk.position(), 0, "both halves of a bucket are read in turns");
}

/// Where that is asked for, a store begins without the keys that are lost with damaged pages, and knows how many these are.
#[test]
fn a_store_begins_without_what_is_damaged() {
    let storage = Storage { pages: Arc::new(MemoryDevice::new()), values: Arc::new(MemoryDevice::new()), ciphers: ciphers() };
    let store = Arc::new(open(&storage, None));
    let namespaces = [0; 2].map(|_| store.allocate_namespace().expect("a namespace"));
    store.device().expect("a device").keep_for_bases();
    let client = Some(Client::new(&store));
    let mut load = Load { client, model: BTreeMap::new(), dice: Dice(11), namespaces, done: Vec::new() };
    (0..60_000).for_each(|_| load.step());
    let base = write_base(&store, &mut load);
    load.client = None;
    Arc::into_inner(store).expect("the last one");
    for damaged in 0..2 {
        // The first block of a page, and one in the middle of a page that is read whole at the start.
        let page = |row: &&PageRow| damaged == 0 || row.extent_blocks != 0;
        let rows: Vec<&PageRow> = base.pages.iter().filter(page).step_by(3).collect();
        assert!(rows.len() > 1, "{} of {} pages", rows.len(), base.pages.len());
        for row in &rows {
            storage.pages.write(row.page * 2 * MIB + damaged * 200 * 4096, &Buffer::new(4096)).expect("a device that writes");
        }
        let store = begun_with(&storage, &base, &load.done, &namespaces, |device| device.forgive_damage());
        let (pages, lost) = store.device().expect("a device").lost();
        assert!(pages >= rows.len() as u64 && lost > 0, "{pages} pages, {lost} keys");
        let (mut client, mut present, mut absent) = (Client::new(&store), [0; 2], 0);
        for ((namespace, key), value) in &load.model {
            match client.get(*namespace, key) {
                Some(found) => {
                    assert!(found == *value, "{}", String::from_utf8_lossy(&key[..key.len().min(20)]));
                    present[usize::from(*namespace == namespaces[1])] += 1;
                }
                None => absent += 1,
            }
        }
        assert!(absent > 0 && absent <= lost, "{absent} are lost, and {lost} are told: some of them were set later");
        for (namespace, present) in namespaces.iter().zip(present) {
            assert_eq!(store.figures().namespace_len(*namespace).0, present, "{damaged}: {namespace}");
        }
        drop(client);
    }
}

/// The index is swept once for all damaged pages, however many these are.
#[test]
fn twice_as_many_damaged_pages_are_no_more_sweeps() {
    const PAGES: u64 = 64;
    let storage = Storage { pages: Arc::new(MemoryDevice::new()), values: Arc::new(MemoryDevice::new()), ciphers: ciphers() };
    let store = Arc::new(open(&storage, None));
    store.device().expect("a device").keep_for_bases();
    let namespaces = [0; 2].map(|_| store.allocate_namespace().expect("a namespace"));
    let mut client = Client::new(&store);
    let value = vec![b'v'; 10_000];
    (0..PAGES * 210).for_each(|key| client.set(namespaces[0], format!("key:{key}").as_bytes(), &value, Put::default()));
    assert!(store.empty_memory(Duration::from_secs(20)));
    let mut load = Load { client: Some(client), model: BTreeMap::new(), dice: Dice(11), namespaces, done: Vec::new() };
    let base = write_base(&store, &mut load);
    assert!(base.pages.len() as u64 >= PAGES, "{} pages", base.pages.len());
    load.client = None;
    Arc::into_inner(store).expect("the last one");
    let begun = |damaged: u64| {
        for row in base.pages.iter().take(damaged as usize) {
            storage.pages.write(row.page * 2 * MIB, &Buffer::new(4096)).expect("a device that writes");
        }
        let (store, mut client) = adopted(&storage, &base, &namespaces, |device| device.forgive_damage());
        let before = steps::taken();
        Adoption::new(&mut client.session, &namespaces).survey().expect("damage that is forgiven");
        let taken = steps::taken() - before;
        let (pages, keys) = store.device().expect("a device").lost();
        assert_eq!(pages, damaged);
        // A sweep takes three steps for a bucket, and what is lost four for a key. The index may grow meanwhile.
        let sweep = 3 * store.figures().index_buckets();
        assert!(
            taken > 1_000 && taken <= sweep + 4 * keys,
            "{taken} steps with {pages} damaged pages, {sweep} for a sweep, {keys} keys"
        );
    };
    begun(PAGES / 2);
    begun(PAGES);
}

/// What a base had in memory when it began leaves for the device, and changes there and back before it comes to it.
struct Leaving {
    storage: Storage,
    store: Arc<Store>,
    client: Client,
    namespace: u16,
    model: BTreeMap<Vec<u8>, Vec<u8>>,
}

impl Leaving {
    const KEYS: u64 = 30_000;

    fn new() -> Self {
        let storage = Storage { pages: Arc::new(MemoryDevice::new()), values: Arc::new(MemoryDevice::new()), ciphers: ciphers() };
        let store = Arc::new(open(&storage, None));
        store.device().expect("a device").keep_for_bases();
        let namespace = store.allocate_namespace().expect("a namespace");
        let client = Client::new(&store);
        Self { storage, store, client, namespace, model: BTreeMap::new() }
    }

    /// Gives some keys new values: a few are long, or have long names.
    fn set(&mut self, keys: impl Iterator<Item = u64>, what: &str) {
        for number in keys {
            let mut key = format!("key:{number}").into_bytes();
            if number % 701 == 0 {
                key.resize(5_000, b'k');
            }
            let mut value = format!("{what} {number}").into_bytes();
            if number % 499 == 0 {
                value.resize(30_000, b'v');
            }
            self.client.set(self.namespace, &key, &value, Put::default());
            self.model.insert(key, value);
        }
    }

    fn delete(&mut self, keys: impl Iterator<Item = u64>) {
        for key in keys.map(|number| format!("key:{number}").into_bytes()) {
            self.client.delete(self.namespace, &key);
            self.model.remove(&key);
        }
    }

    fn empty_memory(&self) {
        assert!(self.store.empty_memory(Duration::from_secs(20)));
    }

    /// Reads of pages and records.
    fn reads(&self) -> u64 {
        let figures = self.store.figures();
        let tier = figures.tier().expect("a device");
        tier.reads + tier.background_reads
    }

    /// A store that begins with the base has what this one has. What was removed is, by what was done since the base began.
    fn compare(self, base: &Base, removed: impl Iterator<Item = u64>) {
        let (namespace, model) = (self.namespace, self.model);
        drop(self.client);
        Arc::into_inner(self.store).expect("the last one");
        let removed: Vec<_> = removed.map(|number| ((namespace, format!("key:{number}").into_bytes()), None)).collect();
        let store = recovered(&self.storage, base, &removed, &[namespace]);
        let mut client = Client::new(&store);
        for (key, value) in &model {
            let found = client.get(namespace, key).map(|(value, _)| value);
            assert!(found.as_ref() == Some(value), "{}", String::from_utf8_lossy(&key[..key.len().min(20)]));
        }
        assert_eq!(store.figures().namespace_len(namespace).0, model.len() as u64);
    }
}

/// INV-BASE-1: wherever a key's record goes while a base is written, the base has it; and what has left memory is read by pages.
#[test]
fn what_leaves_memory_under_a_base_is_copied_by_its_pages() {
    let mut leaving = Leaving::new();
    leaving.set((0..Leaving::KEYS).step_by(3), "before");
    leaving.empty_memory();
    leaving.set((1..Leaving::KEYS).step_by(3), "in memory");
    leaving.set((2..Leaving::KEYS).step_by(3), "in memory");
    let store = Arc::clone(&leaving.store);
    let (device, mut session, mut records) =
        (store.device().expect("a device"), store.session().expect("a session"), Records::default());
    let begun = device.begin_base(&mut session);
    let (index_buckets, next_page) = (begun.index_buckets, begun.next_page());
    let mut base = Base { pages: device.pages(begun).collect(), index_buckets, next_page, ..Base::default() };
    leaving.empty_memory();
    let before = leaving.reads();
    let mut walk = Walk::part_above(0, 1, begun.below);
    while base.go_on(&mut walk, &mut session, &mut records) == Ok(true) && walk.position() != 0 {}
    assert!(base.cold.len() as u64 >= Leaving::KEYS / 4 && base.copied.is_empty(), "{} {}", base.cold.len(), base.copied.len());
    let by_index = leaving.reads() - before;
    // The walk has passed all of these, and noted where they were: they go to other pages, or to memory, or away.
    leaving.set((1..Leaving::KEYS).step_by(6), "further on");
    leaving.empty_memory();
    leaving.set((2..Leaving::KEYS).step_by(6), "in memory again");
    leaving.delete((5..Leaving::KEYS).step_by(60));
    let before = leaving.reads();
    while base.go_on(&mut walk, &mut session, &mut records).expect("a device that reads") {}
    let by_page = leaving.reads() - before;
    assert!(by_index == 0 && by_page < Leaving::KEYS / 50, "{by_index}, {by_page}: pages are read, and large values");
    base.pages.iter_mut().for_each(|row| row.dead_words = device.dead_words(row));
    device.end_base(begun, true);
    drop((session, walk));
    drop(store);
    leaving.compare(&base, (5..Leaving::KEYS).step_by(60));
}

/// A page that is damaged is read record by record, so that its other keys are copied.
#[test]
fn a_damaged_page_under_a_base_is_read_record_by_record() {
    let mut leaving = Leaving::new();
    leaving.set(0..Leaving::KEYS, "in memory");
    let store = Arc::clone(&leaving.store);
    let (device, mut session, mut records) =
        (store.device().expect("a device"), store.session().expect("a session"), Records::default());
    let begun = device.begin_base(&mut session);
    leaving.empty_memory();
    let mut base = Base { index_buckets: begun.index_buckets, ..Base::default() };
    let page = begun.below / (2 * MIB / 8);
    let mut block = Buffer::new(4096);
    leaving.storage.pages.read((page + 1) * 2 * MIB, &mut block).expect("a device that reads");
    leaving.storage.pages.write((page + 1) * 2 * MIB, &Buffer::new(4096)).expect("a device that writes");
    let mut walk = Walk::part_above(0, 1, begun.below);
    let mut next = Ok(true);
    for _ in 0..100_000 {
        next = base.go_on(&mut walk, &mut session, &mut records);
        if next != Ok(true) {
            break;
        }
    }
    assert_eq!(next, Err(Missing::Unreadable), "a base without those keys is no base");
    leaving.storage.pages.write((page + 1) * 2 * MIB, &block).expect("a device that writes");
    while base.go_on(&mut walk, &mut session, &mut records).expect("a device that reads") {}
    device.end_base(begun, true);
    drop((session, walk));
    drop(store);
    leaving.compare(&base, std::iter::empty());
}

/// Copies of pages elsewhere have their numbers as names.
#[test]
fn a_page_number_is_not_used_again_when_the_last_pages_have_gone_back() {
    let storage = Storage { pages: Arc::new(MemoryDevice::new()), values: Arc::new(MemoryDevice::new()), ciphers: ciphers() };
    let (mut next_page, mut store) = (0, Arc::new(open(&storage, None)));
    for _ in 0..2 {
        let namespace = store.allocate_namespace().expect("a namespace");
        let mut client = Client::new(&store);
        (0..20_000).for_each(|key: u32| client.set(namespace, &key.to_be_bytes(), &[7; 200], Put::default()));
        assert!(store.empty_memory(Duration::from_secs(20)));
        let device = store.device().expect("a device");
        let begun = device.begin_base(&mut client.session);
        let pages: Vec<u64> = device.pages(begun).map(|row| row.page).collect();
        assert!(!pages.is_empty() && pages.iter().all(|page| (next_page..begun.next_page()).contains(page)), "{pages:?}");
        next_page = begun.next_page();
        drop(client);
        Arc::into_inner(store).expect("the last one");
        // A base without any page was the last one.
        pages.iter().for_each(|page| storage.pages.discard(page * 2 * MIB, 2 * MIB).expect("a device that discards"));
        store = Arc::new(open(&storage, Some(KeptDevice { index_buckets: begun.index_buckets, next_page })));
        Adoption::new(&mut store.session().expect("a session"), &[]).survey().expect("no pages");
    }
}

#[test]
fn what_a_base_does_not_name_goes_back() {
    let storage = Storage { pages: Arc::new(MemoryDevice::new()), values: Arc::new(MemoryDevice::new()), ciphers: ciphers() };
    let store = Arc::new(open(&storage, None));
    store.device().expect("a device").keep_for_bases();
    let namespace = store.allocate_namespace().expect("a namespace");
    let client = Some(Client::new(&store));
    let mut load = Load { client, model: BTreeMap::new(), dice: Dice(5), namespaces: [namespace; 2], done: Vec::new() };
    (0..40_000).for_each(|_| load.step());
    let base = write_base(&store, &mut load);
    (0..40_000).for_each(|_| load.step());
    drop(load);
    Arc::into_inner(store).expect("the last one");
    let used = || storage.pages.used_bytes() + storage.values.used_bytes();
    let before = used();
    let survey = || {
        let store = open(&storage, Some(KeptDevice { index_buckets: base.index_buckets, next_page: base.next_page }));
        store.take_namespaces(&[namespace]);
        let device = store.device().expect("a device");
        device.keep_for_bases();
        assert!(base.pages.iter().all(|row| device.adopt_page(row)));
        let mut session = store.session().expect("a session");
        Adoption::new(&mut session, &[namespace]).survey()
    };
    survey().expect("sound pages");
    let blocks: u64 = base.pages.iter().map(|row| u64::from(row.extent_blocks)).sum();
    let named = base.pages.len() as u64 * 2 * MIB + blocks * 4096;
    assert!(used() <= named && used() < before, "{} of {before}, {named} are named", used());
    // A page that is damaged, and one that is missing.
    let page = base.pages[base.pages.len() / 2].page;
    storage.pages.write(page * 2 * MIB, &Buffer::new(4096)).expect("a device that writes");
    assert_eq!(survey(), Err(AdoptFault::Damaged { page }));
    storage.pages.discard(page * 2 * MIB, 2 * MIB).expect("a device that discards");
    assert!(survey().is_err());
}
