//! What is promised to waiters where several keys, or several hand-overs, come together: no other client takes an element while the
//! destination of its waiter is read from the device, waiters that are served together are answered together, and sessions that
//! serve waiters of each other's keys come to an end.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use super::{PATIENCE, await_blocked, connect, last_of, send};
use crate::runtime::{Joiner, Stream};
use crate::{Client, Random, Runtime, Value, storage};

/// Keys of a circle, and circles that are used by turns.
const KEYS: usize = 4;
const CIRCLES: usize = 8;
/// Clients that wait for one key.
const WAITERS: usize = 60;
/// Groups of keys that are served at once.
const GROUPS: usize = 3;

/// A new client that waits.
fn waiting<R: Runtime>(runtime: &R, line: &str) -> Client<R::Stream> {
    let mut client = connect(runtime);
    send(&mut client, line);
    client
}

fn bulk(text: &str) -> Value {
    Value::Bulk(text.as_bytes().to_vec())
}

/// Units of work that serve two waiters, one of them by a move, in several groups at once. How often a client
/// was answered before the move was made.
///
/// # Panics
/// When some still wait at the end.
pub fn served_together<R: Runtime>(runtime: &R, rounds: usize) -> usize {
    let mut control = connect(runtime);
    let crowd = |line: &dyn Fn(usize, usize) -> String| -> Vec<Vec<Client<R::Stream>>> {
        (0..GROUPS).map(|group| (0..rounds).map(|round| waiting(runtime, &line(group, round))).collect()).collect()
    };
    let hearers = crowd(&|group, round| format!("BLPOP heard:{group}:{round} 0"));
    let movers = crowd(&|group, round| format!("BLMOVE from:{group}:{round} to:{group}:{round} LEFT LEFT 0"));
    await_blocked(runtime, &mut control, (2 * GROUPS * rounds) as u64);
    let early = Arc::new(AtomicUsize::new(0));
    // The groups begin together.
    let begin_ns = runtime.now_ns() + 20_000_000;
    let mut threads: Vec<Joiner<()>> = Vec::new();
    for (group, (hearers, movers)) in hearers.into_iter().zip(movers).enumerate() {
        let look = |early: &Arc<AtomicUsize>| {
            let (mut client, early) = (connect(runtime), Arc::clone(early));
            move |round: usize| {
                let moved = client.line(&format!("LLEN to:{group}:{round}"));
                early.fetch_add(usize::from(moved != Value::Integer(1)), Ordering::Relaxed);
            }
        };
        let (mut heard, mut pushed) = (look(&early), look(&early));
        let hear = move || {
            for (round, mut hearer) in hearers.into_iter().enumerate() {
                hearer.receive().expect("what it has waited for");
                heard(round);
            }
        };
        threads.push(runtime.spawn(&format!("hearers-{group}"), hear));
        let (mut pusher, own) = (connect(runtime), runtime.clone());
        let push = move || {
            own.sleep(Duration::from_nanos(begin_ns.saturating_sub(own.now_ns())));
            for round in 0..rounds {
                let pushes = [format!("RPUSH heard:{group}:{round} 1"), format!("RPUSH from:{group}:{round} 2")];
                last_of(&mut pusher, &["MULTI", &pushes[0], &pushes[1], "EXEC"]);
                pushed(round);
            }
            for mut mover in movers {
                assert_eq!(mover.receive().expect("what became of it"), bulk("2"));
            }
        };
        threads.push(runtime.spawn(&format!("pusher-{group}"), push));
    }
    threads.into_iter().for_each(Joiner::join);
    early.load(Ordering::Relaxed)
}

/// CLIENT UNBLOCK of many that wait for one key, while another client pushes an element for each of them: by turns of the one that
/// has waited longest and of the one that has not. How often one was unblocked after an answer which said of another one that it
/// waits no more, so that all had been served.
///
/// # Panics
/// When some still wait at the end of a round.
pub fn unblocked_while_served<R: Runtime>(runtime: &R, rounds: usize) -> usize {
    let (mut control, mut pusher) = (connect(runtime), connect(runtime));
    let mut waiters: Vec<Client<R::Stream>> = (0..WAITERS).map(|_| connect(runtime)).collect();
    let ids: Vec<Value> = waiters.iter_mut().map(|waiter| waiter.line("CLIENT ID")).collect();
    let by_turns = (0..WAITERS).map(|turn| if turn % 2 == 0 { turn / 2 } else { WAITERS - 1 - turn / 2 });
    let unblock = |number: usize| match &ids[number] {
        Value::Integer(id) => format!("CLIENT UNBLOCK {id}"),
        other => panic!("no number of a client: {other:?}"),
    };
    let unblock: Vec<String> = by_turns.map(unblock).collect();
    let push = format!("RPUSH queue{}", " 1".repeat(WAITERS));
    let mut random = Random::new(rounds as u64);
    let mut late = 0;
    for _ in 0..rounds {
        for waiter in &mut waiters {
            send(waiter, "BLPOP queue 0");
        }
        await_blocked(runtime, &mut control, WAITERS as u64);
        let pause = Duration::from_micros(random.below(150) as u64);
        let (own, line) = (runtime.clone(), push.clone());
        let pushes = runtime.spawn("pusher", move || {
            own.sleep(pause);
            pusher.line(&line);
            pusher
        });
        unblock.iter().for_each(|line| send(&mut control, line));
        let answers = unblock.iter().map(|_| control.receive().expect("whether it has waited"));
        let behind = answers.skip_while(|answer| *answer == Value::Integer(1));
        late += behind.filter(|answer| *answer == Value::Integer(1)).count();
        for waiter in &mut waiters {
            waiter.receive().expect("what became of it");
        }
        pusher = pushes.join();
        control.line("DEL queue");
    }
    late
}

