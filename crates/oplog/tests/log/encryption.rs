//! A log that is encrypted: read with its keys and refused without, whole by its sums all the same, and with no key and nonce
//! twice (INV-ENCRYPTION-1) and nothing plain (INV-ENCRYPTION-2).

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

use almandine_oplog::append::{Appender, Leftover};
use almandine_oplog::archive::{ArchiveFault, ArchiveKeep, NamedBase, NoPages, Shipper, fetch, is_to_be_fetched};
use almandine_oplog::directory::{Directory, base_path, read_manifest, segment_path};
use almandine_oplog::encryption::NoKey;
use almandine_oplog::group::PartHead;
use almandine_oplog::manifest::BaseEntry;
use almandine_oplog::read::BodyAccess;
use almandine_oplog::{Fault, LogKeys, RingId, UnitHead, crc32c};

use super::archive::Store;
use super::damage::{files, fill};
use super::{Folder, SEGMENT_BYTES, Unit, append, read_units_with, unit};

const ONE: &str = "one 000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f\n";
const TWO: &str = "two 100102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f\n";

fn keys(text: &str) -> Arc<LogKeys> {
    Arc::new(LogKeys::parse(text.as_bytes()).unwrap())
}

fn small(name: &str, keys: &Arc<LogKeys>) -> (Folder, Vec<Unit>) {
    let folder = Folder::quick(name);
    let all = fill(&folder, keys);
    (folder, all)
}

#[test]
fn what_was_encrypted_is_read_with_its_key() {
    let (folder, all) = small("encrypted", &keys(ONE));
    let both = keys(&format!("{TWO}{ONE}"));
    let (units, end) = read_units_with(&folder.0, BodyAccess::Keys(&both)).unwrap();
    assert!(units == all);
    let (none, sums) = read_units_with(&folder.0, BodyAccess::Sums).unwrap();
    assert!(none.is_empty());
    assert_eq!((sums.place, sums.proven, sums.groups, sums.units), (end.place, end.proven, end.groups, end.units));
}

#[test]
fn every_flipped_byte_is_refused_or_changes_nothing() {
    let keys = keys(ONE);
    let (folder, all) = small("encrypted-flip", &keys);
    let (mut same, mut refused) = (0, 0);
    for path in files(&folder) {
        let bytes = fs::read(&path).unwrap();
        let file = OpenOptions::new().write(true).open(&path).unwrap();
        for (at, byte) in bytes.iter().enumerate().filter(|(at, _)| at % 4096 < 224 || at % 251 == 0) {
            file.write_all_at(&[byte ^ 1 << (at % 8)], at as u64).unwrap();
            let by_sums = read_units_with(&folder.0, BodyAccess::Sums);
            match read_units_with(&folder.0, BodyAccess::Keys(&keys)) {
                Ok((units, _)) => {
                    assert_eq!(units, all, "{} byte {at}", path.display());
                    assert!(by_sums.is_ok());
                    same += 1;
                }
                Err(Fault::Damaged { .. } | Fault::Unknown { .. }) => {
                    assert!(by_sums.is_err(), "{} byte {at}: its sum tells of it", path.display());
                    refused += 1;
                }
                Err(other) => panic!("{} byte {at}: {other}", path.display()),
            }
            file.write_all_at(&[*byte], at as u64).unwrap();
        }
    }
    assert!(refused > 1000 && same > 1000, "{refused} refused, {same} the same");
}

#[test]
fn every_file_that_is_cut_off_is_refused_or_has_all() {
    let keys = keys(ONE);
    let (folder, all) = small("encrypted-prefix", &keys);
    for path in files(&folder) {
        let bytes = fs::read(&path).unwrap();
        for len in (0..bytes.len()).filter(|len| len % 509 == 0 || len % 4096 < 2) {
            fs::write(&path, &bytes[..len]).unwrap();
            let by_sums = read_units_with(&folder.0, BodyAccess::Sums);
            match read_units_with(&folder.0, BodyAccess::Keys(&keys)) {
                Ok((units, _)) => assert!(units == all && by_sums.is_ok(), "{len}"),
                Err(Fault::Damaged { .. }) => assert!(by_sums.is_err(), "{len}"),
                Err(other) => panic!("{len}: {other}"),
            }
        }
        fs::write(&path, &bytes).unwrap();
    }
}

