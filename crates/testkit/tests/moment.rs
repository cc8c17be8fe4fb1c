//! A snapshot is of one moment: what transactions keep equal is equal in it, though clients write all the while
//! (`promises::moment`).
//!
//! With `ALMANDINE_GOLDEN_SERVER=redis` the proof runs against redis-server.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use almandine_testkit::promises::moment;
use almandine_testkit::{Program, Server, Value, full, seed};

const CLIENTS: usize = 3;
/// Keys that only make the copy take its time.
const BALLAST: usize = 60_000;

fn program() -> Program {
    match std::env::var("ALMANDINE_GOLDEN_SERVER").as_deref() {
        Ok("redis") => Program::Redis,
        _ => Program::Almandine,
    }
}

#[test]
fn a_snapshot_beside_writers_is_of_one_moment() {
    let program = program();
    for round in 0..if full() { 30 } else { 3 } {
        let mut server = Server::start(&program, &["--dbfilename", "dump.rdb"]);
        let mut client = server.client();
        let ballast: Vec<Vec<String>> =
            (0..BALLAST).map(|key| vec!["SET".to_owned(), format!("ballast:{key}"), format!("value of {key}")]).collect();
        moment::prepare(&mut client, CLIENTS, 1).expect("a server that answers");
        for part in ballast.chunks(1000) {
            client.pipeline(part).expect("replies");
        }
        let (address, stop) = (server.address(), AtomicBool::new(false));
        let (done, looks) = thread::scope(|scope| {
            let stop = &stop;
            let transact = |number| scope.spawn(move || moment::transact(&address, number, seed(), stop));
            let writers: Vec<_> = (0..CLIENTS).map(transact).collect();
            let exchanger = scope.spawn(move || moment::exchange(&address, stop));
            let onlooker = scope.spawn(move || moment::look(&address, stop));
            thread::sleep(Duration::from_millis(150));
            assert!(moment::save(&address, &mut client), "the snapshot fails");
            thread::sleep(Duration::from_millis(50));
            stop.store(true, Ordering::Relaxed);
            exchanger.join().expect("it ends");
            let done: usize = writers.into_iter().map(|writer| writer.join().expect("it ends")).sum();
            (done, onlooker.join().expect("it ends"))
        });
        server.kill();
        server.start_again();
        let mut client = server.client();
        let kept = moment::check(&mut client, CLIENTS, (1, &looks)).unwrap().map_or(0, |found| found.count);
        let ballast = (0..BALLAST).step_by(997).map(|key| client.line(&format!("GET ballast:{key}")));
        assert!(ballast.into_iter().all(|value| value != Value::NullBulk), "what did not change is there");
        assert!(kept > 0 && kept < done, "round {round}: the snapshot has {kept} of {done} transactions");
    }
}

#[test]
fn what_a_killed_process_has_written_of_a_snapshot_is_removed_at_the_next_start() {
    let mut server = Server::start(&Program::Almandine, &[]);
    server.kill();
    // No process has this number.
    let unfinished = server.directory().join("temp-4194304.rdb");
    std::fs::write(&unfinished, "REDIS0011").expect("a file");
    server.start_again();
    assert!(!unfinished.exists() && server.log().contains("Removed 1 snapshots"), "{}", server.log());
}
