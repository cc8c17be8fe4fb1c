//! Tests of turns: races are found and repeated, deadlocks and panics are told, time jumps.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use super::*;

const HOUR_NS: u64 = 3_600_000_000_000;

/// Runs a simulation of the threads that `body` starts.
fn simulate<T>(choices: Choices, schedule: Schedule, body: impl FnOnce(&Arc<Turn>) -> T) -> (T, Result<(), String>, Arc<Turn>) {
    let turn = Turn::new(choices, schedule);
    let value = body(&turn);
    let result = turn.run(HOUR_NS);
    turn.end_all();
    (value, result, turn)
}

/// Two threads that add one to a number, by a read and a write with a point between them; the sum.
fn race(choices: Choices, schedule: Schedule) -> (u64, Arc<Turn>) {
    let (number, result, turn) = simulate(choices, schedule, |turn| {
        let number = Arc::new(AtomicU64::new(0));
        for name in ["one", "two"] {
            let number = Arc::clone(&number);
            turn.spawn(name, 0, move || {
                let read = number.load(Ordering::Relaxed);
                point(Point::Inner("read"));
                number.store(read + 1, Ordering::Relaxed);
            });
        }
        number
    });
    result.unwrap();
    (number.load(Ordering::Relaxed), turn)
}

fn random() -> Schedule {
    Schedule { inner_per_million: 100_000, ..Schedule::default() }
}

#[test]
fn a_race_is_found_and_replayed_by_random_choice_and_by_priorities() {
    let pct = Schedule { policy: Policy::Pct { changes: 1, steps: 4 }, ..Schedule::default() };
    for schedule in [random(), pct] {
        let found = (0..100).find(|&seed| race(Choices::from_seed(seed), schedule.clone()).0 == 1);
        let seed = found.unwrap_or_else(|| panic!("not found by {schedule:?}"));
        let first = race(Choices::from_seed(seed), schedule.clone()).1;
        let (sum, again) = race(Choices::from_record(first.record()), schedule.clone());
        assert_eq!((sum, again.trace_hash()), (1, first.trace_hash()), "{schedule:?}");
        assert_eq!(again.trace_words(), first.trace_words());
        // Zeroes are harmless.
        assert_eq!(race(Choices::from_record(ChoiceRecord::default()), schedule).0, 2);
    }
    assert!((0..100).all(|seed| race(Choices::from_seed(seed), Schedule::default()).0 == 2), "no point is taken");
}

#[test]
fn the_same_seed_has_the_same_hash() {
    let hash = |seed| race(Choices::from_seed(seed), random()).1.trace_hash();
    assert!((0..20).all(|seed| hash(seed) == hash(seed)));
    assert_ne!(hash(1), hash(2));
}

#[test]
fn a_deadlock_is_told_by_names() {
    let ((), result, _) = simulate(Choices::from_seed(1), random(), |turn| {
        for (name, what) in [("left", "waits for the right one"), ("right", "waits for the left one")] {
            let condition = turn.condition();
            turn.spawn(name, 3, move || block(what, Some(condition), None));
        }
    });
    let expected = "deadlock: left of node 3: waits for the right one; right of node 3: waits for the left one";
    assert_eq!(result.unwrap_err(), expected);
}

#[test]
fn a_panic_ends_the_world_with_its_message() {
    let (reached, result, turn) = simulate(Choices::from_seed(1), random(), |turn| {
        let reached = Arc::new(AtomicU64::new(0));
        let other = Arc::clone(&reached);
        turn.spawn("other", 0, move || {
            sleep(2_000_000_000);
            other.store(1, Ordering::Relaxed);
        });
        turn.spawn("worker", 1, || {
            sleep(1_000_000_000);
            panic!("index {} is gone", 7);
        });
        reached
    });
    assert_eq!(result.unwrap_err(), "worker of node 1 panicked: index 7 is gone");
    assert_eq!(reached.load(Ordering::Relaxed), 0);
    assert!(turn.trace_words().contains("worker of node 1: has ended"), "{}", turn.trace_words());
}

#[test]
fn a_panic_of_an_event_ends_the_world_too() {
    let ((), result, _) = simulate(Choices::from_seed(1), random(), |turn| {
        turn.at(1_000, || panic!("the reply is wrong"));
        turn.spawn("worker", 0, || sleep(2_000_000));
    });
    assert_eq!(result.unwrap_err(), "an event panicked: the reply is wrong");
}

#[test]
fn waits_end_by_notice_or_by_time() {
    let (woken, result, turn) = simulate(Choices::from_seed(1), random(), |turn| {
        let (condition, woken) = (turn.condition(), Arc::new(Mutex::new(Vec::new())));
        for (name, until_ns) in [("short", Some(1_000_000)), ("long", Some(HOUR_NS / 2))] {
            let woken = Arc::clone(&woken);
            turn.spawn(name, 0, move || {
                let how = block("waits", Some(condition), until_ns);
                woken.lock().unwrap().push((name, how));
            });
        }
        turn.spawn("notifies", 0, move || {
            sleep(5_000_000);
            simulation().unwrap().notify_all(condition);
        });
        woken
    });
    result.unwrap();
    assert_eq!(*woken.lock().unwrap(), [("short", Some(Woken::Late)), ("long", Some(Woken::Notified))]);
    assert!(turn.now_ns() < 10_000_000, "the wait that was notified left its event: {}", turn.now_ns());
}