#[test]
fn an_end_that_was_never_acknowledged_is_cut_with_a_key_and_without() {
    let keys = keys(ONE);
    let folder = Folder::quick("encrypted-torn");
    let mut log = folder.begin_keyed(&[], &keys);
    let all = append(&mut log, 1, &[40, 3], true);
    append(&mut log, 2, &[20_000], false);
    let path = folder.last_segment();
    let whole = fs::read(&path).unwrap();
    drop(log);
    for sector in (4096..4096 + 24_576).step_by(512) {
        let mut bytes = whole.clone();
        bytes[sector..].fill(0);
        fs::write(&path, &bytes).unwrap();
        let (units, end) = read_units_with(&folder.0, BodyAccess::Keys(&keys)).unwrap();
        let is_whole = sector >= 4096 + 192 + 16 + 16 + 20_000;
        assert_eq!(units.len(), all.len() + usize::from(is_whole), "{sector}");
        assert_eq!(end.torn.is_some(), sector > 4096 && !is_whole, "{sector}");
        let (_, by_sums) = read_units_with(&folder.0, BodyAccess::Sums).unwrap();
        assert_eq!((by_sums.torn, by_sums.place), (end.torn, end.place), "{sector}");
    }
}

/// All that a directory has at one time, for comparison: threads of the log give files other names meanwhile.
fn contents(path: &Path) -> BTreeMap<std::ffi::OsString, Vec<u8>> {
    loop {
        let entries = fs::read_dir(path).unwrap().map(|entry| entry.unwrap());
        let read: std::io::Result<_> = entries.map(|entry| Ok((entry.file_name(), fs::read(entry.path())?))).collect();
        match read {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            read => return read.unwrap(),
        }
    }
}

#[test]
fn without_its_key_a_log_is_refused_and_left_as_it_is() {
    let (folder, _) = small("encrypted-refused", &keys(ONE));
    // Also a torn end, which a start would cut.
    let mut bytes = fs::read(folder.last_segment()).unwrap();
    let last = bytes.chunks_exact(4096).rposition(|block| block.starts_with(b"ALMDNLOG")).unwrap() * 4096;
    bytes[last + 200..last + 300].fill(7);
    fs::write(folder.last_segment(), bytes).unwrap();
    let before = contents(&folder.0);
    let another = ONE.replace("one 00", "one ff");
    for (text, kind) in [("", "no key file"), (TWO, "does not have"), (another.as_str(), "another key 'one'")] {
        let keys = if text.is_empty() { Arc::default() } else { keys(text) };
        let manifest = read_manifest(&folder.0).unwrap().unwrap();
        for fault in
            [manifest.check_keys(&folder.0, &keys).unwrap_err(), read_units_with(&folder.0, BodyAccess::Keys(&keys)).unwrap_err()]
        {
            assert!(matches!(fault, Fault::Key { .. }), "{fault}");
            let told = fault.to_string();
            assert!(told.contains(kind) && told.contains("'one'") && told.contains("log-key-file"), "{told}");
        }
        assert!(contents(&folder.0) == before);
    }
    assert!(matches!(keys(TWO).check(&keys(ONE).current().unwrap()), Err(NoKey::Missing(_))));
}

