//! `verify` of a snapshot: whole, cut at each place, and with each byte changed.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use almandine_testkit::{Program, Server};
use serde_json::Value;

struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn verify(path: &Path) -> (i32, Value) {
    let output = Command::new(env!("CARGO_BIN_EXE_almandine-check")).args(["--json", "verify"]).arg(path).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    (output.status.code().unwrap(), serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}")))
}

/// A snapshot with a key of each of some types, in two databases, and a library.
fn snapshot(folder: &Path) -> Vec<u8> {
    let server = Server::start(&Program::Almandine, &["--dir", folder.to_str().unwrap(), "--save", ""]);
    let mut client = server.client();
    for line in ["SET string value", "RPUSH list 1 2 3", "HSET hash f v", "SADD set 1 2", "SELECT 9", "ZADD sorted 1 a 2 b"] {
        client.line(line);
    }
    let library = "#!lua name=one\nredis.register_function('f', function() return 1 end)";
    client.call(&["FUNCTION", "LOAD", library]).unwrap();
    assert_eq!(client.line("SAVE").to_string(), "+OK");
    fs::read(folder.join("dump.rdb")).unwrap()
}

#[test]
fn a_snapshot_is_whole_or_it_is_said_where_it_is_not() {
    let folder = Folder(std::env::temp_dir().join(format!("almandine-check-snapshot-{}", std::process::id())));
    fs::create_dir_all(&folder.0).unwrap();
    let (bytes, path) = (snapshot(&folder.0), folder.0.join("dump.rdb"));
    let (code, told) = verify(&path);
    assert_eq!((code, &told["whole"], &told["keys"], &told["libraries"]), (0, &true.into(), &5.into(), &1.into()), "{told}");
    let mut kinds = std::collections::BTreeMap::<String, u32>::new();
    for place in (0..bytes.len()).step_by(7) {
        fs::write(&path, &bytes[..place]).unwrap();
        let (code, told) = verify(&path);
        assert_eq!((code, &told["fault"]["kind"]), (1, &"damaged".into()), "cut at {place}: {told}");
        let mut damaged = bytes.clone();
        damaged[place] ^= 0x10;
        fs::write(&path, damaged).unwrap();
        let (code, told) = verify(&path);
        assert!(code != 0 && told["whole"] == false, "byte {place} is changed: {told}");
        assert!(told["fault"]["offset"].as_u64().unwrap() <= bytes.len() as u64 && told["fault"]["file"].is_string(), "{told}");
        *kinds.entry(told["fault"]["kind"].as_str().unwrap().to_owned()).or_default() += 1;
    }
    assert!(kinds["damaged"] > 10, "{kinds:?}");
    fs::remove_file(&path).unwrap();
    let (code, told) = verify(&path);
    assert_ne!(code, 0, "it is gone: {told}");
}
