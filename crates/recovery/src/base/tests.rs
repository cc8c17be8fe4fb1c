//! Files of a base, written and read back.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::Arc;

use almandine_datatypes::packed::Due;
use almandine_keyspace::types::hash::{HashLimits, Hashes};
use almandine_keyspace::{Accessor, Body, DumpedKey, Dumping, Keyspace, Kind, Options, Put};
use almandine_oplog::encryption::{FileKind, LogKeys, NoKey};
use almandine_oplog::read::BodyAccess;

use super::*;
use crate::redo::LogLanes;
use crate::save::{SaveError, SaveProgress};

const HEAD: BaseHead = BaseHead { log: 0x0F0E, base: 7, lsn: 8192, seed: 0x5EED, part: 0, parts: 1 };

fn key<'d>(key: &'d [u8], kind: Kind, value: &'d [u8], put: Put) -> DumpedKey<'d> {
    DumpedKey { contents: 0x1_0002, key, number: 300, kind, value: Body::Bytes(value), put }
}

fn databases() -> BaseDatabases {
    BaseDatabases { number: 0x77, all: vec![BaseDatabase { db: 3, contents: 0x1_0002, keys: 2 }] }
}

fn small() -> Vec<u8> {
    let mut writer = BaseWriter::new(Vec::new(), HEAD).unwrap();
    writer.key(&key(b"key", Kind::String, b"value", Put::default())).unwrap();
    let put = Put { expiry_ms: Some(1_000), etag: Some(9), edited: true };
    writer.key(&key(b"", Kind::List, b"packed", put)).unwrap();
    writer.passed(1 << 63, 5);
    writer.libraries(0x33, &[b"#!lua name=l".to_vec()]).unwrap();
    writer.finish(&databases()).unwrap()
}

/// The bytes of the format, which later versions must be able to read.
#[test]
fn golden_bytes() {
    let mut text = String::new();
    small().iter().for_each(|byte| write!(text, "{byte:02x}").unwrap());
    assert_eq!(text, GOLDEN);
}

/// A file of format 1: it has no libraries, and no number of its databases.
#[test]
fn the_first_format_is_read() {
    let bytes: Vec<u8> = (0..FIRST.len() / 2).map(|at| u8::from_str_radix(&FIRST[2 * at..2 * at + 2], 16).unwrap()).collect();
    assert_eq!(items(&bytes).unwrap(), (2, BaseDatabases { number: 0, ..databases() }));
}

const FIRST: &str = "414c4d444241534501000000010000000e0f000000000000000000000000000007000000000000000020000000000000ed5e\
    00000000000000000000a0d5e7f12e0000000200000000000000000000800500000000000000a18c502f00828004ac02036b\
    65790576616c756571828004ac0200e8030000000000000900000000000000067061636b656412000000ffffffff02000000\
    0000000001000000000000003576adcf030002000100000000000200000000000000";

const GOLDEN: &str = "414c4d444241534502000000010000000e0f000000000000000000000000000007000000000000000020000000000000ed5e\
    00000000000000000000afbeb8182e00000002000000000000000000008005000000000000007e3b15ad00828004ac02036b\
    65790576616c756571828004ac0200e8030000000000000900000000000000067061636b65640d000000feffffff33000000\
    00000000000000000000000066498d710c23216c7561206e616d653d6c1a000000ffffffff02000000000000000100000000\
    0000001057108d7700000000000000030002000100000000000200000000000000";

fn items(file: &[u8]) -> Result<(u64, BaseDatabases), BaseFault> {
    let mut reader = BaseReader::open(file)?;
    let mut items = 0;
    while reader.read_item()?.is_some() {
        items += 1;
    }
    Ok((items, reader.databases().cloned().unwrap_or_default()))
}

#[test]
fn what_was_written_is_read() {
    let file = small();
    let mut reader = BaseReader::open(&file[..]).unwrap();
    assert_eq!(reader.head(), HEAD);
    let common = |key, kind, put, value| BaseItem::Key { contents: 0x1_0002, number: 300, key, kind, put, value: Some(value) };
    let first = common(&b"key"[..], Kind::String, Put::default(), &b"value"[..]);
    assert_eq!(reader.read_item().unwrap(), Some(first));
    let put = Put { expiry_ms: Some(1_000), etag: Some(9), edited: true };
    let second = common(&b""[..], Kind::List, put, &b"packed"[..]);
    assert_eq!(reader.read_item().unwrap(), Some(second));
    assert_eq!((reader.passed(), reader.databases()), ((1 << 63, 5), None));
    assert_eq!(reader.read_item().unwrap(), Some(BaseItem::Library(b"#!lua name=l")));
    assert_eq!(reader.read_item().unwrap(), None);
    assert_eq!((reader.passed(), reader.databases()), ((1 << 63, 5), Some(&databases())));
    assert_eq!(reader.libraries_version(), 0x33);
}

