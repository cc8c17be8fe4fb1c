//! Cases in their order, and the closing line that `cargo xtask clients` counts.

use std::fmt::Debug;
use std::panic::{AssertUnwindSafe, catch_unwind};

use futures_util::FutureExt;
use redis::aio::MultiplexedConnection;
use redis::{Client, RedisResult, cmd};

#[derive(Default)]
pub struct Run {
    passed: usize,
    failed: usize,
}

fn variable(name: &str) -> String {
    std::env::var(name).unwrap_or_default()
}

/// Whether the server is redis-server 7.0, which lacks what came later.
pub fn is_reference() -> bool {
    variable("ALMANDINE_REFERENCE") == "1"
}

fn client(protocol: &str) -> Client {
    let client = Client::open(format!("redis://127.0.0.1:{}/?protocol={protocol}", variable("ALMANDINE_PORT"))).expect("a URL");
    let mut connection = client.get_connection().expect("a server");
    cmd("FLUSHALL").exec(&mut connection).expect("an empty server");
    client
}

impl Run {
    pub fn synchronous(&mut self, protocol: &str, name: &str, case: fn(&Client) -> RedisResult<()>) {
        let client = client(protocol);
        let outcome = catch_unwind(AssertUnwindSafe(|| case(&client)));
        self.count(protocol, name, outcome);
    }

    pub async fn one(&mut self, protocol: &str, name: &str, case: impl AsyncFn(MultiplexedConnection, &Client) -> RedisResult<()>) {
        let client = client(protocol);
        let connection = client.get_multiplexed_async_connection().await.expect("a server");
        let outcome = AssertUnwindSafe(case(connection, &client)).catch_unwind().await;
        self.count(protocol, name, outcome);
    }

    fn count(&mut self, protocol: &str, name: &str, outcome: std::thread::Result<RedisResult<()>>) {
        match outcome {
            Ok(Ok(())) => {
                self.passed += 1;
                println!("ok: {name}, {protocol}");
            }
            Ok(Err(error)) => {
                self.failed += 1;
                println!("FAILED: {name}, {protocol}\n    {error}");
            }
            // The panic has said why.
            Err(_) => {
                self.failed += 1;
                println!("FAILED: {name}, {protocol}");
            }
        }
    }

    pub fn end(self) {
        println!("{} passed, {} failed", self.passed, self.failed);
        std::process::exit(i32::from(self.failed > 0));
    }
}

#[track_caller]
pub fn equal<T: PartialEq + Debug>(actual: T, expected: T) {
    assert!(actual == expected, "expected {expected:?}, got {actual:?}");
}

#[track_caller]
pub fn holds(condition: bool, what: &str) {
    assert!(condition, "{what}");
}
