//! The witness order: when each request took effect, as the server says while it runs it.
//!
//! A checker that knows only calls and returns has to search among all orders of what overlaps. With the witness hardly anything
//! overlaps, so its search is one pass, as long as the history. Nothing is taken on trust: the order has to explain all answers,
//! and lies between calls and returns.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use almandine_base::points::Witness;
use almandine_io::sim::turn;
use almandine_testkit::blocking;
use almandine_testkit::history::{History, units};
use almandine_testkit::witness::Moments;

/// What became of the requests of each client, in its order.
#[derive(Debug, Default)]
pub struct Order(BTreeMap<u64, Vec<(u64, Witness)>>);

impl Order {
    /// What has happened since the last call, in the simulation in which the caller runs.
    #[must_use]
    pub fn take() -> Self {
        let mut clients: BTreeMap<u64, Vec<(u64, Witness)>> = BTreeMap::new();
        for witnessed in turn::simulation().map(|turn| turn::take_witnessed(&turn)).unwrap_or_default() {
            clients.entry(witnessed.client).or_default().push((witnessed.now_ns, witnessed.what));
        }
        Self(clients)
    }

    /// The requests of a client that were run between a call and its return.
    #[must_use]
    pub fn requests(&self, client: u64, between_ns: RangeInclusive<u64>) -> Vec<Moments> {
        let notes = self.0.get(&client).map_or(&[][..], Vec::as_slice);
        // What has to wait for records begins anew; WATCH has begun to look by then.
        let (mut begun_ns, mut is_new) = (*between_ns.start(), true);
        let mut requests: Vec<Moments> = Vec::new();
        let mut is_answered = false;
        let first = notes.partition_point(|(at_ns, _)| at_ns < between_ns.start());
        for &(at_ns, what) in notes[first..].iter().take_while(|(at_ns, _)| at_ns <= between_ns.end()) {
            let new = Moments { from_ns: begun_ns, waits_ns: None, leaves_ns: None, until_ns: None };
            is_new |= what != Witness::Begins;
            match what {
                Witness::Begins if is_new => (begun_ns, is_new) = (at_ns, false),
                Witness::Begins => {}
                Witness::Answered => is_answered = true,
                Witness::Ran if std::mem::take(&mut is_answered) => {}
                Witness::Ran => requests.push(Moments { until_ns: Some(at_ns), ..new }),
                Witness::Waits => requests.push(Moments { waits_ns: Some(at_ns), ..new }),
                Witness::Leaves | Witness::Left => {
                    if let Some(last) = requests.last_mut().filter(|last| last.waits_ns.is_some()) {
                        match what {
                            Witness::Leaves if last.until_ns.is_none() => last.leaves_ns = Some(at_ns),
                            Witness::Leaves => {}
                            _ => last.until_ns = Some(at_ns),
                        }
                    }
                }
            }
        }
        requests
    }

    /// Says of the operations of histories when they took effect.
    pub fn explain(&self, histories: &mut [History]) {
        for entry in histories.iter_mut().flat_map(|history| &mut history.entries) {
            entry.witness = self.requests(entry.connection, entry.called_ns..=entry.returned_ns).get(entry.place).copied();
        }
    }

    /// As [`Order::explain`], of units. The last of what was sent together is meant.
    pub fn explain_units(&self, histories: &mut [units::History]) {
        for entry in histories.iter_mut().flat_map(|history| &mut history.entries) {
            entry.witness = self.requests(entry.connection, entry.called_ns..=entry.returned_ns).pop();
        }
    }

    /// Says of what clients did that wait for each other when it took effect. The last of what was sent together is meant.
    pub fn explain_waits(&self, histories: &mut [Vec<blocking::Entry>]) {
        for entry in histories.iter_mut().flatten() {
            entry.witness = self.requests(entry.connection, entry.called_ns..=entry.returned_ns).pop();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_told_apart() {
        use Witness::{Answered, Begins, Leaves, Left, Ran, Waits};
        let notes =
            [(5, Begins), (6, Ran), (10, Begins), (12, Begins), (15, Ran), (16, Ran), (20, Begins), (22, Waits), (30, Leaves)];
        let order = Order(BTreeMap::from([(7, [&notes[..], &[(40, Left), (41, Left)]].concat())]));
        let ran = |from_ns, until_ns| Moments { from_ns, waits_ns: None, leaves_ns: None, until_ns: Some(until_ns) };
        assert_eq!(order.requests(7, 9..=19), [ran(10, 15), ran(10, 16)]);
        let waited = Moments { from_ns: 20, waits_ns: Some(22), leaves_ns: Some(30), until_ns: Some(41) };
        assert_eq!(order.requests(7, 19..=50), [waited]);
        assert_eq!(order.requests(7, 19..=35), [Moments { until_ns: None, ..waited }]);
        assert!(order.requests(8, 0..=50).is_empty());
        // What is suspended has run before it is answered.
        let notes = [(5, Begins), (9, Ran), (12, Begins), (13, Answered), (14, Ran), (15, Begins), (17, Ran)];
        assert_eq!(Order(BTreeMap::from([(7, notes.to_vec())])).requests(7, 0..=20), [ran(5, 9), ran(15, 17)]);
    }
}
