//! Parts that are whole and are not of this past: of a segment's earlier use, and behind a part that was exchanged.

use std::path::Path;
use std::sync::Arc;

use almandine_base::mutants::Mutant;
use almandine_oplog::directory::{read_manifest, segment_path};
use almandine_oplog::group::{HEAD_BYTES, PartHead};
use almandine_oplog::{Fault, crc32c};

use crate::life::{Life, One, PATH, look};

/// What is found after something that was given up is in the file of the next segment, as if that were used again.
fn recycled(left_out: &[Mutant]) -> Option<usize> {
    One::enter(0, left_out, |one| {
        let disk = Arc::clone(&one.disk);
        let run = move || {
            let life = Life::default();
            let mut log = life.begin().unwrap();
            life.append(&mut log, &[100], true).unwrap();
            life.append(&mut log, &[200], false).unwrap();
            life.heal(&mut log).unwrap();
            let number = log.manifest().segments.last().unwrap().number;
            drop(log);
            // The last segment begins where the part lies that was given up.
            let old = disk.get(segment_path(Path::new(PATH), number - 1)).unwrap();
            disk.put(segment_path(Path::new(PATH), number), &[&old[4096..], &[0; 4096]].concat()).unwrap();
            look().ok().map(|(units, _)| units.len())
        };
        one.run(run).unwrap().unwrap()
    })
}

/// What is found after the first part has come to hold something else, with sums that fit.
fn exchanged(left_out: &[Mutant]) -> Result<usize, Fault> {
    One::enter(0, left_out, |one| {
        let disk = Arc::clone(&one.disk);
        let run = move || {
            let life = Life::default();
            let mut log = life.begin().unwrap();
            life.append(&mut log, &[100], true).unwrap();
            let first = segment_path(Path::new(PATH), read_manifest(Path::new(PATH)).unwrap().unwrap().segments[0].number);
            let other = disk.get(&first).unwrap();
            let head = PartHead::decode(&other).unwrap();
            life.append(&mut log, &[200], true).unwrap();
            drop(log);
            // A part that says the same of itself, and has another sum.
            let mut bytes = disk.get(&first).unwrap();
            bytes[..HEAD_BYTES].copy_from_slice(&PartHead { body_bytes: 0, units: 0, sum: crc32c::sum(&[0; 4]), ..head }.encode());
            disk.put(&first, &bytes).unwrap();
            look().map(|(units, _)| units.len())
        };
        one.run(run).unwrap().unwrap()
    })
}

#[test]
fn what_a_segment_held_before_is_no_part_of_the_log() {
    assert_eq!(recycled(&[]), Some(1));
    let left_out = Mutant::CheckSegment;
    assert_ne!(recycled(&[left_out]), Some(1), "{left_out:?} is not noticed");
}

#[test]
fn a_part_follows_the_one_that_was_there() {
    assert!(matches!(exchanged(&[]), Err(Fault::Damaged { .. }) | Ok(0)));
    let left_out = Mutant::CheckChain;
    assert!(matches!(exchanged(&[left_out]), Ok(1)), "{left_out:?} is not noticed");
}
