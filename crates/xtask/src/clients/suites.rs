//! `cargo xtask clients --own-suites [NAME …]`: the test suites that libraries bring in their packages, as their authors run them.
//!
//! A suite is a row below: its package, which comes from its registry by its language's own tool into `target/clients/suites`, and
//! the words of its runner. Many look for a server on a port of their own, so that must be free; others start `redis-server`, and
//! find ours by that name. What fails without being ours to mend is listed with the reason.

use std::fs;
use std::net::{Ipv4Addr, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::environment::{Unready, build, contents_are, fetch, needs, note_contents};
use super::{Options, Told};
use crate::root::target;
use crate::server::Server;

/// A library's own tests.
pub(super) struct Suite {
    pub(super) name: &'static str,
    source: Source,
    /// Where they look for a server; 0 where they start one themselves.
    port: u16,
    environment: &'static [(&'static str, &'static str)],
    /// Tests that fail, by parts of their names, and why.
    fails: &'static [(&'static str, &'static str)],
}

/// A package, and how its tests are run.
enum Source {
    /// A module of Go with its version, and words of `go test`.
    Go(&'static str, &'static [&'static str]),
    /// A source package of PyPI, what its tests need beside it, and words of pytest.
    Python(&'static str, &'static [&'static str], &'static [&'static str]),
}
use Source::{Go, Python};

const NO_ENVIRONMENT: &[(&str, &str)] = &[];

pub(super) const SUITES: &[Suite] = &[
    Suite {
        name: "redsync",
        source: Go("github.com/go-redsync/redsync/v4@v4.18.1", &["."]),
        port: 0,
        environment: NO_ENVIRONMENT,
        fails: &[],
    },
    Suite {
        name: "redislock",
        source: Go("github.com/bsm/redislock@v0.9.4", &["./..."]),
        port: 6379,
        environment: NO_ENVIRONMENT,
        fails: &[],
    },
    Suite {
        name: "redis_rate",
        source: Go("github.com/go-redis/redis_rate/v10@v10.0.1", &["./..."]),
        port: 6379,
        environment: NO_ENVIRONMENT,
        fails: &[
            ("TestAllow", "it expects one token more than the script gives; so it does on redis-server"),
            ("ExampleNewLimiter", "as above"),
        ],
    },
    Suite {
        name: "asynq",
        source: Go("github.com/hibiken/asynq@v0.26.0", &["./..."]),
        port: 6379,
        environment: NO_ENVIRONMENT,
        fails: &[],
    },
    Suite {
        name: "rueidis",
        source: Go("github.com/redis/rueidis@v1.0.79", &["-run", "TestSingleClientIntegration", "."]),
        port: 6379,
        environment: NO_ENVIRONMENT,
        fails: &[],
    },
    Suite {
        name: "rueidislock",
        source: Go("github.com/redis/rueidis@v1.0.79", &["./rueidislock"]),
        port: 6379,
        environment: NO_ENVIRONMENT,
        fails: &[],
    },
    Suite {
        name: "centrifuge",
        // Of each test the part with one server.
        source: Go(
            "github.com/centrifugal/centrifuge@v0.40.1",
            &[
                "-tags",
                "integration",
                "-run",
                "Redis/^(rd_single)?",
                "-skip",
                "Cluster|Sentinel|SlotMigration|Replica|NewRedisShard|Redis.*/.*(df|vk|cluster)|/(df|vk)_",
                ".",
            ],
        ),
        port: 6379,
        environment: NO_ENVIRONMENT,
        fails: &[
            ("StartingWithBrace", "it wants a cluster"),
            ("PubSubProbeShardedIdle", "it wants a cluster"),
            ("PubSubDisabledProbeStarves", "it wants a replica"),
        ],
    },
    Suite {
        name: "python-redis-lock",
        source: Python("python-redis-lock==4.0.1", &["redis", "process-tests"], &["tests/test_redis_lock.py"]),
        port: 0,
        environment: NO_ENVIRONMENT,
        fails: &[("[gevent]", "gevent is not installed"), ("[eventlet]", "eventlet is not installed")],
    },
    Suite {
        name: "limits",
        source: Python(
            "limits==5.8.0",
            &[
                "redis",
                "coredis",
                "valkey",
                "pymemcache",
                "pymongo",
                "memcachio",
                "pytest-asyncio",
                "pytest-cov",
                "pytest-lazy-fixtures",
                "pytest-benchmark",
                "pytest-mock",
                "flaky",
                "hiro",
                "typing_extensions",
            ],
            &[
                "-p",
                "stands_in",
                "-o",
                "addopts=",
                "-o",
                "filterwarnings=",
                "-m",
                "redis and not benchmark and not redis_cluster and not redis_sentinel",
            ],
        ),
        port: 7379,
        environment: &[("ASYNC_REDIS_IMPLEMENTATION", "redispy")],
        fails: &[
            ("aio/test_storage.py::TestConcreteStorages", "its storages use coredis, whose newest version is not used so"),
            ("moving_window_huge_cost", "a million entries in 2 s, which a debug build does not reach; --release does"),
        ],
    },
    Suite {
        name: "rq",
        source: Python("rq==3.0.0", &["redis", "click", "croniter", "psutil"], &["tests"]),
        port: 6379,
        environment: NO_ENVIRONMENT,
        fails: &[("TestWorkerPool::", "it gives a worker 0.75 s to end, which a busy machine misses")],
    },
    Suite {
        name: "arq",
        source: Python(
            "arq==0.28.0",
            &[
                "pytest-asyncio==0.25.3",
                "pytest-mock",
                "pytest-timeout",
                "msgpack",
                "dirty-equals",
                "tzdata",
                "pydantic",
                "watchfiles",
            ],
            &["-o", "filterwarnings=", "tests"],
        ),
        port: 6379,
        environment: NO_ENVIRONMENT,
        fails: &[("test_ms_to_datetime_tz", "it is about time zones, without a server")],
    },
    Suite {
        name: "channels_redis",
        source: Python(
            "channels_redis==4.3.0",
            &["channels", "redis", "msgpack", "async-timeout", "cryptography", "pytest-asyncio", "pytest-timeout"],
            &["tests/test_core.py", "tests/test_pubsub.py", "tests/test_serializers.py", "tests/test_utils.py"],
        ),
        port: 6379,
        environment: NO_ENVIRONMENT,
        fails: &[],
    },
    Suite {
        name: "kombu",
        source: Python(
            "kombu==5.7.0",
            &["redis", "msgpack", "pyyaml", "hypothesis<7", "pytest-freezer", "Pyro4"],
            &["t/integration/test_redis.py", "t/integration/test_redis_brpop_qos.py"],
        ),
        port: 6379,
        environment: NO_ENVIRONMENT,
        fails: &[],
    },
    Suite {
        name: "celery",
        source: Python(
            "celery==5.5.3",
            &[
                "redis>=5.2.1,<=5.2.1",
                "pydantic",
                "msgpack",
                "pyyaml",
                "cryptography",
                "pytest-celery>=1.2,<2",
                "pytest-subtests",
                "pytest-timeout",
                "pytest-click",
                "pytest-rerunfailures",
                "pytest-order",
            ],
            &["--timeout=120", "t/integration/test_tasks.py", "t/integration/test_canvas.py"],
        ),
        port: 6379,
        environment: &[("TEST_BROKER", "redis://localhost/0"), ("TEST_BACKEND", "redis://localhost/1")],
        fails: &[
            ("test_trace_log_arguments", "it finds no log records of the worker; so it does on redis-server"),
            ("test_chord::test_chord_on_error", "it fails on redis-server, too"),
            ("test_disabling_flag_allow_error_cb_on_chord_header", "as above"),
        ],
    },
];

/// Seconds that a suite may take.
const LIMIT_S: &str = "1200";

/// Stands in for what starts containers: the server is there.
const STAND_INS: &[(&str, &str)] = &[
    ("testcontainers/__init__.py", ""),
    ("testcontainers/redis.py", include_str!("own/testcontainers_redis.py")),
    ("stands_in.py", include_str!("own/stands_in.py")),
];

/// Runs a suite against a server of its own.
pub(super) fn run(root: &Path, suite: &Suite, server: &Path, options: &Options<'_>) -> Result<Told, Unready> {
    let place = target(root).join("clients/suites").join(suite.name);
    fs::create_dir_all(&place).map_err(broken(&place))?;
    let command = prepare(suite, &place)?;
    let bin = place.join("bin");
    stand_in_for_redis(server, &bin)?;
    let directory = place.join(format!("server-{}", std::process::id()));
    let mut started = None;
    if suite.port != 0 {
        if TcpStream::connect((Ipv4Addr::LOCALHOST, suite.port)).is_ok() {
            return Err(Unready::Broken(format!("port {} is taken, which the suite needs", suite.port)));
        }
        let flags = ["--save", "", "--enable-debug-command", "yes"];
        started = Some(Server::start_at(server, &flags, &directory, suite.port).map_err(Unready::Broken)?);
    }
    // Commands that a package brings are called by their names.
    let installed = place.join("environment/bin");
    let path = format!("{}:{}:{}", bin.display(), installed.display(), std::env::var("PATH").unwrap_or_default());
    let mut timed = Command::new("timeout");
    timed.args(["--kill-after=5", LIMIT_S]).arg(command.get_program()).args(command.get_args());
    timed.current_dir(command.get_current_dir().unwrap_or(&place)).env("PATH", path).env_remove("RUSTFLAGS");
    timed.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?)))).envs(suite.environment.iter().copied());
    let output = timed.output().map_err(|e| Unready::Broken(format!("timeout: {e}")))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    let mut told = judge(suite, &text, output.status.success());
    if let Some(server) = &mut started
        && !server.lives()
    {
        told.failed += 1;
        println!("the server ended:\n{}", server.log());
    }
    if options.verbose || told.failed > 0 {
        println!("{text}");
    }
    Ok(told)
}

fn broken(path: &Path) -> impl Fn(std::io::Error) -> Unready {
    let path = path.display().to_string();
    move |error| Unready::Broken(format!("{path}: {error}"))
}

/// `redis-server` and what it says of itself.
fn stand_in_for_redis(server: &Path, bin: &Path) -> Result<(), Unready> {
    fs::create_dir_all(bin).map_err(broken(bin))?;
    let script = format!(
        "#!/bin/sh\nif [ \"$1\" = --version ]; then echo 'Redis server v=7.4.0 sha=00000000:0 malloc=own bits=64'; exit; fi\n\
         cd \"$(mktemp -d)\" && exec '{}' \"$@\"\n",
        server.display()
    );
    let path = bin.join("redis-server");
    fs::write(&path, script).and_then(|()| fs::set_permissions(&path, fs::Permissions::from_mode(0o755))).map_err(broken(&path))
}

/// Fetches a suite's package, unless it is there, and says how its tests are run.
fn prepare(suite: &Suite, place: &Path) -> Result<Command, Unready> {
    let source = place.join("source");
    match suite.source {
        Go(module, words) => {
            needs("go", "version")?;
            if !contents_are(place, module) {
                let found = fetch(Command::new("go").args(["mod", "download", "-json", module]))?;
                let line = found.lines().find_map(|line| line.trim().strip_prefix("\"Dir\": \"")?.strip_suffix("\","));
                let Some(directory) = line else { return Err(Unready::NotFetched(format!("{module}: {found}"))) };
                copy(Path::new(directory), &source)?;
                fetch(Command::new("go").args(["mod", "download"]).current_dir(&source))?;
                note_contents(place, module);
            }
            let mut go = Command::new("go");
            go.args(["test", "-count=1", "-v"]).args(words).current_dir(&source);
            Ok(go)
        }
        Python(package, beside, words) => {
            needs("python3", "--version")?;
            let (python, wanted) = (place.join("environment/bin/python"), format!("{package} {}", beside.join(" ")));
            if !contents_are(place, &wanted) {
                fetch(Command::new("python3").args(["-m", "venv", "--clear"]).arg(place.join("environment")))?;
                let pip = || {
                    let mut pip = Command::new(&python);
                    pip.args(["-m", "pip", "--quiet", "--disable-pip-version-check"]).current_dir(place);
                    pip
                };
                fetch(pip().args(["install", "pytest", package]).args(beside))?;
                fetch(pip().args(["download", "--no-deps", "--no-binary", ":all:", "--dest", "archive", package]))?;
                let _ = fs::remove_dir_all(&source);
                fs::create_dir_all(&source).map_err(broken(&source))?;
                build(Command::new("sh").args(["-c", "tar -xzf ../archive/*.tar.gz --strip-components=1"]).current_dir(&source))?;
                note_contents(place, &wanted);
            }
            let beside = place.join("beside");
            for (name, text) in STAND_INS {
                let path = beside.join(name);
                fs::create_dir_all(path.parent().unwrap_or(&beside)).map_err(broken(&path))?;
                fs::write(&path, text).map_err(broken(&path))?;
            }
            let mut pytest = Command::new(python);
            pytest.args(["-m", "pytest", "-q", "-rfE", "-p", "no:cacheprovider"]).args(words);
            pytest.current_dir(&source).env("PYTHONPATH", beside).env("PYTHONDONTWRITEBYTECODE", "1");
            Ok(pytest)
        }
    }
}

/// A copy that may be written to.
fn copy(from: &Path, to: &PathBuf) -> Result<(), Unready> {
    let _ = fs::remove_dir_all(to);
    build(Command::new("cp").arg("-r").arg(from).arg(to))?;
    build(Command::new("chmod").args(["-R", "u+w"]).arg(to)).map(drop)
}

/// What passed, and what failed that is not listed.
fn judge(suite: &Suite, text: &str, success: bool) -> Told {
    let (passed, failing) = match suite.source {
        Go(..) => (text.lines().filter(|line| line.starts_with("--- PASS: ")).count(), names(text, "--- FAIL: ")),
        Python(..) => {
            let counts = text.lines().rev().find(|line| line.contains(" passed") && line.contains(" in "));
            let passed = counts.and_then(|line| line.split(" passed").next()?.rsplit([' ', '=']).next()?.parse().ok());
            let failing = names(text, "FAILED ").into_iter().chain(names(text, "ERROR ")).collect();
            (passed.unwrap_or(0), failing)
        }
    };
    let mut told = Told { passed, ..Told::default() };
    let mut listed = 0;
    for name in &failing {
        match suite.fails.iter().find(|(part, _)| name.contains(part)) {
            Some((_, why)) => {
                listed += 1;
                println!("{:<18} {name} fails: {why}", suite.name);
            }
            None => {
                told.failed += 1;
                println!("{:<18} {name} fails", suite.name);
            }
        }
    }
    // It did not come to its tests, or ended before its end.
    if told.failed == 0 && (passed == 0 || !success && listed == 0) {
        told.failed = 1;
    }
    told
}

/// The names in the lines that begin so.
fn names(text: &str, begin: &str) -> Vec<String> {
    // A line of a log has more spaces there.
    let name = |line: &str| line.strip_prefix(begin)?.split(' ').next().filter(|name| !name.is_empty()).map(str::to_owned);
    text.lines().filter_map(name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn suite(source: Source) -> Suite {
        Suite { name: "suite", source, port: 0, environment: NO_ENVIRONMENT, fails: &[("Listed", "why")] }
    }

    #[test]
    fn what_fails_is_told_by_each_runner() {
        let counts = |source, text: &str, success| {
            let told = judge(&suite(source), text, success);
            (told.passed, told.failed)
        };
        let go = || Go("", &[]);
        assert_eq!(counts(go(), "=== RUN TestA\n--- PASS: TestA (0.00s)\n    --- PASS: TestA/one (0.00s)\nok", true), (1, 0));
        assert_eq!(counts(go(), "--- PASS: TestA (0.00s)\n--- FAIL: TestListed (0.00s)\nFAIL", false), (1, 0));
        assert_eq!(counts(go(), "--- PASS: TestA (0.00s)\n--- FAIL: TestB (0.00s)\nFAIL", false), (1, 1));
        assert_eq!(counts(go(), "FAIL suite [build failed]", false), (0, 1));
        assert_eq!(counts(go(), "--- PASS: TestA (0.00s)\npanic: it ends", false), (1, 1));
        let python = || Python("", &[], &[]);
        assert_eq!(counts(python(), "....\n43 passed, 2 xfailed in 3.10s", true), (43, 0));
        let text = "FAILED tests/test_a.py::test_b - why\nERROR tests/test_c.py\n=== 2 failed, 7 passed in 3.10s ===";
        assert_eq!(counts(python(), text, false), (7, 2));
        let text = "ERROR    worker:trace.py:267 a line of a log\nFAILED t/test_a.py::Listed\n=== 1 failed, 7 passed in 3.10s ===";
        assert_eq!(counts(python(), text, false), (7, 0));
        assert_eq!(counts(python(), "collected nothing", true), (0, 1));
    }
}
