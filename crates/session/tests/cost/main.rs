//! What commands cost: each is run at n and at 2n, and what grows faster than n log n is found. Steps are counted
//! (`almandine_base::steps`), not time.
//!
//! Commands run as in the server, without sockets.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]
#![cfg(debug_assertions)]

mod cases;
mod rig;

use cases::{CASES, Case, LINEAR, QUADRATIC};
use rig::Rig;

/// The smaller of both sizes. Large enough that what is small does not hide what grows.
const SMALL: usize = 1_000;

/// Most that the steps may grow by when n is doubled: twice as many, and a logarithm's share.
const GROWTH_MAX: f64 = 2.4;

/// The same for what takes the same steps whatever n is.
const FLAT_MAX: f64 = 1.2;

/// Fewest steps of a case whose loops are counted: what moves whole chunks takes few.
const COUNTED_MIN: u64 = 5;

/// Steps of a case at `size`.
fn steps(case: &Case, size: usize) -> u64 {
    let mut rig = Rig::new(case.events);
    (case.before)(size).iter().for_each(|command| rig.run(command));
    let before = rig.steps();
    (case.measured)(size).iter().for_each(|command| rig.run(command));
    rig.steps() - before
}

/// How many times as many steps a case takes at twice the size.
fn growth(case: &Case) -> (u64, f64) {
    let (small, large) = (steps(case, SMALL), steps(case, 2 * SMALL));
    (small, large as f64 / small as f64)
}

#[test]
fn nothing_grows_faster_than_n_log_n() {
    let mut found = Vec::new();
    for case in CASES {
        let (small, growth) = growth(case);
        println!("{:<40} {small:>9} × {growth:.2}", case.name);
        if small < COUNTED_MIN && !case.is_flat {
            found.push(format!("{}: {small} steps of {SMALL}: its loops are not counted", case.name));
        }
        if growth > if case.is_flat { FLAT_MAX } else { GROWTH_MAX } {
            found.push(format!("{}: {small} steps of {SMALL}, {growth:.2} times as many of twice as much", case.name));
        }
    }
    assert!(found.is_empty(), "{found:#?}");
}

/// The control: n steps for each of n elements are found, and so are n steps where there should be a constant number.
#[test]
fn what_grows_faster_is_found() {
    assert!(growth(&QUADRATIC).1 > 3.5);
    assert!((FLAT_MAX..GROWTH_MAX).contains(&growth(&LINEAR).1));
}
