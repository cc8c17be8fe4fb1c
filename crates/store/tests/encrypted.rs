//! What lies on the devices tells nothing of keys and values, and is read again: by other runs, with other keys, and beside what is
//! not encrypted.

#![cfg(not(loom))]

use almandine_device::{Device, FaultPlan, FaultyDevice, MemoryDevice};
use almandine_io::storage::Buffer;
use almandine_oplog::LogKeys;
use almandine_store::{
    Adoption, CipherRow, ColdKey, KeptDevice, PageReader, PageRow, PageWriter, Put, Records, Storage, StorageCiphers, Store, Walk,
};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

#[path = "support/client.rs"]
mod client;

use client::{Client, open};

const MIB: u64 = 1 << 20;
const KEYS: u32 = 8_000;
const PLANTED: &str = "planted-for-the-scan";

fn keys(names: &[(&str, u8)]) -> Arc<LogKeys> {
    let line = |(name, byte): &(&str, u8)| format!("{name} {}\n", format!("{byte:02x}").repeat(32));
    Arc::new(LogKeys::parse(names.iter().map(line).collect::<String>().as_bytes()).expect("keys"))
}

fn storage(ciphers: StorageCiphers) -> Storage {
    Storage { pages: Arc::new(MemoryDevice::new()), values: Arc::new(MemoryDevice::new()), ciphers: Arc::new(ciphers) }
}

fn key(run: u32, number: u32) -> Vec<u8> {
    let mut key = format!("{PLANTED}:{run}:{number}").into_bytes();
    if number.is_multiple_of(997) {
        key.resize(6_000, b'k');
    }
    key
}

fn value(run: u32, number: u32) -> Vec<u8> {
    let len = match number % 211 {
        0 => 30_000,
        1 if number % 1_000 < 10 => 600_000,
        2 => 9_000,
        _ => 60 + number as usize % 1_000,
    };
    let text = format!("{PLANTED}={run}={number};");
    text.bytes().cycle().take(len).collect()
}

fn fill(client: &mut Client, namespace: u16, run: u32) {
    (0..KEYS).for_each(|number| client.set(namespace, &key(run, number), &value(run, number), Put::default()));
    assert!(client.store.empty_memory(Duration::from_secs(60)));
}

fn compare(client: &mut Client, namespace: u16, run: u32) {
    for number in 0..KEYS {
        let found = client.get(namespace, &key(run, number)).map(|(value, _)| value);
        assert!(found == Some(value(run, number)), "{run}: {number}");
    }
}

/// What a base has.
struct Base {
    pages: Vec<PageRow>,
    ciphers: Vec<CipherRow>,
    cold: Vec<ColdKey>,
    kept: KeptDevice,
}

fn write_base(store: &Store) -> Base {
    let device = store.device().expect("a device");
    let mut session = store.session().expect("a session");
    let begun = device.begin_base(&mut session);
    let (ciphers, pages) = (device.ciphers(), device.pages(begun).collect());
    let kept = KeptDevice { index_buckets: begun.index_buckets, next_page: begun.next_page() };
    let (mut walk, mut records, mut cold) = (Walk::part_above(0, 1, begun.below), Records::default(), Vec::new());
    let mut more = true;
    while more {
        more = walk.next(&mut session, &mut records).expect("a device that reads");
        assert_eq!(records.iter().count(), 0, "all is on the device");
        cold.extend_from_slice(records.cold());
        records.clear();
    }
    device.end_base(begun, true);
    Base { pages, ciphers, cold, kept }
}

/// A store of another run on the same devices.
fn begin(devices: &Storage, base: &Base, namespace: u16, keys: &Arc<LogKeys>) -> (Storage, Arc<Store>) {
    let ciphers = StorageCiphers::new(Arc::clone(keys));
    base.ciphers.iter().for_each(|row| ciphers.load(row).expect("the keys"));
    let storage = Storage { ciphers: Arc::new(ciphers), ..devices.clone() };
    let store = Arc::new(open(&storage, Some(base.kept)));
    store.take_namespaces(&[namespace]);
    let device = store.device().expect("a device");
    device.keep_for_bases();
    assert!(base.pages.iter().all(|row| device.adopt_page(row)));
    let mut client = Client::new(&store);
    for group in base.cold.chunks(100) {
        client.session.enter(0);
        for cold in group {
            Adoption::new(&mut client.session, &[namespace]).adopt(cold, &mut client.fetcher).expect("room");
        }
        client.session.leave();
    }
    Adoption::new(&mut client.session, &[namespace]).survey().expect("sound pages");
    (storage, store)
}

