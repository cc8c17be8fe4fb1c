//! The search for an order that explains all answers, as that of [`crate::history`] but for commands with two moments: one at
//! which they begin to wait, and one at which they are served or leave.
//!
//! Calls, sights of waiting clients, and returns are replayed in the order of time. At a return each state is extended by every
//! order of steps of pending commands after which the one that returns has ended, by a step of its own or because another one's
//! has served it.

use std::collections::HashSet;

use super::model::State;

/// Something that bounds when a command took effect. At equal times calls come first: the weaker claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Called,
    /// It was seen to wait.
    Arrived,
    Returned,
}

/// When a command was called, seen to wait, and answered or lost.
#[derive(Clone, Copy, Debug)]
pub(super) struct Call {
    pub(super) client: usize,
    pub(super) called_ns: u64,
    pub(super) arrived_ns: Option<u64>,
    pub(super) returned_ns: u64,
    /// Its answer was lost: it may never have begun.
    pub(super) lost: bool,
}

/// Where no order was found.
#[derive(Debug)]
pub(super) struct Stuck {
    /// Commands that had returned, in that order.
    pub(super) before: Vec<usize>,
    /// Others that were pending.
    pub(super) pending: Vec<usize>,
    /// The one that nothing explains.
    pub(super) failed: usize,
}

/// Searches from a state without keys. `step` appends the states that the next step of a pending command may leave, if it is
/// taken before a time.
pub(super) fn search(calls: &[Call], step: impl Fn(usize, &State, u64, &mut Vec<State>)) -> Result<(), Stuck> {
    let mut events: Vec<(u64, Kind, usize)> = Vec::with_capacity(calls.len() * 2);
    for (number, call) in calls.iter().enumerate() {
        events.push((call.called_ns, Kind::Called, number));
        events.extend(call.arrived_ns.map(|at| (at, Kind::Arrived, number)));
        events.push((call.returned_ns, Kind::Returned, number));
    }
    events.sort_unstable();
    let mut pending: Vec<usize> = Vec::new();
    let mut states = HashSet::from([State::new()]);
    for (at, &(now_ns, kind, number)) in events.iter().enumerate() {
        if kind == Kind::Called {
            pending.push(number);
            continue;
        }
        let mut extension =
            Extension { calls, number, kind, now_ns, pending: &pending, step: &step, seen: HashSet::new(), next: HashSet::new() };
        states.into_iter().for_each(|state| extension.extend(state));
        states = extension.next;
        if states.is_empty() {
            let before = events[..at].iter().filter(|event| event.1 == Kind::Returned).map(|event| event.2).collect();
            pending.retain(|other| *other != number);
            return Err(Stuck { before, pending, failed: number });
        }
        if kind == Kind::Returned {
            pending.retain(|other| *other != number);
        }
    }
    Ok(())
}

/// The extension of states at one event.
struct Extension<'h, F> {
    calls: &'h [Call],
    number: usize,
    kind: Kind,
    now_ns: u64,
    pending: &'h [usize],
    step: &'h F,
    seen: HashSet<State>,
    next: HashSet<State>,
}

impl<F: Fn(usize, &State, u64, &mut Vec<State>)> Extension<'_, F> {
    /// Adds what is reached by steps of pending commands in any order, and agrees with the event.
    fn extend(&mut self, from: State) {
        if self.seen.contains(&from) {
            return;
        }
        let call = &self.calls[self.number];
        let bit = 1 << call.client;
        let (ended, waits) = (from.ended & bit != 0, from.waiting.contains(&self.number));
        match self.kind {
            Kind::Returned if ended => {
                let mut state = from;
                state.ended &= !bit;
                self.next.insert(state);
                return;
            }
            Kind::Arrived if ended || waits => {
                self.next.insert(from);
                return;
            }
            Kind::Returned if call.lost && !waits => {
                self.next.insert(from.clone());
            }
            _ => {}
        }
        let mut states = Vec::new();
        for &candidate in self.pending {
            if from.ended & (1 << self.calls[candidate].client) == 0 {
                (self.step)(candidate, &from, self.now_ns, &mut states);
            }
        }
        self.seen.insert(from);
        states.into_iter().for_each(|state| self.extend(state));
    }
}
