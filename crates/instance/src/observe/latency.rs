//! The latency monitor: per event, the last spikes above `latency-monitor-threshold`. Its mutex is taken for spikes only.

use std::collections::{BTreeMap, VecDeque};
use std::sync::PoisonError;

use almandine_io::sync::{Mutex, MutexGuard};

/// Spikes kept per event; Redis keeps as many.
const SAMPLES_MAX: usize = 160;

/// The events that are recorded.
pub mod event {
    /// A command.
    pub const COMMAND: &str = "command";
    /// A command that should be fast, or a run of such.
    pub const FAST_COMMAND: &str = "fast-command";
    /// A write of the log that is durable when it returns, for which replies wait.
    pub const LOG_SYNC: &str = "aof-fsync-always";
    /// Another write of the log.
    pub const LOG_WRITE: &str = "aof-write";
    /// One beside a snapshot or a new base, which is also counted as the one before.
    pub const LOG_WRITE_BESIDE_COPY: &str = "aof-write-active-child";
    /// One without such.
    pub const LOG_WRITE_ALONE: &str = "aof-write-alone";

    /// All of them.
    pub const ALL: [&str; 6] = [COMMAND, FAST_COMMAND, LOG_SYNC, LOG_WRITE, LOG_WRITE_BESIDE_COPY, LOG_WRITE_ALONE];
}

/// One spike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LatencySample {
    /// When, Unix seconds. One sample per second and event: the highest.
    pub time_s: i64,
    /// How long, in milliseconds.
    pub elapsed_ms: u64,
}

/// What is kept of one event.
#[derive(Clone, Debug, Default)]
pub struct LatencyEvent {
    /// Oldest first.
    pub samples: VecDeque<LatencySample>,
    /// The highest ever, in milliseconds.
    pub max_ms: u64,
}

/// The latency monitor.
#[derive(Debug, Default)]
pub struct LatencyMonitor {
    events: Mutex<BTreeMap<String, LatencyEvent>>,
}

impl LatencyMonitor {
    /// Records a spike of `event`.
    pub fn record(&self, event: &str, time_s: i64, elapsed_ms: u64) {
        debug_assert!(event::ALL.contains(&event), "LATENCY DOCTOR knows each event");
        let mut events = self.lock();
        if !events.contains_key(event) {
            events.insert(event.to_owned(), LatencyEvent::default());
        }
        let Some(event) = events.get_mut(event) else { return };
        event.max_ms = event.max_ms.max(elapsed_ms);
        if let Some(last) = event.samples.back_mut()
            && last.time_s == time_s
        {
            last.elapsed_ms = last.elapsed_ms.max(elapsed_ms);
            return;
        }
        if event.samples.len() == SAMPLES_MAX {
            event.samples.pop_front();
        }
        event.samples.push_back(LatencySample { time_s, elapsed_ms });
    }

    /// All events by name.
    #[must_use]
    pub fn events(&self) -> Vec<(String, LatencyEvent)> {
        self.lock().iter().map(|(name, event)| (name.clone(), event.clone())).collect()
    }

    /// One event.
    #[must_use]
    pub fn event(&self, name: &str) -> Option<LatencyEvent> {
        self.lock().get(name).cloned()
    }

    /// Forgets one event; says whether it was known.
    pub fn reset(&self, name: &str) -> bool {
        self.lock().remove(name).is_some()
    }

    /// Forgets all events; says how many there were.
    pub fn reset_all(&self) -> usize {
        std::mem::take(&mut *self.lock()).len()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, LatencyEvent>> {
        self.events.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_sample_per_second_and_a_bounded_history() {
        let monitor = LatencyMonitor::default();
        monitor.record("command", 7, 100);
        monitor.record("command", 7, 300);
        monitor.record("command", 7, 200);
        assert_eq!(monitor.event("command").map(|e| e.samples.len()), Some(1));
        (8..400).for_each(|second| monitor.record("command", second, 1));
        let event = monitor.event("command").unwrap();
        assert_eq!((event.samples.len(), event.max_ms), (160, 300));
        assert!(monitor.reset("command") && !monitor.reset("command"));
    }
}
