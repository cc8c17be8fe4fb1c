//! Any bytes are refused, or are a file whose items, written again with and without compression, are the same items.
//!
//! The checksum is not asked for: no fuzzer would guess it. A first byte chooses the magic, so that items are reached at once.

#![no_main]

use almandine_rdb::file::{EntryMetadata, FileReader, FileWriter, Item, ReadOptions, WriteOptions, WriteVersion};
use almandine_rdb::value::AnyValue;
use libfuzzer_sys::fuzz_target;

const OPTIONS: ReadOptions = ReadOptions { checksum: false, any_version: false };
const MAGICS: [&[u8]; 5] = [b"", b"REDIS0003", b"REDIS0011", b"REDIS0015", b"VALKEY080"];

type Entries = Vec<(Vec<u8>, u8, Vec<u8>, EntryMetadata)>;

fn entries(file: &[u8]) -> Option<(u16, Entries)> {
    let mut reader = FileReader::open(file, OPTIONS).ok()?;
    let (version, mut entries) = (reader.version().number(), Vec::new());
    while let Some(item) = reader.read_item().ok()? {
        if let Item::Entry(entry) = item {
            let mut input = entry.value;
            if AnyValue::read(entry.value_type, version, &mut input).is_ok() {
                assert!(input.is_empty(), "a value ends where its shape does");
                entries.push((entry.key.to_vec(), entry.value_type, entry.value.to_vec(), entry.metadata));
            }
        }
    }
    Some((version, entries))
}

fuzz_target!(|data: &[u8]| {
    let Some((&choice, rest)) = data.split_first() else { return };
    let file = [MAGICS[usize::from(choice) % MAGICS.len()], rest].concat();
    let Some((number, before)) = entries(&file) else { return };
    let version = if number >= 80 { WriteVersion::Valkey80 } else { WriteVersion::Redis12 };
    for compression in [false, true] {
        let mut writer = FileWriter::new(Vec::new(), WriteOptions { version, checksum: false, compression });
        for (key, value_type, value, metadata) in &before {
            let value = [&[*value_type], &value[..]].concat();
            writer.entry(key, &value, *metadata).expect("memory takes it");
        }
        let (_, after) = entries(&writer.finish().expect("memory takes it")).expect("what was written is read");
        assert_eq!(after.len(), before.len());
        for (one, other) in before.iter().zip(&after) {
            assert_eq!((&one.0, one.1, &one.3), (&other.0, other.1, &other.3));
            assert!(compression || one.2 == other.2);
        }
    }
});