/// Sums say that nothing was damaged by accident; what was changed on purpose is found with the key.
#[test]
fn what_has_right_sums_and_was_changed_is_damage() {
    let keys = keys(ONE);
    let folder = Folder::quick("encrypted-forged");
    let mut log = folder.begin_keyed(&[], &keys);
    append(&mut log, 1, &[40], true);
    drop(log);
    let path = folder.last_segment();
    let bytes = fs::read(&path).unwrap();
    let head = PartHead::decode(&bytes).unwrap();
    let forge = |head: PartHead, behind: &mut dyn FnMut(&mut [u8])| {
        let mut bytes = bytes.clone();
        behind(&mut bytes[128..192 + head.body_bytes as usize]);
        let summed = [&head.before.to_le_bytes()[..], &bytes[128..192 + head.body_bytes as usize]].concat();
        let head = PartHead { sum: crc32c::sum(&summed), ..head };
        bytes[..128].copy_from_slice(&head.encode());
        fs::write(&path, &bytes).unwrap();
        assert!(read_units_with(&folder.0, BodyAccess::Sums).is_ok(), "its sums are right");
        read_units_with(&folder.0, BodyAccess::Keys(&keys))
    };
    assert!(forge(head, &mut |_| {}).is_ok());
    for forged in [
        PartHead { epoch: head.epoch + 1, ..head },
        PartHead { durable_lsn: 4096, ..head },
        PartHead { unix_ms: 7, ..head },
        PartHead { units: 2, ..head },
    ] {
        assert!(matches!(forge(forged, &mut |_| {}), Err(Fault::Damaged { .. })), "{forged:?}");
    }
    // The salt, the count, the tag, the body.
    for at in [24, 40, 48, 64, 70] {
        assert!(matches!(forge(head, &mut |bytes| bytes[at] ^= 1), Err(Fault::Damaged { .. })), "{at}");
    }
}

const PLANTED: &[u8] = b"a value that nobody is to read";

/// A unit that has what was planted.
fn planted(epoch: u64, count: u64) -> Vec<u8> {
    let entries = PLANTED.repeat(100);
    let head = UnitHead { number: (epoch << 18) + count, bytes: u32::try_from(entries.len()).unwrap(), entries: 1 };
    [&head.encode()[..], &entries].concat()
}

fn plant(log: &mut Appender, epoch: u64) {
    let units: Vec<_> = (1..20).map(|count| planted(epoch, count)).collect();
    log.append(epoch, true, &mut |group| units.iter().for_each(|unit| group.push(RingId(0), unit))).unwrap();
}

/// The files that have it.
fn found(path: &Path) -> Vec<String> {
    let has = |bytes: &[u8]| bytes.windows(PLANTED.len()).any(|window| window == PLANTED);
    contents(path).into_iter().filter(|(_, bytes)| has(bytes)).map(|(name, _)| name.to_string_lossy().into_owned()).collect()
}

/// Names a base that needs all from here on.
fn name_base(log: &mut Appender, number: u64) {
    let lsn = log.rotate().unwrap().lsn;
    log.name_base(BaseEntry { number, lsn, through: lsn, epoch: number, parts: 0, key: None }).unwrap();
}

/// INV-ENCRYPTION-2: neither in segments, nor in what was a segment before the log was encrypted.
#[test]
fn nothing_plain_is_in_any_file() {
    let folder = Folder::quick("encrypted-plain");
    let mut log = folder.begin();
    (1..6).for_each(|epoch| plant(&mut log, epoch));
    assert!(!found(&folder.0).is_empty(), "the scan finds it");
    // Those that are ready for use hold it, too.
    name_base(&mut log, 1);
    drop(log);
    let left = Leftover { run: 1, ring: RingId(1), units: planted(6, 1) };
    let mut log = folder.begin_keyed(&[left], &keys(ONE));
    (7..12).for_each(|epoch| plant(&mut log, epoch));
    name_base(&mut log, 2);
    plant(&mut log, 12);
    log.end().unwrap();
    assert_eq!(found(&folder.0), Vec::<String>::new());
}

