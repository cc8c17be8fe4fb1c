//! Files that are written and read back.

use std::collections::BTreeMap;
use std::sync::Arc;

use almandine_datatypes::packed::Due;
use almandine_datatypes::sorted_set::SortedSetLimits;
use almandine_keyspace::types::hash::HashLimits;
use almandine_keyspace::types::hash::Hashes;
use almandine_keyspace::types::sorted_set::SortedSets;
use almandine_keyspace::{Keyspace, Options, Put};
use almandine_rdb::file::{FileReader, Item, ReadOptions, WriteVersion};
use almandine_rdb::value::AnyValue;

use super::*;

const NOW_MS: i64 = 1_000_000;

fn keyspace() -> Arc<Keyspace> {
    let store = almandine_store::Options { memory_bytes_max: 1 << 28, background: false, ..Default::default() };
    Keyspace::open(Options { store, ..Options::default() }).unwrap()
}

fn set(accessor: &mut Accessor, db: u16, name: &[u8], value: &[u8], expiry_ms: Option<i64>) {
    accessor.begin_batch(0);
    let key = accessor.key(db, name);
    accessor.writer(db).upsert(key, value, Put { expiry_ms, ..Put::default() }).unwrap();
    accessor.end_batch();
}

fn begin(accessor: &mut Accessor) -> SnapshotFile {
    accessor.begin_batch(NOW_MS);
    let snapshot = SnapshotFile::begin(accessor).unwrap();
    accessor.end_batch();
    snapshot
}

/// What a file has: of each database its keys with what goes with them, and its strings.
type Read = BTreeMap<(u64, Vec<u8>), (u8, EntryMetadata, Option<Vec<u8>>)>;

fn read(file: &[u8]) -> Read {
    let mut reader = FileReader::open(file, ReadOptions::default()).unwrap();
    let (mut keys, mut db) = (Read::new(), None);
    let version = reader.version().number();
    while let Some(item) = reader.read_item().unwrap() {
        match item {
            Item::Database(number) => db = Some(number),
            Item::Entry(entry) => {
                let mut value = entry.value;
                let string = match AnyValue::read(entry.value_type, version, &mut value).unwrap() {
                    AnyValue::String(string) => Some(string),
                    _ => None,
                };
                keys.insert((db.unwrap(), entry.key.into_vec()), (entry.value_type, entry.metadata, string));
            }
            _ => {}
        }
    }
    keys
}

#[test]
fn a_file_has_what_was_there_at_its_moment() {
    let keyspace = keyspace();
    let mut accessor = keyspace.accessor().unwrap();
    let large = vec![b'l'; 100_000];
    for number in 0..5000u64 {
        let db = (number % 3) as u16;
        let expiry_ms = number.is_multiple_of(10).then_some(NOW_MS + 5000 - number as i64);
        set(&mut accessor, db, &number.to_le_bytes(), number.to_string().as_bytes(), expiry_ms);
    }
    set(&mut accessor, 0, b"large", &large, None);
    set(&mut accessor, 0, b"past", b"", Some(NOW_MS));
    set(&mut accessor, 0, b"not yet past", b"", Some(NOW_MS + 1));
    let snapshot = begin(&mut accessor);
    assert!(SnapshotFile::begin_now(&mut accessor).is_none(), "one at a time");
    // All of it is changed before the walk begins: what the file has was saved.
    for number in 0..5000u64 {
        set(&mut accessor, (number % 3) as u16, &number.to_le_bytes(), b"other", None);
        set(&mut accessor, 3, &number.to_le_bytes(), b"new", None);
        set(&mut accessor, 1, &[&number.to_le_bytes()[..], b"new"].concat(), b"new", None);
    }
    accessor.begin_batch(NOW_MS);
    accessor.flush(&[0]);
    accessor.swap(1, 2);
    accessor.end_batch();
    set(&mut accessor, 0, b"large", b"small", None);
    let progress = SaveProgress::default();
    let (file, saved) = snapshot.write_to(&mut accessor, Vec::new(), &SaveOptions::default(), &progress).unwrap();
    assert_eq!((saved.keys, saved.bytes, saved.newer), (5002, file.len() as u64, None));
    assert_eq!((progress.keys(), progress.millionths()), (saved.keys, 1_000_000));
    let keys = read(&file);
    assert_eq!(keys.len(), 5002);
    for number in 0..5000u64 {
        let (_, metadata, value) = &keys[&(number % 3, number.to_le_bytes().to_vec())];
        assert_eq!(value.as_deref(), Some(number.to_string().as_bytes()));
        assert_eq!(metadata.expiry_ms, number.is_multiple_of(10).then_some(NOW_MS + 5000 - number as i64));
    }
    assert_eq!(keys[&(0, b"large".to_vec())].2.as_ref(), Some(&large));
    assert!(keys.contains_key(&(0, b"not yet past".to_vec())));
    // The next one has what is there now.
    let snapshot = begin(&mut accessor);
    let (file, saved) = snapshot.write_to(&mut accessor, Vec::new(), &SaveOptions::default(), &SaveProgress::default()).unwrap();
    assert_eq!(saved.keys, keyspace_len(&keyspace));
    assert_eq!(read(&file)[&(0, b"large".to_vec())].2.as_deref(), Some(&b"small"[..]));
}

