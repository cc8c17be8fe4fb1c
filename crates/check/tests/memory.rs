//! The memory that looking at a snapshot takes, and writing it anew, does not grow with it: processes that have ended say how much
//! they had at most. Alone in its file, for all that were waited for count.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use almandine_io::usage;
use almandine_rdb::file::{EntryMetadata, FileWriter, WriteOptions, WriteVersion};

const SMALL: u64 = 100_000;
const VALUE_BYTES: usize = 200;
/// What runs of the same differ by.
const NOISE_BYTES: u64 = 4 << 20;

struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn snapshot(path: &Path, keys: u64) {
    let options = WriteOptions { version: WriteVersion::Redis11, checksum: true, compression: false };
    let mut writer = FileWriter::new(fs::File::create(path).unwrap(), options);
    writer.database(0, keys, 0).unwrap();
    let mut value = vec![almandine_rdb::types::STRING];
    almandine_rdb::write_string(&[b'v'; VALUE_BYTES], &mut value);
    for key in 0..keys {
        writer.entry(format!("key:{key}").as_bytes(), &value, EntryMetadata::default()).unwrap();
    }
    writer.finish().unwrap();
}

fn run(words: &[&str], path: &Path, to: Option<&Path>) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_almandine-check"));
    let output = command.args(words).arg(path).args(to).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
}

#[test]
fn snapshots_are_not_held_in_memory() {
    let folder = Folder(std::env::temp_dir().join(format!("almandine-check-memory-{}", std::process::id())));
    fs::create_dir_all(&folder.0).unwrap();
    let [small, large, rdb, aof, log] = ["small.rdb", "large.rdb", "to.rdb", "aof", "log"].map(|name| folder.0.join(name));
    snapshot(&small, SMALL);
    snapshot(&large, 2 * SMALL);
    // In passes over 131,072 keys at most.
    let search = ["--search-memory", "1"];
    let verify = [&["verify"], &search[..]].concat();
    let to = |form| [&["convert", "--form", form, "--rdb-version", "12"], &search[..]].concat();
    let mut peaks = Vec::new();
    for (source, name) in [(&small, "n"), (&large, "2n")] {
        for (what, words, target) in
            [("verify", &verify, None), ("convert to rdb", &to("rdb"), Some(&rdb)), ("convert to aof", &to("aof"), Some(&aof))]
        {
            run(words, source, target.map(PathBuf::as_path));
            peaks.push(usage::children_resident_most());
            println!(
                "{what} of {name} = {} bytes: at most {} until now",
                fs::metadata(source).unwrap().len(),
                peaks.last().unwrap()
            );
        }
        fs::remove_file(&rdb).unwrap();
        fs::remove_dir_all(&aof).unwrap();
    }
    assert!(peaks[5] <= peaks[2] + NOISE_BYTES, "{peaks:?}");
    // The control: where a state is built, it is in memory.
    run(&to("log"), &large, Some(&log));
    let with_state = usage::children_resident_most();
    assert!(with_state > peaks[5] + SMALL * VALUE_BYTES as u64, "{with_state} with all data, {peaks:?} without");
}