/// Transactions that read the destination of the move that they cause, beside others that push there. How often one of these
/// came between.
///
/// # Panics
/// When one still waits at the end.
pub fn reads_and_moves<R: Runtime>(runtime: &R, rounds: usize) -> usize {
    let stop = Arc::new(AtomicBool::new(false));
    let rivals: Vec<Joiner<()>> = (0..3)
        .map(|number| {
            let (mut rival, stop) = (connect(runtime), Arc::clone(&stop));
            let push = move || {
                while !stop.load(Ordering::Relaxed) {
                    rival.line("RPUSH end other");
                }
            };
            runtime.spawn(&format!("rival-{number}"), push)
        })
        .collect();
    let (mut pusher, mut control, mut waiter) = (connect(runtime), connect(runtime), connect(runtime));
    let mut between = 0;
    for round in 0..rounds {
        control.line("DEL end");
        send(&mut waiter, "BLMOVE source end LEFT RIGHT 0");
        await_blocked(runtime, &mut control, 1);
        let reply = last_of(&mut pusher, &["MULTI", "LLEN end", &format!("RPUSH source {round}"), "EXEC"]);
        let len = reply.elements().and_then(|replies| replies[0].integer()).expect("a length");
        let moved = pusher.line(&format!("LINDEX end {len}"));
        between += usize::from(moved != bulk(&round.to_string()));
        assert_eq!(waiter.receive().expect("what became of it"), bulk(&round.to_string()));
    }
    stop.store(true, Ordering::Relaxed);
    rivals.into_iter().for_each(Joiner::join);
    between
}

/// Waiters move elements in circles over a few keys, into which several clients push at once: sessions that
/// serve need each other's latches, and those of clients that latch the same keys together. All are served, no element is lost or
/// doubled.
///
/// # Panics
/// When it is otherwise.
pub fn move_in_circles<R: Runtime>(runtime: &R, seed: u64, rounds: usize) {
    let stop = Arc::new(AtomicBool::new(false));
    let mut random = Random::new(seed);
    let planners: Vec<Joiner<()>> = (0..2).map(|number| plan(runtime, number, &stop)).collect();
    let mut control = connect(runtime);
    for round in 0..rounds {
        // Other names in each round, so that the numbers of their buckets are in another order.
        let key = |number: usize| format!("circle:{}:{}", round % CIRCLES, number % KEYS);
        let step = 1 + random.below(KEYS - 1);
        let movers: Vec<Client<R::Stream>> = (0..KEYS)
            .map(|number| waiting(runtime, &format!("BLMOVE {} {} LEFT RIGHT 0", key(number), key(number + step))))
            .collect();
        // One that is served beside each move, whose key no session has latched for another's sake.
        let hearers: Vec<Client<R::Stream>> =
            (0..KEYS).map(|number| waiting(runtime, &format!("BLPOP beside:{round}:{number} 0"))).collect();
        await_blocked(runtime, &mut control, 2 * KEYS as u64);
        let pushers: Vec<Joiner<()>> = (0..KEYS)
            .map(|number| {
                let mut client = connect(runtime);
                let pushes = [format!("RPUSH {} {number}", key(number)), format!("RPUSH beside:{round}:{number} {number}")];
                let push = move || {
                    let reply = last_of(&mut client, &["MULTI", &pushes[0], &pushes[1], "EXEC"]);
                    assert_eq!(reply.elements().map(<[Value]>::len), Some(2), "{reply}");
                };
                runtime.spawn(&format!("pusher-{number}"), push)
            })
            .collect();
        pushers.into_iter().for_each(Joiner::join);
        let mut moved: Vec<String> = movers.into_iter().map(|mut mover| answer(&mut mover)).collect();
        hearers.into_iter().for_each(|mut hearer| drop(answer(&mut hearer)));
        moved.sort_unstable();
        // Each waiter takes one element, which it moves on; one may be moved more than once.
        assert_eq!(moved.len(), KEYS, "round {round}");
        let mut left: Vec<String> = (0..KEYS)
            .flat_map(|number| {
                let list = control.line(&format!("LRANGE {} 0 -1", key(number)));
                list.elements().expect("a list").iter().map(ToString::to_string).collect::<Vec<_>>()
            })
            .collect();
        left.sort_unstable();
        let pushed: Vec<String> = (0..KEYS).map(|number| bulk(&number.to_string()).to_string()).collect();
        assert_eq!(left, pushed, "round {round}: what is in the lists");
        (0..KEYS).for_each(|number| drop(control.line(&format!("DEL {}", key(number)))));
    }
    stop.store(true, Ordering::Relaxed);
    planners.into_iter().for_each(Joiner::join);
}

