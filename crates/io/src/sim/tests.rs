//! Tests of threads, locks, waits, clocks and entropy of the crate in a simulation.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use almandine_base::mutants::Mutant;
use almandine_base::points;

use super::choice::Choices;
use super::clock::WallClock;
use super::turn::{Policy, Schedule};
use super::world::{CrashKind, NodeId, World};
use crate::sync::{Condvar, Mutex, MutexGuard, RwLock, channel};
use crate::thread::{self, Waker};
use crate::{clock, entropy};

const SECOND_NS: u64 = 1_000_000_000;
const HOUR_NS: u64 = 3_600 * SECOND_NS;

fn busy() -> Schedule {
    Schedule { inner_per_million: 100_000, ..Schedule::default() }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs `body` in a thread of a node, in a world of this seed, for an hour at most. Its value, and the hash of the trace.
fn simulate<T: Send + 'static>(
    seed: u64,
    schedule: Schedule,
    body: impl FnOnce() -> T + Send + 'static,
) -> (Result<T, String>, (u64, u64)) {
    World::enter(Choices::from_seed(seed), schedule, |world| {
        let slot = Arc::new(Mutex::new(None));
        let theirs = Arc::clone(&slot);
        let node = world.node();
        let _ = world.spawn(node, "main", move || {
            let value = body();
            *lock(&theirs) = Some(value);
        });
        let value = world.run(HOUR_NS).and_then(|()| lock(&slot).take().ok_or_else(|| "it takes more than an hour".to_owned()));
        (value, world.turn().trace_hash())
    })
}

/// What is told when several threads work with all that this crate offers them.
fn work(told: &Arc<Mutex<Vec<String>>>) -> u64 {
    let begin_ns = clock::monotonic_ns();
    let (queue, queued) = (Arc::new(Mutex::new(Vec::new())), Arc::new(Condvar::new()));
    let sum = Arc::new(RwLock::new(0_u64));
    let takers: Vec<_> = (0..2)
        .map(|own| {
            let (queue, queued, sum, told) = (Arc::clone(&queue), Arc::clone(&queued), Arc::clone(&sum), Arc::clone(told));
            let body = move || {
                loop {
                    let jobs = queued.wait_while(lock(&queue), |jobs: &mut Vec<u64>| jobs.is_empty());
                    let job = jobs.unwrap().pop().unwrap();
                    if job == 0 {
                        return own;
                    }
                    let mut sum = sum.write().unwrap();
                    let read = *sum;
                    thread::sleep(Duration::from_millis(10));
                    *sum = read + job;
                    drop(sum);
                    lock(&told).push(format!("{own} has done {job}"));
                    thread::yield_now();
                }
            };
            thread::spawn(&format!("taker-{own}"), body).unwrap()
        })
        .collect();
    for job in 1..=10 {
        thread::sleep(Duration::from_secs(1));
        lock(&queue).push(job);
        queued.notify_one();
    }
    thread::sleep(Duration::from_secs(1));
    lock(&queue).extend([0, 0]);
    queued.notify_all();
    let ended: Vec<i32> = takers.into_iter().map(|taker| taker.join().unwrap()).collect();
    assert_eq!((ended, *sum.read().unwrap()), (vec![0, 1], 55));
    clock::monotonic_ns() - begin_ns
}

#[test]
fn threads_locks_and_waits_take_virtual_time_and_repeat_by_seed() {
    let run = |seed| {
        let told = Arc::<Mutex<Vec<String>>>::default();
        let theirs = Arc::clone(&told);
        let (elapsed_ns, hash) = simulate(seed, busy(), move || work(&theirs));
        let elapsed_ns = elapsed_ns.unwrap();
        assert!((11 * SECOND_NS..12 * SECOND_NS).contains(&elapsed_ns), "{elapsed_ns}");
        (std::mem::take(&mut *lock(&told)), hash)
    };
    let runs: Vec<_> = (0..20).map(run).collect();
    assert!(runs.iter().enumerate().all(|(seed, first)| run(seed as u64) == *first));
    assert!(runs.iter().any(|(told, _)| *told != runs[0].0), "no seed differs from another");
}

#[test]
fn a_lock_that_is_held_by_a_thread_that_waits_is_waited_for_in_virtual_time() {
    let (times_s, _) = simulate(1, busy(), || {
        let (mutex, held) = (Arc::new(Mutex::new(())), Arc::new(AtomicBool::new(false)));
        let (theirs, sees) = (Arc::clone(&mutex), Arc::clone(&held));
        let holder = thread::spawn("holder", move || {
            let _guard = lock(&theirs);
            sees.store(true, Relaxed);
            thread::sleep(Duration::from_secs(5));
        });
        while !held.load(Relaxed) {
            thread::yield_now();
        }
        assert!(mutex.try_lock().is_err());
        drop(lock(&mutex));
        let locked_s = clock::monotonic_ns() / SECOND_NS;
        holder.unwrap().join().unwrap();
        locked_s
    });
    assert_eq!(times_s.unwrap(), 1 + 5);
}

