//! Backups: what a log had at one place, whatever becomes of the log.

use almandine_oplog::append::{Appender, Place};
use almandine_oplog::backup::{check_empty, clear, keep, pin_base, seal};
use almandine_oplog::directory::base_path;
use almandine_oplog::manifest::BaseEntry;

use super::{Folder, Unit, append};

/// A base in one part, of what the log has.
fn name_base(log: &mut Appender, number: u64) -> u64 {
    let Place { lsn, .. } = log.rotate().unwrap();
    std::fs::write(base_path(log.directory(), number, 0), format!("base {number}")).unwrap();
    log.name_base(BaseEntry { number, lsn, through: lsn, epoch: number, parts: 1, key: None }).unwrap();
    lsn
}

/// A log that has a backup of this many groups, and what the backup has to have.
fn backed_up(log: &Folder, backup: &Folder, groups: u64) -> (Appender, Vec<Unit>) {
    let mut appender = log.begin();
    append(&mut appender, 1, &[10, 60_000], true);
    name_base(&mut appender, 1);
    assert!(check_empty(&backup.0).is_ok(), "one that is not there is empty");
    let unfinished = backup.0.join("MANIFEST.17.tmp");
    std::fs::create_dir_all(&backup.0).unwrap();
    std::fs::write(&unfinished, "").unwrap();
    assert!(check_empty(&backup.0).is_ok() && !unfinished.exists(), "what a killed process was writing is removed");
    let (pinned, files) = pin_base(&log.0, &backup.0).unwrap();
    assert_eq!(std::fs::read(&files[0]).unwrap(), b"base 1");
    assert!(check_empty(&backup.0).is_err());
    let units = (0..groups).flat_map(|group| append(&mut appender, 2 + group, &[50_000, 7], group % 2 == 0)).collect();
    let end = appender.rotate().unwrap();
    let files = seal(pinned, &log.0, end).unwrap();
    assert!(files.iter().all(|file| file.exists()));
    assert_eq!(files.len(), appender.manifest().segments.len() + 1, "all segments but the last, one that is empty, a manifest");
    (appender, units)
}

#[test]
fn a_backup_has_the_log_up_to_its_end_and_a_run_begins_behind_it() {
    for groups in [0, 1, 20] {
        let (log, backup) = (Folder::new(&format!("of-{groups}")), Folder::new(&format!("backup-{groups}")));
        let (mut appender, units) = backed_up(&log, &backup, groups);
        let all: Vec<Unit> = units.iter().cloned().chain(append(&mut appender, 100, &[100, 100], true)).collect();
        let (read, end) = backup.read().unwrap();
        assert!(read == units && end.torn.is_none() && end.place == end.proven, "{groups}");
        assert!(log.read().unwrap().0 == all);
        // Two servers go on, each from its own.
        let mut other = backup.begin();
        let added = append(&mut other, 100, &[3], true);
        drop(other);
        assert!(backup.read().unwrap().0 == [units, added].concat(), "{groups}");
        drop(appender);
        drop(log.begin());
        assert!(log.read().unwrap().0 == all);
        clear(&backup.0).unwrap();
        let left: Vec<_> = std::fs::read_dir(&backup.0).unwrap().map(|file| file.unwrap().file_name()).collect();
        assert!(left.iter().all(|name| name.to_string_lossy().starts_with("spare-")), "{left:?}");
    }
}

#[test]
fn a_backup_stays_as_it_is_when_the_log_drops_its_segments() {
    let (log, backup) = (Folder::new("dropped"), Folder::new("dropped-backup"));
    let (appender, units) = backed_up(&log, &backup, 20);
    drop(appender);
    // With no segment ready, what a base drops is wanted, unless a backup has it.
    for name in std::fs::read_dir(&log.0).unwrap().map(|file| file.unwrap().path()) {
        if name.file_name().unwrap().to_string_lossy().starts_with("spare-") {
            std::fs::remove_file(name).unwrap();
        }
    }
    let mut appender = log.begin();
    name_base(&mut appender, 2);
    (0..20).for_each(|group| _ = append(&mut appender, 100 + group, &[60_000], true));
    assert!(backup.read().unwrap().0 == units);
    assert_eq!(std::fs::read(base_path(&backup.0, 1, 0)).unwrap(), b"base 1");
}

/// With the names of what each base drops, the backup has all from its own base on.
#[test]
fn a_log_that_gets_further_bases_completes_a_backup_that_keeps_its_segments() {
    let (log, backup) = (Folder::new("further"), Folder::new("further-backup"));
    let mut appender = log.begin();
    append(&mut appender, 1, &[10], true);
    name_base(&mut appender, 1);
    let (mut pinned, _) = pin_base(&log.0, &backup.0).unwrap();
    let (mut units, mut files) = (Vec::new(), Vec::new());
    for base in 2..6 {
        units.extend((0..5).flat_map(|group| append(&mut appender, base * 10 + group, &[50_000, 7], group % 2 == 0)));
        let before = appender.manifest().segments.len();
        appender.rotate().unwrap();
        files.extend(keep(&mut pinned, &log.0).unwrap());
        assert!(keep(&mut pinned, &log.0).unwrap().is_empty(), "once");
        name_base(&mut appender, base);
        assert!(appender.manifest().segments.len() <= before);
    }
    units.extend(append(&mut appender, 100, &[70_000], true));
    let end = appender.rotate().unwrap();
    files.extend(seal(pinned, &log.0, end).unwrap());
    append(&mut appender, 200, &[10], true);
    let (read, end) = backup.read().unwrap();
    assert!(read == units && end.torn.is_none() && end.place == end.proven);
    assert_eq!(std::fs::read(base_path(&backup.0, 1, 0)).unwrap(), b"base 1");
    // And no file that is not told.
    let mut there: Vec<_> = std::fs::read_dir(&backup.0).unwrap().map(|file| file.unwrap().path()).collect();
    there.retain(|path| *path != base_path(&backup.0, 1, 0) && path.file_name().is_some_and(|name| name != "LOCK"));
    there.sort();
    files.sort();
    assert_eq!(there, files);
}

#[test]
fn a_log_with_another_base_does_not_complete_a_backup() {
    let (log, backup) = (Folder::new("another"), Folder::new("another-backup"));
    let mut appender = log.begin();
    assert!(pin_base(&log.0, &backup.0).unwrap_err().to_string().contains("no base"));
    name_base(&mut appender, 1);
    let (pinned, _) = pin_base(&log.0, &backup.0).unwrap();
    append(&mut appender, 2, &[10], true);
    name_base(&mut appender, 2);
    let end = appender.rotate().unwrap();
    assert!(seal(pinned, &log.0, end).unwrap_err().to_string().contains("does not go on from the base"));
}

/// The control: a log that writes again to what a backup has.
#[cfg(all(feature = "mutants", not(feature = "sim")))]
#[test]
fn mutants_are_noticed() {
    let test = ["--exact", "backup::a_backup_stays_as_it_is_when_the_log_drops_its_segments"];
    let own = std::env::current_exe().unwrap();
    let run = std::process::Command::new(own).args(test).env("ALMANDINE_MUTANT", "KeepLinked").output().unwrap();
    let said = String::from_utf8_lossy(&run.stdout);
    assert!(!run.status.success() && said.contains("test result: FAILED. 0 passed; 1 failed"), "{said}");
}
