//! What overwriting without a look leaves open while the device cannot be read, and how it is settled when it can.

#![cfg(not(loom))]

use almandine_device::{Device, FaultPlan, FaultyDevice, MemoryDevice};
use almandine_io::storage::Buffer;
use almandine_store::{Options, Put, Session, Storage, Store};
use std::sync::Arc;

const MIB: u64 = 1 << 20;
const START_MS: i64 = 1_000_000;
const KEYS: u64 = 40_000;
const FAILING: FaultPlan = FaultPlan {
    read_errors: 1_000_000,
    short_reads: 0,
    flipped_bits: 0,
    write_errors: 0,
    short_writes: 0,
    torn_writes: 0,
    lost_writes: 0,
    discard_errors: 0,
    sync_errors: 0,
    delays: 0,
    delay_max: std::time::Duration::ZERO,
    full_at: None,
};

/// A store without threads of its own, with most of its keys on the device.
struct Rig {
    store: Store,
    session: Session,
    namespace: u16,
    memory: Arc<MemoryDevice>,
    faulty: Arc<FaultyDevice>,
}

impl Rig {
    fn new() -> Self {
        let memory = Arc::new(MemoryDevice::new());
        let faulty = Arc::new(FaultyDevice::new(Arc::clone(&memory) as Arc<dyn Device>, 1, FaultPlan::default()));
        let storage = Storage { pages: Arc::clone(&faulty) as Arc<dyn Device>, values: Arc::new(MemoryDevice::new()) };
        let options = Options { memory_bytes_max: 1 << 30, storage: Some(storage), background: false, ..Options::default() };
        let store = Store::open(options).expect("a store");
        store.set_budget(16 * MIB);
        store.set_compaction(0.99, 1 << 30);
        let session = store.session().expect("a session");
        let namespace = store.allocate_namespace().expect("a namespace");
        let mut rig = Self { store, session, namespace, memory, faulty };
        for number in 0..KEYS {
            rig.set(number);
        }
        assert!(rig.store.tier().expect("a device").pages_evicted > 5);
        rig
    }

    fn set(&mut self, number: u64) {
        self.session.enter(START_MS);
        let name = format!("key:{number}");
        let key = self.session.key(self.namespace, name.as_bytes());
        self.session.upsert(key, &[7; 1000], Put::default()).expect("room");
        self.session.leave();
        if number.is_multiple_of(100) {
            self.maintain(START_MS, 4);
        }
    }

    fn maintain(&self, now_ms: i64, steps: usize) {
        (0..steps).for_each(|_| self.store.maintain(now_ms));
    }

    fn unresolved(&self) -> u64 {
        self.store.tier().expect("a device").unresolved
    }

    fn background_reads(&self) -> u64 {
        self.store.tier().expect("a device").background_reads
    }

    fn len(&self) -> u64 {
        self.store.namespace_len(self.namespace).0
    }

    /// Overwrites cold keys, and has all questions asked that come of it.
    fn overwrite(&mut self, keys: u64) {
        (0..keys).for_each(|number| self.set(number));
        self.maintain(START_MS, 2 * keys as usize / 64 + 10);
    }

    /// Damages bytes of a page on the device.
    fn damage(&self, page: u64, from: u64, bytes: u64) {
        let mut garbage = Buffer::new(bytes as usize);
        garbage.fill(0xA5);
        self.memory.write(page * 2 * MIB + from, &garbage).expect("room");
    }

    fn reads_before_write(&mut self) -> bool {
        self.session.enter(START_MS);
        let reads_before_write = self.session.reads_before_write();
        self.session.leave();
        reads_before_write
    }
}

