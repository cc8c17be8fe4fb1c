//! What is promised to waiters where several keys, or several hand-overs, come together: no other client takes an element while
//! the destination of its waiter is read from the device, and waiters that are served together are answered together.
//! `ALMANDINE_TEST_FULL=1` runs many times as long.

use std::sync::Barrier;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use almandine_testkit::blocking::crowd::{Outcome, Waiter, await_blocked, gather};
use almandine_testkit::{Client, Program, Server, Value, full, mutants};

/// One at a time: each takes the whole machine.
static ALONE: Mutex<()> = Mutex::new(());
const PATIENCE: Duration = Duration::from_secs(10);

fn alone() -> impl Drop {
    ALONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// A server, which leaves out the step that is named.
fn start(flags: &[&str], fault: &str) -> Server {
    let flags = [&["--workers", "4"], flags].concat();
    if fault.is_empty() { Server::start(&Program::Almandine, &flags) } else { mutants::start(fault, &flags) }
}

/// Fills `source` with one element, by one of all ways that a list comes to its key.
fn fill(client: &mut Client, way: usize, element: usize) {
    match way % 8 {
        0 => drop(client.line(&format!("RPUSH source {element}"))),
        1 => {
            client.line("MULTI");
            client.line("SET beside 1");
            client.line(&format!("LPUSH source {element}"));
            assert_eq!(client.line("EXEC").elements().map(<[Value]>::len), Some(2));
        }
        2 => {
            client.line(&format!("RPUSH staged {element}"));
            client.line("RENAME staged source");
        }
        3 => {
            client.line(&format!("RPUSH staged {element}"));
            client.line("LMOVE staged source LEFT RIGHT");
        }
        4 => {
            client.line(&format!("RPUSH staged {element}"));
            client.line("COPY staged source");
            client.line("DEL staged");
        }
        5 => {
            client.line(&format!("RPUSH staged {element}"));
            client.line("SORT staged STORE source");
            client.line("DEL staged");
        }
        6 => {
            client.line("SELECT 1");
            client.line(&format!("RPUSH source {element}"));
            client.line("MOVE source 0");
            client.line("SELECT 0");
        }
        _ => {
            client.line("MULTI");
            client.line(&format!("RPUSH staged {element}"));
            client.line("RENAME staged source");
            assert_eq!(client.line("EXEC").elements().map(<[Value]>::len), Some(2));
        }
    }
}

/// Lets a client move an element from `source` to the destination of a chain whose last key is on the device, beside others
/// that would take it. How many elements these got.
fn moves_to_cold_keys(server: &Server, rounds: usize) -> Result<usize, String> {
    let (stop, stolen) = (AtomicBool::new(false), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for key in ["source", "source", "middle"] {
            let (mut rival, stop, stolen) = (server.client(), &stop, &stolen);
            scope.spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    stolen.fetch_add(usize::from(!rival.line(&format!("LPOP {key}")).is_null()), Ordering::Relaxed);
                }
            });
        }
        let moved = rounds_of_moves(server, rounds, &stolen);
        stop.store(true, Ordering::Relaxed);
        moved
    })?;
    Ok(stolen.into_inner())
}

fn rounds_of_moves(server: &Server, rounds: usize, stolen: &AtomicUsize) -> Result<(), String> {
    let (mut pusher, mut control) = (server.client(), server.client());
    let mut waiters: Vec<Waiter> = (0..2).map(|wave| Waiter::connect(server.address(), 0, wave).expect("a connection")).collect();
    for round in 0..rounds {
        control.line("DEL end");
        control.line("RPUSH end first");
        waiters.iter_mut().for_each(|waiter| waiter.outcome = None);
        let is_chain = round % 2 == 1;
        let steps: &[&str] = if is_chain { &["source middle", "middle end"] } else { &["source end"] };
        for (waiter, step) in waiters.iter_mut().zip(steps) {
            waiter.wait(&format!("BLMOVE {step} LEFT RIGHT 0")).expect("a command is sent");
        }
        await_blocked(&mut control, steps.len()).expect("all wait");
        if !server.make_cold() {
            return Err("nothing became cold".to_owned());
        }
        fill(&mut pusher, round / 2, round);
        if stolen.load(Ordering::Relaxed) > 0 {
            return Ok(());
        }
        let expected = Value::Array(vec![Value::Bulk(b"first".to_vec()), Value::Bulk(round.to_string().into_bytes())]);
        let found = pusher.line("LRANGE end 0 -1");
        if found != expected {
            return Err(format!("round {round}: the list at the end of the way has {found}"));
        }
        let waiters = &mut waiters[..steps.len()];
        let left = gather(waiters, 0, PATIENCE).map_err(|e| e.to_string())?;
        let is_served = |waiter: &Waiter| matches!(&waiter.outcome, Some((Outcome::Served(own), _)) if *own == [round as u64]);
        if left > 0 || !waiters.iter().all(is_served) {
            return Err(format!("round {round}: {:?}", waiters.iter().map(|waiter| &waiter.outcome).collect::<Vec<_>>()));
        }
    }
    Ok(())
}

const COLD: &[&str] = &["--enable-debug-command", "yes", "--maxmemory", "16mb", "--storage-dir", "{dir}/s"];

/// INV-BLOCK-1, where a waiter needs a record from the device.
#[test]
fn nobody_takes_an_element_while_its_destination_is_read() {
    let _alone = alone();
    let server = start(COLD, "");
    let rounds = if full() { 4_000 } else { 320 };
    assert_eq!(moves_to_cold_keys(&server, rounds), Ok(0), "elements went to others\nserver log:\n{}", server.log());
}