/// A client that latches the keys of all rounds together, in a transaction that changes nothing.
fn plan<R: Runtime>(runtime: &R, number: usize, stop: &Arc<AtomicBool>) -> Joiner<()> {
    let (mut client, stop) = (connect(runtime), Arc::clone(stop));
    let persist = move || {
        let mut round = 0_usize;
        while !stop.load(Ordering::Relaxed) {
            let keys = (0..KEYS).map(|key| format!("PERSIST circle:{}:{key}", round % CIRCLES));
            let lines: Vec<String> = ["MULTI".to_owned()].into_iter().chain(keys).chain(["EXEC".to_owned()]).collect();
            last_of(&mut client, &lines.iter().map(String::as_str).collect::<Vec<_>>());
            round += 1;
        }
    };
    runtime.spawn(&format!("planner-{number}"), persist)
}

/// What a waiter was given.
fn answer<S: Stream>(client: &mut Client<S>) -> String {
    client.receive().unwrap_or_else(|e| panic!("a waiter was not served within {PATIENCE:?}: {e}")).to_string()
}

/// Lets a client move an element from `source` to the destination of a chain whose last key is on the device, beside others that
/// would take it. How many elements these got.
///
/// # Errors
/// When an element is not where it must be.
///
/// # Panics
/// When the server does not answer.
pub fn moves_to_cold_keys<R: Runtime>(runtime: &R, rounds: usize) -> Result<usize, String> {
    let (stop, stolen) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let rivals: Vec<Joiner<()>> = ["source", "source", "middle"]
        .into_iter()
        .map(|key| {
            let (mut rival, stop, stolen) = (connect(runtime), Arc::clone(&stop), Arc::clone(&stolen));
            let steal = move || {
                while !stop.load(Ordering::Relaxed) {
                    stolen.fetch_add(usize::from(!rival.line(&format!("LPOP {key}")).is_null()), Ordering::Relaxed);
                }
            };
            runtime.spawn("rival", steal)
        })
        .collect();
    let moved = rounds_of_moves(runtime, rounds, &stolen);
    stop.store(true, Ordering::Relaxed);
    rivals.into_iter().for_each(Joiner::join);
    moved.map(|()| stolen.load(Ordering::Relaxed))
}

fn rounds_of_moves<R: Runtime>(runtime: &R, rounds: usize, stolen: &AtomicUsize) -> Result<(), String> {
    let (mut pusher, mut control) = (connect(runtime), connect(runtime));
    let mut waiters = [connect(runtime), connect(runtime)];
    for round in 0..rounds {
        control.line("DEL end");
        control.line("RPUSH end first");
        let is_chain = round % 2 == 1;
        let steps: &[&str] = if is_chain { &["source middle", "middle end"] } else { &["source end"] };
        for (waiter, step) in waiters.iter_mut().zip(steps) {
            send(waiter, &format!("BLMOVE {step} LEFT RIGHT 0"));
        }
        await_blocked(runtime, &mut control, steps.len() as u64);
        if !storage::make_cold(&mut control) {
            return Err("nothing became cold".to_owned());
        }
        fill(&mut pusher, round / 2, round);
        if stolen.load(Ordering::Relaxed) > 0 {
            return Ok(());
        }
        let expected = Value::Array(vec![bulk("first"), bulk(&round.to_string())]);
        let found = pusher.line("LRANGE end 0 -1");
        if found != expected {
            return Err(format!("round {round}: the list at the end of the way has {found}"));
        }
        for waiter in &mut waiters[..steps.len()] {
            let served = waiter.receive().map_err(|e| format!("round {round}: {e}"))?;
            if served != bulk(&round.to_string()) {
                return Err(format!("round {round}: a waiter was given {served}"));
            }
        }
    }
    Ok(())
}

/// Fills `source` with one element, by one of all ways that a list comes to its key.
fn fill<S: Stream>(client: &mut Client<S>, way: usize, element: usize) {
    let staged = format!("RPUSH staged {element}");
    let lines: &[&str] = match way % 8 {
        0 => &[&format!("RPUSH source {element}")],
        1 => &["MULTI", "SET beside 1", &format!("LPUSH source {element}"), "EXEC"],
        2 => &[&staged, "RENAME staged source"],
        3 => &[&staged, "LMOVE staged source LEFT RIGHT"],
        4 => &[&staged, "COPY staged source", "DEL staged"],
        5 => &[&staged, "SORT staged STORE source", "DEL staged"],
        6 => &["SELECT 1", &format!("RPUSH source {element}"), "MOVE source 0", "SELECT 0"],
        _ => &["MULTI", &staged, "RENAME staged source", "EXEC"],
    };
    for line in lines {
        let reply = client.line(line);
        assert!(!reply.is_error() && (*line != "EXEC" || reply.elements().map(<[Value]>::len) == Some(2)), "{line}: {reply}");
    }
}
