//! Counters. Each worker writes its own, padded to cache lines of their own; a reader sums them.
//!
//! A counter has one writer, so adding is a load and a store, never a locked instruction. CONFIG RESETSTAT does not write into
//! the workers' counters (that would race with them): it remembers the sums of that moment, and readers subtract them.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{OnceLock, PoisonError};

use almandine_io::sync::{Mutex, MutexGuard};
use crossbeam_utils::CachePadded;

use crate::observe::histogram::Histogram;
use crate::observe::hot_keys::HotKeys;
use crate::observe::unserved::Unserved;

/// A counter with one writer and any number of readers.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Adds `n`. Called by the owning worker only.
    #[inline]
    pub fn add(&self, n: u64) {
        self.0.store(self.0.load(Relaxed).wrapping_add(n), Relaxed);
    }

    /// Subtracts `n`; for gauges that are kept as counters. Called by the owning worker only.
    #[inline]
    pub fn subtract(&self, n: u64) {
        self.0.store(self.0.load(Relaxed).wrapping_sub(n), Relaxed);
    }

    /// The current value.
    #[inline]
    #[must_use]
    pub fn value(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

/// Declares the counters of a worker once, and derives the sum over workers and the difference to a baseline.
macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident),+ $(,)?) => {
        /// The plain counters of one worker.
        #[derive(Debug, Default)]
        pub struct Counters { $($(#[$doc])* pub $name: Counter),+ }

        /// The sums of [`Counters`] over all workers since the last reset.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct Totals { $($(#[$doc])* pub $name: u64),+ }

        impl Totals {
            fn accumulate(&mut self, counters: &Counters) {
                $(self.$name = self.$name.wrapping_add(counters.$name.value());)+
            }

            fn since(&self, baseline: &Totals) -> Totals {
                Totals { $($name: self.$name.wrapping_sub(baseline.$name)),+ }
            }
        }
    };
}

counters! {
    /// Commands executed, failed ones included.
    commands_processed,
    /// Look-ups by read commands that found a key.
    keyspace_hits,
    /// Look-ups by read commands that found none.
    keyspace_misses,
    /// Bytes of complete commands read from clients.
    net_input_bytes,
    /// Bytes of replies handed to the network.
    net_output_bytes,
    /// Batches that waited for the storage device.
    device_waits,
    /// Chunks of input that sessions worked on.
    reads_processed,
    /// Batches of replies handed to the network.
    writes_processed,
    /// Connections accepted.
    connections_received,
    /// Connections refused because of protected mode.
    connections_rejected,
    /// Connections closed because clients held too much memory.
    clients_evicted,
    /// Error replies.
    error_replies,
    /// Commands refused because of the memory limit.
    refused_out_of_memory,
    /// Commands refused because the server does not know or serve them.
    unknown_commands,
    /// Transactions that ran alone: all other workers waited for each of them.
    units_alone,
    /// Failed authentications.
    authentications_failed,
    /// Commands that a user may not run.
    commands_denied,
    /// Keys that a user may not use.
    keys_denied,
    /// Channels that a user may not use.
    channels_denied,
    /// Databases that a user may not use.
    databases_denied,
    /// Certificates that named no user.
    certificates_refused,
}

/// What one worker knows about one command.
#[derive(Debug, Default)]
pub struct CommandCounters {
    /// Executions.
    pub calls: Counter,
    /// Time spent, in nanoseconds.
    pub elapsed_ns: Counter,
    /// Refused before execution: arity, permission, memory.
    pub rejected: Counter,
    /// Executed and answered with an error.
    pub failed: Counter,
    latency: OnceLock<Box<Histogram>>,
}

impl CommandCounters {
    /// Records `calls` executions that took `elapsed_ns` in sum. With `latency`, also into the histogram, each with an even share.
    #[inline]
    pub fn record(&self, calls: u64, elapsed_ns: u64, latency: bool) {
        self.calls.add(calls);
        self.elapsed_ns.add(elapsed_ns);
        if latency && calls > 0 {
            self.latency.get_or_init(Default::default).record(elapsed_ns / calls, calls);
        }
    }
}

/// Sums of [`CommandCounters`] over workers since the last reset.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CommandTotals {
    /// Executions.
    pub calls: u64,
    /// Time spent, in nanoseconds.
    pub elapsed_ns: u64,
    /// Refused before execution.
    pub rejected: u64,
    /// Executed and answered with an error.
    pub failed: u64,
}

impl CommandTotals {
    /// Adds executions that took `elapsed_ns` in sum.
    pub fn add(&mut self, calls: u64, elapsed_ns: u64) {
        self.calls += calls;
        self.elapsed_ns += elapsed_ns;
    }

    /// Whether there is anything to report.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.calls == 0 && self.rejected == 0 && self.failed == 0
    }
}

