//! What was acknowledged is there behind a kill.

use std::panic::{AssertUnwindSafe, catch_unwind};

use super::writers::{Writer, beside_writers, check};
use super::*;

/// Data of ten times the memory, in three databases, with keys that expire, hashes and large values; the log is turned on beside
/// writers, and off and on again.
#[test]
fn all_that_was_acknowledged_is_there_behind_a_kill() {
    let mut server = start(&["--workers", "2"]);
    let mut writers = Writer::all(40_000);
    thread::scope(|scope| {
        for writer in &mut writers {
            let mut client = server.client();
            scope.spawn(move || writer.load(&mut client));
        }
    });
    assert!(number(&mut server.client(), "storage_device_bytes") > 140 << 20, "{}", server.client().line("INFO storage"));
    beside_writers(&mut server, &mut writers, |client| {
        turn_on(client);
        thread::sleep(Duration::from_millis(100));
    });
    server.start_again_with(&["--appendonly", "yes"]);
    check(&server, &mut writers, "the log was turned on");
    // What it has begun with is the base of a log as any other: it is written anew, turned off and on.
    beside_writers(&mut server, &mut writers, |client| {
        client.line("BGREWRITEAOF");
        thread::sleep(Duration::from_millis(300));
        set(client, "appendonly no");
        thread::sleep(Duration::from_millis(300));
        turn_on(client);
    });
    server.start_again();
    check(&server, &mut writers, "the log was turned off and on");
    beside_writers(&mut server, &mut writers, |client| {
        for round in 0..6 {
            set(client, "appendonly no");
            thread::sleep(Duration::from_millis(20 * round));
            set(client, "appendonly yes");
            thread::sleep(Duration::from_millis(30 * round));
        }
        await_base(client);
    });
    server.start_again();
    check(&server, &mut writers, "it was turned off and on all the time");
}

#[test]
fn a_kill_in_the_midst_leaves_all_or_a_refusal() {
    all_or_a_refusal("{dir}");
}

#[test]
fn a_kill_in_the_midst_leaves_all_or_a_refusal_where_rings_lie_with_the_log() {
    all_or_a_refusal("log");
}

/// Whenever a kill comes, either all is there, or the start is refused, because nothing but memory had it.
fn all_or_a_refusal(ring_dir: &str) {
    let mut server = start(&["--workers", "2", "--ring-dir", ring_dir]);
    let mut writers = Writer::all(5_000);
    let (mut refusals, mut starts) = (0, 0);
    let load = |server: &Server, writers: &mut [Writer]| writers.iter_mut().for_each(|writer| writer.load(&mut server.client()));
    load(&server, &mut writers);
    turn_on(&mut server.client());
    let [pages, _] = formats(&server);
    for round in 0..12u64 {
        beside_writers(&mut server, &mut writers, |client| {
            set(client, "appendonly no");
            thread::sleep(Duration::from_millis(round));
            set(client, "appendonly yes");
            match round % 3 {
                0 => thread::sleep(Duration::from_millis(round * 5)),
                // About the moment at which the first base is named.
                1 => while fs::read_to_string(&pages).is_ok_and(|text| text.contains("label whole")) {},
                _ => await_base(client),
            }
        });
        let before = server.log().len();
        match catch_unwind(AssertUnwindSafe(|| server.start_again_with(&["--appendonly", "yes"]))) {
            Ok(()) => {
                starts += 1;
                check(&server, &mut writers, "the log has begun");
            }
            Err(_) => {
                refusals += 1;
                assert_ne!(round % 3, 2, "it counts: {}", server.log());
                let refused = &server.log()[before..];
                assert!(refused.contains("holds nothing of"), "{refused}");
                server.start_again_with(&["--appendonly", "no"]);
                assert_eq!(server.client().line("DBSIZE"), Value::Integer(0));
                load(&server, &mut writers);
                turn_on(&mut server.client());
            }
        }
    }
    println!("{starts} starts, {refusals} refusals");
}
