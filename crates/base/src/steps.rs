//! Steps: how much work a thread has done, counted in builds with debug assertions and nowhere else.
//!
//! The proofs of cost (`crates/session/tests/cost`) run each command at n and at 2n and compare its steps, which a busy machine
//! does not change. A loop that a client can make long counts its rounds here; the optimiser removes the call from every other
//! build.

#[cfg(debug_assertions)]
use std::cell::Cell;

#[cfg(debug_assertions)]
thread_local! {
    static TAKEN: Cell<u64> = const { Cell::new(0) };
}

/// The calling thread has taken `count` steps more.
#[inline(always)]
pub fn take(count: usize) {
    #[cfg(debug_assertions)]
    TAKEN.set(TAKEN.get().wrapping_add(count as u64));
    let _ = count;
}

/// Steps that the calling thread has taken since it began; 0 in builds without debug assertions.
#[must_use]
pub fn taken() -> u64 {
    #[cfg(debug_assertions)]
    return TAKEN.get();
    #[cfg(not(debug_assertions))]
    return 0;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_counts_its_own_steps() {
        let before = taken();
        take(3);
        std::thread::spawn(|| take(5)).join().unwrap();
        take(4);
        assert_eq!(taken() - before, if cfg!(debug_assertions) { 7 } else { 0 });
    }
}
