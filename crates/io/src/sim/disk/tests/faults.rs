//! Each fault of a disk happens as often as asked for, is counted, and does what it says.

use std::io::ErrorKind;

use super::*;

const ALWAYS: u32 = 1_000_000;
const PAGE: u64 = 4096;

/// A direct file of 8 pages, each filled with its number, on a disk on which these faults happen from then on; and what `body`
/// finds.
fn with_faults<T: Send + 'static>(seed: u64, faults: DiskFaults, body: impl FnOnce(&File) -> T + Send + 'static) -> (T, u64) {
    One::enter(seed, |one| {
        let disk = Arc::clone(&one.disk);
        let found = one.run(move || {
            let file = open("/file", true);
            (0..8).for_each(|page| file.write_all_at(&buffer(4096, page), u64::from(page) * PAGE).unwrap());
            file.sync_all().unwrap();
            disk.set_faults(faults);
            body(&file)
        });
        (found.unwrap(), one.disk.happened().values().sum())
    })
}

/// What each page shows: its byte, or none for an error.
fn pages(file: &File) -> Vec<Option<u8>> {
    let page = |page: u64| {
        let mut bytes = buffer(4096, 0xEE);
        file.read_exact_at(&mut bytes, page * PAGE).ok()?;
        assert!(bytes.iter().all(|byte| *byte == bytes[0]));
        Some(bytes[0])
    };
    (0..file.len().unwrap() / PAGE).map(page).collect()
}

#[test]
fn no_fault_happens_by_default() {
    let (found, happened) = with_faults(1, DiskFaults::default(), pages);
    assert_eq!((found, happened), ((0..8).map(Some).collect(), 0));
}

#[test]
fn a_read_fails() {
    let (error, happened) = with_faults(1, DiskFaults { read_errors: ALWAYS, ..DiskFaults::default() }, |file| {
        file.read_at(&mut buffer(4096, 0), 0).unwrap_err().raw_os_error()
    });
    assert_eq!((error, happened), (Some(libc::EIO), 1));
}

#[test]
fn a_write_fails_behind_a_part_of_it() {
    let written: Vec<_> = (0..40)
        .map(|seed| {
            let faults = DiskFaults { write_errors: ALWAYS, ..DiskFaults::default() };
            with_faults(seed, faults, |file| {
                assert_eq!(file.write_at(&buffer(3 * 4096, 9), 0).unwrap_err().raw_os_error(), Some(libc::EIO));
                pages(file).iter().take_while(|page| **page == Some(9)).count()
            })
            .0
        })
        .collect();
    assert!((0..=3).all(|count| written.contains(&count)), "{written:?}");
}

#[test]
fn transfers_are_short_and_direct_ones_end_at_a_page() {
    let faults = DiskFaults { short_reads: ALWAYS, short_writes: ALWAYS, ..DiskFaults::default() };
    for seed in 0..20 {
        with_faults(seed, faults.clone(), |file| {
            let read = file.read_at(&mut buffer(4 * 4096, 0), 0).unwrap();
            let written = file.write_at(&buffer(4 * 4096, 9), 0).unwrap();
            assert!([read, written].iter().all(|count| (4096..4 * 4096).contains(count) && count.is_multiple_of(4096)));
            file.write_all_at(&buffer(4 * 4096, 8), 0).unwrap();
            assert_eq!(pages(file)[..5], [8, 8, 8, 8, 4].map(Some));
            let cached = open("/cached", false);
            assert!((1..1000).contains(&cached.write_at(&[1; 1000], 0).unwrap()));
            cached.write_all_at(&[2; 1000], 0).unwrap();
            let mut all = [0; 1000];
            cached.read_exact_at(&mut all, 0).unwrap();
            assert_eq!(all, [2; 1000]);
        });
    }
}

