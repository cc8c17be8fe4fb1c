//! What each kind of crash leaves.

use std::collections::BTreeSet;

use super::*;

#[test]
fn a_process_crash_keeps_what_was_written_and_frees_locks() {
    for kind in [CrashKind::Process, CrashKind::Container] {
        One::enter(1, |one| {
            let _ = one.world.spawn(one.node, "holder", || {
                let file = open("/lock", false);
                assert!(file.lock().unwrap() && !open("/lock", false).lock().unwrap());
                files::write("/file", "written").unwrap();
                turn::sleep(HOUR_NS);
                let _ = files::remove("/file");
            });
            one.world.run(1_000_000_000).unwrap();
            one.crash(kind);
            let left = one.run(|| (open("/lock", false).lock().unwrap(), files::read_to_string("/file").unwrap()));
            assert_eq!(left, Some((true, "written".to_owned())));
        });
    }
}

#[test]
fn a_process_that_has_crashed_changes_nothing_while_it_unwinds() {
    struct Removes;
    impl Drop for Removes {
        fn drop(&mut self) {
            assert!(files::remove("/file").is_err() && files::write("/other", "x").is_err());
        }
    }
    One::enter(1, |one| {
        one.disk.put("/file", b"x").unwrap();
        let _ = one.world.spawn(one.node, "main", || {
            let _removes = Removes;
            turn::sleep(HOUR_NS);
        });
        one.world.run(1_000_000_000).unwrap();
        one.crash(CrashKind::Process);
        assert_eq!(one.run(|| files::names("/").unwrap()).unwrap(), ["file"]);
    });
}

/// The bytes of three pages that were being written when the process crashed: when the next process began, and later.
fn direct_write_in_a_crash(seed: u64) -> (Vec<u8>, Vec<u8>) {
    One::enter(seed, |one| {
        one.disk.put("/file", &[1; 3 * 4096]).unwrap();
        let change = one.disk.changes() + 2;
        let _ = one.world.spawn(one.node, "main", || open("/file", true).write_all_at(&buffer(3 * 4096, 2), 0));
        // The write has begun and has not arrived.
        while one.disk.changes() < change {
            one.world.run(100).unwrap();
        }
        one.crash(CrashKind::Process);
        let bytes = || one.disk.get("/file").unwrap().chunks(4096).map(|page| page[0]).collect();
        let first = bytes();
        one.run(|| turn::sleep(1_000_000_000)).unwrap();
        (first, bytes())
    })
}

#[test]
fn a_direct_write_may_land_after_its_process_has_crashed() {
    let found: BTreeSet<_> = (0..40).map(direct_write_in_a_crash).collect();
    let parts = [[2, 2, 2], [2, 2, 1], [2, 1, 1], [1, 1, 1]];
    assert_eq!(found, parts.map(|later| (vec![1, 1, 1], later.to_vec())).into_iter().collect());
}

/// The versions of 8 sectors of 512 bytes after a crash of the machine behind a write that was not synced.
fn torn(seed: u64, direct: bool) -> Vec<u8> {
    One::enter(seed, |one| {
        one.disk.put("/file", &[1; 4096]).unwrap();
        one.run(move || open("/file", direct).write_all_at(&buffer(4096, 2), 0).unwrap()).unwrap();
        one.crash(CrashKind::Machine);
        one.disk.get("/file").unwrap().chunks(512).map(|sector| sector[0]).collect()
    })
}

#[test]
fn a_write_that_is_not_synced_is_torn_at_sectors_and_a_direct_one_at_pages() {
    let cached: BTreeSet<_> = (0..60).map(|seed| torn(seed, false)).collect();
    assert!(cached.contains(&vec![1; 8]) && cached.contains(&vec![2; 8]) && cached.len() > 5, "{cached:?}");
    let direct: BTreeSet<_> = (0..60).map(|seed| torn(seed, true)).collect();
    assert_eq!(direct, BTreeSet::from([vec![1; 8], vec![2; 8]]));
}

#[test]
fn what_is_synced_survives() {
    for seed in 0..20 {
        One::enter(seed, |one| {
            one.run(|| {
                let file = open("/file", false);
                file.write_all_at(&[5; 5000], 0).unwrap();
                file.sync_all().unwrap();
                files::sync_directory("/").unwrap();
                file.write_all_at(&[6; 100], 8000).unwrap();
            })
            .unwrap();
            one.crash(CrashKind::Machine);
            let bytes = one.disk.get("/file").unwrap();
            assert!(bytes[..5000] == [5; 5000] && [5000, 8100].contains(&bytes.len()), "{}", bytes.len());
            assert!(bytes[5000..].iter().all(|byte| [0, 6].contains(byte)));
        });
    }
}

#[test]
fn a_name_is_durable_when_its_directory_is_synced() {
    let left: BTreeSet<_> = (0..40)
        .map(|seed| {
            One::enter(seed, |one| {
                one.run(|| {
                    files::make_directories("/d").unwrap();
                    files::write("/d/synced", "").unwrap();
                    files::sync_directory("/d").unwrap();
                    files::sync_directory("/").unwrap();
                    files::write("/d/lost", "").unwrap();
                    open("/d/lost", false).sync_all().unwrap();
                    files::remove("/d/synced").unwrap();
                })
                .unwrap();
                one.crash(CrashKind::Machine);
                let mut names = one.run(|| files::names("/d").unwrap()).unwrap();
                names.sort();
                names
            })
        })
        .collect();
    let all = [vec![], vec!["lost"], vec!["lost", "synced"], vec!["synced"]];
    assert_eq!(left, all.map(|names| names.into_iter().map(str::to_owned).collect()).into_iter().collect());
}

#[test]
fn a_rename_leaves_the_old_file_or_the_new_one() {
    let left: BTreeSet<_> = (0..40)
        .map(|seed| {
            One::enter(seed, |one| {
                one.disk.put("/file", b"old").unwrap();
                one.run(|| {
                    let file = files::create("/new").and_then(|mut file| {
                        std::io::Write::write_all(&mut file, b"new")?;
                        Ok(file)
                    });
                    file.unwrap().sync_all().unwrap();
                    files::rename("/new", "/file").unwrap();
                })
                .unwrap();
                one.crash(CrashKind::Machine);
                String::from_utf8(one.disk.get("/file").unwrap()).unwrap()
            })
        })
        .collect();
    assert_eq!(left, BTreeSet::from(["old", "new"].map(str::to_owned)));
}

#[test]
fn each_change_is_a_crash_point() {
    let plan = || {
        files::make_directories("/d").unwrap();
        let file = open("/d/file", true);
        file.write_all_at(&buffer(4096, 1), 0).unwrap();
        file.sync_all().unwrap();
        files::sync_directory("/d").unwrap();
    };
    let changes = One::enter(1, |one| {
        one.run(plan).unwrap();
        one.disk.changes()
    });
    assert_eq!(changes, 7, "the name of a directory is made durable; a direct write begins and arrives");
    for kind in [CrashKind::Process, CrashKind::Container, CrashKind::Machine] {
        for change in 0..changes {
            One::enter(1, |one| {
                one.disk.crash_at(change, kind);
                assert_eq!((one.run(plan), one.disk.changes()), (None, change + 1));
                one.run(plan).unwrap();
            });
        }
    }
}
