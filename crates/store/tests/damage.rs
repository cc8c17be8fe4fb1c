//! A device that is damaged or refuses writes: what is lost is no more than that, and nothing is kept for ever.

#![cfg(not(loom))]

use almandine_device::{Device, FaultPlan, FaultyDevice, MemoryDevice};
use almandine_io::storage::Buffer;
use almandine_store::{Consumer, Effect, Fetcher, Missing, NotSet, Options, Put, RemovalReason, Session, Stage, Storage, Store};
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

#[path = "support/encrypted.rs"]
mod encrypted;

use encrypted::ciphers;

const MIB: u64 = 1 << 20;
const PAGE: u64 = 2 * MIB;
const START_MS: i64 = 1_000_000;

/// A store without threads of its own, whose table of device pages is as small as can be.
struct Rig {
    store: Store,
    session: Session,
    namespace: u16,
    fetcher: Fetcher,
    pages: Arc<MemoryDevice>,
    values: Arc<MemoryDevice>,
    faulty_pages: Arc<FaultyDevice>,
    faulty_values: Arc<FaultyDevice>,
    now_ms: i64,
}

fn faulty(memory: &Arc<MemoryDevice>) -> Arc<FaultyDevice> {
    Arc::new(FaultyDevice::new(Arc::clone(memory) as Arc<dyn Device>, 1, FaultPlan::default()))
}

impl Rig {
    fn new() -> Self {
        let (pages, values) = (Arc::new(MemoryDevice::new()), Arc::new(MemoryDevice::new()));
        let (faulty_pages, faulty_values) = (faulty(&pages), faulty(&values));
        let storage =
            Storage { pages: Arc::clone(&faulty_pages) as _, values: Arc::clone(&faulty_values) as _, ciphers: ciphers() };
        let options = Options {
            memory_bytes_max: 1 << 30,
            storage: Some(storage),
            device_pages_max: 64,
            background: false,
            ..Options::default()
        };
        let store = Store::open(options).expect("a store");
        store.settings().set_budget(16 * MIB);
        store.settings().set_compaction(0.99, 1 << 40);
        let session = store.session().expect("a session");
        let namespace = store.allocate_namespace().expect("a namespace");
        let fetcher = Fetcher::default();
        Self { store, session, namespace, fetcher, pages, values, faulty_pages, faulty_values, now_ms: START_MS }
    }

    /// Sets a new key. False when the store is full. One whose tag is that of a record that cannot be read is left out.
    fn set(&mut self, namespace: u16, number: u64, value: &[u8], expiry_ms: Option<i64>) -> bool {
        let name = format!("key:{number}");
        let mut stage = Stage::default();
        for _ in 0..100 {
            self.session.enter(self.now_ms);
            self.session.staging().attach(stage);
            let key = self.session.key(namespace, name.as_bytes());
            let set = self.session.upsert(key, value, Put { expiry_ms, ..Put::default() });
            stage = self.session.staging().detach();
            self.session.leave();
            match set {
                Ok(()) => return true,
                Err(NotSet::Full) => return false,
                Err(NotSet::Missing(Missing::Cold)) => self.stage_wanted(&mut stage),
                Err(NotSet::Missing(_)) => return true,
            }
        }
        panic!("key {number} is cold for ever");
    }

    fn stage_wanted(&mut self, stage: &mut Stage) {
        let cold = self.session.cold();
        cold.stage_blocking(&mut cold.take_wanted(), stage, &mut self.fetcher);
    }

    fn get(&mut self, number: u64) -> Option<Vec<u8>> {
        let name = format!("key:{number}");
        let mut stage = Stage::default();
        for _ in 0..100 {
            self.session.enter(self.now_ms);
            self.session.staging().attach(stage);
            let key = self.session.key(self.namespace, name.as_bytes());
            let found = self.session.read(key, |view| {
                let mut value = Vec::new();
                match view.shared() {
                    Some(shared) => value.extend_from_slice((*shared).as_ref()),
                    None => view.append_to(&mut value),
                }
                value
            });
            stage = self.session.staging().detach();
            self.session.leave();
            match found {
                Ok(found) => return found,
                Err(Missing::Cold) => self.stage_wanted(&mut stage),
                Err(_) => panic!("key {number} can not be read"),
            }
        }
        panic!("key {number} is cold for ever");
    }

