//! Files made here, loaded into a keyspace.

use almandine_config::{Config, Startup};
use almandine_keyspace::types::hash::Hashes;
use almandine_keyspace::{Accessor, Keyspace, Options};
use almandine_rdb::file::{EntryMetadata, FileWriter, ReadOptions, WriteOptions, WriteVersion};

use super::*;
use crate::put::ValueLimits;

const FUTURE_MS: i64 = 4_102_444_800_123;

fn keyspace() -> std::sync::Arc<Keyspace> {
    let store = almandine_store::Options { background: false, ..Default::default() };
    Keyspace::open(Options { store, ..Options::default() }).unwrap()
}

fn options(existing: Existing) -> LoadOptions {
    let Ok(Startup::Run(config)) = Config::load(&[]) else { panic!("the defaults are a configuration") };
    LoadOptions {
        limits: ValueLimits::of(&config.snapshot().settings),
        read: ReadOptions::default(),
        existing,
        keep_expired: false,
        lanes: 2,
    }
}

fn write(version: WriteVersion, fill: impl FnOnce(&mut FileWriter<&mut Vec<u8>>)) -> Vec<u8> {
    let mut file = Vec::new();
    let mut writer = FileWriter::new(&mut file, WriteOptions { version, checksum: true, compression: true });
    fill(&mut writer);
    writer.finish().unwrap();
    file
}

fn string(text: &[u8]) -> Vec<u8> {
    let mut value = vec![almandine_rdb::types::STRING];
    almandine_rdb::write_string(text, &mut value);
    value
}

fn hash(fields: &[(&[u8], &[u8], Option<i64>)]) -> Vec<u8> {
    use almandine_rdb::value::hash::{Dialect, HashForm, HashThresholds, write};
    let thresholds = HashThresholds { entries_max: 10, value_bytes_max: 10 };
    let mut value = Vec::new();
    write(HashForm::choose(fields.iter().copied(), thresholds, Dialect::Redis), fields.iter().copied(), &mut value);
    value
}

/// Of a key: its string, and when it expires.
fn get(accessor: &mut Accessor, db: u16, key: &[u8]) -> Option<(Vec<u8>, Option<i64>)> {
    accessor.begin_batch(0);
    let mut reader = accessor.reader(db);
    let key = reader.key(key);
    let expiry_ms = reader.metadata(key).unwrap().and_then(|metadata| metadata.expiry_ms);
    let value = reader.read(key).unwrap().map(|value| (value.to_vec(), expiry_ms));
    drop(reader);
    accessor.end_batch();
    value
}

fn load_all(accessor: &mut Accessor, file: &[u8], existing: Existing) -> Result<Loaded, LoadError> {
    load(accessor, file, &options(existing), &mut |_, _| true)
}

fn sample() -> Vec<u8> {
    write(WriteVersion::Redis12, |writer| {
        writer.aux("redis-ver", b"7.4.0").unwrap();
        writer.aux("ctime", b"1700000000").unwrap();
        writer.function(b"#!lua name=lib\nredis.register_function('f', f)").unwrap();
        writer.database(0, 3, 2).unwrap();
        writer.entry(b"a", &string(b"1"), EntryMetadata::default()).unwrap();
        let expiring = EntryMetadata { expiry_ms: Some(FUTURE_MS), ..EntryMetadata::default() };
        writer.entry(b"b", &string(&[b'x'; 20_000]), expiring).unwrap();
        writer.entry(b"past", &string(b"1"), EntryMetadata { expiry_ms: Some(1), ..EntryMetadata::default() }).unwrap();
        writer.database(5, 2, 0).unwrap();
        writer.entry(b"a", &string(b"2"), EntryMetadata::default()).unwrap();
        let fields: [(&[u8], &[u8], Option<i64>); 2] = [(b"kept", b"v", Some(FUTURE_MS)), (b"past", b"v", Some(1))];
        writer.entry(b"fields", &hash(&fields), EntryMetadata::default()).unwrap();
        writer.entry(b"past fields", &hash(&fields[1..]), EntryMetadata::default()).unwrap();
    })
}

