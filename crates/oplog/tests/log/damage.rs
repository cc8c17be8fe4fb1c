//! Every byte of a small log flipped, every prefix of it, missing and foreign files: recovered equal, or refused (INV-OPLOG-2).

use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use almandine_oplog::directory::Directory;
use almandine_oplog::{Fault, LogKeys};

use super::{Folder, SEGMENT_BYTES, Unit, append};

fn small(name: &str) -> (Folder, Vec<Unit>) {
    let folder = Folder::new(name);
    let all = fill(&folder, &Arc::default());
    (folder, all)
}

/// Two runs, the last of which ends with a seal.
pub(super) fn fill(folder: &Folder, keys: &Arc<LogKeys>) -> Vec<Unit> {
    let mut log = folder.begin_keyed(&[], keys);
    let mut all = append(&mut log, 1, &[40, 3], true);
    drop(log);
    let mut log = folder.begin_keyed(&[], keys);
    for epoch in 2..4 {
        all.extend(append(&mut log, epoch, &[100, 0, 7], true));
    }
    all.extend(append(&mut log, 4, &[100_000], true));
    log.seal(true).unwrap();
    all
}

pub(super) fn files(folder: &Folder) -> Vec<std::path::PathBuf> {
    let names = fs::read_dir(&folder.0).unwrap().map(|entry| entry.unwrap().path());
    names.filter(|path| path.file_name().unwrap().to_string_lossy().starts_with(['l', 'M'])).collect()
}

#[test]
fn every_flipped_byte_is_refused_or_changes_nothing() {
    let (folder, all) = small("flip");
    let (mut same, mut refused) = (0, 0);
    for path in files(&folder) {
        let bytes = fs::read(&path).unwrap();
        let file = OpenOptions::new().write(true).open(&path).unwrap();
        // Padding and bodies in steps: each byte of them is as any other.
        let is_head = |at: usize| at % 4096 < 160;
        for (at, byte) in bytes.iter().enumerate().filter(|(at, _)| is_head(*at) || at % 251 == 0) {
            file.write_all_at(&[byte ^ 1 << (at % 8)], at as u64).unwrap();
            match folder.read() {
                Ok((units, _)) => {
                    assert_eq!(units, all, "{} byte {at}", path.display());
                    same += 1;
                }
                Err(Fault::Damaged { .. } | Fault::Unknown { .. }) => refused += 1,
                Err(other) => panic!("{} byte {at}: {other}", path.display()),
            }
            file.write_all_at(&[*byte], at as u64).unwrap();
        }
    }
    assert!(refused > 1000 && same > 1000, "{refused} refused, {same} the same");
    assert!(folder.read().unwrap().0 == all);
}

#[test]
fn every_file_that_is_cut_off_is_refused_or_has_all() {
    let (folder, all) = small("prefix");
    let (mut same, mut refused) = (0, 0);
    for path in files(&folder) {
        let bytes = fs::read(&path).unwrap();
        for len in (0..bytes.len()).filter(|len| len % 509 == 0 || len % 4096 < 2) {
            fs::write(&path, &bytes[..len]).unwrap();
            match folder.read() {
                // What lies behind the last group of a segment that is not the last one.
                Ok((units, _)) => {
                    assert_eq!(units, all, "{len}");
                    same += 1;
                }
                Err(Fault::Damaged { .. }) => refused += 1,
                Err(other) => panic!("{len}: {other}"),
            }
        }
        fs::write(&path, &bytes).unwrap();
    }
    assert!(refused > same && same > 0, "{refused} refused, {same} the same");
    assert!(folder.read().unwrap().0 == all);
}

#[test]
fn an_end_that_was_never_acknowledged_is_cut() {
    let folder = Folder::new("torn");
    let mut log = folder.begin();
    let mut all = append(&mut log, 1, &[40, 3], true);
    let lost = append(&mut log, 2, &[20_000], false);
    let path = folder.last_segment();
    let whole = fs::read(&path).unwrap();
    drop(log);
    for sector in (4096..4096 + 24_576).step_by(512) {
        // From this sector on, the write has not reached the disk.
        let mut bytes = whole.clone();
        bytes[sector..].fill(0);
        fs::write(&path, &bytes).unwrap();
        let (units, end) = folder.read().unwrap();
        let is_whole = sector >= 4096 + 128 + 16 + 16 + 20_000;
        assert_eq!(units.len(), all.len() + usize::from(is_whole), "{sector}");
        assert_eq!(end.torn.is_some(), sector > 4096 && !is_whole, "{sector}");
    }
    fs::write(&path, &whole).unwrap();
    all.extend(lost);
    assert!(folder.read().unwrap().0 == all);
}

#[test]
fn after_a_clean_end_nothing_may_be_missing() {
    let (folder, _) = small("clean");
    let log = folder.begin();
    log.end().unwrap();
    let (units, _) = folder.read().unwrap();
    let path = folder.last_segment();
    let whole = fs::read(&path).unwrap();
    fs::write(&path, vec![0; whole.len()]).unwrap();
    let text = folder.read().unwrap_err().to_string();
    assert!(text.contains("ended cleanly") && text.contains("almandine-check"), "{text}");
    fs::write(&path, &whole).unwrap();
    assert!(folder.read().unwrap().0 == units);
}

#[test]
fn what_a_recycled_segment_held_is_not_read() {
    let folder = Folder::new("recycled");
    let mut log = folder.begin();
    append(&mut log, 1, &[9000], true);
    let old = fs::read(folder.last_segment()).unwrap();
    let all = append(&mut log, 2, &[20], true);
    log.seal(true).unwrap();
    drop(log);
    let (before, _) = folder.read().unwrap();
    assert_eq!(before.len(), 2);
    // The next segment's file held the first one: the same log, at the same places, and sums that fit.
    let log = folder.begin();
    drop(log);
    let path = folder.last_segment();
    assert_eq!(old.len() as u64, SEGMENT_BYTES);
    fs::write(&path, &old).unwrap();
    let (units, end) = folder.read().unwrap();
    assert_eq!(units.len(), 2);
    assert!(units.last() == all.last());
    assert_eq!(end.torn, None);
}

#[test]
fn files_that_are_missing_are_named() {
    let (folder, _) = small("missing");
    assert!(matches!(Directory::take(&folder.0).and_then(|_held| Directory::take(&folder.0)), Err(Fault::Locked(_))));
    for path in files(&folder) {
        let bytes = fs::read(&path).unwrap();
        fs::remove_file(&path).unwrap();
        let text = Directory::take(&folder.0)
            .and_then(|directory| directory.manifest())
            .and_then(|_| folder.read())
            .unwrap_err()
            .to_string();
        assert!(text.contains("is missing") && text.contains(&*path.to_string_lossy()), "{text}");
        fs::write(&path, bytes).unwrap();
    }
}