#[test]
fn a_log_that_runs_is_encrypted_from_the_next_group_on_with_another_key_and_plain_again() {
    let (one, two) = (keys(ONE), keys(&format!("{TWO}{ONE}")));
    let folder = Folder::quick("encrypted-rotation");
    let mut log = folder.begin();
    let mut all = append(&mut log, 1, &[10], true);
    log.set_keys(Arc::clone(&one));
    all.extend(append(&mut log, 2, &[10, 60_000], false));
    log.set_keys(Arc::clone(&two));
    all.extend(append(&mut log, 3, &[10], true));
    log.set_keys(Arc::new(two.for_reading()));
    log.seal(true).unwrap();
    all.extend(append(&mut log, 4, &[10, 70_000], true));
    let names = |folder: &Folder| -> Vec<String> {
        let segments = read_manifest(&folder.0).unwrap().unwrap().segments;
        let mut names: Vec<_> = segments.iter().map(|it| it.key.map_or("plain".to_owned(), |key| key.name())).collect();
        names.dedup();
        names
    };
    assert_eq!(names(&folder), ["plain", "one", "two", "plain"]);
    assert!(read_units_with(&folder.0, BodyAccess::Keys(&two)).unwrap().0 == all);
    // The former key goes when its files have.
    log.set_keys(Arc::clone(&two));
    name_base(&mut log, 1);
    all = append(&mut log, 5, &[10], true);
    assert_eq!(names(&folder), ["two"]);
    assert!(read_units_with(&folder.0, BodyAccess::Keys(&keys(TWO))).unwrap().0 == all);
    // A log that heals goes on with the keys that were set meanwhile.
    append(&mut log, 6, &[10], false);
    log.set_keys(Arc::clone(&one));
    log.heal().unwrap();
    all.extend(append(&mut log, 6, &[20], true));
    assert_eq!(names(&folder), ["two", "one"]);
    assert!(read_units_with(&folder.0, BodyAccess::Keys(&two)).unwrap().0 == all);
}

/// Parts by key, salt and count.
type Parts = BTreeMap<([u8; 24], [u8; 16], u64), Vec<u8>>;

/// Adds what is encrypted in the files of a directory.
fn encrypted(path: &Path, seen: &mut Parts) {
    for (name, bytes) in contents(path) {
        for at in (0..bytes.len()).step_by(4096) {
            let Ok(head) = PartHead::decode(&bytes[at..]) else { continue };
            let Some(part) = head.encryption else { continue };
            let body = bytes[at..at + head.head_bytes() + head.body_bytes as usize].to_vec();
            let before = seen.insert((part.mark.encode(), part.salt, part.count), body.clone());
            // Copies of files have the same.
            assert!(
                before.is_none_or(|before| before == body),
                "INV-ENCRYPTION-1: {} encrypts twice with the same key and nonce, at byte {at}",
                name.display()
            );
        }
    }
}

fn copy(from: &Folder, name: &str) -> Folder {
    let to = Folder::quick(name);
    fs::create_dir_all(&to.0).unwrap();
    contents(&from.0).into_iter().for_each(|(name, bytes)| fs::write(to.0.join(name), bytes).unwrap());
    to
}

