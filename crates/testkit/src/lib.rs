//! Test tools: what proves, from outside the process, that the server behaves.
//!
//! **Is**: fixtures ([`server`], [`client`], [`redis`], [`s3`]), and ten proofs built on them: [`golden`] sessions, the
//! [`oracle`] (the same random commands to ours and to redis-server), the tables of [`effects`] (what redis-server tells,
//! counts and replicates), [`history`] (concurrent clients checked for linearizability), [`blocking`] (waiters are served in
//! the order of arrival), [`moving_head`] (writes to keys that are just leaving memory), [`field_times`] (expiring fields, by a
//! model), [`crash`] (kill -9 with a journal of what was acknowledged), [`hostile`] clients, and [`promises`] that a short scenario
//! shows to be kept.
//! **Is not**: part of the product. It links none of the server's crates, so that an error in a shared encoder cannot hide itself.
//! **Invariants**: no proof is skipped silently: a missing binary is a failure. Each checker has a mutant that it must catch.
//! **Start reading at**: [`server::Server`], then [`golden`].

pub mod blocking;
pub mod client;
pub mod crash;
pub mod effects;
pub mod field_times;
pub mod golden;
pub mod history;
pub mod hostile;
pub mod moving_head;
pub mod mutants;
pub mod oracle;
mod ports;
pub mod promises;
pub mod random;
pub mod redis;
pub mod runtime;
pub mod s3;
pub mod scripted;
pub mod server;
pub mod storage;
pub mod tls;
pub mod transactions;
pub mod users;
pub mod value;
pub mod witness;

pub use client::Client;
pub use random::Random;
pub use redis::{Redis, redis_server};
pub use runtime::Runtime;
pub use server::{Program, Server};
pub use value::Value;

/// Whether the heavy sets are wanted: `ALMANDINE_TEST_FULL=1`, which `cargo xtask test --full` sets.
#[must_use]
pub fn full() -> bool {
    std::env::var_os("ALMANDINE_TEST_FULL").is_some_and(|v| v == "1")
}

/// Makes an observation of times until it is as it should be, three times at most: a busy machine stops any thread for a moment
/// now and then.
///
/// Only for figures that the server gets wrong each time, as a duration that it logs. A breach that shows in half of the runs
/// passes here in 88 of 100: a test of an event that may be lost or late waits for the event, and fails without it.
///
/// # Panics
/// When none of them is, with what the last one was like.
pub fn timely<T>(observe: impl Fn() -> Result<T, String>) -> T {
    let mut last = String::new();
    for _ in 0..3 {
        match observe() {
            Ok(seen) => return seen,
            Err(report) => last = report,
        }
        println!("not in time: {last}");
    }
    panic!("not in time, three times: {last}");
}

/// The seed of random tests: `ALMANDINE_TEST_SEED`, else a fixed one, so that a plain run is repeatable.
///
/// # Panics
/// When the variable is not a number.
#[must_use]
pub fn seed() -> u64 {
    std::env::var("ALMANDINE_TEST_SEED").map_or(1, |s| s.parse().expect("ALMANDINE_TEST_SEED is a number"))
}