    fn maintain(&mut self, steps: usize) {
        for _ in 0..steps {
            self.now_ms += 10;
            self.store.maintain(self.now_ms);
        }
    }

    /// Writes this number of pages, full of records of no further use.
    fn churn(&mut self, pages: u64) {
        let target = self.tier().pages_flushed + pages;
        let mut refused = 0;
        while self.tier().pages_flushed < target {
            let namespace = self.store.allocate_namespace().expect("a namespace");
            let mut number = 0;
            while number < 16 * PAGE / 1100 && self.tier().pages_flushed < target {
                if !self.store.is_over_limit() && self.set(namespace, number, &[3; 1000], None) {
                    (number, refused) = (number + 1, 0);
                } else {
                    refused += 1;
                    assert!(refused < 10_000, "writes are refused for ever: {:?}", self.tier());
                    self.maintain(1);
                }
                if number.is_multiple_of(50) {
                    self.maintain(2);
                }
            }
            self.store.drop_namespace(namespace);
            self.maintain(50);
        }
    }

    /// Damages bytes of the first page on the device.
    fn damage(&self, from: u64, bytes: u64) {
        let mut garbage = Buffer::new(bytes as usize);
        garbage.fill(0xA5);
        self.pages.write(PAGE + from, &garbage).expect("room");
    }

    fn tier(&self) -> almandine_store::TierStatistics {
        self.store.figures().tier().expect("a device")
    }
}

fn value_of(number: u64) -> Vec<u8> {
    vec![number as u8; 1000]
}

/// More than a page of keys, all on the device.
fn rig_with_keys(keys: u64, expiry_ms: Option<i64>) -> Rig {
    filled(Rig::new(), keys, expiry_ms)
}

fn filled(mut rig: Rig, keys: u64, expiry_ms: Option<i64>) -> Rig {
    for number in 0..keys {
        assert!(rig.set(rig.namespace, number, &value_of(number), expiry_ms));
        if number.is_multiple_of(50) {
            rig.maintain(2);
        }
    }
    rig.churn(8);
    assert!(rig.pages.used_bytes() > 2 * PAGE);
    rig
}

#[test]
fn a_bad_block_costs_its_own_records_and_writing_goes_on() {
    const KEYS: u64 = 3_000;
    let expiry_ms = Some(START_MS + 1_000_000_000);
    let mut rig = rig_with_keys(KEYS, expiry_ms);
    rig.damage(10 * 4096, 8192);
    assert_eq!((rig.tier().records_lost, rig.store.figures().namespace_len(rig.namespace)), (0, (KEYS, KEYS)));
    // Twice as many pages as the table has places for.
    rig.churn(130);
    let tier = rig.tier();
    assert_eq!(tier.pages_salvaged, 1, "{tier:?}");
    let lost = tier.records_lost;
    assert!((8..=11).contains(&lost), "two blocks hold eight records or so: {lost}");
    assert_eq!(rig.store.figures().namespace_len(rig.namespace), (KEYS - lost, KEYS - lost), "the lost are counted no more");
    let mut missing = 0;
    for number in 0..KEYS {
        match rig.get(number) {
            Some(value) => assert_eq!(value, value_of(number)),
            None => missing += 1,
        }
    }
    assert_eq!(missing, lost);
    assert_eq!(rig.store.figures().totals().live as u64, KEYS - lost);
}

/// A device that has lost what it could not sync, say: no base names that, so a start has it from the log.
#[test]
fn what_a_start_has_from_the_log_is_not_given_up() {
    const KEYS: u64 = 20_000;
    let rig = Rig::new();
    rig.store.device().expect("a device").keep_for_bases();
    let mut rig = filled(rig, KEYS, None);
    (0..700).for_each(|number| assert!(rig.set(rig.namespace, number, &value_of(number), None)));
    rig.damage(300 * 4096, 8192);
    rig.store.settings().set_compaction(0.01, 1 << 40);
    let tries = |rig: &mut Rig| {
        for _ in 0..40 {
            rig.now_ms += 300_000;
            rig.maintain(10);
        }
    };
    tries(&mut rig);
    let tier = rig.tier();
    assert!(tier.corrupt_blocks >= 2 * 8, "it is tried again and again: {tier:?}");
    assert_eq!((tier.pages_salvaged, tier.records_lost), (0, 0), "{tier:?}");
    let device = rig.store.device().expect("a device");
    let base = device.begin_base(&mut rig.session);
    device.end_base(base, true);
    tries(&mut rig);
    let tier = rig.tier();
    assert_eq!(tier.pages_salvaged, 1, "{tier:?}");
    assert!((8..=11).contains(&tier.records_lost), "{tier:?}");
}

