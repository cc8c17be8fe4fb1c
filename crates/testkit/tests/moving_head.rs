//! Writes around a moving head: nothing acknowledged is lost, nothing deleted returns. `ALMANDINE_GOLDEN_SERVER=redis` shows that
//! the test is fair.

use std::sync::Mutex;
use std::time::Duration;

use almandine_testkit::moving_head::{Settings, run};
use almandine_testkit::{Program, Server, full, seed};

/// One at a time: each takes the whole machine.
static ALONE: Mutex<()> = Mutex::new(());

fn races(workers: &str) {
    let _alone = ALONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let redis = std::env::var("ALMANDINE_GOLDEN_SERVER").is_ok_and(|s| s == "redis");
    let server = if redis {
        Server::start(&Program::Redis, &[])
    } else {
        Server::start(&Program::Almandine, &["--storage-dir", "{dir}/s", "--maxmemory", "64mb", "--workers", workers])
    };
    let duration = Duration::from_secs(if full() { 60 } else { 8 });
    let report = run(&server, Settings { pairs: 5, churn_bytes: 100_000_000, duration, seed: seed() });
    println!("moving head, {workers} workers: {report}");
    assert!(report.raced_keys > 10_000, "only {} keys were raced", report.raced_keys);
    assert_eq!(report.breaches(), 0, "{report}\nserver log:\n{}", server.log());
}

#[test]
fn nothing_is_lost_around_a_moving_head_with_two_workers() {
    races("2");
}

#[test]
fn nothing_is_lost_around_a_moving_head_with_four_workers() {
    races("4");
}