#[test]
fn keys_come_with_their_expiry_and_those_past_their_time_do_not() {
    let keyspace = keyspace();
    let mut accessor = keyspace.accessor().unwrap();
    let loaded = load_all(&mut accessor, &sample(), Existing::Refuse).unwrap();
    assert_eq!((loaded.keys, loaded.expired, loaded.empty), (4, 2, 0));
    assert_eq!((loaded.server.as_deref(), loaded.written_s), (Some("7.4.0"), Some(1_700_000_000)));
    assert_eq!(loaded.functions, [b"#!lua name=lib\nredis.register_function('f', f)"]);
    assert_eq!(get(&mut accessor, 0, b"a"), Some((b"1".to_vec(), None)));
    assert_eq!(get(&mut accessor, 0, b"b"), Some((vec![b'x'; 20_000], Some(FUTURE_MS))));
    assert_eq!(get(&mut accessor, 5, b"a"), Some((b"2".to_vec(), None)));
    assert_eq!((keyspace.dbsize(0), keyspace.expires(0), keyspace.dbsize(5)), (2, 1, 2));
    accessor.begin_batch(0);
    let mut reader = accessor.reader(5);
    let key = reader.key(b"fields");
    let fields = reader.read_whole_as::<Hashes, _>(key, |hash| {
        hash.try_iter().map(|entry| entry.map(|entry| (entry.field.to_vec(), entry.due))).collect::<Result<Vec<_>, _>>()
    });
    assert_eq!(fields.unwrap(), Some(vec![(b"kept".to_vec(), Some(FUTURE_MS.cast_unsigned()))]));
    drop(reader);
    accessor.end_batch();
}

#[test]
fn a_key_that_is_there_is_refused_or_replaced() {
    let keyspace = keyspace();
    let mut accessor = keyspace.accessor().unwrap();
    load_all(&mut accessor, &sample(), Existing::Refuse).unwrap();
    let again = write(WriteVersion::Redis10, |writer| {
        writer.database(0, 1, 0).unwrap();
        writer.entry(b"a", &string(b"new"), EntryMetadata::default()).unwrap();
    });
    let error = load_all(&mut accessor, &again, Existing::Refuse).unwrap_err();
    assert!(matches!(&error.fault, LoadFault::Duplicate(key) if key == b"a"), "{error}");
    // Behind the magic, the database (2 bytes) and its sizes (3 bytes).
    assert_eq!(error.offset, 14);
    assert_eq!(get(&mut accessor, 0, b"a"), Some((b"1".to_vec(), None)));
    load_all(&mut accessor, &again, Existing::Replace).unwrap();
    assert_eq!(get(&mut accessor, 0, b"a"), Some((b"new".to_vec(), None)));
    let twice = write(WriteVersion::Redis10, |writer| {
        writer.database(1, 2, 0).unwrap();
        writer.entry(b"k", &string(b"1"), EntryMetadata::default()).unwrap();
        writer.entry(b"k", &string(b"2"), EntryMetadata::default()).unwrap();
    });
    let text = load_all(&mut accessor, &twice, Existing::Refuse).unwrap_err().to_string();
    assert!(text.contains("the key 'k' is there twice"), "{text}");
}

