//! Any entries behind a right head and checksum are refused, or are keys that load and that a base of them has again; any bytes in
//! place of a whole file are refused.
//!
//! The first byte says whether the entries are keys or libraries, and the sums are made right: no fuzzer would guess them.

use std::cell::RefCell;
use std::collections::BTreeMap;

use almandine_keyspace::{Accessor, Dumping, Keyspace, Options};
use almandine_oplog::{LogKeys, crc32c};
use almandine_recovery::base::{BaseDatabases, BaseHead, BaseItem, BaseReader, BaseWriter, load};
use almandine_recovery::redo::LogLanes;

const HEAD: BaseHead = BaseHead { log: 7, base: 1, lsn: 0, seed: 3, part: 0, parts: 1 };
const HEAD_BYTES: usize = 64;
const CONTENTS: u64 = 1;

fn empty_base() -> Vec<u8> {
    let writer = BaseWriter::new(Vec::new(), HEAD).expect("memory takes it");
    writer.finish(&BaseDatabases::default()).expect("memory takes it")
}

/// The head of a block of these entries behind `before`, which ends with a sum.
fn block(before: &[u8], keys: u32, second: u64, entries: &[u8]) -> Vec<u8> {
    let mut block = Vec::new();
    block.extend_from_slice(&(entries.len() as u32).to_le_bytes());
    block.extend_from_slice(&keys.to_le_bytes());
    block.extend_from_slice(&second.to_le_bytes());
    block.extend_from_slice(&0u64.to_le_bytes());
    let sum = crc32c::added(crc32c::added(crc32c::sum(before), &block), entries);
    block.extend_from_slice(&sum.to_le_bytes());
    block
}

fn accessor() -> Accessor {
    let store = almandine_store::Options { memory_bytes_max: 1 << 28, background: false, ..Default::default() };
    let keyspace = Keyspace::open(Options { store, ..Options::default() }).expect("a keyspace");
    keyspace.accessor().expect("an accessor")
}

thread_local! {
    static ACCESSOR: RefCell<Accessor> = RefCell::new(accessor());
}

/// Whether the entries were loaded.
pub(crate) fn run(data: &[u8]) -> bool {
    if let Ok(mut reader) = BaseReader::open(data) {
        while let Ok(Some(_)) = reader.read_item() {}
    }
    let Some((&choice, entries)) = data.split_first() else { return false };
    let mut file = empty_base()[..HEAD_BYTES].to_vec();
    let keys = if choice == 1 { u32::MAX - 1 } else { 0 };
    let head = block(&file[HEAD_BYTES - 4..], keys, 0, entries);
    file.extend_from_slice(&head);
    file.extend_from_slice(entries);
    // The last block says how many keys there were.
    let mut count = 0u64;
    if let Ok(mut reader) = BaseReader::open(&file[..]) {
        while let Ok(Some(item)) = reader.read_item() {
            count += u64::from(matches!(item, BaseItem::Key { .. }));
        }
    }
    let last = [0; 8];
    let head = block(&head[head.len() - 4..], u32::MAX, count, &last);
    file.extend_from_slice(&head);
    file.extend_from_slice(&last);
    ACCESSOR.with_borrow_mut(|accessor| {
        let contents = BTreeMap::from([(CONTENTS, 0)]);
        let mut lanes = LogLanes::start(accessor, 1);
        let loaded = load((&file[..], &LogKeys::NONE), HEAD, &mut lanes, &contents);
        let is_loaded = lanes.end().is_ok() && loaded.is_ok();
        if is_loaded && accessor.keyspace().dbsize(0) > 0 {
            let mut writer = BaseWriter::new(Vec::new(), HEAD).expect("memory takes it");
            let mut walk = Dumping::part(0, 1);
            while walk.next(accessor, |key| writer.key(&key).expect("memory takes it")).expect("in memory") {}
            assert_eq!(writer.keys(), accessor.keyspace().dbsize(0));
        }
        accessor.begin_batch(0);
        accessor.flush(&[0]);
        accessor.end_batch();
        accessor.keyspace().maintain(1);
        is_loaded
    })
}