fn has_planted(bytes: &[u8]) -> bool {
    let has = |text: &[u8]| bytes.windows(text.len()).any(|window| window == text);
    has(PLANTED.as_bytes()) || has(&[b'k'; 20])
}

/// The pages of a base of which something can be read in the page, and those of whose large values.
fn planted(storage: &Storage, base: &Base) -> (BTreeSet<u64>, BTreeSet<u64>) {
    let (mut reader, mut pages, mut values) = (PageReader::default(), BTreeSet::new(), BTreeSet::new());
    for row in &base.pages {
        let read = reader.read(storage, row, &mut |stored| {
            if has_planted(stored.bytes) {
                if stored.is_value {
                    values.insert(row.page)
                } else {
                    pages.insert(row.page)
                };
            }
            Ok(())
        });
        read.expect("sound pages");
    }
    (pages, values)
}

fn names(storage: &Storage) -> Vec<String> {
    storage.ciphers.keys().keys().map(almandine_oplog::encryption::KeyMark::name).collect()
}

/// INV-ENCRYPTION-3: no two images have one stream, whatever run they are of.
fn assert_streams_differ(base: &Base) {
    let nonces: BTreeSet<u64> = base.pages.iter().map(|row| row.nonce.to_word()).filter(|word| *word != 0).collect();
    let encrypted = base.pages.iter().filter(|row| !row.nonce.is_plain()).count();
    assert_eq!(nonces.len(), encrypted, "INV-ENCRYPTION-3: a count comes once");
    let streams: BTreeSet<_> = base.ciphers.iter().map(|row| (row.mark, row.salt)).collect();
    assert_eq!(streams.len(), base.ciphers.len(), "INV-ENCRYPTION-3: each run has a salt of its own");
}

/// Plain pages, then those of a key, then those of another one, by runs of their own and within one.
#[test]
fn pages_of_several_runs_and_keys_are_read_and_tell_nothing() {
    let devices = storage(StorageCiphers::default());
    let store = Arc::new(open(&devices, None));
    store.device().expect("a device").keep_for_bases();
    let namespace = store.allocate_namespace().expect("a namespace");
    let mut client = Client::new(&store);
    fill(&mut client, namespace, 0);
    let mut base = write_base(&store);
    let plain: BTreeSet<u64> = base.pages.iter().map(|row| row.page).collect();
    let (in_pages, in_values) = planted(&devices, &base);
    assert!(in_pages == plain && !in_values.is_empty(), "the scan finds it");
    drop(client);
    Arc::into_inner(store).expect("the last one");

    let (one, both) = (keys(&[("one", 1)]), keys(&[("two", 2), ("one", 1)]));
    for (run, keys) in [(1, &one), (2, &one), (3, &both)] {
        let (storage, store) = begin(&devices, &base, namespace, keys);
        let mut client = Client::new(&store);
        (0..run).for_each(|before| compare(&mut client, namespace, before));
        fill(&mut client, namespace, run);
        if run == 2 {
            storage.ciphers.set_keys(Arc::clone(&both));
            fill(&mut client, namespace, 10);
            compare(&mut client, namespace, 10);
        }
        (0..=run).for_each(|before| compare(&mut client, namespace, before));
        if run == 3 {
            // Pages are compacted, with plain ones among them.
            (0..KEYS).for_each(|number| client.delete(namespace, &key(1, number)));
            [0, 2, 3, 10].into_iter().for_each(|before| compare(&mut client, namespace, before));
        }
        drop(client);
        assert!(store.empty_memory(Duration::from_secs(60)));
        base = write_base(&store);
        let (in_pages, in_values) = planted(&storage, &base);
        assert!(in_pages.is_subset(&plain) && in_values.is_subset(&plain), "INV-ENCRYPTION-4: {in_pages:?} {in_values:?}");
        assert!(base.pages.iter().any(|row| !row.nonce.is_plain()));
        assert_streams_differ(&base);
        assert_eq!(names(&storage), if run == 1 { vec!["one"] } else { vec!["one", "two"] }, "{run}");
        Arc::into_inner(store).expect("the last one");
    }
    // A key that is not there, and another one of its name.
    for missing in [keys(&[("two", 2)]), keys(&[("two", 2), ("one", 3)])] {
        let ciphers = StorageCiphers::new(missing);
        assert!(base.ciphers.iter().any(|row| ciphers.load(row).is_err()));
    }
}