#[test]
fn a_page_that_the_device_does_not_give_is_waited_for_though_its_place_is_needed() {
    const KEYS: u64 = 3_000;
    let mut rig = rig_with_keys(KEYS, None);
    let mut page = Buffer::new(PAGE as usize);
    rig.pages.read(PAGE, &mut page).expect("a page");
    // Reads of it fail from now on, as if it were gone.
    rig.pages.discard(PAGE, PAGE).expect("a discard");
    let mut number = 0;
    let mut refused = 0;
    while refused < 500 {
        // The page's place in the table is the one that the next page would need.
        if !rig.store.is_over_limit() && rig.set(rig.namespace, KEYS + number, &[3; 1000], None) {
            (number, refused) = (number + 1, 0);
        } else {
            refused += 1;
            rig.now_ms += 60_000;
        }
        rig.maintain(if number.is_multiple_of(50) { 2 } else { 0 } + usize::from(refused != 0));
        assert!(number < 200_000, "the place is taken: {:?}", rig.tier());
    }
    let tier = rig.tier();
    assert_eq!((tier.pages_salvaged, tier.records_lost), (0, 0), "an error of the device is no damage: {tier:?}");
    rig.pages.write(PAGE, &page).expect("the page comes back");
    rig.churn(10);
    let tier = rig.tier();
    assert_eq!((tier.pages_salvaged, tier.records_lost), (0, 0), "{tier:?}");
    for key in 0..KEYS {
        assert_eq!(rig.get(key), Some(value_of(key)));
    }
}

#[test]
fn a_device_that_fails_now_and_then_for_hours_loses_nothing() {
    const KEYS: u64 = 3_000;
    let mut rig = rig_with_keys(KEYS, None);
    rig.faulty_pages.set_plan(FaultPlan { read_errors: 990_000, ..FaultPlan::default() });
    // Nearly as many pages as the table has places for: the oldest have to go.
    let before = rig.tier().pages_flushed;
    rig.churn(44);
    assert!(rig.tier().pages_flushed >= before + 44);
    for _ in 0..100 {
        rig.now_ms += 300_000;
        rig.maintain(10);
    }
    let tier = rig.tier();
    assert!(tier.read_errors > 20, "a page was to be compacted again and again: {tier:?}");
    assert_eq!(tier.records_lost, 0, "an error of the device is no damage: {tier:?}");
    rig.faulty_pages.set_plan(FaultPlan::default());
    for number in 0..KEYS {
        assert_eq!(rig.get(number), Some(value_of(number)));
    }
}

/// What is told of records that are given up: the keys of those that have one, and how many have none.
type Told = Arc<Mutex<(BTreeSet<Vec<u8>>, u64)>>;

fn tell_of_losses(rig: &Rig) -> Told {
    let told = Told::default();
    let ear = Arc::clone(&told);
    let namespace = rig.namespace;
    rig.store.listeners().on_changes(move |changes| {
        let (keys, nameless) = &mut *ear.lock().expect("no panic");
        for change in changes.iter().filter(|change| change.removal == Some(RemovalReason::Damaged)) {
            assert_eq!((change.namespace, change.sequence != 0), (namespace, true));
            match change.effect {
                Some(Effect::Remove) => assert!(keys.insert(change.key.to_vec()), "told once"),
                Some(Effect::Lost) => *nameless += 1,
                other => panic!("{other:?}"),
            }
        }
    });
    rig.store.listeners().tell_changes(Consumer::Effects, true);
    told
}

#[test]
fn each_record_that_is_given_up_has_its_effect() {
    const KEYS: u64 = 3_000;
    let mut rig = rig_with_keys(KEYS, None);
    let told = tell_of_losses(&rig);
    rig.damage(10 * 4096, 8192);
    rig.churn(130);
    let lost = rig.tier().records_lost;
    assert!((8..=11).contains(&lost), "{lost}");
    assert_eq!(*told.lock().expect("no panic"), (BTreeSet::new(), lost), "INV-EFFECT-1: no key of a damaged block can be read");
}

