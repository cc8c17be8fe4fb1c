//! The whole program against an installed redis-server: every procedure once, as short as it goes.
//!
//! They fail where redis-server is not installed: `cargo xtask test` installs it.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output};

use almandine_testkit::redis_server;
use serde_json::Value;

fn lab(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_almandine-lab")).args(arguments).output().expect("the program starts")
}

fn text(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

fn file(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name)
}

fn json(path: &PathBuf) -> Value {
    let text = fs::read_to_string(path).expect("the result was written");
    serde_json::from_str(&text).expect("the result is JSON")
}

#[test]
fn compares_and_plots() {
    let _ = redis_server();
    let (result, pictures) = (file("compare.json"), file("pictures"));
    let output = lab(&[
        "compare",
        "--only",
        "redis",
        "-k",
        "2000",
        "-o",
        "get,set,hget",
        "-P",
        "1,16",
        "-c",
        "4",
        "--members",
        "5",
        "-n",
        "2",
        "-s",
        "0.1",
        "--warm-up",
        "0.02",
        "--json",
        &result.to_string_lossy(),
    ]);
    assert!(output.status.success(), "{}", text(&output));
    assert!(text(&output).contains("GET P=16 c=4"), "{}", text(&output));
    let document = json(&result);
    let runs = document["runs"].as_array().unwrap();
    assert_eq!(runs.len(), 3 * 2 * 2);
    for run in runs {
        assert_eq!((run["errors"].as_u64(), run["nulls"].as_u64()), (Some(0), Some(0)), "{run}");
    }
    // A run of a tenth of a second may see nothing on a machine that is busy with other tests; all of them together do.
    let operations: u64 = runs.iter().map(|run| run["operations"].as_u64().unwrap()).sum();
    assert!(operations > 100, "{document}");
    let output = lab(&["plot", &result.to_string_lossy(), "-o", &pictures.to_string_lossy()]);
    assert!(output.status.success(), "{}", text(&output));
    assert!(fs::read(pictures.join("compare-throughput-pipeline.png")).unwrap().starts_with(b"\x89PNG"));
    assert!(fs::read_to_string(pictures.join("compare-latency-get.svg")).unwrap().starts_with("<svg"));
}

#[test]
fn hashes_are_filled_and_no_field_is_missing() {
    let _ = redis_server();
    let result = file("hashes.json");
    // More fields than one request of the filling has.
    let words = "compare --only redis -k 3 --members 2500 -o hget,hincrby,hmget,hgetall,hscan,hrandfield,hdel+hset \
                 -P 16 -c 4 -n 1 -s 0.1 --warm-up 0.02 --json";
    let arguments: Vec<&str> = words.split_whitespace().collect();
    let output = lab(&[&arguments[..], &[&result.to_string_lossy()]].concat());
    assert!(output.status.success(), "{}", text(&output));
    let document = json(&result);
    let runs = document["runs"].as_array().unwrap();
    assert_eq!(runs.len(), 7);
    for run in runs {
        assert_eq!((run["errors"].as_u64(), run["nulls"].as_u64()), (Some(0), Some(0)), "{run}");
    }
}

#[test]
fn open_load_keeps_its_rate() {
    let _ = redis_server();
    let result = file("latency.json");
    let output = lab(&[
        "latency",
        "--only",
        "redis",
        "-k",
        "2000",
        "-c",
        "4",
        "-r",
        "2000",
        "-s",
        "2",
        "-n",
        "1",
        "--no-spin",
        "--beside-operations",
        "set",
        "--beside-rate",
        "1000",
        "--beside",
        "job",
        "--json",
        &result.to_string_lossy(),
    ]);
    assert!(output.status.success(), "{}", text(&output));
    assert!(text(&output).contains("commands per second beside"), "{}", text(&output));
    assert!(text(&output).contains("calls of scripts per second beside"), "{}", text(&output));
    let result = json(&result);
    let phases: Vec<_> = result["runs"].as_array().unwrap().iter().map(|run| run["phase"].as_str()).collect();
    assert_eq!(phases, [Some("steady"), Some("growing"), Some("beside scripts"), Some("beside operations")]);
    for run in result["runs"].as_array().unwrap() {
        let rate = run["ops_per_second"].as_f64().unwrap();
        // What a stall beside other tests held up is made up for; a load without a rate takes tens of thousands.
        assert!((200.0..16_000.0).contains(&rate), "{run}");
        assert_eq!(run["errors"].as_u64(), Some(0));
    }
}

