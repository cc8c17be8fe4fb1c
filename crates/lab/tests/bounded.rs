//! The procedures for bounded memory against an installed redis-server: hit ratios, reads, and a soak that must find faults.
//!
//! They fail where redis-server is not installed: `cargo xtask test` installs it.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use almandine_testkit::redis_server;
use almandine_testkit::server::{Program, Server};
use serde_json::Value;

fn installed(program: &str) -> bool {
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path).any(|folder| folder.join(program).is_file())
}

fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_almandine-lab"));
    command.args(arguments);
    command
}

fn lab(arguments: &[&str]) -> Output {
    command(arguments).output().expect("the program starts")
}

fn text(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

fn file(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name)
}

fn folder(name: &str) -> PathBuf {
    let path = file(name);
    let _ = fs::remove_dir_all(&path);
    fs::create_dir_all(&path).expect("a folder");
    path
}

fn runs(path: &Path) -> Vec<Value> {
    let text = fs::read_to_string(path).expect("the result was written");
    let document: Value = serde_json::from_str(&text).expect("the result is JSON");
    document["runs"].as_array().expect("runs").clone()
}

fn entries(folder: &Path) -> usize {
    fs::read_dir(folder).map_or(0, Iterator::count)
}

/// A server that drops keys at random when it is full, which a soak does not expect.
fn forgetful_server() -> (Server, String) {
    let server = Server::start(&Program::Redis, &["--maxmemory", "3mb", "--maxmemory-policy", "allkeys-random"]);
    let name = format!("bad={}", server.address());
    (server, name)
}

#[test]
fn hit_ratios_at_known_numbers_of_keys() {
    let _ = redis_server();
    let result = file("hits.json");
    let output = lab(&[
        "hits",
        "--only",
        "redis",
        "-k",
        "20000",
        "-n",
        "60000",
        "--warm-up",
        "60000",
        "--sizes",
        "10,50",
        "--policies",
        "allkeys-lfu,volatile-ttl",
        "--workloads",
        "zipf,zipf-scan",
        "--scan-every",
        "10000",
        "--json",
        &result.to_string_lossy(),
    ]);
    assert!(output.status.success(), "{}", text(&output));
    let runs = runs(&result);
    let run = |server: &str, workload: &str, policy: &str, size: f64| {
        let same = |r: &&Value| {
            r["server"] == server && r["workload"] == workload && r["policy"] == policy && r["size_percent"].as_f64() == Some(size)
        };
        runs.iter().find(same).unwrap_or_else(|| panic!("{server} {workload} {policy} {size} in {runs:?}"))
    };
    let ratio = |run: &Value| run["hit_ratio"].as_f64().unwrap();
    for policy in ["allkeys-lfu", "volatile-ttl"] {
        let (small, large) = (run("redis", "zipf", policy, 10.0), run("redis", "zipf", policy, 50.0));
        assert!(ratio(small) > 0.5 && ratio(small) < ratio(large) && ratio(large) < 0.99, "{small} {large}");
        for (run, target) in [(small, 2_000.0), (large, 10_000.0)] {
            let held = run["keys_held"].as_f64().unwrap() / target;
            assert!((0.85..1.15).contains(&held), "{run}");
            assert_eq!((run["requests"].as_u64(), run["refused"].as_u64()), (Some(60_000), Some(0)), "{run}");
        }
        // Four or five whole scans, none of whose keys count.
        let scanned = run("redis", "zipf-scan", policy, 10.0);
        assert_eq!(scanned["requests"].as_u64().unwrap() + scanned["scanned"].as_u64().unwrap(), 60_000, "{scanned}");
        assert!(scanned["scanned"].as_u64().unwrap() >= 8_000, "{scanned}");
    }
    assert!(ratio(run("computed", "zipf", "lru, exact", 50.0)) > ratio(run("computed", "zipf", "lru, exact", 10.0)));
}

#[test]
fn loads_and_reads_are_measured_and_nothing_is_left() {
    let _ = redis_server();
    let (result, place) = (file("cold.json"), folder("cold"));
    let mut arguments = vec!["cold", "--in-memory", "--only", "redis", "--shapes", "5000x100,2000x1000", "-P", "1,16", "-n", "1"];
    let (result_name, place_name) = (result.to_string_lossy().into_owned(), place.to_string_lossy().into_owned());
    arguments.extend(["-s", "0.3", "--warm-up", "0.05", "--verify", "--dir", &place_name, "--json", &result_name]);
    if !installed("fio") {
        arguments.push("--no-fio");
    }
    let output = lab(&arguments);
    assert!(output.status.success(), "{}", text(&output));
    let runs = runs(&result);
    let phase = |name: &str| runs.iter().filter(|r| r["phase"] == name).collect::<Vec<_>>();
    let (loads, reads) = (phase("load"), phase("read"));
    assert_eq!((loads.len(), reads.len()), (2, 4), "{runs:?}");
    assert!(loads.iter().all(|l| l["resident_bytes_max"].as_u64() > Some(1 << 20) && l["stall_ms"].as_f64() > Some(0.0)));
    for read in reads {
        assert_eq!((read["nulls"].as_u64(), read["errors"].as_u64(), read["mismatches"].as_u64()), (Some(0), Some(0), Some(0)));
        let share = read["slowest_connection_share"].as_f64().unwrap();
        assert!(share > 0.0 && share <= 1.0, "{read}");
    }
    for run in phase("fio") {
        assert!(run["device_reads_per_second"].as_f64().unwrap() > 10.0, "{run}");
    }
    assert_eq!(entries(&place), 0, "{place:?} is not empty");
}

#[test]
fn an_interrupted_run_leaves_nothing() {
    let _ = redis_server();
    let place = folder("interrupted");
    let place_name = place.to_string_lossy().into_owned();
    let arguments = ["cold", "--in-memory", "--no-fio", "--only", "redis", "--shapes", "3000000x1000", "--dir", &place_name];
    let mut running = command(&arguments).stdout(Stdio::null()).spawn().unwrap();
    let start = Instant::now();
    while entries(&place) == 0 {
        assert!(start.elapsed() < Duration::from_secs(20), "no folder appeared");
        thread::sleep(Duration::from_millis(10));
    }
    running.kill().unwrap();
    running.wait().unwrap();
    while entries(&place) > 0 {
        assert!(start.elapsed() < Duration::from_secs(40), "the folder is still there");
        thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_soak_passes_a_sound_server_and_finds_what_a_forgetful_one_lost() {
    let _ = redis_server();
    let result = file("soak.json");
    let sizes = ["--minutes", "0.1", "--maxmemory", "4mb", "--ratio", "2", "--rate", "0", "--every", "0.2"];
    let mut arguments = vec!["soak", "--only", "redis", "--json"];
    let result_name = result.to_string_lossy().into_owned();
    arguments.push(&result_name);
    arguments.extend(sizes);
    let output = lab(&arguments);
    assert!(output.status.success() && text(&output).contains("no violations"), "{}", text(&output));
    let runs = runs(&result);
    assert!(runs[0]["operations"].as_u64() > Some(20_000) && runs[0]["samples"].as_array().unwrap().len() >= 4, "{}", runs[0]);

    let (_server, peer) = forgetful_server();
    let mut arguments = vec!["soak", "--only", "bad", "--peer", &peer];
    arguments.extend(sizes);
    let output = lab(&arguments);
    assert!(!output.status.success(), "{}", text(&output));
    assert!(text(&output).contains("VIOLATION") && text(&output).contains("wrong replies"), "{}", text(&output));
}