/// One worker's statistics. Written by that worker only.
#[derive(Debug)]
pub struct WorkerStatistics {
    /// The plain counters.
    pub counters: Counters,
    /// Bytes of buffers for reads of the storage device.
    pub device_buffer_bytes: AtomicU64,
    /// Bytes that computations of commands have gathered.
    pub computed_bytes: AtomicU64,
    /// Its connections whose commands wait, and those of them whose time is limited.
    pub blocked: (Counter, Counter),
    commands: Box<[CommandCounters]>,
    errors: Mutex<BTreeMap<String, u64>>,
}

/// Most distinct error prefixes that are told apart; the rest counts under `ERRORSTATS_OVERFLOW`, as Redis names it.
const ERROR_PREFIXES_MAX: usize = 128;

impl WorkerStatistics {
    fn new(commands: usize) -> Self {
        Self {
            counters: Counters::default(),
            device_buffer_bytes: AtomicU64::new(0),
            computed_bytes: AtomicU64::new(0),
            blocked: Default::default(),
            commands: (0..commands).map(|_| CommandCounters::default()).collect(),
            errors: Mutex::default(),
        }
    }

    /// The counters of a command by its dense index. An index out of range panics: it comes from the table, never from outside.
    #[inline]
    #[must_use]
    pub fn command(&self, index: usize) -> &CommandCounters {
        &self.commands[index]
    }

    /// Counts a look-up of a key by a read command.
    #[inline]
    pub fn looked_up(&self, found: bool) {
        if found {
            self.counters.keyspace_hits.add(1);
        } else {
            self.counters.keyspace_misses.add(1);
        }
    }

    /// Counts an error reply under its prefix, the text up to the first space.
    #[cold]
    pub fn error_replied(&self, text: &str) {
        self.counters.error_replies.add(1);
        let prefix = text.split(' ').next().unwrap_or(text);
        let mut errors = self.errors.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = errors.get_mut(prefix) {
            *count += 1;
        } else {
            let name = if errors.len() < ERROR_PREFIXES_MAX { prefix } else { "ERRORSTATS_OVERFLOW" };
            *errors.entry(name.to_owned()).or_default() += 1;
        }
    }
}

/// All workers' statistics.
#[derive(Debug)]
pub struct Statistics {
    workers: Box<[CachePadded<WorkerStatistics>]>,
    /// HOTKEYS.
    pub hot_keys: HotKeys,
    /// A command that was refused because the server does not know or serve it.
    pub unserved: Unserved,
    baseline: Mutex<Baseline>,
}

#[derive(Debug, Default)]
struct Baseline {
    totals: Totals,
    commands: Vec<CommandTotals>,
}

impl Statistics {
    pub(crate) fn new(workers: usize, commands: usize) -> Self {
        Self {
            workers: (0..=workers).map(|_| CachePadded::new(WorkerStatistics::new(commands))).collect(),
            hot_keys: HotKeys::new(workers + 1),
            unserved: Unserved::default(),
            baseline: Mutex::default(),
        }
    }

    /// The statistics of one worker.
    #[must_use]
    pub fn worker(&self, worker: usize) -> &WorkerStatistics {
        &self.workers[worker]
    }

    /// Whose statistics those are of the thread that goes on with scripts.
    #[must_use]
    pub fn carrier(&self) -> usize {
        self.workers.len() - 1
    }

    /// Bytes of all workers' buffers for reads of the storage device.
    #[must_use]
    pub fn device_buffer_bytes(&self) -> u64 {
        self.workers.iter().map(|worker| worker.device_buffer_bytes.load(Relaxed)).sum()
    }

    /// Bytes that computations of commands on all workers have gathered.
    #[must_use]
    pub fn computed_bytes(&self) -> u64 {
        self.workers.iter().map(|worker| worker.computed_bytes.load(Relaxed)).sum()
    }

    /// Connections whose commands wait, and those of them whose time is limited.
    #[must_use]
    pub fn blocked(&self) -> (u64, u64) {
        let sum = |count: fn(&WorkerStatistics) -> &Counter| self.workers.iter().map(|worker| count(worker).value()).sum();
        (sum(|worker| &worker.blocked.0), sum(|worker| &worker.blocked.1))
    }