fn keyspace_len(keyspace: &Keyspace) -> u64 {
    (0..16).map(|db| keyspace.dbsize(db)).sum()
}

#[test]
fn elements_past_their_time_are_left_out_and_the_form_follows_the_version() {
    let keyspace = keyspace();
    let mut accessor = keyspace.accessor().unwrap();
    accessor.begin_batch(0);
    let mut writer = accessor.writer(0);
    let limits = HashLimits { entries: 100, value: 100 };
    for (name, dues) in [("gone", [1, NOW_MS as u64]), ("half", [NOW_MS as u64, NOW_MS as u64 + 1])] {
        let key = writer.key(name.as_bytes());
        let mut hash = writer.write_as::<Hashes>(key, limits).unwrap();
        for (field, due) in [b"a", b"b"].into_iter().zip(dues) {
            hash.set(field, b"v", Due::At(due)).unwrap();
        }
        hash.commit().unwrap();
    }
    let key = writer.key(b"sorted");
    let mut set = writer.write_as::<SortedSets>(key, SortedSetLimits { entries: 100, value: 100 }).unwrap();
    set.set(b"m", 1.5, Due::Keep).unwrap();
    set.commit().unwrap();
    drop(writer);
    accessor.end_batch();
    for (version, kind, newer) in [
        (WriteVersion::Redis10, 25, Some(12)),
        (WriteVersion::Redis11, 25, Some(12)),
        (WriteVersion::Redis12, 25, None),
        (WriteVersion::Valkey80, 22, None),
    ] {
        let options = SaveOptions { version, ..SaveOptions::default() };
        let (file, saved) = begin(&mut accessor).write_to(&mut accessor, Vec::new(), &options, &SaveProgress::default()).unwrap();
        let keys = read(&file);
        assert_eq!((saved.keys, saved.newer, keys[&(0, b"half".to_vec())].0), (2, newer, kind), "{version:?}");
        let options = SaveOptions { strict: true, ..options };
        let strict = begin(&mut accessor).write_to(&mut accessor, Vec::new(), &options, &SaveProgress::default());
        match (strict, newer) {
            (Ok(_), None) => {}
            (Err(SaveError::Version { key, version: 12 }), Some(12)) => assert_eq!(key, b"half"),
            (strict, _) => panic!("{:?}", strict.map(|(_, saved)| saved)),
        }
    }
}

#[test]
fn a_file_that_cannot_be_written_leaves_the_old_one() {
    let directory = std::env::temp_dir().join(format!("almandine-save-{}", std::process::id()));
    std::fs::create_dir_all(&directory).unwrap();
    let path = directory.join("dump.rdb");
    let keyspace = keyspace();
    let mut accessor = keyspace.accessor().unwrap();
    let options = SaveOptions::default();
    set(&mut accessor, 0, b"k", b"v", None);
    let saved = begin(&mut accessor).write(&mut accessor, &path, &options, &SaveProgress::default()).unwrap();
    assert_eq!(saved.keys, 1);
    let before = std::fs::read(&path).unwrap();
    assert_eq!(before.len() as u64, saved.bytes);
    set(&mut accessor, 0, b"l", b"v", None);
    let progress = SaveProgress::default();
    progress.cancel();
    let cancelled = begin(&mut accessor).write(&mut accessor, &path, &options, &progress);
    assert!(matches!(cancelled, Err(SaveError::Cancelled)));
    let nowhere = begin(&mut accessor).write(&mut accessor, &directory.join("none/dump.rdb"), &options, &SaveProgress::default());
    assert!(matches!(nowhere, Err(SaveError::Io(_))));
    assert_eq!(std::fs::read(&path).unwrap(), before);
    assert_eq!(std::fs::read_dir(&directory).unwrap().count(), 1, "no temporary file stays");
    begin(&mut accessor).write(&mut accessor, &path, &options, &SaveProgress::default()).unwrap();
    assert_eq!(read(&std::fs::read(&path).unwrap()).len(), 2);
    std::fs::remove_dir_all(&directory).unwrap();
}
