//! The search for an order of operations that explains all answers: just-in-time linearization.
//!
//! Calls and returns are replayed in the order of time. A *configuration* is a state of the keys and the set of pending
//! operations that have taken effect in it. A call adds a pending operation. At a return the operation must have taken effect, so
//! each configuration is extended by every order of pending operations that ends with it, where every operation must answer
//! what was recorded. No configuration left means that no order explains the history. The cost is exponential only in
//! how many operations are pending at once, not in the length.

use std::collections::HashSet;
use std::hash::Hash;

/// When an operation was called and answered, and by whom.
#[derive(Clone, Copy, Debug)]
pub(super) struct Call {
    /// At most 64 clients, each with one operation at a time.
    pub(super) client: usize,
    pub(super) called_ns: u64,
    /// None: it was never answered, so it may have happened or not.
    pub(super) returned_ns: Option<u64>,
}

/// Where no order was found.
pub(super) struct Stuck {
    /// Operations that had returned, in that order.
    pub(super) before: Vec<usize>,
    /// Others that were pending.
    pub(super) pending: Vec<usize>,
    /// The one whose answer nothing explains.
    pub(super) failed: usize,
}

impl Stuck {
    /// The operations that a report shows, in its order, each with what it is to the failure.
    pub(super) fn around(&self) -> impl Iterator<Item = (&'static str, usize)> {
        const BEFORE: usize = 12;
        let recent = self.before[self.before.len().saturating_sub(BEFORE)..].iter().map(|number| ("before ", *number));
        let others = self.pending.iter().map(|number| ("pending", *number));
        recent.chain(others).chain([("FAILED ", self.failed)])
    }
}

/// Searches from a state. `step` appends the states that an operation may leave if it takes effect in a state, before a time,
/// and answers what was recorded.
pub(super) fn search<S: Clone + Eq + Hash>(
    calls: &[Call],
    initial: S,
    step: impl Fn(usize, &S, u64, &mut Vec<S>),
) -> Result<(), Stuck> {
    let mut events: Vec<(u64, bool, usize)> = Vec::with_capacity(calls.len() * 2);
    for (number, call) in calls.iter().enumerate() {
        events.push((call.called_ns, false, number));
        events.extend(call.returned_ns.map(|returned_ns| (returned_ns, true, number)));
    }
    // At equal times calls come first: the weaker claim.
    events.sort_unstable();
    let mut pending: Vec<usize> = Vec::new();
    let mut configurations: HashSet<(u64, S)> = HashSet::from([(0, initial)]);
    for (at, &(now_ns, is_return, number)) in events.iter().enumerate() {
        if !is_return {
            pending.push(number);
            continue;
        }
        let bit = 1 << calls[number].client;
        let mut extension =
            Extension { calls, last: number, now_ns, pending: &pending, step: &step, seen: HashSet::new(), next: HashSet::new() };
        for configuration in configurations.drain() {
            if configuration.0 & bit == 0 {
                extension.extend(configuration);
            } else {
                extension.next.insert((configuration.0 & !bit, configuration.1));
            }
        }
        configurations = extension.next;
        pending.retain(|other| *other != number);
        if configurations.is_empty() {
            let before = events[..at].iter().filter(|(_, is_return, _)| *is_return).map(|(_, _, number)| *number).collect();
            return Err(Stuck { before, pending, failed: number });
        }
    }
    Ok(())
}

/// The extension of configurations at one return.
struct Extension<'h, S, F> {
    calls: &'h [Call],
    /// The operation that returns.
    last: usize,
    now_ns: u64,
    pending: &'h [usize],
    step: &'h F,
    seen: HashSet<(u64, S)>,
    next: HashSet<(u64, S)>,
}

impl<S: Clone + Eq + Hash, F: Fn(usize, &S, u64, &mut Vec<S>)> Extension<'_, S, F> {
    /// Adds what is reached by pending operations in any order, the one that returns at the end.
    fn extend(&mut self, from: (u64, S)) {
        if self.seen.contains(&from) {
            return;
        }
        let mut states = Vec::new();
        for &candidate in self.pending {
            let bit = 1 << self.calls[candidate].client;
            if from.0 & bit != 0 {
                continue;
            }
            (self.step)(candidate, &from.1, self.now_ns, &mut states);
            for state in states.drain(..) {
                if candidate == self.last {
                    self.next.insert((from.0, state));
                } else {
                    self.extend((from.0 | bit, state));
                }
            }
        }
        self.seen.insert(from);
    }
}
