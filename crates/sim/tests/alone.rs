//! A seed is the whole of a run: neither what ran before it in its process, nor beside it, nor the process changes it.
#![cfg(feature = "sim")]
#![allow(clippy::unwrap_used, reason = "a test that fails says where")]

use std::collections::BTreeMap;
use std::process::Command;

use almandine_sim::proofs::Proof;

/// The hashes of all events, by proof and seed, of runs in one process of their own.
fn hashes(options: &[&str]) -> BTreeMap<(String, u64), String> {
    let output = Command::new(env!("CARGO_BIN_EXE_sim")).args(["--no-shrink", "--hashes"]).args(options).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{options:?}: {text}");
    let of = |line: &str| {
        let (run, hash) = line.strip_prefix("Hash: ")?.split_once(':')?;
        let (proof, seed) = run.split_once(' ')?;
        Some(((proof.to_owned(), seed.parse().ok()?), hash.to_owned()))
    };
    text.lines().filter_map(of).collect()
}

/// With a device and without: seed 6 of histories reads from a device, as seed 5 before it, and once ran otherwise for the
/// blocks of memory that were left.
#[test]
fn a_seed_gives_the_same_trace_alone_as_behind_and_beside_others() {
    let proofs = ["histories", "units", "blocking", "tracking", "durability"];
    assert!(proofs.iter().all(|name| Proof::named(name).is_ok()));
    let which = ["--proof", &proofs.join(","), "--from", "5", "--seeds", "3", "--millis", "60"];
    let behind = hashes(&[&which[..], &["--jobs", "1"]].concat());
    assert_eq!(behind.len(), proofs.len() * 3);
    assert_eq!(hashes(&[&which[..], &["--jobs", "3"]].concat()), behind, "beside others");
    for ((proof, seed), hash) in &behind {
        let alone = hashes(&["--proof", proof, "--seed", &seed.to_string(), "--millis", "60"]);
        assert_eq!(alone.values().collect::<Vec<_>>(), [hash], "{proof} {seed} alone");
    }
}
