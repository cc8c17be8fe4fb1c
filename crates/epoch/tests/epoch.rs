//! What one thread can observe of epochs, deferred actions and reservations.
#![cfg(not(loom))]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use almandine_epoch::{Epoch, Participant};

fn add(count: &AtomicUsize, amount: usize) {
    count.fetch_add(amount, Ordering::Relaxed);
}

#[test]
fn nothing_is_safe_before_the_first_bump() {
    let epoch = Epoch::new(2);
    assert_eq!(epoch.safe(), epoch.current() - 1);
    assert_eq!(epoch.safe_cached(), 0);
}

#[test]
fn a_participant_inside_holds_its_epoch_and_later_ones() {
    let epoch = Arc::new(Epoch::new(2));
    let reader = epoch.register().unwrap();
    reader.enter();
    let retired = epoch.bump();
    assert_eq!(epoch.current(), retired + 1);
    assert!(epoch.safe() < retired);
    epoch.bump();
    assert!(epoch.safe() < retired);
    reader.leave();
    assert!(epoch.safe() >= retired);
    assert_eq!(epoch.safe_cached(), epoch.safe());
}

#[test]
fn entering_later_does_not_hold_an_earlier_epoch() {
    let epoch = Arc::new(Epoch::new(2));
    let retired = epoch.bump();
    let reader = epoch.register().unwrap();
    reader.enter();
    assert_eq!(epoch.safe(), retired);
}

#[test]
fn refresh_lets_go_of_the_old_epoch_and_stays_inside() {
    let epoch = Arc::new(Epoch::new(1));
    let reader = epoch.register().unwrap();
    reader.enter();
    let retired = epoch.bump();
    assert!(epoch.safe() < retired);
    reader.refresh();
    assert!(reader.is_inside());
    assert_eq!(epoch.safe(), retired);
    reader.refresh();
    assert!(reader.is_inside());
}

#[test]
fn reservations_are_limited_and_given_back() {
    let epoch = Arc::new(Epoch::new(2));
    let first = epoch.register().unwrap();
    let _second = epoch.register().unwrap();
    assert!(epoch.register().is_none());
    first.enter();
    let retired = epoch.bump();
    drop(first);
    assert!(epoch.safe() >= retired, "dropping a participant leaves its epoch");
    assert!(!epoch.register().unwrap().is_inside());
}

#[test]
fn actions_run_once_in_order_and_only_when_safe() {
    let epoch = Arc::new(Epoch::new(1));
    let reader = epoch.register().unwrap();
    let ran = Arc::new(std::sync::Mutex::new(Vec::new()));
    let defer = |name: u32| {
        let ran = Arc::clone(&ran);
        epoch.bump_with(Box::new(move || ran.lock().unwrap().push(name)));
    };
    defer(1);
    reader.enter();
    defer(2);
    defer(3);
    assert_eq!((epoch.drain(), epoch.pending()), (1, 2));
    assert_eq!(epoch.drain(), 0);
    reader.leave();
    assert_eq!((epoch.drain(), epoch.pending()), (2, 0));
    assert_eq!(*ran.lock().unwrap(), [1, 2, 3]);
}

#[test]
fn an_action_may_defer_another() {
    let epoch = Arc::new(Epoch::new(1));
    let count = Arc::new(AtomicUsize::new(0));
    let (again, inner) = (Arc::clone(&epoch), Arc::clone(&count));
    epoch.bump_with(Box::new(move || {
        add(&inner, 1);
        let inner = Arc::clone(&inner);
        again.bump_with(Box::new(move || add(&inner, 10)));
    }));
    assert_eq!(epoch.drain(), 1);
    assert_eq!(epoch.drain(), 1);
    assert_eq!(count.load(Ordering::Relaxed), 11);
}

#[test]
fn a_panicking_action_takes_no_other_with_it() {
    let epoch = Arc::new(Epoch::new(1));
    let count = Arc::new(AtomicUsize::new(0));
    let inner = Arc::clone(&count);
    epoch.bump_with(Box::new(|| panic!("on purpose")));
    epoch.bump_with(Box::new(move || add(&inner, 1)));
    assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| epoch.drain())).is_err());
    assert_eq!(epoch.drain(), 1);
    assert_eq!(count.load(Ordering::Relaxed), 1);
}

#[test]
fn participants_move_between_threads() {
    fn assert_send<T: Send>() {}
    assert_send::<Participant>();
}

/// Two readers chase a value that a writer replaces and poisons as soon as it is safe.
#[test]
fn readers_never_see_a_reclaimed_value() {
    const LIVE: usize = 1;
    const DEAD: usize = 2;
    const ROUNDS: usize = 2_000;
    let epoch = Arc::new(Epoch::new(4));
    let cells: Arc<Vec<AtomicUsize>> = Arc::new((0..ROUNDS + 1).map(|_| AtomicUsize::new(LIVE)).collect());
    let link = Arc::new(AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for _ in 0..2 {
            let (participant, cells, link) = (epoch.register().unwrap(), Arc::clone(&cells), Arc::clone(&link));
            scope.spawn(move || {
                loop {
                    participant.enter();
                    let at = link.load(Ordering::Relaxed);
                    let seen = (0..8).map(|_| cells[at].load(Ordering::Relaxed)).all(|value| value == LIVE);
                    participant.leave();
                    assert!(seen, "cell {at} was reclaimed under a reader");
                    if at == ROUNDS {
                        return;
                    }
                    std::thread::yield_now();
                }
            });
        }
        for round in 0..ROUNDS {
            link.store(round + 1, Ordering::Relaxed);
            let cells = Arc::clone(&cells);
            epoch.bump_with(Box::new(move || cells[round].store(DEAD, Ordering::Relaxed)));
            epoch.drain();
        }
    });
    epoch.drain();
    assert_eq!(epoch.pending(), 0);
    assert_eq!(cells.iter().filter(|cell| cell.load(Ordering::Relaxed) == DEAD).count(), ROUNDS);
}

#[test]
fn who_looks_at_the_gate_does_not_open_it() {
    let epoch = Arc::new(Epoch::new(2));
    let (sole, visitor) = (epoch.register_gated().unwrap(), epoch.register_gated().unwrap());
    sole.ask_alone();
    assert!(sole.has_gate_closed() && sole.is_alone());
    // What it does before it sees that the gate is closed.
    visitor.enter();
    assert!(sole.has_gate_closed() && !sole.is_alone());
    visitor.leave();
    sole.end_alone();
    assert!(!sole.has_gate_closed());
}
