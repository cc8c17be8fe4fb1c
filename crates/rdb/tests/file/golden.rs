//! Bytes of files, written and read.
#![expect(clippy::unwrap_used, reason = "support of tests: whatever fails here fails the test")]

use almandine_rdb::file::{EntryMetadata, Fault, FileReader, FileWriter, ReadOptions, WriteOptions, WriteVersion};
use almandine_rdb::types;
use almandine_rdb::value;
use almandine_rdb::value::hash::{HashEntry, HashForm};

use super::contents::{Contents, read, read_bytes};

const PLAIN: WriteOptions = WriteOptions { version: WriteVersion::Redis11, checksum: false, compression: false };

/// A small file with one of each item.
pub(crate) fn sample(options: WriteOptions) -> Vec<u8> {
    let mut writer = FileWriter::new(Vec::new(), options);
    writer.aux("redis-bits", b"64").unwrap();
    writer.function(b"#!lua name=lib\n").unwrap();
    writer.database(0, 2, 1).unwrap();
    let expiring = EntryMetadata { expiry_ms: Some(0x0102_0304_0506), ..EntryMetadata::default() };
    writer.entry(b"k", b"\x00\x01v", expiring).unwrap();
    let used = EntryMetadata { frequency: Some(7), ..EntryMetadata::default() };
    writer
        .entry(
            b"12",
            &[
                types::SET,
                2,
                0xC0,
                5,
                30,
                b'm',
                b'm',
                b'm',
                b'm',
                b'm',
                b'm',
                b'm',
                b'm',
                b'm',
                b'm',
                b'm',
                b'm',
                b'm',
                b'm',
                b'm',
                b'm',
                b'm',
                b'm',
                b'm',
                b'm',
                b'm',
                b'm',
                b'm',
                b'm',
                b'm',
                b'm',
                b'm',
                b'm',
                b'm',
                b'm',
            ],
            used,
        )
        .unwrap();
    writer.database(9, 1, 0).unwrap();
    let idle = EntryMetadata { idle_s: Some(70), ..EntryMetadata::default() };
    writer.entry(b"q", b"\x12\x01\x02\x09\x09\x00\x00\x00\x01\x00\x05\x01\xff", idle).unwrap();
    writer.finish().unwrap()
}

#[test]
fn what_is_written_byte_by_byte() {
    let members = "m".repeat(30);
    let plain = format!(
        "REDIS0011\\xfa\\nredis-bits\\xc0@\\xf5\\x0f#!lua name=lib\\n\\xfe\\x00\\xfb\\x02\\x01\
         \\xfc\\x06\\x05\\x04\\x03\\x02\\x01\\x00\\x00\\x00\\x01k\\x01v\\xf9\\x07\\x02\\xc0\\x0c\\x02\\xc0\\x05\\x1e{members}\
         \\xfe\\t\\xfb\\x01\\x00\\xf8@F\\x12\\x01q\\x01\\x02\\t\\t\\x00\\x00\\x00\\x01\\x00\\x05\\x01\\xff\
         \\xff\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x00"
    );
    assert_eq!(sample(PLAIN).escape_ascii().to_string(), plain);
    let compressed = sample(WriteOptions { checksum: true, compression: true, ..PLAIN });
    let short = plain.replace(&format!("\\x1e{members}"), "\\xc3\\x05\\x1e\\x00m\\xe0\\x14\\x00");
    let (body, sum) = compressed.split_last_chunk::<8>().unwrap();
    assert_eq!(format!("{}\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x00", body.escape_ascii()), short);
    assert_eq!(u64::from_le_bytes(*sum), almandine_rdb::checksum(0, body));
}