#[test]
fn each_flipped_byte_and_each_prefix_is_refused() {
    let file = small();
    for at in 0..file.len() {
        for bit in [1, 128] {
            let mut damaged = file.clone();
            damaged[at] ^= bit;
            assert!(items(&damaged).is_err(), "byte {at}");
        }
        assert!(items(&file[..at]).is_err(), "{at} bytes");
    }
    let longer = [&file[..], b"x"].concat();
    assert!(matches!(items(&longer), Err(BaseFault::Damaged)));
    assert_eq!(items(&file).unwrap().0, 3);
}

fn keyspace(seed: u64) -> Arc<Keyspace> {
    let store = almandine_store::Options { memory_bytes_max: 1 << 28, seed, background: false, ..Default::default() };
    Keyspace::open(Options { store, ..Options::default() }).unwrap()
}

/// All keys of a database, by what `look` sees of each.
fn file_of(accessor: &mut Accessor) -> (Vec<u8>, u64) {
    let (mut walk, mut writer, mut contents) = (Dumping::part(0, 1), BaseWriter::new(Vec::new(), HEAD).unwrap(), 0);
    while walk
        .next(accessor, |key| {
            contents = key.contents;
            writer.key(&key).unwrap();
        })
        .unwrap()
    {}
    (writer.finish(&BaseDatabases::default()).unwrap(), contents)
}

/// Values of all sizes come back in a process whose hashes are others, expired ones too.
#[test]
fn a_base_is_loaded() {
    let from = keyspace(1);
    let mut accessor = from.accessor().unwrap();
    accessor.begin_batch(0);
    let mut writer = accessor.writer(0);
    for number in 0..2000usize {
        let name = format!("string{number}");
        let put = Put { expiry_ms: number.is_multiple_of(3).then_some(1 + number as i64), ..Put::default() };
        writer.upsert(writer.key(name.as_bytes()), &vec![number as u8; number * 100], put).unwrap();
    }
    for (name, fields) in [("small", 5), ("large", 5000)] {
        let key = writer.key(name.as_bytes());
        let mut hash = writer.write_as::<Hashes>(key, HashLimits { entries: 100, value: 100 }).unwrap();
        for field in 0..fields {
            hash.set(format!("field{field}").as_bytes(), b"value", Due::Keep).unwrap();
        }
        hash.commit().unwrap();
    }
    drop(writer);
    accessor.end_batch();
    let (file, contents) = file_of(&mut accessor);
    let to = keyspace(2);
    let mut other = to.accessor().unwrap();
    let databases = BTreeMap::from([(contents, 5)]);
    let mut lanes = LogLanes::start(&mut other, 3);
    let loaded = load((&file[..], &LogKeys::NONE), HEAD, &mut lanes, &databases).unwrap();
    lanes.end().unwrap();
    assert_eq!((loaded.keys, to.dbsize(5)), (2002, 2002));
    other.begin_batch(0);
    let mut reader = other.reader(5);
    for number in 0..2000usize {
        let key = format!("string{number}");
        let value = reader.read(reader.key(key.as_bytes())).unwrap().unwrap();
        assert_eq!(&value[..], vec![number as u8; number * 100]);
        assert_eq!(value.expiry_ms(), number.is_multiple_of(3).then_some(1 + number as i64));
    }
    for (name, fields) in [("small", 5), ("large", 5000)] {
        let seen = reader.read_whole_as::<Hashes, _>(reader.key(name.as_bytes()), |hash| {
            let all = (0..fields).all(|field| hash.get(format!("field{field}").as_bytes()).is_ok_and(|it| it.is_some()));
            Ok((hash.len(), all))
        });
        assert_eq!(seen.unwrap(), Some((fields, true)));
    }
    drop(reader);
    other.end_batch();
    // What is not the file that the manifest names is refused; so is one that ends within a value.
    let another = BaseHead { base: 8, ..HEAD };
    let mut lanes = LogLanes::start(&mut other, 2);
    assert!(matches!(load((&file[..], &LogKeys::NONE), another, &mut lanes, &databases), Err(BaseFault::Another)));
    let cut = file.len() - 100_000;
    assert!(matches!(load((&file[..cut], &LogKeys::NONE), HEAD, &mut lanes, &databases), Err(BaseFault::Truncated)));
    // Contents that no database has any more are left out.
    let none = load((&file[..], &LogKeys::NONE), HEAD, &mut lanes, &BTreeMap::new()).unwrap();
    lanes.end().unwrap();
    assert_eq!((none.keys, to.dbsize(0)), (2002, 0));
}

