//! Without crashes and faults the simulated disk does what the system's does.

use std::io::{self, Write};
use std::path::Path;

use super::*;
use crate::sim::choice::mix;

/// Random operations in a directory, and the outcome of each.
fn operate(directory: &Path, seed: u64) -> Vec<String> {
    let mut random = seed;
    let mut below = |limit: u64| {
        random = mix(random.wrapping_add(0x9E37_79B9_7F4A_7C15));
        random % limit
    };
    // After a crash there may be a file of this name.
    let _ = files::make_directories(directory.join("sub"));
    let kind = |error: io::Error| error.kind();
    (0..200)
        .map(|_| {
            let names = ["a", "b", "sub/c", "sub", "missing/d"];
            let path = directory.join(names[below(5) as usize]);
            let other = directory.join(names[below(5) as usize]);
            let (offset, bytes) = (below(40) * 512, vec![below(256) as u8; below(3000) as usize]);
            let opened = |call: &mut dyn FnMut(File) -> String| {
                let is_file = files::read(&path).is_ok();
                if is_file { call(file::open(&path, false).unwrap()) } else { "no file".to_owned() }
            };
            match below(12) {
                0 => format!("create {:?}", files::create(&path).map(drop).map_err(kind)),
                1 => format!("append {:?}", files::append(&path).and_then(|mut file| file.write_all(&bytes)).map_err(kind)),
                2 => format!("write {:?}", files::write(&path, &bytes).map_err(kind)),
                3 => format!("read {:?}", files::read(&path).map(|bytes| crate::sim::trace::hash(&bytes)).map_err(kind)),
                4 => format!("remove {:?}", files::remove(&path).is_ok()),
                5 => format!("rename {:?}", files::rename(&path, &other).is_ok()),
                6 => format!("replace {:?}", files::replace(&path, &bytes).is_ok()),
                7 => opened(&mut |file| format!("write at {:?}", file.write_all_at(&bytes, offset).map_err(kind))),
                8 => opened(&mut |file| format!("length {:?} {:?}", file.set_len(offset).map_err(kind), file.len().map_err(kind))),
                9 => opened(&mut |file| {
                    let mut bytes = [7; 700];
                    format!("read at {:?} {bytes:?}", file.read_at(&mut bytes, offset).map_err(kind))
                }),
                10 => opened(&mut |file| {
                    file.set_len(40_960).unwrap();
                    let punched = file.punch_hole(offset, 1 + bytes.len() as u64).unwrap();
                    let first = file.next_data(0).unwrap();
                    format!("hole {punched} {first:?} {:?}", file.next_data(offset).unwrap())
                }),
                _ => {
                    let mut names = files::names(directory.join("sub")).unwrap_or_default();
                    names.sort();
                    let (one, other) = (files::identity(&path).ok(), files::identity(&other).ok());
                    format!("names {names:?} {} {:?}", one == other, files::canonical(&path).is_ok())
                }
            }
        })
        .collect()
}

#[test]
fn without_faults_it_does_what_the_system_does() {
    for seed in 0..30 {
        let directory = std::env::temp_dir().join(format!("almandine-sim-disk-{}-{seed}", std::process::id()));
        let real = operate(&directory, seed);
        std::fs::remove_dir_all(&directory).unwrap();
        let path = directory.clone();
        let simulated = One::enter(seed, |one| one.run(move || operate(&path, seed))).unwrap();
        for (number, (real, simulated)) in real.iter().zip(&simulated).enumerate() {
            assert_eq!(real, simulated, "operation {number} of seed {seed}");
        }
        assert!(!directory.exists(), "nothing went to the system");
    }
}

#[test]
fn what_is_put_is_there_before_and_after_a_crash() {
    One::enter(1, |one| {
        one.disk.put("/etc/almandine.conf", b"port 1").unwrap();
        for _ in 0..3 {
            one.crash(CrashKind::Machine);
            assert_eq!(one.run(|| files::read_to_string("/etc/almandine.conf").unwrap()).unwrap(), "port 1");
        }
        one.run(|| files::write("/etc/almandine.conf", "port 2").unwrap()).unwrap();
        assert_eq!(one.disk.get("etc/almandine.conf").unwrap(), b"port 2");
    });
}

#[test]
fn operations_take_time_and_reads_are_under_way_together() {
    use crate::storage::{BatchRead, BatchReader, ReadRequest, Source};
    One::enter(1, |one| {
        one.disk.put("/data", &vec![3; 64 * 4096]).unwrap();
        let done = Arc::new(Mutex::new(Vec::new()));
        let slot = Arc::clone(&done);
        one.run(move || {
            let now_ns = || turn::simulation().unwrap().now_ns();
            let file = Arc::new(open("/data", true));
            let source = |index: u64| Source::File { file: Arc::clone(&file), offset: index * 4096 };
            let begin_ns = now_ns();
            let mut reads: Vec<_> = (0..64).map(|index| BatchRead::new(source(index), buffer(4096, 0))).collect();
            BatchReader::default().read(&mut reads);
            assert!(reads.iter().all(|read| read.result.is_ok() && read.buffer.iter().all(|byte| *byte == 3)));
            let batch_ns = now_ns() - begin_ns;
            assert!((DEVICE_NS.0..2 * (DEVICE_NS.0 + DEVICE_NS.1)).contains(&batch_ns), "{batch_ns}");
            for token in 0..70 {
                let slot = Arc::clone(&slot);
                start_read(ReadRequest { token, source: source(token), buffer: buffer(4096, 0) }, move |done| {
                    slot.lock().unwrap().push((done.token, done.result.map_err(|error| error.kind()), done.buffer[9]));
                });
            }
        })
        .unwrap();
        let mut done = done.lock().unwrap().clone();
        assert!(!done.is_sorted_by_key(|done| done.0), "they end in another order");
        done.sort_by_key(|done| done.0);
        let missing = Err(io::ErrorKind::UnexpectedEof);
        let fits =
            |(token, result, byte): &(u64, _, u8)| if *token < 64 { *result == Ok(()) && *byte == 3 } else { *result == missing };
        assert!(done.len() == 70 && done.iter().all(fits), "{done:?}");
    });
}

#[test]
fn the_same_seed_does_the_same() {
    let hash = |seed| {
        One::enter(seed, |one| {
            one.disk.set_faults(DiskFaults { sync_errors: 100_000, ..DiskFaults::harmless(100_000) });
            for _ in 0..3 {
                one.run(move || operate(Path::new("/data"), seed)).unwrap();
                one.crash(CrashKind::Machine);
            }
            one.world.turn().trace_hash()
        })
    };
    assert!((0..10).all(|seed| hash(seed) == hash(seed)));
    assert_ne!(hash(1), hash(2));
}

#[test]
fn a_large_file_with_little_in_it_is_cheap() {
    One::enter(1, |one| {
        one.run(|| {
            let file = open("/large", false);
            file.set_len(1 << 40).unwrap();
            file.write_all_at(b"x", 1 << 39).unwrap();
            assert_eq!(file.next_data(0).unwrap(), Some((1 << 39, (1 << 39) + 4096)));
            file.set_len(0).unwrap();
            assert_eq!(files::disk_bytes("/large").unwrap(), 0);
        })
        .unwrap();
    });
}
