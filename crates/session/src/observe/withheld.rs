//! What a script has counted, and would have told others, that may begin anew: it counts, and is told, when that has ended.

use std::collections::{BTreeMap, HashSet, VecDeque};

use almandine_handler::follow::Denied;
use almandine_handler::{Client, Context, tracking};
use almandine_instance::slowlog::SlowLog;
use almandine_instance::{CommandTotals, SlowEntry, WorkerStatistics};
use almandine_script::LogLevel;

/// Bytes, about, that one run may keep back for the logs: beyond that the oldest of it is told before the run has ended.
const TOLD_MAX: usize = 256 << 10;
/// Those of an entry.
const ENTRY: usize = 512;

/// Something for one of the logs.
#[derive(Debug)]
pub(crate) enum Told {
    /// An entry of the log of slow commands, of large requests or of large replies, and how many that holds.
    Entry(fn(&Context) -> &SlowLog, SlowEntry, usize),
    /// A latency for LATENCY: its event, the second of its end, and milliseconds.
    Spike(&'static str, i64, u64),
    /// A command was denied to the caller's user.
    Denied(Denied),
    /// A line of the script's own for the server's log.
    Line(LogLevel, String),
}

impl Told {
    fn bytes(&self) -> usize {
        if let Self::Line(_, line) = self { ENTRY + line.len() } else { ENTRY }
    }

    pub(crate) fn tell(self, context: &Context) {
        match self {
            Self::Entry(log, entry, entries_max) => log(context).add(entry, entries_max),
            Self::Spike(event, time_s, elapsed_ms) => context.instance.latency.record(event, time_s, elapsed_ms),
            Self::Denied(denied) => denied.note(context),
            Self::Line(level, line) => level.write(&line),
        }
    }
}

/// What a script has counted that may begin anew.
#[derive(Debug, Default)]
pub(crate) struct Withheld {
    /// Of each command that it has called, by dense index.
    commands: Vec<(u16, CommandTotals)>,
    /// Error replies, by their texts up to the first space.
    errors: BTreeMap<String, u64>,
    /// Look-ups that found a key, and those that found none.
    looked_up: [u64; 2],
    /// Keys that it has read and that its client's tracking is to remember.
    read: HashSet<Box<[u8]>, rapidhash::fast::RandomState>,
    /// What is for the logs, and how many bytes it takes.
    told: VecDeque<Told>,
    told_bytes: usize,
}

impl Withheld {
    /// Keeps what is for a log.
    #[cold]
    pub(crate) fn keep(&mut self, context: &Context, told: Told) {
        self.told_bytes += told.bytes();
        self.told.push_back(told);
        while self.told_bytes > TOLD_MAX
            && let Some(oldest) = self.told.pop_front()
        {
            self.told_bytes -= oldest.bytes();
            oldest.tell(context);
        }
    }

    /// A key was read.
    pub(crate) fn keep_read(&mut self, key: &[u8]) {
        if !self.read.contains(key) {
            self.read.insert(key.into());
        }
    }

    /// Remembers the keys that the script has read, for its client, while it holds their latches: before it changes the first one,
    /// or at its end.
    #[inline]
    pub(crate) fn remember_read(&mut self, client: &mut Client, context: &Context) {
        if !self.read.is_empty() {
            tracking::remember_latched(client, self.read.iter().map(|key| &**key), context);
            self.read.clear();
        }
    }

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
    pub(crate) fn count(&mut self, client: &mut Client, context: &Context, latency: bool) {
        let statistics = context.statistics();
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
        self.remember_read(client, context);
        self.told.drain(..).for_each(|told| told.tell(context));
        self.told_bytes = 0;
    }

    /// Whether there is nothing.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        let is_quiet = self.errors.is_empty() && self.read.is_empty() && self.told.is_empty();
        self.commands.is_empty() && is_quiet && self.looked_up == [0, 0]
    }
}