#[test]
fn what_cannot_be_loaded_is_refused_with_its_place() {
    let refused = |fill: &dyn Fn(&mut FileWriter<&mut Vec<u8>>)| {
        let mut accessor = keyspace().accessor().unwrap();
        let file = write(WriteVersion::Redis11, fill);
        load_all(&mut accessor, &file, Existing::Refuse).unwrap_err().to_string()
    };
    let text = refused(&|writer| writer.database(16, 1, 0).unwrap());
    assert!(text.contains("database 16") && text.contains("there are 16, at offset 9") && text.contains("17 or more"), "{text}");
    let text = refused(&|writer| writer.function(b"return 1").unwrap());
    assert!(text.contains("'#!<engine> name=<name>', at offset 9"), "{text}");
    // A listpack that is none.
    let mut value = vec![almandine_rdb::types::HASH_LISTPACK];
    almandine_rdb::write_string(b"no listpack", &mut value);
    let text = refused(&|writer| writer.entry(b"k", &value, EntryMetadata::default()).unwrap());
    assert!(text.contains("malformed value at offset 12"), "{text}");
    let mut accessor = keyspace().accessor().unwrap();
    let text = load_all(&mut accessor, b"ALMANDINE and more", Existing::Refuse).unwrap_err().to_string();
    assert!(text.contains("no RDB file"), "{text}");
}

/// Each prefix, and each byte changed: refused, or (where the byte is none of those that are looked at) loaded whole.
#[test]
fn a_damaged_file_is_refused() {
    let file = sample();
    let mut damaged = 0;
    for at in (0..file.len()).filter(|at| *at < 600 || *at > file.len() - 200) {
        let mut accessor = keyspace().accessor().unwrap();
        load_all(&mut accessor, &file[..at], Existing::Refuse).expect_err("it is cut off");
        let mut flipped = file.clone();
        flipped[at] ^= 0x41;
        load_all(&mut accessor, &flipped, Existing::Replace).expect_err("a byte is another");
        damaged += 1;
    }
    assert!(damaged > 200);
}

#[test]
fn loading_says_how_far_it_is_and_ends_when_asked() {
    let file = write(WriteVersion::Redis11, |writer| {
        writer.database(0, 10_000, 0).unwrap();
        for key in 0..10_000 {
            writer.entry(format!("key:{key}").as_bytes(), &string(b"value"), EntryMetadata::default()).unwrap();
        }
    });
    let keyspace = keyspace();
    let mut accessor = keyspace.accessor().unwrap();
    let mut places = Vec::new();
    load(&mut accessor, &*file, &options(Existing::Refuse), &mut |bytes, _| {
        places.push(bytes);
        true
    })
    .unwrap();
    assert!(places.len() > 100 && places.is_sorted() && *places.last().unwrap() == file.len() as u64, "{places:?}");
    assert_eq!(keyspace.dbsize(0), 10_000);
    let stopped = load(&mut accessor, &*file, &options(Existing::Replace), &mut |bytes, _| bytes < 1000).unwrap_err();
    assert!(matches!(stopped.fault, LoadFault::Stopped));
}

/// Some servers have written them; Redis passes over them, too.
#[test]
fn packed_collections_without_elements_are_passed_over() {
    let ziplist = b"\x0b\x0b\0\0\0\x0a\0\0\0\0\0\xff".as_slice();
    let file = write(WriteVersion::Redis10, |writer| {
        for (key, value) in [
            (&b"list"[..], [&[almandine_rdb::types::LIST_ZIPLIST], ziplist].concat()),
            (b"quick", [&[almandine_rdb::types::LIST_QUICKLIST, 1], ziplist].concat()),
            (b"hash", [&[almandine_rdb::types::HASH_ZIPLIST], ziplist].concat()),
            (b"kept", string(b"1")),
        ] {
            writer.entry(key, &value, EntryMetadata::default()).unwrap();
        }
    });
    let keyspace = keyspace();
    let mut accessor = keyspace.accessor().unwrap();
    let loaded = load_all(&mut accessor, &file, Existing::Refuse).unwrap();
    assert_eq!((loaded.keys, loaded.empty, loaded.empty_keys.len()), (1, 3, 3));
    assert!(loaded.empty_keys.contains(&b"quick".to_vec()));
    assert_eq!(get(&mut accessor, 0, b"kept"), Some((b"1".to_vec(), None)));
}