#[test]
fn a_base_is_a_file_in_parts() {
    let directory = std::env::temp_dir().join(format!("almandine-base-{}", std::process::id()));
    std::fs::create_dir_all(&directory).unwrap();
    let from = keyspace(1);
    let mut accessor = from.accessor().unwrap();
    for number in 0..3000u32 {
        accessor.begin_batch(0);
        let mut writer = accessor.writer((number % 2) as u16);
        writer.upsert(writer.key(&number.to_le_bytes()), &number.to_le_bytes(), Put::default()).unwrap();
        drop(writer);
        accessor.end_batch();
    }
    let to = keyspace(2);
    let mut other = to.accessor().unwrap();
    let mut keys = 0;
    for part in 0..4 {
        let head = BaseHead { part, parts: 4, ..HEAD };
        let path = directory.join(format!("base.{part}"));
        let part = Dump { head, floor: 9, libraries: &|| (3, vec![b"text".to_vec()]), device: None, keys: &LogKeys::NONE };
        keys += dump(&mut accessor, &path, &part, &SaveProgress::default()).unwrap();
        let file = std::fs::read(&path).unwrap();
        let mut reader = BaseReader::open(&file[..]).unwrap();
        while reader.read_item().unwrap().is_some() {}
        let end = (u64::from(head.part) + 1) << 62;
        assert_eq!(reader.passed(), (if head.part == 3 { 0 } else { end }, 9));
        let databases: BTreeMap<u64, u16> =
            reader.databases().unwrap().all.iter().map(|database| (database.contents, database.db)).collect();
        let mut lanes = LogLanes::start(&mut other, 2);
        let loaded = load((&file[..], &LogKeys::NONE), head, &mut lanes, &databases).unwrap();
        lanes.end().unwrap();
        let announced = peek(&almandine_io::files::open(&path).unwrap(), &LogKeys::NONE).unwrap();
        assert_eq!(announced, (head, file.len() as u64, loaded.databases));
        assert_eq!(loaded.libraries.1.len(), usize::from(head.part == 3), "the last part has the libraries");
    }
    assert_eq!((keys, to.dbsize(0), to.dbsize(1)), (3000, 1500, 1500));
    let cancelled = SaveProgress::default();
    cancelled.cancel();
    let part = Dump { head: HEAD, floor: 0, libraries: &|| (0, Vec::new()), device: None, keys: &LogKeys::NONE };
    let ended = dump(&mut accessor, &directory.join("none"), &part, &cancelled);
    assert!(matches!(ended, Err(SaveError::Cancelled)));
    assert_eq!(std::fs::read_dir(&directory).unwrap().count(), 4);
    std::fs::remove_dir_all(&directory).unwrap();
}

const KEYS: &str = "one 000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";
const OTHERS: &str = "two 100102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";

fn keys(text: &str) -> LogKeys {
    LogKeys::parse(text.as_bytes()).unwrap()
}

/// The same as [`small`], with a salt that is known.
fn encrypted() -> Vec<u8> {
    let cipher = keys(KEYS).open(FileKind::Base, &keys(KEYS).current().unwrap(), [9; 16]).unwrap();
    let mut writer = BaseWriter::with_cipher(Vec::new(), HEAD, Some(cipher)).unwrap();
    writer.key(&key(b"key", Kind::String, b"value", Put::default())).unwrap();
    let put = Put { expiry_ms: Some(1_000), etag: Some(9), edited: true };
    writer.key(&key(b"", Kind::List, b"packed", put)).unwrap();
    writer.passed(1 << 63, 5);
    writer.libraries(0x33, &[b"#!lua name=l".to_vec()]).unwrap();
    writer.finish(&databases()).unwrap()
}

/// All items, with a key or by the sums alone.
fn items_with(file: &[u8], access: BodyAccess<'_>) -> Result<(u64, BaseDatabases), BaseFault> {
    let mut reader = BaseReader::open_with(file, access)?;
    let mut count = 0;
    if reader.is_opaque() {
        while let Some(keys) = reader.check_block()? {
            count += keys;
        }
        return Ok((count, BaseDatabases::default()));
    }
    while reader.read_item()?.is_some() {
        count += 1;
    }
    Ok((count, reader.databases().cloned().unwrap_or_default()))
}

