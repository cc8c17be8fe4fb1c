//! Scripts that are suspended, beside clients that change what they have read, wait for what they push, and kill them.

use std::time::Duration;

use almandine_testkit::promises::suspended;
use almandine_testkit::{Program, Server, full};

#[test]
fn suspended_scripts_see_one_moment_and_are_killed_whole() {
    for workers in ["1", "3"] {
        let server = Server::start(&Program::Almandine, &["--workers", workers, "--busy-reply-threshold", "4"]);
        let duration = Duration::from_secs(if full() { 60 } else { 2 });
        let report = suspended::hold(&server.address(), duration, 500_000, 1);
        println!("{workers} workers: {report:?}");
        assert!(report.returned > 0, "{report:?}");
    }
}
