//! What copying all keys costs: `cargo bench -p almandine-recovery --bench copies -- [keys]`.
//!
//! Prints the CPU time of one thread for each key of 16 bytes with a value of 100, into nowhere; and for each SET, in batches of 64
//! keys, without a copy, and beyond the moment of one: of keys that nothing was saved of, of such that were, and behind the copy.

use almandine_io::usage;
use almandine_keyspace::{Accessor, Dumping, Keyspace, Options, Put};
use almandine_rdb::file::WriteVersion;
use almandine_recovery::base::{BaseDatabases, BaseHead, BaseWriter};
use almandine_recovery::save::{SaveOptions, SaveProgress, SnapshotFile};

const BATCH: usize = 64;
const VALUE: [u8; 100] = *b"0123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789";

fn main() {
    let asked = std::env::args().skip(1).find_map(|argument| argument.parse::<u64>().ok());
    let keys = asked.unwrap_or(1 << 21).next_power_of_two();
    let keyspace = Keyspace::open(Options::default()).expect("a keyspace");
    let mut accessor = keyspace.accessor().expect("an accessor");
    set_all(&mut accessor, keys, 0);
    while keyspace.figures().index_buckets() < keys / 6 {
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    let report = |what: &str, ns: u64| println!("{what:<44} {:>8.1} ns", ns as f64 / keys as f64);
    for round in 1..=3 {
        report("SET", timed(|| set_all(&mut accessor, keys, round)));
    }
    report("base", timed(|| base(&mut accessor)));
    for (what, compression) in [("snapshot file", false), ("snapshot file, compressed", true)] {
        report(what, timed(|| snapshot(&mut accessor, compression)));
    }
    let memory = usage::resident_bytes();
    accessor.begin_batch(1);
    let copying = accessor.unit().begin_copying(u64::MAX).expect("the only copy");
    accessor.end_batch();
    report("SET, what was there is saved", timed(|| set_all(&mut accessor, keys, 4)));
    println!("{:<44} {:>8} bytes", "saved, for each key", usage::resident_bytes().saturating_sub(memory) / keys);
    report("SET, saved before", timed(|| set_all(&mut accessor, keys, 5)));
    walk(copying, &mut accessor);
    report("SET, behind the copy", timed(|| set_all(&mut accessor, keys, 6)));
}

/// CPU time of this thread.
fn timed(work: impl FnOnce()) -> u64 {
    let used = || {
        let time = usage::thread();
        (time.user_us + time.system_us) * 1000
    };
    let before = used();
    work();
    used() - before
}

/// Sets all keys once, in an order of its own for each round. `keys` is a power of two.
fn set_all(accessor: &mut Accessor, keys: u64, round: u64) {
    for batch in 0..keys / BATCH as u64 {
        // Odd factors visit each number once.
        let number = |at: u64| (batch * BATCH as u64 + at).wrapping_mul(0x9E37_79B9_7F4A_7C15 ^ round << 8) & (keys - 1);
        let names: [[u8; 16]; BATCH] = std::array::from_fn(|at| u128::from(number(at as u64)).to_be_bytes());
        accessor.begin_batch(1);
        let mut hashed = names.each_ref().map(|name| accessor.key(0, name));
        let mut group = accessor.group();
        group.begin();
        hashed.iter_mut().for_each(|key| key.glance = group.expect(key.hash));
        group.prefetch();
        let mut writer = accessor.writer(0);
        for key in hashed {
            writer.upsert(key, &VALUE, Put::default()).expect("room");
        }
        drop(writer);
        accessor.end_batch();
    }
}

fn base(accessor: &mut Accessor) {
    let mut writer = BaseWriter::new(std::io::sink(), BaseHead::default()).expect("a sink");
    let mut walk = Dumping::part(0, 1);
    while walk.next(accessor, |key| writer.key(&key).expect("a sink")).expect("in memory") {}
    writer.finish(&BaseDatabases::default()).expect("a sink");
}

fn snapshot(accessor: &mut Accessor, compression: bool) {
    let options = SaveOptions { version: WriteVersion::Redis11, compression, ..SaveOptions::default() };
    let file = SnapshotFile::begin_now(accessor).expect("the only copy");
    file.write_to(accessor, std::io::sink(), &options, &SaveProgress::default()).expect("a sink");
}

fn walk(mut copying: almandine_keyspace::Copying, accessor: &mut Accessor) {
    while copying.next(accessor, |_| ()).expect("in memory") {}
}
