//! What is promised to waiters where several keys, or several hand-overs, come together: no other client takes an element while
//! the destination of its waiter is read from the device, and waiters that are served together are answered together.
//! `ALMANDINE_TEST_FULL=1` runs many times as long.

use std::sync::Mutex;

use almandine_testkit::promises::moves::{
    move_in_circles, moves_to_cold_keys, reads_and_moves, served_together, unblocked_while_served,
};
use almandine_testkit::{Program, Server, full, mutants, seed};

/// One at a time: each takes the whole machine.
static ALONE: Mutex<()> = Mutex::new(());

fn alone() -> impl Drop {
    ALONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// A server, which leaves out the step that is named.
fn start(flags: &[&str], fault: &str) -> Server {
    let flags = [&["--workers", "4"], flags].concat();
    if fault.is_empty() { Server::start(&Program::Almandine, &flags) } else { mutants::start(fault, &flags) }
}

/// A step that is left out breaks the promise in one of ten tries: each counts how often.
fn must_notice(fault: &str, breaches: impl Fn() -> usize) {
    let noticed = (0..10).map(|_| breaches()).find(|breaches| *breaches > 0);
    println!("blocking, {fault}: {} breaches", noticed.unwrap_or(0));
    assert!(noticed.is_some(), "{fault} was not noticed");
}

const COLD: &[&str] = &["--enable-debug-command", "yes", "--maxmemory", "16mb", "--storage-dir", "{dir}/s"];

/// INV-BLOCK-1, where a waiter needs a record from the device.
#[test]
fn nobody_takes_an_element_while_its_destination_is_read() {
    let _alone = alone();
    let server = start(COLD, "");
    let rounds = if full() { 4_000 } else { 320 };
    assert_eq!(moves_to_cold_keys(&server.address(), rounds), Ok(0), "elements went to others\nserver log:\n{}", server.log());
}

#[test]
fn a_destination_that_is_not_secured_is_noticed() {
    let _alone = alone();
    let server = start(COLD, "SecureDestinations");
    let outcome = moves_to_cold_keys(&server.address(), 2_000);
    println!("blocking, SecureDestinations: {outcome:?}");
    assert!(outcome != Ok(0), "it was not noticed");
}

/// A client that has received its share, or has pushed, sees the shares of the others, whichever worker has served them.
#[test]
fn who_is_served_together_is_answered_together() {
    let _alone = alone();
    for fault in ["", "MoveAtOnce"] {
        assert_eq!(
            served_together(&start(&[], fault).address(), if full() { 1_000 } else { 150 }),
            0,
            "answered too early {fault}"
        );
    }
}

#[test]
fn an_answer_before_the_rest_is_served_is_noticed() {
    let _alone = alone();
    let server = start(&[], "AwaitServer,MoveAtOnce");
    must_notice("AwaitServer", || served_together(&server.address(), 150));
}

/// INV-BLOCK-3: an answer of CLIENT UNBLOCK does not show a part of the unit of work that serves.
#[test]
fn nobody_is_unblocked_behind_an_answer_that_shows_its_element() {
    let _alone = alone();
    let server = start(&[], "");
    assert_eq!(unblocked_while_served(&server.address(), if full() { 5_000 } else { 200 }), 0, "unblocked beside elements");
}

#[test]
fn an_answer_that_shows_a_part_of_a_unit_is_noticed() {
    let _alone = alone();
    let server = start(&[], "ShowServed");
    must_notice("ShowServed", || unblocked_while_served(&server.address(), 200));
}

/// A transaction reads what the waiters that it serves change, with no other client between.
#[test]
fn a_transaction_and_the_move_that_it_causes_are_one_step() {
    let _alone = alone();
    assert_eq!(reads_and_moves(&start(&[], "").address(), if full() { 20_000 } else { 1_000 }), 0, "others came between");
}

#[test]
fn what_comes_between_a_transaction_and_its_move_is_noticed() {
    let _alone = alone();
    let server = start(&[], "HoldForWaiters");
    must_notice("HoldForWaiters", || reads_and_moves(&server.address(), 500));
}

/// INV-LATCH-3: sessions that serve waiters of each other's keys, beside others that latch the same keys, come to an end.
#[test]
fn moves_in_circles_end() {
    let _alone = alone();
    move_in_circles(&start(&[], "").address(), seed(), if full() { 10_000 } else { 300 });
}