#[test]
fn a_full_disk_takes_what_fits() {
    let faults = DiskFaults { full_at_bytes: Some(10 * PAGE), ..DiskFaults::default() };
    let (_, happened) = with_faults(1, faults, |file| {
        assert_eq!(file.write_at(&buffer(4 * 4096, 9), 7 * PAGE).unwrap(), 3 * 4096, "one page is there already");
        assert_eq!(file.write_at(&buffer(4096, 9), 10 * PAGE).unwrap_err().kind(), ErrorKind::StorageFull);
        assert!(file.punch_hole(0, PAGE).unwrap());
        file.write_all_at(&buffer(4096, 9), 10 * PAGE).unwrap();
        let other = open("/other", false);
        assert_eq!(other.write_at(b"x", 0).unwrap_err().kind(), ErrorKind::StorageFull);
        files::remove("/file").unwrap();
        assert_eq!(other.write_at(b"x", 0).unwrap_err().kind(), ErrorKind::StorageFull, "it is open");
    });
    assert_eq!(happened, 4);
}

#[test]
fn an_unreadable_page_is_readable_when_it_is_written_again() {
    let (_, happened) = with_faults(1, DiskFaults { unreadable_pages: ALWAYS, ..DiskFaults::default() }, |file| {
        file.write_all_at(&buffer(4096, 9), 2 * PAGE).unwrap();
        assert_eq!(pages(file)[..4], [Some(0), Some(1), None, Some(3)]);
        world::current().map(|(world, node)| world.disk(node).set_faults(DiskFaults::default())).unwrap();
        file.write_all_at(&buffer(4096, 8), 2 * PAGE).unwrap();
        assert_eq!(pages(file)[2], Some(8));
    });
    assert_eq!(happened, 2, "it becomes unreadable, and is read");
}

#[test]
fn a_bit_is_flipped_until_the_medium_is_healed() {
    One::enter(1, |one| {
        one.disk.set_faults(DiskFaults { flipped_bits: ALWAYS, ..DiskFaults::default() });
        one.run(|| open("/file", true).write_all_at(&buffer(3 * 4096, 0), 0).unwrap()).unwrap();
        let ones = || one.disk.get("/file").unwrap().iter().map(|byte| byte.count_ones()).sum::<u32>();
        assert_eq!((ones(), one.happened("a bit is flipped")), (1, 1));
        one.disk.heal();
        assert_eq!(ones(), 0);
    });
}

#[test]
fn a_lost_write_leaves_what_was_there() {
    let (found, happened) = with_faults(1, DiskFaults { lost_writes: ALWAYS, ..DiskFaults::default() }, |file| {
        file.write_all_at(&buffer(2 * 4096, 9), 7 * PAGE).unwrap();
        file.sync_all().unwrap();
        pages(file)
    });
    assert_eq!((found, happened), ([0, 1, 2, 3, 4, 5, 6, 7, 0].map(Some).to_vec(), 1));
}

#[test]
fn a_misdirected_write_changes_whole_other_pages_of_the_file() {
    for seed in 0..20 {
        let faults = DiskFaults { misdirected_writes: ALWAYS, ..DiskFaults::default() };
        let (found, happened) = with_faults(seed, faults, |file| {
            file.write_all_at(&buffer(4096, 9), 2 * PAGE).unwrap();
            pages(file)
        });
        let elsewhere = found.iter().position(|page| *page == Some(9)).unwrap();
        assert_eq!((found[2] == Some(9), happened), (elsewhere == 2, u64::from(elsewhere != 2)), "a target by chance is right");
        let others = (0..8).filter(|page| *page != elsewhere).all(|page| found[page] == Some(page as u8));
        assert!(others, "{found:?}");
    }
}