/// The bytes of the format, which later versions must be able to read.
#[test]
fn golden_bytes_of_an_encrypted_file() {
    let mut text = String::new();
    encrypted().iter().for_each(|byte| write!(text, "{byte:02x}").unwrap());
    assert_eq!(text, ENCRYPTED);
}

#[test]
fn an_encrypted_file_is_read_with_its_key_and_has_nothing_plain() {
    let file = encrypted();
    let both = keys(&format!("{OTHERS}\n{KEYS}"));
    assert_eq!(items_with(&file, BodyAccess::Keys(&both)).unwrap(), (3, databases()));
    assert_eq!(items_with(&file, BodyAccess::Sums).unwrap().0, 2, "keys by the heads");
    for planted in [&b"key"[..], b"value", b"packed", b"#!lua"] {
        assert!(small().windows(planted.len()).any(|bytes| bytes == planted));
        assert!(!file.windows(planted.len()).any(|bytes| bytes == planted));
    }
    assert!(matches!(items(&file), Err(BaseFault::Key(NoKey::None(_)))));
    assert!(matches!(items_with(&file, BodyAccess::Keys(&keys(OTHERS))), Err(BaseFault::Key(NoKey::Missing(_)))));
    let another = keys(&OTHERS.replace("two", "one"));
    assert!(matches!(items_with(&file, BodyAccess::Keys(&another)), Err(BaseFault::Key(NoKey::Another(_)))));
}

#[test]
fn each_flipped_byte_and_each_prefix_of_an_encrypted_file_is_refused() {
    let (file, keys) = (encrypted(), keys(KEYS));
    for access in [BodyAccess::Keys(&keys), BodyAccess::Sums] {
        for at in 0..file.len() {
            let mut damaged = file.clone();
            damaged[at] ^= 1;
            let refused = items_with(&damaged, access);
            // A format or magic that is another one, or bytes without their sum: never a key that is not there.
            assert!(
                matches!(refused, Err(BaseFault::Damaged | BaseFault::NoBase | BaseFault::Truncated)),
                "byte {at}: {refused:?}"
            );
            assert!(items_with(&file[..at], access).is_err(), "{at} bytes");
        }
        assert!(matches!(items_with(&[&file[..], b"x"].concat(), access), Err(BaseFault::Damaged)));
    }
}

/// What has right sums and is not what was encrypted is refused: a block in place of another one, and one of another file.
#[test]
fn what_was_put_together_anew_is_refused() {
    let (file, keys) = (encrypted(), keys(KEYS));
    let begin = super::format::HEAD_BYTES + super::format::ENCRYPTION_BYTES;
    let mut forged = file[..begin].to_vec();
    // Of the first block's head: the floor, which is authenticated.
    let len = u32::from_le_bytes(*file[begin..].first_chunk().unwrap()) as usize;
    let mut head = file[begin..begin + 24].to_vec();
    head[16] ^= 1;
    let entries = &file[begin + 28..begin + 28 + len];
    let before = u32::from_le_bytes(*forged.last_chunk().unwrap());
    let sum = super::format::sum(before, &head, entries);
    forged.extend_from_slice(&head);
    forged.extend_from_slice(&sum.to_le_bytes());
    forged.extend_from_slice(entries);
    let mut reader = BaseReader::open_with(&forged[..], BodyAccess::Keys(&keys)).unwrap();
    assert!(matches!(reader.read_item(), Err(BaseFault::Damaged)));
    let mut opaque = BaseReader::open_with(&forged[..], BodyAccess::Sums).unwrap();
    assert_eq!(opaque.check_block().unwrap(), Some(2), "without the key it looks whole");
}

const ENCRYPTED: &str = "414c4d444241534503000000010000000e0f000000000000000000000000000007000000000000000020000000000000ed5e\
    00000000000000000000054ad6bc6f6e650000000000000000000000000082370209ee94a09f090909090909090909090909\
    090909092a0679023e000000020000000000000000000080050000000000000069fdf01fc8ed76e1c0e93222869d2fa2cef9\
    944ff4d7cec46e2edefba57f95d0e8e7a16ca3857fcf6c094d44a9bb56055e6826781fb5e44fa32a80a40d787fb380c91d00\
    0000feffffff33000000000000000000000000000000af7759c599c93da6671ab9d9e901e53d58b00a5fb551d4b22fa35ef5\
    e66cf1d7dd2a000000ffffffff0200000000000000010000000000000027597ebf6f5b4cbf3f11625df6e2a10bda46c3c303\
    9d3690b36a477fed6efcbfa5ac81a119c1443b023dd9881eb6";
