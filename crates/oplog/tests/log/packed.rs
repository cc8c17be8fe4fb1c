//! Groups that pass by the page cache: several in one block, none of which is in the block of what was made durable before
//! (INV-OPLOG-3).

use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt;

use almandine_oplog::Fault;
use almandine_oplog::append::{Appender, WritePath};

use super::{Folder, Unit, append};

const BLOCK: usize = 4096;

fn begin(folder: &Folder) -> Appender {
    let mut log = folder.begin();
    log.set_write_path(WritePath::Cached).unwrap();
    log
}

/// Groups of a small unit each, of these epochs.
fn groups(log: &mut Appender, epochs: std::ops::Range<u64>) -> Vec<Unit> {
    epochs.flat_map(|epoch| append(log, epoch, &[20 + epoch as usize % 50], false)).collect()
}

/// Where in the last segment the log ends.
fn end(log: &Appender) -> usize {
    (log.ends().0.lsn - log.manifest().segments.last().unwrap().lsn) as usize
}

#[test]
fn small_groups_share_blocks() {
    let folder = Folder::quick("packed");
    let mut log = begin(&folder);
    let mut all = groups(&mut log, 1..101);
    let packed = end(&log);
    assert!((100 * 180..100 * 256).contains(&packed), "{packed} bytes of a hundred groups");
    log.sync().unwrap();
    assert_eq!((end(&log), log.ends().0), (packed.next_multiple_of(BLOCK), log.ends().1), "a sync ends a block");
    log.sync().unwrap();
    assert_eq!(end(&log), packed.next_multiple_of(BLOCK), "and no other one where nothing came");
    all.extend(groups(&mut log, 101..103));
    log.set_write_path(WritePath::Direct).unwrap();
    all.extend(groups(&mut log, 103..105));
    assert_eq!(end(&log), packed.next_multiple_of(BLOCK) + 3 * BLOCK, "past the page cache, groups are whole blocks");
    log.set_write_path(WritePath::Cached).unwrap();
    // Over the end of a segment, whose size is no multiple of what a group takes.
    all.extend(groups(&mut log, 105..600));
    assert!(log.manifest().segments.len() > 2);
    let place = log.rotate().unwrap();
    all.extend(groups(&mut log, 600..603));
    assert_eq!(log.manifest().segments.last().unwrap().lsn, place.lsn);
    drop(log);
    let (units, found) = folder.read().unwrap();
    assert!(units == all);
    assert_eq!(found.torn, None);
    let mut log = begin(&folder);
    all.extend(groups(&mut log, 603..610));
    log.end().unwrap();
    assert!(folder.read().unwrap().0 == all);
}

#[test]
fn what_was_durable_is_not_written_again() {
    let folder = Folder::quick("blocks");
    let mut log = begin(&folder);
    let (mut all, mut kept) = (Vec::new(), Vec::new());
    for round in 0..12 {
        let lost = groups(&mut log, 1 + round * 7..1 + round * 7 + 7);
        let bytes = fs::read(folder.last_segment()).unwrap();
        assert!(bytes.starts_with(&kept), "a block of what was durable is as it was");
        // The system may have torn each block that is not durable.
        let durable = kept.len();
        for begin in (durable..end(&log)).step_by(BLOCK) {
            let mut torn = bytes.clone();
            torn[begin..begin + BLOCK].fill(0xA5);
            fs::write(folder.last_segment(), torn).unwrap();
            let (units, _) = folder.read().unwrap();
            assert!(units.len() >= all.len() && units[..all.len()] == all);
        }
        fs::write(folder.last_segment(), &bytes).unwrap();
        all.extend(lost);
        log.sync().unwrap();
        kept = fs::read(folder.last_segment()).unwrap()[..end(&log)].to_vec();
        kept.resize(kept.len().next_multiple_of(BLOCK), 0);
    }
    assert!(folder.read().unwrap().0 == all);
}

#[test]
fn every_flipped_byte_and_every_cut_is_refused_or_changes_nothing() {
    let folder = Folder::quick("packed-damage");
    let mut log = begin(&folder);
    let mut all = groups(&mut log, 1..9);
    log.sync().unwrap();
    all.extend(groups(&mut log, 9..17));
    log.sync().unwrap();
    log.seal(true).unwrap();
    let len = end(&log);
    drop(log);
    let path = folder.last_segment();
    let bytes = fs::read(&path).unwrap();
    let file = OpenOptions::new().write(true).open(&path).unwrap();
    let (mut same, mut refused) = (0, 0);
    let mut look = |what: &dyn Fn() -> String| match folder.read() {
        Ok((units, _)) => {
            assert!(units == all, "{}", what());
            same += 1;
        }
        Err(Fault::Damaged { .. } | Fault::Unknown { .. }) => refused += 1,
        Err(other) => panic!("{}: {other}", what()),
    };
    for (at, byte) in bytes[..len].iter().enumerate() {
        file.write_all_at(&[byte ^ 1 << (at % 8)], at as u64).unwrap();
        look(&|| format!("byte {at}"));
        file.write_all_at(&[*byte], at as u64).unwrap();
    }
    for sector in (0..len).step_by(64) {
        file.write_all_at(&[0; 64], sector as u64).unwrap();
        look(&|| format!("zeroes at {sector}"));
        file.write_all_at(&bytes[sector..sector + 64], sector as u64).unwrap();
    }
    assert!(refused > 2000 && same > 2000, "{refused} refused, {same} the same");
    assert!(folder.read().unwrap().0 == all);
}