/// A lock of the process: each simulation that runs at once waits for the others in real time, which none of them sees.
#[test]
fn simulations_that_share_a_lock_do_not_change_each_other() {
    static SHARED: Mutex<u64> = Mutex::new(0);
    let run = || {
        simulate(7, busy(), || {
            for _ in 0..300 {
                let mut shared = lock(&SHARED);
                *shared += 1;
                std::thread::sleep(Duration::from_micros(10));
                drop(shared);
                thread::yield_now();
            }
        })
    };
    let runs: Vec<_> = (0..4).map(|_| std::thread::spawn(run)).map(|run| run.join()).collect();
    let at_once: Vec<_> = (0..4).map(|_| std::thread::spawn(run)).collect();
    let at_once: Vec<_> = at_once.into_iter().map(|run| run.join().unwrap()).collect();
    assert!(at_once.iter().all(|(outcome, hash)| outcome.is_ok() && *hash == runs[0].as_ref().unwrap().1), "{at_once:?}");
}

#[test]
fn a_wait_with_a_timeout_ends_when_it_is_notified_or_late() {
    let (waits_s, _) = simulate(1, busy(), || {
        let shared = Arc::new((Mutex::new(false), Condvar::new()));
        let theirs = Arc::clone(&shared);
        let notifies = thread::spawn("notifies", move || {
            thread::sleep(Duration::from_secs(5));
            *lock(&theirs.0) = true;
            theirs.1.notify_all();
        });
        let wait = |time_max| {
            let begin_ns = clock::monotonic_ns();
            let wait = shared.1.wait_timeout_while(lock(&shared.0), time_max, |is_set| !*is_set);
            (*wait.unwrap(), (clock::monotonic_ns() - begin_ns + SECOND_NS / 2) / SECOND_NS)
        };
        let waits = [wait(Duration::from_secs(2)), wait(Duration::MAX)];
        notifies.unwrap().join().unwrap();
        waits
    });
    assert_eq!(waits_s.unwrap(), [(false, 2), (true, 3)]);
}

#[test]
fn a_wait_without_an_end_is_a_deadlock() {
    let (outcome, _) = simulate(1, busy(), || {
        let (_sender, receiver) = channel::<()>();
        receiver.receive()
    });
    assert_eq!(outcome.unwrap_err(), "deadlock: main of node 0: waits for a condition");
}

#[test]
fn a_crash_in_a_wait_releases_the_mutex_and_one_under_a_lock_does() {
    World::enter(Choices::from_seed(1), busy(), |world| {
        let (crashed, other) = (world.node(), world.node());
        let shared = Arc::new((Mutex::new(0), Condvar::new()));
        let theirs = Arc::clone(&shared);
        let _ = world.spawn(crashed, "waits", move || drop(theirs.1.wait(lock(&theirs.0))));
        let theirs = Arc::clone(&shared);
        let _ = world.spawn(crashed, "holds", move || {
            thread::sleep(Duration::from_secs(1));
            let _guard = lock(&theirs.0);
            thread::sleep(Duration::from_secs(3600));
        });
        let weak = Arc::downgrade(world);
        world.turn().at(5 * SECOND_NS, move || weak.upgrade().unwrap().crash(crashed, CrashKind::Process));
        let (theirs, locked_ns) = (Arc::clone(&shared), Arc::new(AtomicU64::new(0)));
        let tells = Arc::clone(&locked_ns);
        let _ = world.spawn(other, "locks", move || {
            thread::sleep(Duration::from_secs(2));
            *lock(&theirs.0) += 1;
            tells.store(clock::monotonic_ns(), Relaxed);
        });
        world.run(HOUR_NS).unwrap();
        assert_eq!((locked_ns.load(Relaxed) / SECOND_NS, *lock(&shared.0)), (1 + 5, 1));
    });
}

/// A destructor of one thread needs a lock that another one holds, and both unwind.
#[test]
fn threads_that_unwind_wait_for_their_locks() {
    World::enter(Choices::from_seed(1), busy(), |world| {
        struct Counts(Arc<Mutex<u64>>);
        impl Drop for Counts {
            fn drop(&mut self) {
                *lock(&self.0) += 1;
            }
        }
        let (node, count) = (world.node(), Arc::new(Mutex::new(0)));
        let counts = Counts(Arc::clone(&count));
        let _ = world.spawn(node, "needs the lock", move || {
            let _counts = counts;
            thread::sleep(Duration::from_secs(3600));
        });
        let theirs = Arc::clone(&count);
        let _ = world.spawn(node, "holds the lock", move || {
            let mut held = lock(&theirs);
            *held += 10;
            thread::sleep(Duration::from_secs(3600));
        });
        world.run(SECOND_NS).unwrap();
        world.crash(node, CrashKind::Process);
        world.run(SECOND_NS).unwrap();
        assert_eq!(*lock(&count), 11);
    });
}