#[test]
fn the_count_is_exact_again_once_the_device_can_be_read() {
    let mut rig = Rig::new();
    let before = rig.store.memory().tier_bytes;
    rig.faulty.set_plan(FAILING);
    // More than may be open in a small store before writers read before writing.
    let keys = 5_000;
    rig.overwrite(keys);
    assert_eq!((rig.unresolved(), rig.len()), (keys, KEYS + keys), "nothing could be compared");
    assert!(!rig.reads_before_write(), "looking would only fail, too");
    assert!(rig.store.memory().tier_bytes >= before + 16 * keys, "what is kept is accounted for");

    // It is asked again seldom: a group of keys after one, two and four seconds.
    let mut now_ms = START_MS;
    for rest_ms in [1_000, 2_000, 4_000] {
        let asked = rig.background_reads();
        rig.maintain(now_ms + rest_ms - 1, 20);
        assert_eq!(rig.background_reads(), asked, "{rest_ms}");
        now_ms += rest_ms;
        rig.maintain(now_ms, 20);
        assert!(
            rig.background_reads() > asked && rig.background_reads() <= asked + 64,
            "{rest_ms}: {}",
            rig.background_reads() - asked
        );
    }
    assert_eq!(rig.unresolved(), keys);

    // Within the next rest, and at once for all when the first is answered.
    rig.faulty.set_plan(FaultPlan::default());
    rig.maintain(now_ms + 7_999, 20);
    assert_eq!(rig.unresolved(), keys, "not yet");
    rig.maintain(now_ms + 8_000, keys as usize / 64 + 2);
    assert_eq!((rig.unresolved(), rig.len()), (0, KEYS), "INV-TIER-2: each key counts once");
    assert_eq!(rig.store.memory().tier_bytes / MIB, before / MIB);
}

#[test]
fn a_damaged_page_keeps_only_its_own_questions_open() {
    let mut rig = Rig::new();
    // The first page's blocks from the second on: the first one's keys stay readable.
    rig.damage(1, 4096, 2 * MIB - 4096);
    let keys = 4_500;
    rig.overwrite(keys);
    let open = rig.unresolved();
    assert!(open > 1_000 && open < 2_100, "{open}: the keys of one page");
    // Too high by no more than that: a key whose tag agrees with a damaged record's has its own older record compared.
    assert!(rig.len() <= KEYS + open && rig.len() + 10 >= KEYS + open, "{}", rig.len());
    // Nobody is busy with them, and they are asked again no more often than once a minute in the end.
    let mut now_ms = START_MS;
    for _ in 0..10 {
        now_ms += 60_000;
        rig.maintain(now_ms, 3);
    }
    let asked = rig.background_reads();
    rig.maintain(now_ms + 59_999, 200);
    assert_eq!(rig.background_reads(), asked);
    assert_eq!((rig.unresolved(), rig.reads_before_write()), (open, false));

    // The end of the namespace is the end of its questions.
    rig.store.drop_namespace(rig.namespace);
    rig.maintain(now_ms, 300);
    assert_eq!(rig.store.work().namespaces_swept, 1);
    assert_eq!((rig.unresolved(), rig.store.totals().live), (0, 0));
}

#[test]
fn a_page_of_two_namespaces_that_cannot_be_swept_is_not_swept_for_ever() {
    let mut rig = Rig::new();
    let first = std::mem::replace(&mut rig.namespace, rig.store.allocate_namespace().expect("a namespace"));
    for number in 0..KEYS {
        rig.set(number);
    }
    // Every page is damaged at its end, the one that has records of both as well.
    for page in 1..rig.memory.used_bytes() / (2 * MIB) {
        rig.damage(page, 2 * MIB - 8192, 8192);
    }
    let second = std::mem::replace(&mut rig.namespace, first);
    rig.overwrite(KEYS);
    let open = rig.unresolved();
    assert!(open > 20, "{open}");
    rig.store.drop_namespace(first);
    rig.maintain(START_MS, 300);
    assert_eq!(rig.store.work().namespaces_swept, 1);
    assert_eq!((rig.unresolved(), rig.store.namespace_len(first).0), (0, 0));
    assert_eq!(rig.store.totals().live as u64, rig.store.namespace_len(second).0);
    let asked = rig.background_reads();
    rig.maintain(START_MS, 300);
    assert_eq!(rig.background_reads(), asked, "what cannot be read is not read again and again");
    assert_ne!(rig.store.allocate_namespace(), Ok(first), "INV-NS-1: it is not used again while records of it are left");
}