#[test]
fn records_with_damaged_values_are_removed_by_name() {
    const KEYS: u64 = 3_000;
    let mut rig = Rig::new();
    for number in 0..20 {
        assert!(rig.set(rig.namespace, KEYS + number, &vec![number as u8; 400_000], Some(START_MS + 1_000_000_000)));
        rig.maintain(20);
    }
    for number in 0..KEYS {
        assert!(rig.set(rig.namespace, number, &value_of(number), None));
        if number.is_multiple_of(50) {
            rig.maintain(2);
        }
    }
    rig.churn(8);
    let told = tell_of_losses(&rig);
    // All of the value device.
    let mut garbage = Buffer::new(1 << 20);
    garbage.fill(0xA5);
    (0..rig.values.used_bytes() / MIB).for_each(|at| rig.values.write(at * MIB, &garbage).expect("room"));
    assert_eq!(rig.store.figures().namespace_len(rig.namespace), (KEYS + 20, 20));
    rig.churn(130);
    let tier = rig.tier();
    let (keys, nameless) = told.lock().expect("no panic").clone();
    assert!(keys.len() as u64 == tier.records_lost && nameless == 0 && keys.len() > 10, "{keys:?} {nameless} {tier:?}");
    let left = 20 - tier.records_lost;
    assert_eq!(
        rig.store.figures().namespace_len(rig.namespace),
        (KEYS + left, left),
        "they are counted no more, with their expiries"
    );
    for number in 0..20 {
        let name = format!("key:{}", KEYS + number).into_bytes();
        assert_eq!(rig.get(KEYS + number), (!keys.contains(&name)).then(|| vec![number as u8; 400_000]), "{number}");
    }
}

#[test]
fn a_page_that_is_readable_again_loses_nothing() {
    const KEYS: u64 = 3_000;
    let mut rig = rig_with_keys(KEYS, None);
    rig.faulty_pages.set_plan(FaultPlan { read_errors: 1_000_000, ..FaultPlan::default() });
    rig.churn(20);
    rig.faulty_pages.set_plan(FaultPlan::default());
    rig.churn(110);
    let tier = rig.tier();
    assert_eq!((tier.pages_salvaged, tier.records_lost), (0, 0), "{tier:?}");
    for number in (0..KEYS).step_by(7) {
        assert_eq!(rig.get(number), Some(value_of(number)));
    }
}

#[test]
fn extents_of_a_page_that_is_not_written_are_given_back() {
    for failing in [
        FaultPlan { write_errors: 1_000_000, ..FaultPlan::default() },
        FaultPlan { torn_writes: 1_000_000, ..FaultPlan::default() },
    ] {
        let mut rig = Rig::new();
        rig.faulty_pages.set_plan(failing);
        for number in 0..20 {
            rig.set(rig.namespace, number, &vec![number as u8; 400_000], None);
            rig.maintain(20);
        }
        rig.maintain(300);
        assert!(rig.tier().write_errors > 10, "{:?}", rig.tier());
        assert!(rig.values.used_bytes() < 20 * 404_000, "{} bytes for 20 values", rig.values.used_bytes());
        rig.faulty_pages.set_plan(FaultPlan::default());
        rig.maintain(300);
        assert!(rig.values.used_bytes() <= 20 * 404_000);
        for number in 0..20 {
            assert_eq!(rig.get(number), Some(vec![number as u8; 400_000]));
        }
    }
}

#[test]
fn a_large_extent_that_is_not_written_is_given_back() {
    let mut rig = Rig::new();
    rig.faulty_values.set_plan(FaultPlan { short_writes: 1_000_000, ..FaultPlan::default() });
    rig.set(rig.namespace, 1, &vec![7; 5 << 20], None);
    // Enough behind it that its page is due.
    for number in 2..12_000 {
        rig.set(rig.namespace, number, &[3; 1000], None);
        if number.is_multiple_of(200) {
            rig.maintain(2);
        }
    }
    assert!(rig.tier().write_errors > 3, "{:?}", rig.tier());
    assert_eq!(rig.values.used_bytes(), 0, "nothing of it is there");
    rig.faulty_values.set_plan(FaultPlan::default());
    rig.churn(4);
    assert_eq!(rig.get(1), Some(vec![7; 5 << 20]));
}
