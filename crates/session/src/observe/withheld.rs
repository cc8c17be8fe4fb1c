//! What a script has counted that may begin anew: it counts when that has ended.

use std::collections::BTreeMap;

use almandine_instance::{CommandTotals, WorkerStatistics};

/// What a script has counted that may begin anew.
#[derive(Debug, Default)]
pub(crate) struct Withheld {
    /// Of each command that it has called, by dense index.
    commands: Vec<(u16, CommandTotals)>,
    /// Error replies, by their texts up to the first space.
    errors: BTreeMap<String, u64>,
    /// Look-ups that found a key, and those that found none.
    looked_up: [u64; 2],
}

impl Withheld {
    /// What was counted of a command.
    pub(crate) fn command(&mut self, index: u16) -> &mut CommandTotals {
        // A script calls few different commands.
        let at = self.commands.iter().position(|(known, _)| *known == index).unwrap_or_else(|| {
            self.commands.push((index, CommandTotals::default()));
            self.commands.len() - 1
        });
        &mut self.commands[at].1
    }

    /// An error was replied.
    pub(crate) fn error_replied(&mut self, text: &str) {
        *self.errors.entry(text.split(' ').next().unwrap_or(text).to_owned()).or_default() += 1;
    }

    /// Takes the look-ups out of the counters that were counted since these had the values `before`.
    pub(crate) fn take_looked_up(&mut self, before: [u64; 2], statistics: &WorkerStatistics) {
        let counters = [&statistics.counters.keyspace_hits, &statistics.counters.keyspace_misses];
        for ((counter, before), taken) in counters.into_iter().zip(before).zip(&mut self.looked_up) {
            let more = counter.value().wrapping_sub(before);
            counter.subtract(more);
            *taken += more;
        }
    }

    /// The script has ended: all of it counts.
    #[cold]
    pub(crate) fn count(&mut self, statistics: &WorkerStatistics, latency: bool) {
        for (index, totals) in self.commands.drain(..) {
            let command = statistics.command(usize::from(index));
            command.record(totals.calls, totals.elapsed_ns, latency);
            command.rejected.add(totals.rejected);
            command.failed.add(totals.failed);
        }
        for (prefix, count) in std::mem::take(&mut self.errors) {
            (0..count).for_each(|_| statistics.error_replied(&prefix));
        }
        let [hits, misses] = std::mem::take(&mut self.looked_up);
        statistics.counters.keyspace_hits.add(hits);
        statistics.counters.keyspace_misses.add(misses);
    }

    /// Whether there is nothing.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.commands.is_empty() && self.errors.is_empty() && self.looked_up == [0, 0]
    }
}