/// A waiter takes numbers that others publish before they wake it. A lost wake is a deadlock.
fn wake_and_wait(seed: u64, schedule: Schedule, left_out: &[Mutant]) -> Result<(), String> {
    World::enter(Choices::from_seed(seed), schedule, |world| {
        world.turn().leave_out(left_out);
        let (node, shared) = (world.node(), Arc::new((Waker::new(), AtomicU64::new(0))));
        let theirs = Arc::clone(&shared);
        let _ = world.spawn(node, "waits", move || {
            while theirs.1.load(Relaxed) < 4 {
                theirs.0.wait(Duration::MAX);
            }
        });
        for name in ["wakes", "wakes too"] {
            let shared = Arc::clone(&shared);
            let _ = world.spawn(node, name, move || {
                for _ in 0..2 {
                    shared.1.fetch_add(1, Relaxed);
                    shared.0.wake();
                }
            });
        }
        world.run(HOUR_NS)
    })
}

#[test]
fn a_lost_wake_is_found_by_seeds_and_the_waker_loses_none() {
    let pct = Schedule { policy: Policy::Pct { changes: 2, steps: 30 }, ..Schedule::default() };
    for schedule in [busy(), pct] {
        for seed in 0..500 {
            wake_and_wait(seed, schedule.clone(), &[]).unwrap();
        }
        let found = (0..500).find(|&seed| wake_and_wait(seed, schedule.clone(), &[Mutant::SayWaiting]).is_err());
        let seed = found.unwrap_or_else(|| panic!("not found by {schedule:?}"));
        let told = wake_and_wait(seed, schedule, &[Mutant::SayWaiting]);
        assert_eq!(told.unwrap_err(), "deadlock: waits of node 0: is parked");
    }
}

#[test]
fn clocks_are_those_of_the_node() {
    World::enter(Choices::from_seed(1), Schedule::default(), |world| {
        let (one, other) = (world.node(), world.node());
        world.set_clock(one, WallClock { offset_ns: -7 * 1_000_000_000, drift_ppm: 0 });
        let read = |node: NodeId| {
            let slot = Arc::new(Mutex::new((0, 0)));
            let theirs = Arc::clone(&slot);
            let _ = world.spawn(node, "reads", move || *lock(&theirs) = (clock::unix_ms(), clock::monotonic_ns()));
            world.run(SECOND_NS).unwrap();
            *lock(&slot)
        };
        let _ = world.spawn(other, "sleeps", || thread::sleep(Duration::from_secs(100)));
        world.run(100 * SECOND_NS).unwrap();
        let ((wall_ms, _), (other_ms, other_ns)) = (read(one), read(other));
        assert_eq!((other_ms - wall_ms, other_ns / SECOND_NS), (7_000, 1 + 100));
        world.crash(other, CrashKind::Machine);
        assert_eq!(read(other).1 / SECOND_NS, 1, "the machine has booted");
        let event_ns = Arc::new(AtomicU64::new(0));
        let theirs = Arc::clone(&event_ns);
        world.turn().at(500 * SECOND_NS, move || theirs.store(clock::monotonic_ns(), Relaxed));
        world.run(1_000 * SECOND_NS).unwrap();
        assert_eq!(event_ns.load(Relaxed), 501 * SECOND_NS);
    });
}

#[test]
fn entropy_and_the_machine_repeat() {
    let run = |seed| simulate(seed, Schedule::default(), || (entropy::seed(), entropy::seed(), thread::processors())).0.unwrap();
    let (one, two, processors) = run(1);
    assert!(one != two && processors == 4);
    assert_eq!(run(1), (one, two, processors));
    assert_ne!(run(2).0, one);
}

#[test]
fn a_thread_that_keeps_the_baton_is_told_with_its_stack() {
    static RELEASED: AtomicBool = AtomicBool::new(false);
    fn spins_for_ever() {
        while !RELEASED.load(Relaxed) {
            std::hint::spin_loop();
        }
    }
    World::enter(Choices::from_seed(1), Schedule::default(), |world| {
        world.turn().set_patience(300);
        let node = world.node();
        let _ = world.spawn(node, "spins", spins_for_ever);
        let told = world.run(SECOND_NS).unwrap_err();
        assert!(told.starts_with("spins of node 0 has kept the baton for 300ms"), "{told}");
        assert!(told.contains("spins_for_ever"), "{told}");
        RELEASED.store(true, Relaxed);
    });
}

#[test]
fn a_mutex_that_is_held_at_a_point_is_told() {
    let holds = |point: &'static str, holds: bool| {
        let body = move || {
            let mutex = Mutex::new(0_u8);
            let guard = holds.then(|| lock(&mutex));
            // One that was held before is none any more.
            drop(lock(&Mutex::new(0_u16)));
            points::point(point);
            drop(guard);
        };
        simulate(1, Schedule::default(), body).0
    };
    let told = holds("latches", true).unwrap_err();
    assert!(told.contains("a mutex is held at the point \"latches\": u8"), "{told}");
    assert_eq!(holds("latches", false), Ok(()));
    assert_eq!(holds("mail is posted", true), Ok(()), "which may be below a lock");
}
