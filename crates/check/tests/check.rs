//! The program on logs that are whole, torn, damaged, locked and without a manifest: what it says, and its exit codes.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

mod locked;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use almandine_oplog::Fault;
use almandine_oplog::append::{Appender, LogOptions};
use almandine_oplog::directory::{Directory, segment_path};
use almandine_oplog::read::read;
use almandine_oplog::{RingId, UnitHead};
use locked::until_free;
use serde_json::Value;

const SEGMENT_BYTES: u64 = 64 << 10;

struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("almandine-check-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        Self(path)
    }

    /// A log of two runs with five groups of two units each in the last segment.
    fn filled(name: &str) -> Self {
        let folder = Self::new(name);
        drop(begin(&folder.0));
        let mut log = begin(&folder.0);
        for epoch in 1..=5 {
            let units = [unit(epoch, 1), unit(epoch, 2)].concat();
            log.append(epoch, true, &mut |group| group.push(RingId(3), &units)).unwrap();
        }
        log.seal(true).unwrap();
        folder
    }

    fn run(&self, arguments: &[&str]) -> (i32, Value) {
        until_free(|| self.run_once(arguments), |(_, said)| said["fault"]["kind"] == "locked")
    }

    fn run_once(&self, arguments: &[&str]) -> (i32, Value) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_almandine-check"));
        let output = command.arg("--json").arg(arguments[0]).arg(&self.0).args(&arguments[1..]).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let value = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"));
        (output.status.code().unwrap(), value)
    }

    /// Changes a byte of the last segment.
    fn damage(&self, at: usize) {
        let path = segment_path(&self.0, 2);
        let mut bytes = fs::read(&path).unwrap();
        bytes[at] ^= 1;
        fs::write(&path, bytes).unwrap();
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn begin(path: &Path) -> Appender {
    let directory = until_free(|| Directory::take(path), |taken| matches!(taken, Err(Fault::Locked(_)))).unwrap();
    let manifest = directory.manifest().unwrap();
    let end = read(path, &manifest, 0, &mut |_| Ok(())).unwrap();
    Appender::begin(
        directory,
        manifest,
        &end,
        &LogOptions { segment_bytes: SEGMENT_BYTES, ..LogOptions::default() },
        &[],
        Box::new(|| {}),
    )
    .unwrap()
}

fn unit(epoch: u64, count: u64) -> Vec<u8> {
    [&UnitHead { number: (epoch << 18) + count, bytes: 7, entries: 1 }.encode()[..], b"entries"].concat()
}

#[test]
fn a_whole_log_is_verified_and_shown() {
    let folder = Folder::filled("whole");
    let (code, said) = folder.run(&["verify"]);
    assert_eq!((code, &said["whole"], &said["units"], &said["groups"]), (0, &Value::Bool(true), &10.into(), &5.into()));
    let (code, said) = folder.run(&["show", "--units"]);
    assert_eq!((code, said["units_found"].as_array().unwrap().len()), (0, 10));
    let groups = said["groups_found"].as_array().unwrap();
    assert_eq!((groups.len(), &groups[5]["kind"], &groups[4]["epoch"]), (6, &"seal".into(), &5.into()));
    assert_eq!(folder.run(&["cut"]).0, 0);
    assert_eq!(folder.run(&["repair"]).0, 0);
}

#[test]
fn a_damaged_group_is_found_and_cut_only_when_told() {
    let folder = Folder::filled("damaged");
    folder.damage(2 * 4096 + 150);
    let (code, said) = folder.run(&["verify"]);
    assert_eq!((code, &said["fault"]["kind"], &said["fault"]["offset"]), (1, &"damaged".into(), &8192.into()));
    let (code, said) = folder.run(&["cut"]);
    assert_eq!((code, &said["done"], &said["cut_at"]), (1, &Value::Bool(false), &8192.into()));
    assert_eq!(folder.run(&["verify"]).0, 1);
    let (code, said) = folder.run(&["cut", "--yes"]);
    assert_eq!((code, &said["done"]), (0, &Value::Bool(true)));
    let (code, said) = folder.run(&["verify"]);
    assert_eq!((code, &said["units"], &said["clean"]), (0, &4.into(), &Value::Bool(true)));
    // A server goes on behind the cut.
    let mut log = begin(&folder.0);
    log.append(9, true, &mut |group| group.push(RingId(0), &unit(9, 1))).unwrap();
    drop(log);
    assert_eq!(folder.run(&["verify"]).1["units"], 5);
}

#[test]
fn an_end_is_cut_at_a_place() {
    let folder = Folder::filled("place");
    let (code, said) = folder.run(&["cut", "--at", "13000", "--yes"]);
    assert_eq!((code, &said["cut_at"]), (0, &12288.into()));
    assert_eq!(folder.run(&["verify"]).1["units"], 6);
}

#[test]
fn a_manifest_is_made_anew() {
    let folder = Folder::filled("manifest");
    let manifest = fs::read(folder.0.join("MANIFEST")).unwrap();
    for damage in [None, Some(&manifest[..40])] {
        match damage {
            None => fs::remove_file(folder.0.join("MANIFEST")).unwrap(),
            Some(bytes) => fs::write(folder.0.join("MANIFEST"), bytes).unwrap(),
        }
        assert_eq!(folder.run(&["verify"]).0, 1);
        let (code, said) = folder.run(&["repair"]);
        assert_eq!((code, &said["done"], &said["units"]), (1, &Value::Bool(false), &10.into()));
        assert_eq!(folder.run(&["repair", "--yes"]).0, 0);
        let (code, said) = folder.run(&["verify"]);
        assert_eq!((code, &said["units"]), (0, &10.into()));
    }
    drop(begin(&folder.0));
    assert_eq!(folder.run(&["verify"]).1["units"], 10);
}

#[test]
fn what_cannot_be_looked_at_is_said() {
    let folder = Folder::new("nothing");
    assert_eq!(folder.run(&["verify"]).0, 3);
    fs::create_dir_all(&folder.0).unwrap();
    assert_eq!(folder.run(&["verify"]).0, 3);
    let log = begin(&folder.0);
    let (code, said) = folder.run_once(&["verify"]);
    assert_eq!((code, &said["fault"]["kind"]), (3, &"locked".into()));
    drop(log);
    assert_eq!(folder.run(&["verify"]).0, 0);
}
