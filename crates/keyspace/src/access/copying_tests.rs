//! INV-COPY-1: copies of one moment in a keyspace that grows, evicts, has keys on a device, or changes faster than it is copied.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use almandine_store::{EvictionOrder, EvictionPolicy};

use super::copying::Copying;
use crate::types::hash::{HashLimits, Hashes};
use crate::types::testing::{batch, keyspace};
use crate::{Accessor, Keyspace, Kind, Options, Put};

const LIMITS: HashLimits = HashLimits { entries: 100, value: 100 };

fn begin(accessor: &mut Accessor, saved_bytes_max: u64) -> Copying {
    accessor.begin_batch(0);
    let copying = accessor.unit().begin_copying(saved_bytes_max).expect("the only copy");
    accessor.end_batch();
    copying
}

fn set(accessor: &mut Accessor, name: &[u8], value: &[u8]) {
    batch(accessor, |accessor| {
        let mut writer = accessor.writer(0);
        let key = writer.key(name);
        writer.upsert(key, value, Put::default())
    });
}

/// Strings as they are, hashes as their number of fields.
fn rest(copying: &mut Copying, accessor: &mut Accessor, found: &mut BTreeMap<Vec<u8>, Vec<u8>>) {
    let visit = |found: &mut BTreeMap<Vec<u8>, Vec<u8>>, key: crate::CopiedKey<'_>| {
        let value = match key.value.kind {
            Kind::String => key.value.string().expect("a string").to_vec(),
            _ => {
                let hash = key.value.collection::<Hashes>().expect("a hash").expect("fields");
                hash.try_iter().filter(Result::is_ok).count().to_string().into_bytes()
            }
        };
        assert_eq!(found.insert(key.key.to_vec(), value), None, "a key is there once");
    };
    while copying.next(accessor, |key| visit(found, key)).expect("readable") {}
}

fn name(number: u64) -> Vec<u8> {
    format!("key{number}").into_bytes()
}

#[test]
fn keys_on_the_device_are_copied_as_they_were() {
    let keyspace = keyspace(true);
    let mut accessor = keyspace.accessor().expect("an accessor");
    (0..2000).for_each(|number| set(&mut accessor, &name(number), &name(number)));
    set(&mut accessor, b"large", &[7; 100_000]);
    batch(&mut accessor, |accessor| {
        let mut writer = accessor.writer(0);
        let key = writer.key(b"hash");
        let mut hash = writer.write_as::<Hashes>(key, LIMITS)?;
        for field in 0..3000 {
            hash.set(&name(field), b"value", almandine_datatypes::packed::Due::Keep)?;
        }
        hash.commit()
    });
    assert!(keyspace.store.empty_memory(Duration::from_secs(20)));
    let mut copying = begin(&mut accessor, u64::MAX);
    for number in (0..2000).step_by(2) {
        set(&mut accessor, &name(number), b"other");
    }
    batch(&mut accessor, |accessor| {
        let mut writer = accessor.writer(0);
        let key = writer.key(b"hash");
        let mut hash = writer.write_as::<Hashes>(key, LIMITS)?;
        hash.remove(&name(5))?;
        hash.commit()
    });
    for gone in [b"large".to_vec(), name(1)] {
        batch(&mut accessor, |accessor| {
            let mut writer = accessor.writer(0);
            let key = writer.key(&gone);
            Ok(writer.delete(key)?)
        });
    }
    set(&mut accessor, b"new", b"");
    assert!(keyspace.store.empty_memory(Duration::from_secs(20)));
    let mut found = BTreeMap::new();
    rest(&mut copying, &mut accessor, &mut found);
    assert_eq!(found.len(), 2002);
    assert!((0..2000).all(|number| found[&name(number)] == name(number)));
    assert_eq!((&found[&b"large"[..]][..], &found[&b"hash"[..]][..]), (&[7; 100_000][..], &b"3000"[..]));
    drop(copying);
    assert_eq!(keyspace.dbsize(0), 2001);
}

/// A table that grows and shrinks between two slices, and keys that are evicted: each of the copy is there, once.
#[test]
fn growth_and_eviction_take_nothing_from_a_copy() {
    const KEYS: u64 = 60_000;
    let store = almandine_store::Options { memory_bytes_max: 1 << 28, background: false, ..Default::default() };
    let keyspace = Keyspace::open(Options { store, ..Options::default() }).expect("a keyspace");
    let mut accessor = keyspace.accessor().expect("an accessor");
    (0..KEYS).for_each(|number| set(&mut accessor, &name(number), &name(number)));
    let mut copying = begin(&mut accessor, u64::MAX);
    let (mut found, mut more) = (BTreeMap::new(), true);
    let buckets = keyspace.figures().index_buckets();
    for slice in 0..20 {
        let visit =
            |key: crate::CopiedKey<'_>| assert_eq!(found.insert(key.key.to_vec(), key.value.string().expect("it").to_vec()), None);
        more &= copying.next(&mut accessor, visit).expect("in memory");
        (0..2000).for_each(|number| set(&mut accessor, &name(KEYS + slice * 2000 + number), b"new"));
        (0..2000).for_each(|number| set(&mut accessor, &name(slice * 2999 + number), b"other"));
        keyspace.maintain(0);
    }
    assert!(more && keyspace.figures().index_buckets() > buckets, "the index grows while it is copied");
    keyspace.settings().set_eviction(EvictionPolicy { order: EvictionOrder::Recency, volatile_only: false });
    keyspace.settings().set_budget(keyspace.figures().used_bytes() - (2 << 20));
    while keyspace.figures().totals().evicted < 5_000 {
        keyspace.maintain(0);
        set(&mut accessor, b"more", &[0; 1000]);
    }
    rest(&mut copying, &mut accessor, &mut found);
    assert_eq!(found.len() as u64, KEYS);
    assert!((0..KEYS).all(|number| found[&name(number)] == name(number)));
}

/// While more is saved than there is room for, writers wait and nothing goes by itself, until the walk has made room.
#[test]
fn writers_wait_while_too_much_is_saved() {
    let store = almandine_store::Options { memory_bytes_max: 1 << 28, background: false, ..Default::default() };
    let keyspace = Keyspace::open(Options { store, ..Options::default() }).expect("a keyspace");
    let ends = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&ends);
    keyspace.store.listeners().on_stall_end(move || {
        counted.fetch_add(1, Ordering::Relaxed);
    });
    let mut accessor = keyspace.accessor().expect("an accessor");
    (0..40_000).for_each(|number| set(&mut accessor, &name(number), &[1; 100]));
    let before = keyspace.figures().used_bytes();
    let mut copying = begin(&mut accessor, 2_000_000);
    let changed = (0..40_000).take_while(|&number| {
        set(&mut accessor, &name(number), &[2; 100]);
        !keyspace.is_stalled()
    });
    let changed = changed.count();
    assert!((2_000..20_000).contains(&changed), "{changed} keys");
    assert!(keyspace.figures().used_bytes() >= before + 2_000_000, "what is saved is counted");
    let mut found = BTreeMap::new();
    rest(&mut copying, &mut accessor, &mut found);
    assert_eq!((found.len(), keyspace.is_stalled(), ends.load(Ordering::Relaxed)), (40_000, false, 1));
    assert!(found.values().all(|value| value[..] == [1; 100]));
    // So does the end of one whose walk has not begun.
    drop(copying);
    let copying = begin(&mut accessor, 1);
    set(&mut accessor, &name(0), b"");
    assert!(keyspace.is_stalled());
    drop(copying);
    assert!(!keyspace.is_stalled());
    assert_eq!(ends.load(Ordering::Relaxed), 2);
}
