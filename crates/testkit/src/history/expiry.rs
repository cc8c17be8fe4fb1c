//! When a key of a model expires, as well as clocks outside of the server can tell.

use std::ops::Range;

/// Nanoseconds by which two readings of clocks may differ.
pub(crate) const CLOCK_SLACK_NS: u64 = 3_000_000;

/// A key expires not before the first time, and not after the second.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Expiry {
    earliest_ns: u64,
    latest_ns: u64,
}

impl Expiry {
    /// This number of milliseconds after a command that took effect within this time.
    pub(crate) fn after(ms: u64, command_ns: Range<u64>) -> Self {
        Self {
            earliest_ns: (command_ns.start + ms * 1_000_000).saturating_sub(CLOCK_SLACK_NS),
            latest_ns: command_ns.end.saturating_add(ms * 1_000_000 + CLOCK_SLACK_NS),
        }
    }
}

/// The states in which something that happens within `time_ns` may begin: some of the keys have expired by then, others may have.
pub(crate) fn beginnings<S: Clone>(
    state: &S,
    time_ns: Range<u64>,
    expiries: impl Iterator<Item = (usize, Expiry)>,
    remove: impl Fn(&mut S, usize),
) -> Vec<S> {
    let mut states = vec![state.clone()];
    for (key, expiry) in expiries {
        let (must, may) = (expiry.latest_ns <= time_ns.start, expiry.earliest_ns <= time_ns.end);
        if !must && !may {
            continue;
        }
        let mut expired = states.clone();
        expired.iter_mut().for_each(|state| remove(state, key));
        if must {
            states.clear();
        }
        states.extend(expired);
    }
    states
}
