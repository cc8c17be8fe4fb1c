//! Hashes: what redis-server 7.0 cannot be asked for (fields that expire, by a model), and what no two servers answer alike (a
//! scan, random fields). `ALMANDINE_TEST_SEED=n` repeats a run; `ALMANDINE_GOLDEN_SERVER=redis` asks redis-server where it has
//! the commands.

use std::collections::{HashMap, HashSet};
use std::thread;
use std::time::{Duration, Instant};

use almandine_testkit::field_times::model::FAULTS;
use almandine_testkit::field_times::{Fault, Settings, run};
use almandine_testkit::storage::{Figures, MODES};
use almandine_testkit::{Client, Program, Random, Server, Value, full, seed};

fn server() -> Server {
    let redis = std::env::var("ALMANDINE_GOLDEN_SERVER").is_ok_and(|s| s == "redis");
    Server::start(&if redis { Program::Redis } else { Program::Almandine }, &[])
}

fn settings(episodes: u64, cold_percent: usize, fault: Fault) -> Settings {
    Settings { seed: seed(), episodes, commands: 2000, cold_percent, fault }
}

#[test]
fn fields_expire_as_the_model_says() {
    let server = Server::start(&Program::Almandine, &[]);
    let report = run(&server, settings(if full() { 600 } else { 30 }, 0, Fault::None))
        .unwrap_or_else(|e| panic!("{e}\nserver log:\n{}", server.log()));
    println!("fields: {report}");
    if let Some(difference) = report.difference {
        panic!("{difference}\nserver log:\n{}", server.log());
    }
    assert!(report.waits > 10 && report.emptied > 0, "nothing expired: {report}");
}

#[test]
fn fields_of_cold_hashes_expire_as_the_model_says() {
    for mode in MODES.iter().take(if full() { MODES.len() } else { 1 }) {
        let server = mode.start();
        let report = run(&server, settings(if full() { 60 } else { 6 }, 20, Fault::None))
            .unwrap_or_else(|e| panic!("{}: {e}\nserver log:\n{}", mode.name, server.log()));
        println!("fields on {}: {report}", mode.name);
        if let Some(difference) = report.difference {
            panic!("on {}: {difference}\nserver log:\n{}", mode.name, server.log());
        }
        assert!(Figures::of(&server).get("storage_reads") > 100, "nothing was cold");
    }
}

/// The control: a model with a fault is not what the server does.
#[test]
fn every_fault_of_the_model_is_noticed() {
    let server = Server::start(&Program::Almandine, &[]);
    for fault in FAULTS {
        let report = run(&server, settings(9, 0, fault)).expect("the server answers");
        assert!(report.difference.is_some(), "{fault:?} was not noticed");
    }
}

fn fields_of(reply: &Value) -> (Vec<u8>, Vec<Vec<u8>>) {
    let Some([cursor, Value::Array(pairs)]) = reply.elements() else { panic!("HSCAN: {reply}") };
    let names = pairs.iter().step_by(2).filter_map(|name| name.bytes().map(<[u8]>::to_vec)).collect();
    (cursor.bytes().expect("a cursor").to_vec(), names)
}

fn set(client: &mut Client, key: &str, names: impl Iterator<Item = String>) {
    let args: Vec<String> =
        ["HSET".to_owned(), key.to_owned()].into_iter().chain(names.flat_map(|n| [n, "v".to_owned()])).collect();
    assert!(client.call(&args).expect("a reply").integer().is_some());
}

fn delete(client: &mut Client, key: &str, names: impl Iterator<Item = String>) {
    let args: Vec<String> = ["HDEL".to_owned(), key.to_owned()].into_iter().chain(names).collect();
    assert!(client.call(&args).expect("a reply").integer().is_some());
}