#[test]
fn memory_churn_and_expiry_are_measured() {
    let _ = redis_server();
    let result = file("memory.json");
    let output =
        lab(&["memory", "--only", "redis", "-k", "20000", "--shapes", "string100,zset10", "--json", &result.to_string_lossy()]);
    assert!(output.status.success(), "{}", text(&output));
    for run in json(&result)["runs"].as_array().unwrap() {
        assert!((100.0..1000.0).contains(&run["bytes_per_key"].as_f64().unwrap()), "{run}");
    }
    let result = file("memory-churned.json");
    let words = "memory --only redis -k 20000 --shapes hash5,hash2k --churn 0.3 --json";
    let arguments: Vec<&str> = words.split(' ').collect();
    let output = lab(&[&arguments[..], &[&result.to_string_lossy()]].concat());
    assert!(output.status.success() && text(&output).contains("used after churn"), "{}", text(&output));
    for run in json(&result)["runs"].as_array().unwrap() {
        let per_element =
            run["used_bytes_per_key"].as_f64().unwrap() * run["keys"].as_f64().unwrap() / run["elements"].as_f64().unwrap();
        assert!((21.0..200.0).contains(&per_element) && run["churned_used"].as_f64().unwrap() > 0.5, "{run}");
    }
    let result = file("churn.json");
    let output =
        lab(&["churn", "--only", "redis", "-k", "2000", "-s", "0.3", "-m", "set=8,del=2", "--json", &result.to_string_lossy()]);
    assert!(output.status.success(), "{}", text(&output));
    let run = &json(&result)["runs"][0];
    let (keys, live) = (run["keys"].as_f64().unwrap(), run["live_bytes"].as_f64().unwrap());
    assert!((1_000.0..2_000.0).contains(&keys) && (900.0..1_200.0).contains(&(live / keys)), "{run}");
    let result = file("expire.json");
    let output =
        lab(&["expire", "--only", "redis", "-k", "5000", "--over", "1", "--lead", "5", "--json", &result.to_string_lossy()]);
    assert!(output.status.success(), "{}", text(&output));
    assert_eq!(json(&result)["runs"][0]["left"].as_u64(), Some(0));
}

fn runs_of(words: &str, name: &str) -> Vec<Value> {
    let result = file(name);
    let output = lab(&[&words.split_whitespace().collect::<Vec<_>>()[..], &["--json", &result.to_string_lossy()]].concat());
    assert!(output.status.success(), "{}", text(&output));
    json(&result)["runs"].as_array().expect("runs").clone()
}

#[test]
fn every_published_message_is_counted() {
    let _ = redis_server();
    let words = "pubsub --only redis --subscribers 0,1,30 -P 1,64 --publishers 1,5 -v 8,3000 -n 1 -s 0.1 --warm-up 0.02";
    let runs = runs_of(words, "pubsub.json");
    assert_eq!(runs.len(), 3 * 2 * 2 * 2);
    for run in runs {
        let (published, delivered) = (run["per_second"].as_f64().unwrap(), run["deliveries_per_second"].as_f64().unwrap());
        assert!(published > 0.0 && (delivered - published * run["subscribers"].as_f64().unwrap()).abs() < 1.0, "{run}");
    }
}

#[test]
fn elements_are_handed_over_and_timeouts_come() {
    let _ = redis_server();
    let words = "handover --only redis -o blpop,bzpopmin,xreadgroup -w 200 -P 1,16 --pushers 1,3 --idle-waiters 0,5000 \
                 --idle-connections 50 --timeout-waiters 40 -n 1 -s 0.1 --warm-up 0.02";
    let runs = runs_of(words, "handover.json");
    let (timeouts, elements): (Vec<&Value>, Vec<&Value>) = runs.iter().partition(|run| run["operation"] == "timeout");
    assert_eq!((elements.len(), timeouts.len()), (3 * 2 * 2 * 2, 1));
    assert!(elements.iter().all(|run| run["per_second"].as_f64().unwrap() > 0.0), "{elements:?}");
    // Each waits for at most 1.05 s, and some several times; none may come early by more than the clock's milliseconds.
    assert!(timeouts[0]["timeouts"].as_u64().unwrap() >= 40 && timeouts[0]["late_ms_min"].as_f64().unwrap() > -2.0, "{timeouts:?}");
    let output = lab(&["handover", "--only", "redis", "-w", "10", "-P", "16"]);
    assert!(!output.status.success() && text(&output).contains("give at least 64"), "{}", text(&output));
}