    /// The sums over all workers since the last reset.
    #[must_use]
    pub fn totals(&self) -> Totals {
        self.sum().since(&self.baseline().totals)
    }

    /// One command's sums over all workers since the last reset.
    #[must_use]
    pub fn command(&self, index: usize) -> CommandTotals {
        let now = self.sum_command(index);
        let before = self.baseline().commands.get(index).copied().unwrap_or_default();
        CommandTotals {
            calls: now.calls.wrapping_sub(before.calls),
            elapsed_ns: now.elapsed_ns.wrapping_sub(before.elapsed_ns),
            rejected: now.rejected.wrapping_sub(before.rejected),
            failed: now.failed.wrapping_sub(before.failed),
        }
    }

    /// One command's latencies, summed over all workers; `None` when it never ran. Histograms restart at LATENCY RESET and
    /// RESETSTAT.
    #[must_use]
    pub fn latency(&self, index: usize) -> Option<Histogram> {
        let mut parts = self.workers.iter().filter_map(|worker| worker.commands[index].latency.get());
        let sum = Histogram::default();
        sum.merge(parts.next()?);
        parts.for_each(|part| sum.merge(part));
        Some(sum).filter(|sum| sum.count() > 0)
    }

    /// Error replies by prefix, summed over all workers.
    #[must_use]
    pub fn errors(&self) -> BTreeMap<String, u64> {
        let mut sum = BTreeMap::new();
        for worker in &self.workers {
            for (prefix, count) in worker.errors.lock().unwrap_or_else(PoisonError::into_inner).iter() {
                *sum.entry(prefix.clone()).or_default() += count;
            }
        }
        sum
    }

    /// CONFIG RESETSTAT.
    pub fn reset(&self) {
        let commands = self.workers.first().map_or(0, |worker| worker.commands.len());
        let baseline = Baseline { totals: self.sum(), commands: (0..commands).map(|index| self.sum_command(index)).collect() };
        *self.baseline() = baseline;
        for worker in &self.workers {
            worker.errors.lock().unwrap_or_else(PoisonError::into_inner).clear();
        }
        self.reset_latencies();
    }

    /// Empties the latency histograms. A sample that a worker records at the same moment may survive or be lost.
    pub fn reset_latencies(&self) {
        for worker in &self.workers {
            worker.commands.iter().filter_map(|command| command.latency.get()).for_each(|histogram| histogram.clear());
        }
    }

    fn sum(&self) -> Totals {
        let mut totals = Totals::default();
        self.workers.iter().for_each(|worker| totals.accumulate(&worker.counters));
        totals
    }

    fn sum_command(&self, index: usize) -> CommandTotals {
        let mut totals = CommandTotals::default();
        for worker in &self.workers {
            let command = &worker.commands[index];
            totals.calls += command.calls.value();
            totals.elapsed_ns += command.elapsed_ns.value();
            totals.rejected += command.rejected.value();
            totals.failed += command.failed.value();
        }
        totals
    }

    fn baseline(&self) -> MutexGuard<'_, Baseline> {
        self.baseline.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn totals_sum_workers_and_restart_at_a_reset() {
        let statistics = Statistics::new(2, 3);
        statistics.worker(0).counters.keyspace_hits.add(2);
        statistics.worker(1).looked_up(true);
        statistics.worker(1).command(2).record(4, 400, true);
        assert_eq!(statistics.totals().keyspace_hits, 3);
        assert_eq!(statistics.command(2).calls, 4);
        assert_eq!(statistics.latency(2).map(|h| h.count()), Some(4));
        statistics.reset();
        assert_eq!(statistics.totals(), Totals::default());
        assert!(statistics.command(2).is_empty());
        assert!(statistics.latency(2).is_none());
        statistics.worker(0).looked_up(false);
        assert_eq!(statistics.totals().keyspace_misses, 1);
    }

    #[test]
    fn errors_are_counted_by_prefix() {
        let statistics = Statistics::new(2, 0);
        statistics.worker(0).error_replied("WRONGTYPE Operation");
        statistics.worker(1).error_replied("WRONGTYPE Operation");
        statistics.worker(1).error_replied("ERR syntax error");
        assert_eq!(statistics.errors(), BTreeMap::from([("ERR".to_owned(), 1), ("WRONGTYPE".to_owned(), 2)]));
    }
}
