//! What bases, snapshots and redo cost: each is run at n and at 2n, and takes about twice the steps (`almandine_base::steps`), not
//! more.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]
#![cfg(debug_assertions)]

use std::collections::BTreeMap;

use almandine_base::steps;
use almandine_config::{Config, Startup};
use almandine_keyspace::{Accessor, Dumping, Keyspace, Options, Put};
use almandine_oplog::entry::{Attributes, LogEntry, LogValue, Operation};
use almandine_oplog::group::PartHead;
use almandine_oplog::read::LogGroup;
use almandine_oplog::{LogKeys, UnitHead, last_of};
use almandine_rdb::file::ReadOptions;
use almandine_recovery::base::{self, BaseDatabases, BaseHead, BaseWriter};
use almandine_recovery::load::{self, Existing, LoadOptions};
use almandine_recovery::put::ValueLimits;
use almandine_recovery::redo::{LogLanes, Redo};
use almandine_recovery::save::{SaveOptions, SaveProgress, SnapshotFile};

const SMALL: u64 = 2_000;
const GROWTH_MAX: f64 = 2.2;
const HEAD: BaseHead = BaseHead { log: 1, base: 1, lsn: 0, seed: 0, part: 0, parts: 1 };

fn accessor() -> Accessor {
    let store = almandine_store::Options { background: false, ..Default::default() };
    Keyspace::open(Options { store, ..Options::default() }).unwrap().accessor().unwrap()
}

fn filled(keys: u64) -> Accessor {
    let mut accessor = accessor();
    for key in 0..keys {
        accessor.begin_batch(1);
        let mut writer = accessor.writer(0);
        writer.upsert(writer.key(&key.to_le_bytes()), b"value", Put::default()).unwrap();
        drop(writer);
        accessor.end_batch();
    }
    accessor
}

fn base_of(accessor: &mut Accessor) -> (Vec<u8>, u64) {
    let (mut writer, mut contents, mut walk) = (BaseWriter::new(Vec::new(), HEAD).unwrap(), 0, Dumping::part(0, 1));
    while walk
        .next(accessor, |key| {
            contents = key.contents;
            writer.key(&key).unwrap();
        })
        .unwrap()
    {}
    (writer.finish(&BaseDatabases::default()).unwrap(), contents)
}

fn snapshot_of(accessor: &mut Accessor) -> Vec<u8> {
    let file = SnapshotFile::begin_now(accessor).unwrap();
    file.write_to(accessor, Vec::new(), &SaveOptions::default(), &SaveProgress::default()).unwrap().0
}

/// A group in which units change keys of two databases in turn.
fn group(keys: u64) -> Vec<u8> {
    let mut units = Vec::new();
    for key in 0..keys {
        let operation = Operation::Set { kind: 0, value: LogValue::Bytes(b"value"), attributes: Attributes::default(), made: true };
        let mut entry = Vec::new();
        LogEntry { contents: 1 + key % 2, key: &key.to_le_bytes(), operation }.encode(&mut entry);
        let head = UnitHead { number: last_of(0) + 1 + key, bytes: entry.len() as u32, entries: 1 };
        units.extend_from_slice(&head.encode());
        units.extend_from_slice(&entry);
    }
    let mut body = 1u64.to_le_bytes().to_vec();
    body.extend_from_slice(&[0; 4]);
    body.extend_from_slice(&(units.len() as u32).to_le_bytes());
    body.extend_from_slice(&units);
    body
}

/// Steps of the work that `prepare` makes for a number of keys.
fn growth(what: &str, steps_of: impl Fn(u64) -> u64) {
    let (small, large) = (steps_of(SMALL), steps_of(2 * SMALL));
    println!("{what}: {small} and {large} steps");
    assert!(small >= SMALL, "{what}: its loops are not counted: {small}");
    assert!(large as f64 / small as f64 <= GROWTH_MAX, "{what}: {small} and {large} steps");
}

fn counted<R>(work: impl FnOnce() -> R) -> (u64, R) {
    let before = steps::taken();
    let result = work();
    (steps::taken() - before, result)
}

#[test]
fn files_and_redo_take_twice_the_steps_for_twice_the_keys() {
    growth("writing a base", |keys| {
        let mut accessor = filled(keys);
        counted(|| base_of(&mut accessor)).0
    });
    growth("loading a base", |keys| {
        let (base, contents) = base_of(&mut filled(keys));
        let mut accessor = accessor();
        counted(|| {
            let mut lanes = LogLanes::start(&mut accessor, 1);
            base::load((&base[..], &LogKeys::NONE), HEAD, &mut lanes, &BTreeMap::from([(contents, 0)])).unwrap();
            lanes.end().unwrap();
        })
        .0
    });
    growth("redo", |keys| {
        let (body, mut accessor) = (group(keys), accessor());
        let (steps, ()) = counted(|| {
            let (mut redo, mut lanes) = (Redo::new((1..17).collect()), LogLanes::start(&mut accessor, 1));
            redo.group(
                &mut lanes,
                &LogGroup { lsn: 0, end_lsn: 0, head: PartHead::default(), body: &body, is_opaque: false, units: 1 },
            )
            .unwrap();
            lanes.end().unwrap();
        });
        assert_eq!(accessor.keyspace().dbsize(0) + accessor.keyspace().dbsize(1), keys);
        steps
    });
    growth("loading a snapshot", |keys| {
        let snapshot = snapshot_of(&mut filled(keys));
        let Ok(Startup::Run(config)) = Config::load(&[]) else { panic!("the defaults are a configuration") };
        let limits = ValueLimits::of(&config.snapshot().settings);
        let read = ReadOptions::default();
        let options = LoadOptions { limits, read, existing: Existing::Refuse, keep_expired: false, lanes: 1 };
        let mut accessor = accessor();
        counted(|| load::load(&mut accessor, &snapshot[..], &options, &mut |_, _| true).unwrap()).0
    });
}