#[test]
fn the_grid_has_every_group_and_its_picture() {
    let redis = redis_server().get_program().to_os_string();
    let (tables, pictures) = (file("grid.md"), file("grid-pictures"));
    let words = format!(
        "grid --only redis,redis2 --binary redis2={} --quick --scale 0.01 --minutes 0.1 --groups geo,hashes -P 64 --markdown {}",
        redis.to_string_lossy(),
        tables.to_string_lossy()
    );
    let runs = runs_of(&words, "grid.json");
    // Hashes have five loads at this batch size, geo indexes three; there are two servers.
    assert_eq!(runs.len(), (5 + 3) * 2);
    for run in &runs {
        assert_eq!((run["errors"].as_u64(), run["pipeline"].as_u64()), (Some(0), Some(64)), "{run}");
    }
    let text = fs::read_to_string(tables).expect("the tables were written");
    assert!(text.contains("| HDEL and HSET | 64 |") && text.contains("| redis2 7."), "{text}");
    let output = lab(&["plot", &file("grid.json").to_string_lossy(), "-o", &pictures.to_string_lossy()]);
    assert!(output.status.success() && pictures.join("grid-ratios-p64.png").is_file());
    assert!(!lab(&["grid", "--groups", "nosuch"]).status.success());
}

#[test]
fn peers_are_found_by_name_and_by_file() {
    let redis = redis_server().get_program().to_os_string();
    let by_name = |name: &str, file: &str| {
        let spec = format!("{name}={file}");
        lab(&["pubsub", "--only", name, "--binary", &spec, "--subscribers", "1", "-P", "1", "-n", "1", "-s", "0.1"])
    };
    let output = by_name("redis-of-mine", &redis.to_string_lossy());
    assert!(output.status.success() && text(&output).contains("redis-of-mine 7."), "{}", text(&output));
    assert!(text(&by_name("mine", &redis.to_string_lossy())).contains("the name must begin with one of redis,valkey"));
    assert!(text(&by_name("redis2", "/nowhere/redis-server")).contains("there is no such file"));
    let output = lab(&["pubsub", "--only", "redis,nosuch"]);
    assert!(!output.status.success() && text(&output).contains("no server has that name; known are almandine,redis"));
}

#[test]
fn canned_replies_are_a_floor_for_collections_too() {
    let _ = redis_server();
    let words = "compare --floor --only redis,floor -o hget,hset,lrange,zadd,hdel+hset,lpush+rpop,xadd,get -P 1,64 -c 4 -k 20 \
                 --members 1500 -v 1-300 -s 0.2 -n 1";
    let runs = runs_of(words, "floor-collections.json");
    assert_eq!(runs.len(), 8 * 2 * 2);
    for run in runs {
        assert_eq!((run["errors"].as_u64(), run["unanswered"].as_u64()), (Some(0), Some(0)), "{run}");
    }
}

#[test]
fn canned_replies_are_a_floor_to_compare_with() {
    let _ = redis_server();
    // A debug build on a busy machine: only that the canned server and the client agree on every reply.
    let result = file("floor.json");
    let words = "compare --floor --only redis,floor -P 1,64 -c 4 -k 2000 -v 100 -s 0.2 -n 1 --json";
    let arguments: Vec<&str> = words.split(' ').collect();
    let output = lab(&[&arguments[..], &[&result.to_string_lossy()]].concat());
    assert!(output.status.success(), "{}", text(&output));
    let document = json(&result);
    assert_eq!(document["extra"]["baseline"], "floor");
    let runs = document["runs"].as_array().unwrap();
    assert_eq!(runs.iter().filter(|run| run["server"] == "floor").count(), 4, "GET and SET at two depths");
    for run in runs {
        assert_eq!((run["errors"].as_u64(), run["unanswered"].as_u64()), (Some(0), Some(0)), "{run}");
    }
}

#[test]
fn zero_of_anything_is_refused() {
    for option in ["-c", "-P", "-k", "-n"] {
        assert!(text(&lab(&["compare", option, "0"])).contains("invalid value"), "{option}");
    }
}
