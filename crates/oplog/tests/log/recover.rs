//! Runs that follow each other, segments that fill up, groups larger than a segment, what rings have left (INV-OPLOG-3).

use almandine_oplog::RingId;
use almandine_oplog::append::{Leftover, Place, WritePath};
use almandine_oplog::manifest::BaseEntry;

use super::{Folder, SEGMENT_BYTES, append, unit};

#[test]
fn runs_follow_each_other_and_each_begins_a_segment() {
    let folder = Folder::new("runs");
    let mut all = Vec::new();
    for run in 1..=4 {
        let mut log = folder.begin();
        assert_eq!(log.manifest().run, run);
        assert_eq!(log.manifest().segments.last().unwrap().run, run);
        for group in 0..3 {
            all.extend(append(&mut log, run * 10 + group, &[10, 0, 5000], group == 1));
        }
        if run % 2 == 0 {
            log.end().unwrap();
        }
        let (units, end) = folder.read().unwrap();
        assert_eq!(units, all);
        assert_eq!((end.epoch, end.groups, end.torn), (run * 10 + 2, run * 3, None), "{run}");
        assert_eq!(end.last[&(run, RingId(2))], ((run * 10 + 2) << 18) + 3);
    }
}

/// A server that is started again and again does not fill its disk.
#[test]
fn a_run_takes_the_room_that_it_has_used() {
    let folder = Folder::new("room");
    let mut all = Vec::new();
    for epoch in 1..=20 {
        let mut log = folder.begin();
        all.extend(append(&mut log, epoch, &[100], true));
        drop(log);
        let files = std::fs::read_dir(&folder.0).unwrap().map(|file| file.unwrap().metadata().unwrap().len());
        // What is written and its spares, a block of each earlier run, and the manifest.
        assert!(files.sum::<u64>() < 3 * SEGMENT_BYTES + epoch * (4096 + 200) + 4096, "{epoch}");
    }
    assert_eq!(folder.read().unwrap().0, all);
}

/// What a process that was thought dead writes late makes a segment longer that was cut off.
#[test]
fn late_writes_behind_the_end_of_a_run_are_not_read() {
    let folder = Folder::new("late");
    let mut log = folder.begin();
    // That the first group is durable is known by the second one, which the next run writes again.
    let mut all = append(&mut log, 1, &[100], true);
    all.extend(append(&mut log, 2, &[100], true));
    let former = folder.last_segment();
    drop(log);
    drop(folder.begin());
    let length = std::fs::metadata(&former).unwrap().len();
    assert_eq!(length, 4096);
    std::fs::write(&former, [&std::fs::read(&former).unwrap()[..], &[7; 9000]].concat()).unwrap();
    assert_eq!(folder.read().unwrap().0, all);
    // One that is shorter is damaged.
    std::fs::File::options().write(true).open(&former).unwrap().set_len(length - 1).unwrap();
    assert!(folder.read().is_err());
}

#[test]
fn segments_fill_up_and_groups_are_longer_than_one() {
    let folder = Folder::new("full");
    let mut log = folder.begin();
    let mut all = Vec::new();
    for (epoch, bytes) in (1..).zip([100, 60_000, 64_000, 65_000, 65_408, 65_409, 200_000, 1, 300_000]) {
        all.extend(append(&mut log, epoch, &[bytes, bytes / 2, 3], epoch % 2 == 0));
        assert!(folder.read().unwrap().0 == all, "{bytes}");
    }
    assert!(log.manifest().segments.len() > 10);
    drop(log);
    assert!(folder.read().unwrap().0 == all);
    let log = folder.begin();
    assert_eq!(log.manifest().run, 2);
    assert!(folder.read().unwrap().0 == all);
}

#[test]
fn what_rings_have_left_is_appended_once() {
    let folder = Folder::new("left");
    let mut log = folder.begin();
    let mut all = append(&mut log, 1, &[10, 20], true);
    drop(log);
    let of = |ring: u16, units: &[Vec<u8>]| Leftover { run: 1, ring: RingId(ring), units: units.concat() };
    // The first ring holds what is in the log, and more; the second nothing but that; the third is new.
    let left = [of(0, &[unit(1, 1, 10), unit(2, 5, 30), unit(3, 1, 0)]), of(1, &[unit(1, 2, 20)]), of(2, &[unit(2, 6, 100_000)])];
    all.extend([(1, RingId(0), unit(2, 5, 30)), (1, RingId(0), unit(3, 1, 0)), (1, RingId(2), unit(2, 6, 100_000))]);
    for run in 2..5 {
        let log = folder.begin_with(&left);
        assert_eq!(log.manifest().run, run);
        let (units, end) = folder.read().unwrap();
        assert_eq!((units, end.epoch), (all.clone(), 3));
        let (end, durable) = log.ends();
        assert_eq!(end, durable);
    }
}

