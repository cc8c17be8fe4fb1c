//! Defaults, CONFIG SET and errors at start, compared with redis-server's.

#![expect(clippy::unwrap_used, reason = "a test that fails says where")]

use std::collections::BTreeMap;
use std::process::Stdio;
use std::time::Duration;

use almandine_config::{Config, Startup};
use almandine_testkit::{Redis, redis_server};

/// What redis-server has for the parameters that match.
fn theirs(oracle: &Redis, pattern: &str) -> BTreeMap<String, String> {
    serde_json::from_str(&oracle.ask_json(&["CONFIG", "GET", pattern])).unwrap()
}

/// Ours, started with the same command line.
fn ours(oracle: &Redis) -> Config {
    match Config::load(oracle.arguments()).unwrap() {
        Startup::Run(config) => *config,
        other => panic!("{other:?}"),
    }
}

fn values(config: &Config, pattern: &str) -> BTreeMap<String, String> {
    let all = config.get([pattern.as_bytes()], |_, _| true);
    all.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

#[test]
fn every_parameter_of_redis_has_its_default() {
    let oracle = Redis::start(&[]);
    let (theirs, ours) = (theirs(&oracle, "*"), values(&ours(&oracle), "*"));
    assert!(theirs.len() > 190);
    for (name, value) in &theirs {
        let our = ours.get(name).unwrap_or_else(|| panic!("{name} is not accepted"));
        assert_eq!(our, value, "{name}");
    }
}

/// Pairs for one CONFIG SET each.
const SETS: &[&[&str]] = &[
    &["port", "abc"],
    &["port", "65536"],
    &["port", "-1"],
    &["port", ""],
    &["maxmemory", "abc"],
    &["maxmemory", "-1"],
    &["maxmemory", "1kbx"],
    &["maxmemory", "1g"],
    &["maxmemory", "100mb"],
    &["maxmemory", ""],
    &["maxmemory", "0", "timeout", "x"],
    &["appendonly", "maybe"],
    &["appendfsync", "ALWAYS"],
    &["maxmemory-policy", "foo"],
    &["maxmemory-policy", "allkeys-LRU"],
    &["syslog-facility", "x"],
    &["sanitize-dump-payload", "x"],
    &["loglevel", "debug"],
    &["timeout", "-1"],
    &["timeout", "2147483648"],
    &["timeout", "010"],
    &["timeout", "+1"],
    &["timeout", "1 "],
    &["TIMEOUT", "7"],
    &["tcp-keepalive", "-1"],
    &["hz", "1x"],
    &["save", ""],
    &["save", "900"],
    &["save", "a b"],
    &["save", "0 1"],
    &["save", "900 -1"],
    &["save", "900 1 x"],
    &["save", "900 1 300 10"],
    &["save", "900  1"],
    &["client-output-buffer-limit", "normal 0 0"],
    &["client-output-buffer-limit", ""],
    &["client-output-buffer-limit", "foo 0 0 0"],
    &["client-output-buffer-limit", "normal a 0 0"],
    &["client-output-buffer-limit", "normal 0 0 -1"],
    &["client-output-buffer-limit", "master 0 0 0"],
    &["client-output-buffer-limit", "replica 1mb 2kb 3 pubsub 0 0 0"],
    &["client-query-buffer-limit", "1"],
    &["proto-max-bulk-len", "100"],
    &["proto-max-bulk-len", "1mb"],
    &["repl-backlog-size", "0"],
    &["notify-keyspace-events", "KEA"],
    &["notify-keyspace-events", "Kg$lshzxetdm"],
    &["notify-keyspace-events", "Knm"],
    &["notify-keyspace-events", ""],
    &["oom-score-adj-values", "1 2"],
    &["oom-score-adj-values", "1 2 9999"],
    &["oom-score-adj-values", "1 2 x"],
    &["oom-score-adj-values", "1 2 3"],
    &["latency-tracking-info-percentiles", "a"],
    &["latency-tracking-info-percentiles", "101"],
    &["latency-tracking-info-percentiles", "-1"],
    &["latency-tracking-info-percentiles", "50 99.5 100"],
    &["latency-tracking-info-percentiles", ""],
    &["maxmemory-clients", "101%"],
    &["maxmemory-clients", "5%"],
    &["maxmemory-clients", "-5%"],
    &["maxmemory-clients", "5x"],
    &["maxmemory-clients", "1gb"],
    &["databases", "5"],
    &["dir", "/nonexistent"],
    &["dbfilename", "a/b"],
    &["dbfilename", "x.rdb"],
    &["appendfilename", "x"],
    &["nosuch", "1"],
    &["nosuch", "1", "port", "x"],
    &["port", "x", "nosuch", "1"],
    &["databases", "1", "nosuch", "1"],
    &["databases", "1", "timeout", "x"],
    &["timeout", "x", "databases", "1"],
    &["timeout", "1", "hz", "2", "timeout", "2"],
    &["timeout", "1", "maxclients", "0"],
    &["replica-read-only", "no", "slave-read-only", "yes"],
    &["slave-priority", "-1"],
    &["slave-priority", "5"],
    &["maxmemory-samples", "0"],
    &["list-max-listpack-size", "0"],
    &["slowlog-max-len", "-1"],
    &["slowlog-log-slower-than", "-2"],
    &["slowlog-log-slower-than", "-1"],
    &["hash-max-ziplist-value", "x"],
    &["hash-max-ziplist-value", "1kb"],
    &["acl-pubsub-default", "foo"],
    &["shutdown-on-sigint", "foo"],
    &["shutdown-on-sigint", "nosave now"],
    &["shutdown-on-sigint", "default"],
    &["shutdown-on-sigterm", "force nosave"],
    &["proc-title-template", "{x}"],
    &["proc-title-template", "{title} x {port}"],
    &["proc-title-template", "{title"],
    &["cluster-announce-hostname", "a_b"],
    &["cluster-announce-hostname", "a.b-c"],
    &["active-defrag-threshold-lower", "1001"],
    &["busy-reply-threshold", "1"],
    &["lua-time-limit", "2"],
    &["watchdog-period", "-1"],
    &["user", "x"],
    &["include", "x"],
    &["replicaof", "no one"],
    &["requirepass", ""],
    &["masterauth", "a \"b\" \\c"],
    &["bind", "1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17"],
];

fn compare_sets(args: &[&str]) {
    let oracle = Redis::start(args);
    let ours = ours(&oracle);
    for pairs in SETS {
        let command: Vec<&str> = ["CONFIG", "SET"].iter().chain(*pairs).copied().collect();
        let answer = oracle.ask(&[], &command);
        let pairs: Vec<(&[u8], &[u8])> = pairs.chunks_exact(2).map(|pair| (pair[0].as_bytes(), pair[1].as_bytes())).collect();
        let our = match ours.set(&pairs, true, |_, _| Ok(())) {
            Ok(_) => "OK".to_owned(),
            Err(error) => format!("ERR {error}"),
        };
        assert_eq!(our, answer, "{command:?}");
        for (name, _) in &pairs {
            let name = std::str::from_utf8(name).unwrap();
            assert_eq!(values(&ours, name).into_values().next(), theirs(&oracle, name).into_values().next(), "{command:?}");
        }
    }
}

#[test]
fn config_set_answers_as_redis() {
    compare_sets(&[]);
}

#[test]
fn config_set_of_protected_parameters_answers_as_redis() {
    compare_sets(&["--enable-protected-configs", "local"]);
}

/// The lines that a start with `args` fails with, without the one that holds the version.
fn failed_start(args: &[String]) -> Vec<String> {
    let mut server =
        redis_server().args(args).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("redis-server can be started");
    for _ in 0..1000 {
        if server.try_wait().unwrap().is_some() {
            return lines(&String::from_utf8(server.wait_with_output().unwrap().stderr).unwrap());
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    let _ = server.kill();
    let _ = server.wait();
    panic!("redis-server accepts {args:?}");
}

fn lines(text: &str) -> Vec<String> {
    text.lines().filter(|line| !line.contains("FATAL CONFIG FILE ERROR") && !line.is_empty()).map(str::to_owned).collect()
}

#[test]
fn bad_starts_fail_as_redis() {
    let dir = std::env::temp_dir().join(format!("almandine-config-start-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    let files = [
        "# x\nfoo bar\n",
        "port\n",
        "port 1 2\n",
        "port \"1\n",
        "\n\n  PORT x\n",
        "save 900\n",
        "save a b\n",
        "oom-score-adj-values\n",
        "shutdown-on-sigterm\n",
        "maxmemory 1x\n",
        "user\n",
        "rename-command a\n",
        "include\n",
        "unixsocketperm 9\n",
        "unixsocketperm 1777\n",
        "oom-score-adj-values 1\n",
        "client-output-buffer-limit normal 1\n",
        "appenddirname \"\"\n",
        "appendfilename a/b\n",
        "maxmemory-policy x\n",
        "client-output-buffer-limit \"\"\n",
        "dir /nonexistent\n",
        "bind 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17\n",
        "latency-tracking-info-percentiles 101\n",
        "replicaof a\n",
        "replicaof a b\n",
        "shutdown-on-sigint now x\n",
    ];
    let mut starts: Vec<Vec<String>> = vec![
        vec!["--port".into(), "x".into()],
        vec!["--port".into()],
        vec!["--port".into(), "1".into(), "--nosuch".into(), "a b".into()],
        vec!["--dir".into(), "/tmp".into(), "x".into()],
        vec!["-p".into(), "x".into()],
        vec!["--save".into(), "900".into()],
    ];
    for (number, text) in files.iter().enumerate() {
        let file = dir.join(format!("{number}.conf"));
        std::fs::write(&file, text).unwrap();
        starts.push(vec![file.to_str().unwrap().into(), "--port".into(), "0".into()]);
    }
    for args in starts {
        let ours = Config::load(&args).expect_err(&format!("{args:?}"));
        let mut ours = lines(&ours.0);
        // Redis does not say what may have been meant.
        ours.retain(|line| !line.contains("Did you mean") && !line.contains("begin with two dashes"));
        let mut theirs = failed_start(&args);
        // Redis counts the options as lines of a file that there is not.
        if ours[0] == "Reading the command line" {
            assert!(args[0].starts_with('-') && theirs[0].starts_with("Reading the configuration file, at line "), "{args:?}");
            theirs[0].clone_from(&ours[0]);
        }
        assert_eq!(ours, theirs, "{args:?}");
    }
    std::fs::remove_dir_all(dir).unwrap();
}

#[test]
fn a_missing_file_is_named() {
    let error = Config::load(&["/nonexistent/file".to_owned()]).unwrap_err();
    assert_eq!(error.0, "Fatal error, can't open config file '/nonexistent/file': No such file or directory\n");
}

#[test]
fn rewriting_gives_the_file_that_redis_writes() {
    let oracle = Redis::start(&[]);
    let text = "# a comment\n\nport 0\n\n\n\nslave-read-only yes\nmaxmemory 1gb\nsave 1 1\nsave 2 2\nsave 3 3\n\
                client-output-buffer-limit normal 0 0 0\nhz 50\n  timeout 5\n";
    let write = |name: &str| {
        let file = oracle.directory().join(name);
        std::fs::write(&file, text).unwrap();
        file.to_str().unwrap().to_owned()
    };
    let pairs = [
        ("maxmemory", "3000kb"),
        ("save", "900 1 300 10"),
        ("replica-read-only", "no"),
        ("requirepass", ""),
        ("client-output-buffer-limit", "pubsub 1 2 3"),
        ("notify-keyspace-events", "KEx"),
        ("maxmemory-clients", "7%"),
        ("shutdown-on-sigint", "nosave now"),
        ("latency-tracking-info-percentiles", "1 2.5"),
        ("proc-title-template", "{title} \\ x"),
        ("appendfsync", "no"),
        ("timeout", "0"),
        ("bind-source-addr", "127.0.0.1"),
    ];
    let theirs = write("theirs.conf");
    let second = Redis::start_from(&theirs);
    let ask = |words: &[&str]| assert_eq!(second.ask(&[], words), "OK");
    pairs.iter().for_each(|(name, value)| ask(&["CONFIG", "SET", name, value]));
    ask(&["CONFIG", "REWRITE"]);

    let ours = write("ours.conf");
    let args: Vec<String> = std::iter::once(&ours).chain(&second.arguments()[1..]).cloned().collect();
    let Startup::Run(config) = Config::load(&args).unwrap() else { panic!() };
    let pairs: Vec<(&[u8], &[u8])> = pairs.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes())).collect();
    config.set(&pairs, true, |_, _| Ok(())).unwrap();
    config.rewrite(almandine_config::Stated::AsNeeded, &[]).unwrap();

    let sorted = |file: &str| {
        let text = std::fs::read_to_string(file).unwrap();
        let (kept, added) = text.split_once("# Generated by CONFIG REWRITE\n").unwrap();
        // Users are the business of access control, not of parameters.
        let mut added: Vec<String> = added.lines().filter(|line| !line.starts_with("user ")).map(str::to_owned).collect();
        added.sort_unstable();
        (kept.to_owned(), added)
    };
    assert_eq!(sorted(&ours), sorted(&theirs));
}