#[test]
fn all_versions_say_the_same() {
    let expected = read_bytes(&sample(PLAIN)).unwrap();
    assert_eq!(expected.functions, ["#!lua name=lib\\n"]);
    assert_eq!(expected.items, ["0: 2, 1", "9: 1, 0"]);
    assert_eq!(expected.keys.len(), 3);
    for version in [WriteVersion::Redis10, WriteVersion::Redis11, WriteVersion::Redis12, WriteVersion::Valkey80] {
        for (checksum, compression) in [(false, false), (false, true), (true, false), (true, true)] {
            let contents = read_bytes(&sample(WriteOptions { version, checksum, compression })).unwrap();
            assert_eq!(contents, Contents { version: version.number(), ..expected.clone() });
        }
    }
}

fn read_of(magic: &str, body: &[u8]) -> Result<Contents, (u64, String)> {
    let mut file = [magic.as_bytes(), body, b"\xff"].concat();
    if magic != "REDIS0003" {
        file.extend_from_slice(&[0; 8]);
    }
    read_bytes(&file).map_err(|error| (error.offset, error.fault.to_string()))
}

#[test]
fn opcodes_of_all_servers_are_read() {
    let items = |magic: &str, body: &[u8]| read_of(magic, body).unwrap().items;
    // Before version 5 there is no checksum.
    assert_eq!(
        read_of("REDIS0003", b"\xfe\x03\xfd\x02\x00\x00\x00\x00\x01k\x01v").unwrap().keys[&(3, "k".into())].expiry_ms,
        Some(2000)
    );
    assert_eq!(items("REDIS0012", b"\xf4\x07\x02\x01"), ["SlotSizes { slot: 7, keys: 2, expiring: 1 }"]);
    assert_eq!(items("REDIS0011", b"\xf4\x07\x02\x01"), ["SlotSizes { slot: 7, keys: 2, expiring: 1 }"]);
    let aux = b"\xf7\x81\x10\x86\x18\x20\x82\x08\x20\x82\x02\x02\x01\x07\x05\x03abc\x03....\x04........\x02\x07\x00";
    assert!(items("REDIS0010", aux)[0].starts_with("ModuleAux("));
    // 243 is another thing to each family.
    assert_eq!(items("VALKEY080", b"\xf3\x03job\x01\x00\x40\x64"), ["SlotImport(\"job\")"]);
    assert_eq!(read_of("REDIS0013", b"\xfc\x01\x00\x00\x00\x00\x00\x00\x00\xf3\x00\x00\x01k\x01v").unwrap().keys.len(), 1);
    assert!(read_of("REDIS0013", b"\xf3\x01").unwrap_err().1.contains("metadata that a module keeps"));
    // A collection without elements is passed over.
    assert_eq!(items("REDIS0011", b"\x02\x01k\x00"), ["EmptyEntry(\"k\")"]);
}