#[test]
fn after_a_failure_the_log_goes_on_behind_what_is_durable() {
    let folder = Folder::new("heal");
    let mut log = folder.begin();
    let mut all = append(&mut log, 1, &[10, 20_000], true);
    let (place, _) = log.ends();
    // What is not durable when something fails is no part of the log, though it can be read.
    append(&mut log, 2, &[30_000, 30_000, 30_000], false);
    log.heal().unwrap();
    assert_eq!(log.ends(), (place, place));
    assert!(folder.read().unwrap().0 == all);
    all.extend(append(&mut log, 3, &[30], true));
    assert!(folder.read().unwrap().0 == all);
}

#[test]
fn a_base_drops_what_is_before_it() {
    let folder = Folder::new("base");
    let mut log = folder.begin();
    append(&mut log, 1, &[10, 60_000], true);
    append(&mut log, 2, &[60_000], false);
    let Place { lsn, .. } = log.rotate().unwrap();
    let kept = append(&mut log, 3, &[5], true);
    assert!(log.bytes() > 100_000);
    log.name_base(BaseEntry { number: 1, lsn, through: log.ends().1.lsn, epoch: 2, parts: 0, key: None }).unwrap();
    assert_eq!((log.bytes(), log.manifest().segments.len()), (4096, 1));
    assert!(folder.read().unwrap().0 == kept);
    drop(log);
    let log = folder.begin();
    assert_eq!((folder.read().unwrap().0, log.manifest().base.unwrap().lsn), (kept, lsn));
    let spares = std::fs::read_dir(&folder.0)
        .unwrap()
        .filter(|name| name.as_ref().unwrap().file_name().to_string_lossy().starts_with("spare"));
    assert!(spares.count() <= 3);
}

#[test]
fn an_empty_log_takes_one_segment_and_one_that_is_filled_has_further_ones_ready() {
    for written in [false, true] {
        let folder = Folder::new(&format!("ready-{written}"));
        let mut log = folder.begin();
        log.set_write_path(if written { WritePath::Synced } else { WritePath::Direct }).unwrap();
        let ready = || {
            let names = std::fs::read_dir(&folder.0).unwrap().map(|name| name.unwrap().path());
            let is_ready = |path: &std::path::PathBuf| {
                let name = path.file_name().unwrap().to_string_lossy().into_owned();
                name.starts_with("spare-") && name["spare-".len()..].parse::<u64>().is_ok()
            };
            names.filter(is_ready).collect::<Vec<_>>()
        };
        let wait = |count: usize| {
            while ready().len() != count {
                std::thread::yield_now();
            }
        };
        log.rotate().unwrap();
        assert_eq!(ready().len(), 0, "nothing was written");
        append(&mut log, 1, &[10], true);
        wait(1);
        append(&mut log, 2, &[20_000], true);
        wait(2);
        for path in ready() {
            assert_eq!(std::fs::read(path).unwrap(), vec![0; super::SEGMENT_BYTES as usize]);
        }
        assert_eq!(log.manifest().segments.len(), 1);
    }
}

/// Segments that are begun behind a change of their size have the new one, also when it is smaller than what a part was before.
#[test]
fn segments_may_have_another_size_from_the_next_one_on() {
    let folder = Folder::new("resized");
    let mut log = folder.begin();
    let mut all = Vec::new();
    for (round, bytes) in [SEGMENT_BYTES, 4 * SEGMENT_BYTES, SEGMENT_BYTES / 4, SEGMENT_BYTES].into_iter().enumerate() {
        log.set_segment_bytes(bytes);
        for group in 1..=40 {
            all.extend(append(&mut log, round as u64 * 40 + group, &[10_000], group % 3 == 0));
        }
        let last = log.manifest().segments.last().unwrap();
        assert_eq!(last.bytes, bytes, "round {round}");
        assert_eq!(std::fs::metadata(folder.last_segment()).unwrap().len(), bytes);
    }
    log.sync().unwrap();
    drop(log);
    assert_eq!(folder.read().unwrap().0, all);
    drop(folder.begin());
    assert_eq!(folder.read().unwrap().0, all);
}