/// A field that is there from the beginning of a scan to its end is returned, whatever happens to others meanwhile.
#[test]
fn a_scan_returns_every_field_that_stays() {
    let server = server();
    let mut client = server.client();
    let mut random = Random::new(seed());
    let (mut scans, mut steps) = (0, 0);
    for stable in [1, 60, 64, 65, 130, 600, 5000] {
        for count in ["1", "10", "500"] {
            client.line("DEL h");
            set(&mut client, "h", (0..stable).map(|n| format!("s{n}")));
            set(&mut client, "h", (0..50).map(|n| format!("never{n}")));
            delete(&mut client, "h", (0..50).map(|n| format!("never{n}")));
            let (mut cursor, mut seen) = (b"0".to_vec(), HashSet::new());
            for step in 0.. {
                let reply = client.call(&[b"HSCAN", &b"h"[..], &cursor, b"COUNT", count.as_bytes()]).expect("a reply");
                let (next, names) = fields_of(&reply);
                seen.extend(names);
                cursor = next;
                steps += 1;
                if cursor == b"0" {
                    break;
                }
                assert!(step < 20_000, "a scan of {stable} fields by {count} does not end");
                // It grows to several times its size and shrinks again, and does not change any more at last.
                if step < 300 && random.chance(30) {
                    let names = 1 + random.below(stable * 2);
                    let first = random.below(stable * 4);
                    let churned = (first..first + names).map(|n| format!("t{n}"));
                    if random.chance(50) { set(&mut client, "h", churned) } else { delete(&mut client, "h", churned) }
                }
            }
            scans += 1;
            let missing: Vec<usize> = (0..stable).filter(|n| !seen.contains(format!("s{n}").as_bytes())).collect();
            assert!(missing.is_empty(), "{stable} fields by {count}: {} were not returned: {missing:?}", missing.len());
            assert!(!seen.iter().any(|name| name.starts_with(b"never")), "a field that was gone before was returned");
        }
    }
    println!("scans: {scans}, {steps} steps");
}

/// Chi-square of counts that should be equal, in standard deviations above what it should be.
fn excess(counts: &[usize]) -> f64 {
    let mean = counts.iter().sum::<usize>() as f64 / counts.len() as f64;
    let chi: f64 = counts.iter().map(|&n| (n as f64 - mean).powi(2) / mean).sum();
    let freedom = counts.len() as f64 - 1.0;
    (chi - freedom) / (2.0 * freedom).sqrt()
}

/// What chance exceeds less than once in a hundred million runs.
const EXCESS_MAX: f64 = 8.0;

#[test]
fn random_fields_are_equally_likely() {
    let server = Server::start(&Program::Almandine, &[]);
    let mut client = server.client();
    for fields in [10, 64, 200, 3000] {
        client.line("DEL h");
        // Values of different lengths, so that a choice by bytes would show, and gaps where fields were.
        for first in (0..fields * 2).step_by(500) {
            let mut args = vec!["HSET".to_owned(), "h".to_owned()];
            (first..(first + 500).min(fields * 2)).for_each(|n| args.extend([format!("f{n}"), "v".repeat(n % 40)]));
            client.call(&args).expect("a reply");
        }
        delete(&mut client, "h", (fields..fields * 2).map(|n| format!("f{n}")));
        let mut one = HashMap::new();
        let draws = fields * 60;
        let commands = vec![["HRANDFIELD", "h"]; draws];
        for chunk in commands.chunks(2000) {
            for reply in client.pipeline(chunk).expect("replies") {
                *one.entry(reply.bytes().expect("a field").to_vec()).or_insert(0) += 1;
            }
        }
        let mut many = HashMap::new();
        for _ in 0..60 {
            let reply = client.call(&["HRANDFIELD", "h", &format!("-{fields}")]).expect("a reply");
            for name in reply.elements().expect("fields") {
                *many.entry(name.bytes().expect("a field").to_vec()).or_insert(0) += 1;
            }
        }
        let mut distinct = HashMap::new();
        for _ in 0..300 {
            let reply = client.call(&["HRANDFIELD", "h", &(fields / 5).to_string()]).expect("a reply");
            let names: HashSet<Vec<u8>> =
                reply.elements().expect("fields").iter().map(|name| name.bytes().expect("a field").to_vec()).collect();
            assert_eq!(names.len(), fields / 5, "a field came twice");
            names.into_iter().for_each(|name| *distinct.entry(name).or_insert(0) += 1);
        }
        for (how, counts) in [("one", one), ("with repeats", many), ("distinct", distinct)] {
            let all: Vec<usize> = (0..fields).map(|n| *counts.get(format!("f{n}").as_bytes()).unwrap_or(&0)).collect();
            assert_eq!(all.iter().sum::<usize>(), counts.values().sum::<usize>(), "a field that was removed came");
            let excess = excess(&all);
            println!("{fields} fields, {how}: {excess:.1} standard deviations");
            assert!(excess < EXCESS_MAX, "{fields} fields, {how}: {excess:.1} standard deviations too uneven");
        }
    }
}