/// What is copied and put elsewhere is what lies there; without the key, pages with large values are refused.
#[test]
fn a_copy_has_what_lies_there() {
    let one = keys(&[("one", 1)]);
    let devices = storage(StorageCiphers::new(Arc::clone(&one)));
    let store = Arc::new(open(&devices, None));
    store.device().expect("a device").keep_for_bases();
    let namespace = store.allocate_namespace().expect("a namespace");
    fill(&mut Client::new(&store), namespace, 0);
    let base = write_base(&store);
    let copy = storage(StorageCiphers::new(Arc::clone(&one)));
    base.ciphers.iter().for_each(|row| copy.ciphers.load(row).expect("the key"));
    let (mut reader, mut writer) = (PageReader::default(), PageWriter::default());
    for row in &base.pages {
        let mut bytes = Vec::new();
        let mut take = |stored: almandine_store::Stored<'_>| {
            bytes.extend_from_slice(stored.bytes);
            Ok(())
        };
        reader.read(&devices, row, &mut take).expect("a sound page");
        assert!(!has_planted(&bytes));
        writer.put(&copy, row, &bytes).expect("a sound page");
    }
    writer.end().expect("a whole page");
    let (_, other) = begin(&copy, &base, namespace, &one);
    compare(&mut Client::new(&other), namespace, 0);
    let blind = Storage { ciphers: Arc::default(), ..devices.clone() };
    let heavy = base.pages.iter().find(|row| row.extent_blocks != 0).expect("large values");
    assert!(reader.read(&blind, heavy, &mut |_| Ok(())).expect_err("no key").to_string().contains("without its key"));
}

/// INV-ENCRYPTION-3: a page that is made again because the device has failed is another image.
#[test]
fn a_page_that_is_written_again_has_another_stream() {
    let faulty = Arc::new(FaultyDevice::new(Arc::new(MemoryDevice::new()), 7, FaultPlan::default()));
    let ciphers = Arc::new(StorageCiphers::new(keys(&[("one", 1)])));
    let storage = Storage { pages: Arc::clone(&faulty) as Arc<dyn Device>, values: Arc::new(MemoryDevice::new()), ciphers };
    let store = Arc::new(open(&storage, None));
    let namespace = store.allocate_namespace().expect("a namespace");
    let mut client = Client::new(&store);
    (0..3_000).for_each(|number| client.set(namespace, &key(0, number), &[7; 500], Put::default()));
    let page_of = |storage: &Storage| {
        let mut page = Buffer::new(2 * MIB as usize);
        storage.pages.read(2 * MIB, &mut page).map(|()| page.to_vec())
    };
    faulty.set_plan(FaultPlan { torn_writes: 1_000_000, ..FaultPlan::default() });
    // It gives up a while after the first refusal, whenever that comes. The device is asked again and again, so that what is torn
    // is looked at before it takes a page.
    assert!(!store.empty_memory(Duration::from_secs(20)));
    let torn = page_of(&storage);
    faulty.set_plan(FaultPlan::default());
    // On a busy machine it may give up before the device is asked again.
    assert!((0..40).any(|_| store.empty_memory(Duration::from_secs(1))));
    let whole = page_of(&storage).expect("the page");
    if let Ok(torn) = torn {
        let same = torn.chunks_exact(4096).zip(whole.chunks_exact(4096)).filter(|(left, right)| left == right).count();
        assert_eq!(same, 0, "INV-ENCRYPTION-3: {same} blocks are as they were");
    }
    let (begun, device) = (store.device().expect("a device").begin_base(&mut client.session), store.device().expect("a device"));
    let rows: Vec<PageRow> = device.pages(begun).collect();
    assert!(rows.iter().all(|row| row.nonce.to_word() & 0xFFFF_FFFF != 0), "the first counts were used in vain");
    device.end_base(begun, false);
    (0..3_000).for_each(|number| assert_eq!(client.get(namespace, &key(0, number)).map(|found| found.0), Some(vec![7; 500])));
}

/// INV-ENCRYPTION-3 and -4.
#[cfg(feature = "mutants")]
#[test]
fn mutants_are_noticed() {
    let own = std::env::current_exe().expect("the path of the test");
    for (mutant, test) in [
        ("EncryptPages", "pages_of_several_runs_and_keys_are_read_and_tell_nothing"),
        ("FreshStorageSalt", "pages_of_several_runs_and_keys_are_read_and_tell_nothing"),
        ("FreshCount", "pages_of_several_runs_and_keys_are_read_and_tell_nothing"),
        ("FreshCount", "a_page_that_is_written_again_has_another_stream"),
        ("MatchKeys", "pages_of_several_runs_and_keys_are_read_and_tell_nothing"),
    ] {
        let run = std::process::Command::new(&own).args(["--exact", test]).env("ALMANDINE_MUTANT", mutant).output();
        let run = run.expect("the test starts");
        let said = String::from_utf8_lossy(&run.stdout).into_owned();
        assert!(!run.status.success() && said.contains("test result: FAILED. 0 passed; 1 failed"), "{mutant}: {said}");
    }
}
