//! Other people's clients, unmodified: redis-cli, redis-benchmark, redis-py and redis-rs.
//!
//! `ALMANDINE_GOLDEN_SERVER=redis` runs them against redis-server, to see that they are fair. redis-py is found through
//! `ALMANDINE_PYTHON`, which `cargo xtask test` sets, else through `python3`.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use almandine_testkit::{Program, Server, Value};
use redis::{Commands, TypedCommands};

fn start() -> Server {
    let redis = std::env::var("ALMANDINE_GOLDEN_SERVER").is_ok_and(|s| s == "redis");
    Server::start(&if redis { Program::Redis } else { Program::Almandine }, &[])
}

/// Runs a program to its end and returns what it printed; an unsuccessful end fails the test.
fn run(server: &Server, program: &str, args: &[&str], input: &[u8]) -> String {
    let mut child = Command::new(program)
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap_or_else(|e| panic!("{program}: {e} (cargo xtask test installs it)"));
    let mut stdin = child.stdin.take().expect("piped");
    stdin.write_all(input).expect("input is read");
    drop(stdin);
    let output = child.wait_with_output().expect("it ends");
    let (out, err) = (String::from_utf8_lossy(&output.stdout).into_owned(), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{program} {args:?}: {}\n{out}\n{err}\nserver log:\n{}", output.status, server.log());
    out
}

fn cli(server: &Server, args: &[&str], input: &[u8]) -> String {
    let port = server.address().port().to_string();
    let all: Vec<&str> = ["-p", port.as_str()].into_iter().chain(args.iter().copied()).collect();
    run(server, "redis-cli", &all, input)
}

#[test]
fn redis_cli_works_in_its_modes() {
    let server = start();
    assert_eq!(cli(&server, &["PING"], b"").trim(), "PONG");
    assert_eq!(cli(&server, &["-3", "PING"], b"").trim(), "PONG");
    assert_eq!(cli(&server, &["SET", "a", "1"], b"").trim(), "OK");
    assert_eq!(cli(&server, &["-n", "1", "SET", "other", "1"], b"").trim(), "OK");
    assert_eq!(cli(&server, &["-n", "1", "DBSIZE"], b"").trim(), "1");
    assert_eq!(cli(&server, &["--no-raw", "GET", "a"], b"").trim(), "\"1\"");
    assert_eq!(cli(&server, &["--csv", "MGET", "a", "missing"], b"").trim(), "\"1\",NULL");
    assert_eq!(cli(&server, &["--json", "MGET", "a", "missing"], b"").trim(), "[\"1\",null]");
    assert_eq!(cli(&server, &["-r", "5", "INCR", "n"], b"").trim().lines().last(), Some("5"));
    assert_eq!(cli(&server, &["-x", "SET", "stdin"], b"line one\nline two").trim(), "OK");
    assert_eq!(cli(&server, &[], b"GET a\nSELECT 1\nGET other\n").trim(), "1\nOK\n1");
    assert!(cli(&server, &["INFO", "server"], b"").contains("redis_version:"));
    let url = format!("redis://127.0.0.1:{}/1", server.address().port());
    assert_eq!(run(&server, "redis-cli", &["-u", &url, "GET", "other"], b"").trim(), "1");

    let mut mass = Vec::new();
    for n in 0..10_000 {
        almandine_testkit::client::encode(&["SET", &format!("mass:{n}"), "value"], &mut mass);
    }
    let piped = cli(&server, &["--pipe"], &mass);
    assert!(piped.contains("errors: 0, replies: 10000"), "{piped}");
    assert_eq!(cli(&server, &["--scan", "--pattern", "mass:*"], b"").lines().count(), 10_000);
    assert!(cli(&server, &["--bigkeys"], b"").contains("Sampled 10003 keys"));
    assert!(cli(&server, &["--memkeys"], b"").contains("Sampled 10003 keys"));
}

#[test]
fn redis_benchmark_runs_its_default_tests() {
    let server = start();
    let port = server.address().port().to_string();
    let tests = ["PING_INLINE", "PING_MBULK", "SET", "GET", "INCR", "MSET (10 keys)"];
    for extra in
        [&["-n", "20000"][..], &["-n", "100000", "-P", "16", "-r", "100000"], &["-n", "50000", "--threads", "2", "-d", "1000"]]
    {
        let mut args = vec!["-p", port.as_str(), "--csv", "-t", "ping,set,get,incr,mset"];
        args.extend_from_slice(extra);
        let out = run(&server, "redis-benchmark", &args, b"");
        for test in tests {
            assert!(out.contains(&format!("\"{test}\"")), "{test} is missing:\n{out}");
        }
        assert!(!out.to_lowercase().contains("error"), "{out}");
    }
    assert_eq!(server.client().line("PING"), Value::Simple(b"PONG".to_vec()));
}

#[test]
fn redis_py_works_unmodified() {
    let server = start();
    let python = std::env::var("ALMANDINE_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/clients/smoke.py");
    let port = server.address().port().to_string();
    let out = run(&server, &python, &[script.to_str().expect("UTF-8"), &port], b"");
    print!("{out}");
    assert!(out.contains("checks held"), "{out}");
}

#[test]
fn redis_rs_works_unmodified() -> redis::RedisResult<()> {
    let server = start();
    for protocol in ["resp2", "resp3"] {
        let url = format!("redis://127.0.0.1:{}/?protocol={protocol}", server.address().port());
        let mut c = redis::Client::open(url)?.get_connection()?;
        let _: () = redis::cmd("FLUSHALL").query(&mut c)?;
        let _: () = Commands::set(&mut c, "a", 42)?;
        assert_eq!(TypedCommands::get(&mut c, "a")?, Some("42".to_owned()));
        let n: i64 = Commands::incr(&mut c, "a", 8)?;
        assert_eq!(n, 50);
        let both: Vec<Option<i64>> = Commands::mget(&mut c, &["a", "missing"])?;
        assert_eq!(both, [Some(50), None]);
        let piped: (i64, String) = redis::pipe().cmd("INCR").arg("p").cmd("GET").arg("p").query(&mut c)?;
        assert_eq!(piped, (1, "1".to_owned()));
        let ttl: i64 = redis::pipe().cmd("EXPIRE").arg("a").arg(100).ignore().cmd("TTL").arg("a").query::<(i64,)>(&mut c)?.0;
        assert!((90..=100).contains(&ttl));
        let keys: Vec<String> = Commands::scan_match::<_, String>(&mut c, "a*")?.collect::<Result<_, _>>()?;
        assert_eq!(keys, ["a"]);
        let error = redis::cmd("INCR").arg("a").arg("b").query::<i64>(&mut c).expect_err("wrong arity");
        assert!(error.to_string().contains("wrong number of arguments"), "{error}");
    }
    Ok(())
}
