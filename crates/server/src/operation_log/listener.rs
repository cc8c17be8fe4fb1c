//! What the log's writer says: to connections that wait for it, to commands that are refused, and to the operator.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use almandine_instance::latency::event;
use almandine_instance::{Instance, LogPurpose, Message};
use almandine_io::clock;
use almandine_io::detach::is_detached;
use almandine_oplog::writer::{LogListener, LogProgress, LogState, SyncMode};

/// Passes it on.
pub(super) struct Listener {
    pub(super) instance: Arc<Instance>,
    pub(super) progress: Arc<LogProgress>,
    pub(super) purpose: LogPurpose,
    /// That the rings end with the process has been told.
    pub(super) has_told: AtomicBool,
}

impl LogListener for Listener {
    fn advanced(&self) {
        if is_detached() && !self.has_told.swap(true, Ordering::Relaxed) {
            tracing::error!(
                "The file system of the log's rings has failed: they end with this process from now on, and replies wait for the \
                 log's file until the server starts again"
            );
        }
        self.instance.workers.broadcast(&Message::LogAdvanced);
        self.instance.persistence.rewrites.log_has(self.progress.bytes());
        self.instance.persistence.archive.wake();
    }

    fn is_quiet(&self) -> bool {
        self.instance.workers.rest.is_whole()
    }

    fn heal_wait_s(&self) -> u64 {
        self.instance.config.snapshot().settings.persistence.log_heal_wait_s
    }

    fn lacks_base(&self) {
        self.instance.persistence.rewrites.wake();
    }

    /// Writes and syncs are of one thread, so that no write waits for a sync, as it may in Redis.
    fn wrote(&self, elapsed_ns: u64, durably: bool) {
        let (instance, elapsed_ms) = (&self.instance, elapsed_ns / 1_000_000);
        if elapsed_ms == 0 {
            return;
        }
        let threshold_ms = instance.config.snapshot().settings.observe.latency_monitor_threshold_ms;
        if threshold_ms == 0 || elapsed_ms < threshold_ms {
            return;
        }
        let now_s = clock::unix_ms() / 1000;
        if durably {
            // In the other modes no client waits for a sync.
            if self.progress.mode() == SyncMode::Always {
                instance.latency.record(event::LOG_SYNC, now_s, elapsed_ms);
            }
            return;
        }
        let persistence = &instance.persistence;
        let is_alone = !persistence.rewrites.is_running() && persistence.saves.figures().running_s.is_none();
        instance.latency.record(if is_alone { event::LOG_WRITE_ALONE } else { event::LOG_WRITE_BESIDE_COPY }, now_s, elapsed_ms);
        instance.latency.record(event::LOG_WRITE, now_s, elapsed_ms);
    }

    fn changed(&self, state: LogState) {
        match self.purpose {
            LogPurpose::Durability => self.changed_of_promised(state),
            LogPurpose::Backup => self.changed_of_backup(state),
        }
        // A client that a full ring has stopped goes on: it is refused, or there is no log any more.
        self.instance.workers.broadcast(&Message::StallEnd);
    }
}

impl Listener {
    fn changed_of_promised(&self, state: LogState) {
        // Before the log says that it is so.
        self.instance.persistence.set_unlogged(state == LogState::Full || state.is_broken());
        let failure = self.progress.figures().last_failure.unwrap_or_default();
        match state {
            LogState::Serving => tracing::info!("The log takes writes again"),
            LogState::Full => tracing::error!("The log's disk is full: writes are refused until there is room"),
            LogState::Broken => tracing::error!(
                "The log cannot be written: {failure}. Writes are refused, and replies that wait for it wait until it is healed"
            ),
            LogState::GivenUp => tracing::error!(
                "The log cannot be written: {failure}. Connections are closed that wait for it, and writes are refused until it is \
                 healed; what was acknowledged is in the log or in its rings: leave those as they are"
            ),
            // Replies that wait for it may leave.
            LogState::Ended => self.instance.workers.broadcast(&Message::LogAdvanced),
        }
        self.instance.persistence.rewrites.wake();
        if state == LogState::GivenUp {
            self.instance.workers.breaks.announce(self.progress.breaks());
            // Those that wait learn by their connection's end that it is not known what became of what they asked for.
            self.instance.workers.broadcast(&Message::LogBroken);
        }
    }

    /// Writes go on without the backup, whose thread ends the log. Until then those are refused that a log would lose that cannot
    /// be written.
    fn changed_of_backup(&self, state: LogState) {
        let persistence = &self.instance.persistence;
        let why = match state {
            LogState::Serving | LogState::Ended => return,
            LogState::Full => "the disk has no room for what is written meanwhile".to_owned(),
            LogState::Broken | LogState::GivenUp => {
                persistence.set_unlogged(true);
                format!("its log cannot be written: {}", self.progress.figures().last_failure.unwrap_or_default())
            }
        };
        persistence.backups.fail(&why);
        persistence.rewrites.cancel();
        persistence.rewrites.wake();
    }
}

#[cfg(test)]
mod tests {
    use almandine_config::{Config, Startup};
    use almandine_instance::Acl;
    use almandine_keyspace::{Keyspace, Options};

    use super::*;

    fn listener(threshold_ms: &str) -> Listener {
        let args = ["--latency-monitor-threshold", threshold_ms].map(str::to_owned);
        let Ok(Startup::Run(config)) = Config::load(&args) else { panic!("a configuration") };
        let store = almandine_store::Options { background: false, ..Default::default() };
        let keyspace = Keyspace::open(Options { store, ..Options::default() }).unwrap();
        let table = crate::commands::table(&[]).unwrap();
        let instance = Instance::new(*config, keyspace, 1, Acl::open(table.catalog()), "0".repeat(40));
        Listener {
            instance: Arc::new(instance),
            progress: Arc::default(),
            purpose: LogPurpose::Durability,
            has_told: AtomicBool::default(),
        }
    }

    #[test]
    fn slow_writes_are_events_of_latency() {
        let of = |listener: &Listener, event: &str| listener.instance.latency.event(event).map(|event| event.max_ms);
        let listens = listener("5");
        listens.wrote(4_999_999, true);
        assert_eq!(of(&listens, "aof-fsync-always"), None, "it is below the threshold");
        listens.wrote(5_000_000, true);
        listens.wrote(7_500_000, false);
        assert_eq!((of(&listens, "aof-fsync-always"), of(&listens, "aof-write")), (Some(5), Some(7)));
        assert_eq!((of(&listens, "aof-write-alone"), of(&listens, "aof-write-active-child")), (Some(7), None));
        let lax = listener("5");
        lax.progress.set_mode(SyncMode::EverySecond);
        lax.wrote(9_000_000, true);
        assert!(lax.instance.latency.events().is_empty());
        let deaf = listener("0");
        deaf.wrote(1 << 40, true);
        assert!(deaf.instance.latency.events().is_empty());
    }
}
