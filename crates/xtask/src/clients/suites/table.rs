//! The suites: their packages, how they are run, and what of them fails without being ours to mend.

/// A library's own tests.
pub(in crate::clients) struct Suite {
    pub(in crate::clients) name: &'static str,
    pub(super) source: Source,
    /// Where they look for a server; 0 where they start one themselves.
    pub(super) port: u16,
    pub(super) environment: &'static [(&'static str, &'static str)],
    /// Tests that fail, by parts of their names, and why.
    pub(super) fails: &'static [(&'static str, &'static str)],
}

/// A package, and how its tests are run.
pub(super) enum Source {
    /// A module of Go with its version, and words of `go test`.
    Go(&'static str, &'static [&'static str]),
    /// A source package of PyPI, what its tests need beside it, and words of pytest.
    Python(&'static str, &'static [&'static str], &'static [&'static str]),
    /// A crate and its version, what its `Cargo.toml` lacks, and words of `cargo test`.
    Cargo([&'static str; 2], &'static str, &'static [&'static str]),
}
use Source::{Cargo, Go, Python};

pub(super) const NO_ENVIRONMENT: &[(&str, &str)] = &[];

pub(in crate::clients) const SUITES: &[Suite] = &[
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
    Suite {
        name: "redis-rs",
        // The tests of its asynchronous side want a crate that is not published.
        source: Cargo(
            ["redis", "1.8.1"],
            "\n[dev-dependencies.redis-test]\nversion = \"=1.0.4\"\n[patch.crates-io]\nredis = { path = \".\" }\n",
            &[
                "--features=tokio-comp,connection-manager",
                "--test=test_script",
                "--test=test_basic",
                "--test=test_acl",
                "--test=test_auth",
                "--test=test_bignum",
                "--test=test_geospatial",
                "--test=test_streams",
                "--test=test_types",
            ],
        ),
        port: 0,
        environment: NO_ENVIRONMENT,
        fails: &[
            ("test_acl_info", "it wants `sanitize-payload` among a user's flags, as of Redis 7.2"),
            ("test_acl_sample_info", "as above"),
            ("test_object_freq_command", "it wants a frequency of at most 7"),
            ("test_connection_timeout_on_busy_server", "it calls DEBUG SLEEP, which is not allowed by default"),
            ("test_pipeline_transaction_with_errors", "it calls SLAVEOF"),
            ("test_pipeline_with_err", "it calls SLAVEOF"),
            ("test_push_manager_disconnection", "it kills the server and wants an end of its stream, where a reset comes"),
            ("test_redis_server_down", "as above"),
        ],
    },
    Suite {
        name: "rslock",
        source: Cargo(["rslock", "0.10.0"], TESTCONTAINERS, &["--features=tokio-comp", "--lib"]),
        port: 0,
        environment: NO_ENVIRONMENT,
        fails: &[],
    },
    Suite {
        name: "apalis-redis",
        source: Cargo(["apalis-redis", "1.0.0"], "", &["--lib"]),
        port: 6379,
        environment: &[("REDIS_URL", "redis://127.0.0.1/?protocol=resp3")],
        fails: &[],
    },
];

/// Has rslock's tests find a stand-in for what starts containers.
const TESTCONTAINERS: &str = "\n[patch.crates-io]\ntestcontainers = { path = \"../beside/testcontainers\" }\n";