#[test]
fn a_destination_that_is_not_secured_is_noticed() {
    let _alone = alone();
    let server = start(COLD, "SecureDestinations");
    let outcome = moves_to_cold_keys(&server, 2_000);
    println!("blocking, SecureDestinations: {outcome:?}");
    assert!(outcome != Ok(0), "it was not noticed");
}

const GROUPS: usize = 3;

/// Units of work that serve two waiters, one of them by a move, in several groups at once. How often a client was answered
/// before the move was made.
fn served_together(server: &Server, rounds: usize) -> usize {
    let mut control = server.client();
    let connect = |line: String| {
        let mut waiter = Waiter::connect(server.address(), 0, 0).expect("a connection");
        waiter.wait(&line).expect("a command is sent");
        waiter
    };
    let of_group = |group: usize| {
        let hearers = (0..rounds).map(|round| connect(format!("BLPOP heard:{group}:{round} 0"))).collect::<Vec<_>>();
        let movers = (0..rounds).map(|round| connect(format!("BLMOVE from:{group}:{round} to:{group}:{round} LEFT LEFT 0")));
        (hearers, movers.collect::<Vec<_>>())
    };
    let groups: Vec<(Vec<Waiter>, Vec<Waiter>)> = (0..GROUPS).map(of_group).collect();
    await_blocked(&mut control, 2 * GROUPS * rounds).expect("all wait");
    let (early, barrier) = (AtomicUsize::new(0), Barrier::new(GROUPS));
    let look = |client: &mut Client, group: usize, round: usize| {
        let moved = client.line(&format!("LLEN to:{group}:{round}"));
        early.fetch_add(usize::from(moved != Value::Integer(1)), Ordering::Relaxed);
    };
    std::thread::scope(|scope| {
        for (group, (mut hearers, mut movers)) in groups.into_iter().enumerate() {
            let (mut pusher, mut looker, barrier, look) = (server.client(), server.client(), &barrier, &look);
            scope.spawn(move || {
                for (round, hearer) in hearers.iter_mut().enumerate() {
                    hearer.client().receive().expect("what it has waited for");
                    look(&mut looker, group, round);
                }
            });
            scope.spawn(move || {
                barrier.wait();
                for round in 0..rounds {
                    let line = |line: String| line.split(' ').map(str::to_owned).collect::<Vec<_>>();
                    let commands = [
                        line("MULTI".to_owned()),
                        line(format!("RPUSH heard:{group}:{round} 1")),
                        line(format!("RPUSH from:{group}:{round} 2")),
                        line("EXEC".to_owned()),
                    ];
                    pusher.pipeline(&commands).expect("replies");
                    look(&mut pusher, group, round);
                }
                assert_eq!(gather(&mut movers, 0, PATIENCE).expect("what became of them"), 0, "some still wait");
            });
        }
    });
    early.into_inner()
}

/// A client that has received its share, or has pushed, sees the shares of the others, whichever worker has served them.
#[test]
fn who_is_served_together_is_answered_together() {
    let _alone = alone();
    for fault in ["", "MoveAtOnce"] {
        assert_eq!(served_together(&start(&[], fault), if full() { 1_000 } else { 150 }), 0, "answered too early {fault}");
    }
}

#[test]
fn an_answer_before_the_rest_is_served_is_noticed() {
    let _alone = alone();
    let server = start(&[], "AwaitServer,MoveAtOnce");
    let early = served_together(&server, 150);
    println!("blocking, AwaitServer: {early} answers came too early");
    assert!(early > 0, "it was not noticed");
}

/// Transactions that read the destination of the move that they cause, beside others that push there. How often one of these
/// came between.
fn reads_and_moves(server: &Server, rounds: usize) -> usize {
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..3 {
            let (mut rival, stop) = (server.client(), &stop);
            scope.spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    rival.line("RPUSH end other");
                }
            });
        }
        let (mut pusher, mut control) = (server.client(), server.client());
        let mut waiter = [Waiter::connect(server.address(), 0, 0).expect("a connection")];
        let mut between = 0;
        for round in 0..rounds {
            control.line("DEL end");
            waiter[0].outcome = None;
            waiter[0].wait("BLMOVE source end LEFT RIGHT 0").expect("a command is sent");
            await_blocked(&mut control, 1).expect("it waits");
            let commands = ["MULTI", "LLEN end", &format!("RPUSH source {round}"), "EXEC"]
                .map(|line| line.split(' ').map(str::to_owned).collect::<Vec<_>>());
            let replies = pusher.pipeline(&commands).expect("replies");
            let len = replies[3].elements().and_then(|replies| replies[0].integer()).expect("a length");
            let moved = pusher.line(&format!("LINDEX end {len}"));
            between += usize::from(moved != Value::Bulk(round.to_string().into_bytes()));
            assert_eq!(gather(&mut waiter, 0, PATIENCE).expect("what became of it"), 0, "it still waits");
        }
        stop.store(true, Ordering::Relaxed);
        between
    })
}

/// A transaction reads what the waiters that it serves change, with no other client between.
#[test]
fn a_transaction_and_the_move_that_it_causes_are_one_step() {
    let _alone = alone();
    assert_eq!(reads_and_moves(&start(&[], ""), if full() { 20_000 } else { 1_000 }), 0, "others came between");
}

#[test]
fn what_comes_between_a_transaction_and_its_move_is_noticed() {
    let _alone = alone();
    let server = start(&[], "HoldForWaiters");
    let between = (0..10).map(|_| reads_and_moves(&server, 500)).find(|between| *between > 0);
    println!("blocking, HoldForWaiters: {} came between", between.unwrap_or(0));
    assert!(between.is_some(), "it was not noticed");
}