/// Types 22 and 23 are candidates of Redis 7.4, or a hash whose fields expire and a type that is not known here.
#[test]
fn types_that_two_servers_number_alike_are_told_by_the_magic() {
    let candidate = b"\x16\x01h\x01\x05\x01f\x01v";
    let valkey = b"\x16\x01h\x01\x01f\x01v\x05\x00\x00\x00\x00\x00\x00\x00";
    for (magic, body) in [("REDIS0012", &candidate[..]), ("VALKEY080", valkey), ("VALKEY081", valkey)] {
        let contents = read_of(magic, body).unwrap();
        assert_eq!(contents.keys[&(0, "h".into())].value, r#"hash {"f": ("v", Some(5))}"#, "{magic}");
    }
    assert_eq!(read_of("VALKEY081", b"\x17\x01h"), Err((9, "unknown type or opcode 23".into())));
    assert_eq!(read_of("VALKEY080", b"\x18\x01h"), Err((9, "unknown type or opcode 24".into())));
    assert_eq!(read_of("VALKEY080", b"\x1a\x01h"), Err((9, "unknown type or opcode 26".into())));
}

#[test]
fn what_cannot_be_read_is_named_with_its_place() {
    let error = |bytes: &[u8]| read_bytes(bytes).map_err(|error| error.to_string()).unwrap_err();
    assert_eq!(error(b"REDIS0016"), "Can't handle RDB format version REDIS 16 at offset 0");
    assert_eq!(error(b"PK\x03\x04aaaaaaaa"), "Wrong signature: this is no RDB file, at offset 0");
    assert_eq!(error(b"REDIS"), "the file ends too early, at offset 5");
    assert_eq!(error(b"REDIS0011\xf2"), "unknown type or opcode 242 at offset 9");
    assert_eq!(error(b"REDIS0011\xf6\x00"), "Pre-release function format not supported (opcode 246) at offset 10");
    assert_eq!(error(b"REDIS0011\x00\x01k\x03v"), "the file ends too early, at offset 14");
    assert_eq!(error(b"REDIS0011\x00\x01k\xc4v"), "malformed string at offset 12");
    // An intset of another size than it says.
    assert_eq!(error(b"REDIS0011\x0b\x01k\x04abcd\xff\0\0\0\0\0\0\0\0"), "malformed value at offset 12");
    let module = [b"REDIS0011\x07\x01k".as_slice(), &[0x81], &0x1000_0000_0000_0000u64.to_be_bytes()].concat();
    assert!(error(&module).starts_with("a value of the module type 'EAAAAAAAA', which does not exist here, at offset"));
    let mut damaged = sample(WriteOptions { checksum: true, ..PLAIN });
    let len = damaged.len();
    damaged[len - 1] ^= 1;
    assert!(error(&damaged).starts_with("Wrong RDB checksum expected: ("));
    let unchecked = ReadOptions { checksum: false, ..ReadOptions::default() };
    assert!(read(&damaged[..], unchecked).is_ok());
    let newer = ReadOptions { any_version: true, ..ReadOptions::default() };
    assert_eq!(read(&b"REDIS0042\xff\0\0\0\0\0\0\0\0"[..], newer).unwrap().version, 15);
}

/// Of a file of many keys, the reader holds one; and what a length only announces takes no memory.
#[test]
fn memory_is_bounded_by_what_is_there() {
    let announced = b"REDIS0011\x00\x01k\x81\x00\x00\x00\xff\xff\xff\xff\xff123";
    let error = FileReader::open(&announced[..], ReadOptions::default()).unwrap().read_item().map(drop).unwrap_err();
    assert!(matches!(error.fault, Fault::Truncated));
    assert_eq!(error.offset, announced.len() as u64);
}

/// Elements that expire, in the forms of all servers.
#[test]
fn every_form_of_expiring_elements_has_its_shape() {
    let long = [b'v'; 40];
    let fields: [HashEntry<'_>; 3] = [(b"a", b"1", Some(5000)), (b"b", &long, None), (b"c", b"3", Some(6000))];
    for (form, version) in [
        (HashForm::TableWithExpiries, WriteVersion::Redis12),
        (HashForm::ListpackWithExpiries, WriteVersion::Redis12),
        (HashForm::Valkey, WriteVersion::Valkey80),
    ] {
        for compression in [false, true] {
            let mut writer = FileWriter::new(Vec::new(), WriteOptions { version, compression, ..PLAIN });
            let (mut hash, mut set) = (Vec::new(), Vec::new());
            value::hash::write(form, fields.into_iter(), &mut hash);
            value::sorted_set::write_expiring([(&b"m"[..], 1.5, Some(7000)), (b"n", 2.0, None)].into_iter(), &mut set);
            writer.entry(b"h", &hash, EntryMetadata::default()).unwrap();
            writer.entry(b"z", &set, EntryMetadata::default()).unwrap();
            let contents = read_bytes(&writer.finish().unwrap()).unwrap();
            let value = |key: &str| contents.keys[&(0, key.to_owned())].value.clone();
            let vs = "v".repeat(40);
            let hash = format!(r#"hash {{"a": ("1", Some(5000)), "b": ("{vs}", None), "c": ("3", Some(6000))}}"#);
            assert_eq!(value("h"), hash, "{form:?}");
            assert_eq!(value("z"), r#"sorted set {"m": (1.5, Some(7000)), "n": (2.0, None)}"#);
        }
    }
}