/// A copy of a directory goes on as the same log, with the same numbers of runs and segments at the same places, beside its
/// original; what could not be made durable is written again.
#[test]
fn no_key_and_nonce_come_twice_in_runs_copies_and_where_a_log_heals() {
    let keys = keys(ONE);
    let mut seen = BTreeMap::new();
    let original = Folder::quick("encrypted-nonces");
    let mut log = original.begin_keyed(&[], &keys);
    append(&mut log, 1, &[100], true);
    append(&mut log, 2, &[200, 30_000], false);
    encrypted(&original.0, &mut seen);
    log.heal().unwrap();
    append(&mut log, 2, &[300, 30_000, 5], true);
    encrypted(&original.0, &mut seen);
    drop(log);
    let copies: Vec<Folder> = (0..3).map(|number| copy(&original, &format!("encrypted-copy-{number}"))).collect();
    let mut places = Vec::new();
    for (folder, bytes) in copies.iter().chain([&original]).zip(1..) {
        for run in 0..2 {
            let mut log = folder.begin_keyed(&[], &keys);
            let group = unit(10 + run, 1, bytes * 10);
            log.append(10 + run, true, &mut |out| out.push(RingId(0), &group)).unwrap();
            log.seal(true).unwrap();
            let manifest = log.manifest();
            places.push((manifest.id, manifest.run, manifest.last_segment));
            assert!(segment_path(&folder.0, manifest.last_segment).exists());
            encrypted(&folder.0, &mut seen);
        }
    }
    let first = places[..2].to_vec();
    assert!(places.chunks(2).all(|other| *other == first[..]), "copies have the same numbers");
    assert!(seen.len() >= 4 + copies.len() * 4, "{}", seen.len());
}

#[test]
fn an_archive_is_left_to_its_owner_where_its_key_is_not_there() {
    let keys = keys(ONE);
    let (folder, store) = (Folder::quick("encrypted-shipped"), Store::default());
    let mut log = folder.begin_keyed(&[], &keys);
    append(&mut log, 1, &[100], true);
    let lsn = log.rotate().unwrap().lsn;
    fs::write(base_path(&folder.0, 1, 0), "a base").unwrap();
    log.name_base(BaseEntry { number: 1, lsn, through: lsn, epoch: 1, parts: 1, key: keys.current() }).unwrap();
    let all = append(&mut log, 2, &[100, 70_000], true);
    let (id, durable) = (log.manifest().id, log.ends().1.lsn);
    let mut shipper = Shipper::begin(Box::new(store.clone()), &folder.0).unwrap();
    while shipper.advance(id, durable, NamedBase { number: 1, broken_at: 1 }, ArchiveKeep::default()).unwrap().through
        != Some(durable)
    {}
    let before = store.names();
    let fetched = Folder::quick("encrypted-fetched");
    let directory = Directory::take(&fetched.0).unwrap();
    for others in [LogKeys::NONE, LogKeys::parse(TWO.as_bytes()).unwrap()] {
        let refused = fetch(&store, &directory, &others, &mut NoPages).unwrap_err();
        assert!(matches!(refused, ArchiveFault::Log(Fault::Key { .. })), "{refused}");
        assert_eq!(store.names(), before, "nothing was taken over");
        assert!(is_to_be_fetched(&directory).unwrap());
    }
    fetch(&store, &directory, &keys, &mut NoPages).unwrap().unwrap();
    assert!(read_units_with(&fetched.0, BodyAccess::Keys(&keys)).unwrap().0 == all);
}

#[test]
fn segments_of_any_fill_are_read() {
    let keys = keys(ONE);
    let folder = Folder::quick("encrypted-fill");
    let mut log = folder.begin_keyed(&[], &keys);
    let mut all = Vec::new();
    // Around the border of a block, and of a segment's longest part.
    let block = 4096 - 192 - 16 - 16;
    for (epoch, bytes) in
        (1..).zip([block - 1, block, block + 1, SEGMENT_BYTES as usize - 224, SEGMENT_BYTES as usize - 223, 200_000])
    {
        all.extend(append(&mut log, epoch, &[bytes], true));
    }
    assert!(read_units_with(&folder.0, BodyAccess::Keys(&keys)).unwrap().0 == all);
}

#[cfg(all(feature = "mutants", not(feature = "sim")))]
#[test]
fn mutants_are_noticed() {
    let own = std::env::current_exe().unwrap();
    let test = ["encryption::no_key_and_nonce"];
    let run = std::process::Command::new(own).args(test).env("ALMANDINE_MUTANT", "FreshSalt").output().unwrap();
    assert!(!run.status.success(), "FreshSalt is not noticed");
}