#[test]
fn a_failed_sync_drops_what_it_should_have_written_and_the_next_one_succeeds() {
    let mut left_the_cache = 0;
    for seed in 0..20 {
        One::enter(seed, |one| {
            one.disk.put("/file", &[1; 8192]).unwrap();
            one.disk.set_faults(DiskFaults { sync_errors: ALWAYS, ..DiskFaults::default() });
            let disk = Arc::clone(&one.disk);
            let cached = one.run(move || {
                let file = open("/file", false);
                file.write_all_at(&[2; 4096], 0).unwrap();
                assert_eq!(file.sync_data().unwrap_err().raw_os_error(), Some(libc::EIO));
                disk.set_faults(DiskFaults::default());
                file.sync_data().unwrap();
                let mut byte = [0];
                file.read_exact_at(&mut byte, 0).unwrap();
                file.write_all_at(&[3; 4096], 4096).unwrap();
                file.sync_data().unwrap();
                byte[0]
            });
            left_the_cache += u32::from(cached == Some(1));
            one.crash(CrashKind::Machine);
            let file = one.disk.get("/file").unwrap();
            assert_eq!((file[0], file[4096]), (1, 3), "what the failed sync dropped is never written");
        });
    }
    assert!((1..20).contains(&left_the_cache));
}

#[test]
fn a_hole_fails() {
    let (error, happened) = with_faults(1, DiskFaults { punch_errors: ALWAYS, ..DiskFaults::default() }, |file| {
        (file.punch_hole(0, PAGE).unwrap_err().raw_os_error(), pages(file)[0])
    });
    assert_eq!((error, happened), ((Some(libc::EIO), Some(0)), 1));
}

#[test]
fn operations_are_slow_or_stuck() {
    let elapsed_ns = |faults: DiskFaults| {
        with_faults(1, faults, |file| {
            let now_ns = || turn::simulation().unwrap().now_ns();
            let begin_ns = now_ns();
            file.sync_all().unwrap();
            now_ns() - begin_ns
        })
        .0
    };
    assert!(elapsed_ns(DiskFaults::default()) < 1_000_000);
    let slow_ns = elapsed_ns(DiskFaults { slow: ALWAYS, ..DiskFaults::default() });
    assert!((10_000_000..501_000_000).contains(&slow_ns), "{slow_ns}");
    assert!(elapsed_ns(DiskFaults { stuck_until_ns: 60_000_000_000, ..DiskFaults::default() }) > 59_000_000_000);
}

#[test]
fn a_directory_with_faults_of_its_own_is_as_another_disk() {
    One::enter(1, |one| {
        one.disk.set_faults(DiskFaults { full_at_bytes: Some(2 * PAGE), ..DiskFaults::default() });
        one.disk.set_faults_of("/apart", DiskFaults { write_errors: ALWAYS, full_at_bytes: Some(0), ..DiskFaults::default() });
        let disk = Arc::clone(&one.disk);
        one.run(move || {
            files::make_directories("/apart").unwrap();
            let (whole, apart) = (open("/whole", false), open("/apart/file", false));
            whole.write_all_at(&[1; 4096], 0).unwrap();
            assert_eq!(apart.write_at(&[1; 4096], 0).unwrap_err().kind(), ErrorKind::StorageFull);
            disk.set_faults_of("/apart", DiskFaults { write_errors: ALWAYS, ..DiskFaults::default() });
            assert_eq!(apart.write_at(&[1; 4096], 0).unwrap_err().raw_os_error(), Some(libc::EIO));
            disk.set_faults_of("/apart", DiskFaults::default());
            // What lies there takes no space of the other.
            apart.write_all_at(&[1; 8192], 0).unwrap();
            whole.write_all_at(&[1; 4096], 4096).unwrap();
            assert_eq!(whole.write_at(&[1; 4096], 8192).unwrap_err().kind(), ErrorKind::StorageFull);
        })
        .unwrap();
        let happened = |what: &str| one.happened(what);
        assert_eq!((happened("apart: the disk is full"), happened("apart: a write fails")), (1, 1));
        assert_eq!((happened("the disk is full"), happened("a write fails")), (1, 0));
    });
}