#[test]
fn a_starved_thread_runs_when_it_must() {
    // The busy thread yields for longer than a thread is starved.
    let run = |policy| {
        let ((begun_ns, _), result, _) = simulate(Choices::from_seed(1), Schedule { policy, ..random() }, |turn| {
            let (begun_ns, stop) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
            let (begun, stops) = (Arc::clone(&begun_ns), Arc::clone(&stop));
            turn.spawn("victim", 0, move || {
                begun.store(simulation().unwrap().now_ns(), Ordering::Relaxed);
                stops.store(1, Ordering::Relaxed);
            });
            let seen = Arc::clone(&stop);
            turn.spawn("busy", 0, move || {
                while seen.load(Ordering::Relaxed) == 0 {
                    sleep(500_000_000);
                    (0..10).for_each(|_| point(Point::Yield));
                }
            });
            let seen = Arc::clone(&stop);
            turn.spawn("spins", 0, move || {
                // Each slice costs at most 20 µs.
                while seen.load(Ordering::Relaxed) == 0 && simulation().unwrap().now_ns() < 20_000_000 {
                    point(Point::Yield);
                }
            });
            (begun_ns, stop)
        });
        result.unwrap();
        begun_ns.load(Ordering::Relaxed)
    };
    assert!(run(Policy::Random) < 1_000_000);
    assert!(run(Policy::Starve("victim".to_owned())) >= 20_000_000);
}

/// Two threads that look for what a third one does by many steps, and never wait, hold it up once and not for each step.
#[test]
fn a_thread_is_starved_no_longer_than_once() {
    let schedule = Schedule { policy: Policy::Starve("steps".to_owned()), ..Schedule::default() };
    let ((), result, turn) = simulate(Choices::from_seed(1), schedule, |turn| {
        let done = Arc::new(AtomicU64::new(0));
        for name in ["one looks", "the other looks"] {
            let done = Arc::clone(&done);
            turn.spawn(name, 0, move || {
                while done.load(Ordering::Relaxed) < 3 {
                    point(Point::Yield);
                }
            });
        }
        turn.spawn("steps", 0, move || {
            (0..3).for_each(|_| {
                point(Point::Yield);
                done.fetch_add(1, Ordering::Relaxed);
            });
        });
    });
    result.unwrap();
    assert!((STARVED_NS..STARVED_NS + 1_000_000_000).contains(&turn.now_ns()), "{}", turn.now_ns());
}

/// A thread that looks for what another one does, and never waits, holds nothing up under any policy.
#[test]
fn a_thread_that_does_not_wait_gives_way_in_the_end() {
    let pct = Policy::Pct { changes: 0, steps: 1_000 };
    for policy in [Policy::Random, pct, Policy::Starve("sets".to_owned())] {
        for seed in 0..10 {
            let schedule = Schedule { policy: policy.clone(), ..Schedule::default() };
            let ((), result, turn) = simulate(Choices::from_seed(seed), schedule, |turn| {
                let flag = Arc::new(AtomicU64::new(0));
                let sets = Arc::clone(&flag);
                turn.spawn("looks", 0, move || {
                    while flag.load(Ordering::Relaxed) == 0 {
                        point(Point::Inner("looks"));
                    }
                });
                turn.spawn("sets", 0, move || sets.store(1, Ordering::Relaxed));
            });
            result.unwrap();
            assert!(turn.now_ns() < 100_000_000, "{policy:?}, seed {seed}: {}", turn.now_ns());
        }
    }
}

#[test]
fn a_stalled_thread_loses_time() {
    let elapsed_ns = |stalls_per_million| {
        let ((), result, turn) = simulate(Choices::from_seed(1), Schedule { stalls_per_million, ..Schedule::default() }, |turn| {
            turn.spawn("worker", 0, || (0..100).for_each(|_| point(Point::Inner("step"))));
        });
        result.unwrap();
        turn.now_ns()
    };
    assert!(elapsed_ns(0) < 1_000_000);
    assert!(elapsed_ns(500_000) > 25_000_000);
}

/// Of several tries the fastest, because other processes may need the processor.
#[test]
fn an_idle_hour_takes_no_time() {
    let hour = || {
        let begin = Instant::now();
        let (_, result, turn) = simulate(Choices::from_seed(1), random(), |turn| {
            // The tick of a worker is 100 ms.
            turn.spawn("worker", 0, || (0..35_990).for_each(|_| sleep(100_000_000)));
        });
        result.unwrap();
        assert!(turn.now_ns() >= 3_599_000_000_000);
        begin.elapsed()
    };
    let fastest = (0..10).map(|_| hour()).min().unwrap();
    println!("{fastest:?}");
    assert!(fastest.as_millis() <= 50, "{fastest:?}");
}

/// Prints how often a second two threads hand the baton over; a limit that only a defect misses.
#[test]
fn the_baton_is_handed_over_fast() {
    const ROUNDS: u64 = 20_000;
    let begin = Instant::now();
    let (_, result, turn) = simulate(Choices::from_seed(1), Schedule::default(), |turn| {
        for name in ["one", "two"] {
            turn.spawn(name, 0, || (0..ROUNDS).for_each(|_| sleep(1_000_000)));
        }
    });
    result.unwrap();
    let per_second = turn.trace_hash().1 as f64 / begin.elapsed().as_secs_f64();
    println!("{per_second:.0} hand-overs a second");
    assert!(per_second > 10_000.0, "{per_second}");
}