/// The control: a choice that prefers a tenth of the fields a little is noticed.
#[test]
fn an_uneven_choice_is_noticed() {
    let mut random = Random::new(seed());
    let (mut even, mut uneven) = (vec![0; 200], vec![0; 200]);
    for _ in 0..200 * 60 {
        even[random.below(200)] += 1;
        uneven[if random.chance(5) { random.below(20) } else { random.below(200) }] += 1;
    }
    assert!(excess(&even) < EXCESS_MAX && excess(&uneven) > EXCESS_MAX, "{} {}", excess(&even), excess(&uneven));
}

const HASHES: usize = 200;
const FIELDS: usize = 500;

fn used(client: &mut Client) -> i64 {
    let Value::Bulk(text) = client.line("INFO memory") else { panic!("INFO memory") };
    let text = String::from_utf8_lossy(&text).into_owned();
    let line = text.lines().find_map(|line| line.strip_prefix("used_memory:")).expect("used_memory");
    line.trim().parse().expect("a number")
}

/// Half of the hashes lose all their fields, the others half of them; no client reads or writes any of them meanwhile.
#[test]
fn fields_that_expire_give_their_memory_back_untouched() {
    let server = Server::start(&Program::Almandine, &[]);
    let mut client = server.client();
    let empty = used(&mut client);
    let value = "v".repeat(60);
    for hash in 0..HASHES {
        let mut args = vec!["HSET".to_owned(), format!("h{hash}")];
        (0..FIELDS).for_each(|n| args.extend([format!("f{n}"), value.clone()]));
        client.call(&args).expect("a reply");
    }
    let full = used(&mut client);
    let started = Instant::now();
    for hash in 0..HASHES {
        let count = if hash % 2 == 0 { FIELDS } else { FIELDS / 2 };
        let mut args = ["HPEXPIRE", &format!("h{hash}"), "1500", "FIELDS", &count.to_string()].map(str::to_owned).to_vec();
        args.extend((0..count).map(|n| format!("f{n}")));
        let reply = client.call(&args).expect("a reply");
        assert!(reply.elements().is_some_and(|all| all.len() == count && all.iter().all(|n| *n == Value::Integer(1))), "{reply}");
    }
    let deadline = Instant::now() + Duration::from_secs(30);
    // A quarter of the fields is left, with some room for nodes that are not merged.
    let allowed = empty + (full - empty) * 2 / 5;
    while client.line("DBSIZE") != Value::Integer(HASHES as i64 / 2) || used(&mut client) > allowed {
        let left = client.line("DBSIZE");
        assert!(Instant::now() < deadline, "{left} keys, {} bytes of {full} used, {allowed} allowed", used(&mut client) - empty);
        thread::sleep(Duration::from_millis(10));
    }
    println!(
        "reclaimed {:.1?} after the fields got their time, {} of {} bytes left",
        started.elapsed(),
        used(&mut client) - empty,
        full - empty
    );
    for hash in 0..HASHES {
        let wanted = if hash % 2 == 0 { 0 } else { FIELDS / 2 };
        assert_eq!(client.line(&format!("HLEN h{hash}")), Value::Integer(wanted as i64));
    }
}
