//! Everything that metrics are computed from, read once.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use almandine_config::config::Snapshot;
use almandine_device::watched::DeviceState;
use almandine_io::{clock, usage};
use almandine_keyspace::{MemoryUse, TierStatistics, Work};
use almandine_oplog::writer::LogFigures;

use crate::client::ClientShared;
use crate::instance::Instance;
use crate::observe::statistics::Totals;
use crate::pause::PauseScope;
use crate::persistence::{RewriteFigures, SaveFigures};
use crate::tracking::TrackingTotals;

/// The figures of one moment.
pub struct Readings<'n> {
    /// The server.
    pub instance: &'n Instance,
    /// The configuration.
    pub config: Arc<Snapshot>,
    /// The workers' counters.
    pub totals: Totals,
    /// The store's counters since the last reset, its gauges as they are.
    pub store: almandine_keyspace::Totals,
    /// The store's background.
    pub work: Work,
    /// Memory by use.
    pub memory: MemoryUse,
    /// The tier below memory.
    pub tier: TierStatistics,
    /// Client-side caching.
    pub tracking: TrackingTotals,
    /// Connections that watch keys, and how many keys these watch.
    pub watching: (u64, u64),
    /// Snapshots.
    pub saves: SaveFigures,
    /// New bases of the operation log.
    pub rewrites: RewriteFigures,
    /// The operation log, where there is one.
    pub log: Option<LogFigures>,
    /// Bytes of the process in memory.
    pub resident_bytes: u64,
    /// The highest use of memory so far, in bytes.
    pub peak_bytes: u64,
}

impl<'n> Readings<'n> {
    /// Reads everything.
    #[must_use]
    pub fn take(instance: &'n Instance) -> Self {
        let memory = instance.keyspace.figures().memory();
        let peak_bytes = instance.note_memory(memory.used_bytes());
        Self {
            instance,
            config: instance.config.snapshot(),
            totals: instance.statistics.totals(),
            store: instance.store_totals(),
            work: instance.keyspace.figures().work(),
            memory,
            tier: instance.keyspace.figures().tier().unwrap_or_default(),
            tracking: instance.tracking.totals(),
            watching: watching(instance),
            saves: instance.persistence.saves.figures(),
            rewrites: instance.persistence.rewrites.figures(),
            log: instance.persistence.log.figures().filter(|_| instance.persistence.log.is_promised()),
            resident_bytes: usage::resident_bytes(),
            peak_bytes,
        }
    }

    /// One word on the storage: whether it takes writes, and whether what it holds is whole.
    #[must_use]
    pub fn storage_state(&self) -> &'static str {
        match self.instance.gauges.storage.state() {
            DeviceState::Sound if self.tier.corrupt_blocks > 0 => "damaged",
            state => state.name(),
        }
    }

    /// What an operator must know of the storage first; empty if nothing.
    #[must_use]
    pub fn storage_error(&self) -> String {
        let storage = &self.instance.gauges.storage;
        match (self.tier.corrupt_blocks, self.tier.read_errors) {
            _ if storage.state() != DeviceState::Sound => storage.last_error(),
            (1.., _) => format!(
                "{} blocks were not what had been written: the keys in them are lost until they are written again",
                self.tier.corrupt_blocks
            ),
            (0, 1..) => format!("{} reads failed: the log of the system has the reason", self.tier.read_errors),
            (0, 0) => storage.last_error(),
        }
    }

    /// The keys that pages on the device need; empty if it has none.
    #[must_use]
    pub fn storage_keys(&self) -> String {
        let Some(device) = self.instance.keyspace.log().device() else { return String::new() };
        let keys = device.storage().ciphers.keys();
        let plain = device.pages_stored().saturating_sub(keys.values().sum());
        let mut words: Vec<String> = keys.iter().map(|(mark, pages)| format!("{}={pages}", mark.name())).collect();
        words.extend((plain > 0).then(|| format!("plain={plain}")));
        words.join(",")
    }

    /// Bytes that count against `maxmemory`.
    #[must_use]
    pub fn used_bytes(&self) -> u64 {
        self.memory.used_bytes()
    }

    /// Of these, what is not records: index, expiry wheel, clients.
    #[must_use]
    pub fn overhead_bytes(&self) -> u64 {
        self.memory.index_bytes + self.memory.expiry_bytes + self.memory.ghost_bytes + self.memory.external_bytes
    }

    /// Of these, records and values.
    #[must_use]
    pub fn dataset_bytes(&self) -> u64 {
        self.used_bytes() - self.overhead_bytes()
    }

    /// Records as a share of what is used beyond the empty server.
    #[must_use]
    pub fn dataset_share(&self) -> f64 {
        ratio(self.dataset_bytes(), self.used_bytes().saturating_sub(self.instance.run.startup_bytes)).min(1.0)
    }

    /// Bytes that the store holds, with the space of dead records that is not reused yet: what its allocator has taken.
    #[must_use]
    pub fn held_bytes(&self) -> u64 {
        self.used_bytes() - self.memory.log_live_bytes + self.memory.log_resident_bytes
    }

    /// What CLIENT PAUSE holds back, and for how many milliseconds more.
    #[must_use]
    pub fn paused(&self) -> Option<(PauseScope, u64)> {
        let (pause, now_ms) = (&self.instance.pause, clock::unix_ms());
        pause.active(now_ms).map(|scope| (scope, pause.remaining_ms(now_ms).max(0).unsigned_abs()))
    }

    /// Bytes of an incomplete command of the connection that has most of them.
    #[must_use]
    pub fn query_bytes_max(&self) -> u64 {
        let bytes = self.instance.clients.all().iter().map(|client| client.activity.query_bytes.load(Relaxed)).max();
        bytes.unwrap_or(0) as u64
    }

    /// The most bytes of replies that one peer has not taken.
    #[must_use]
    pub fn output_pending_bytes_max(&self) -> u64 {
        let bytes = self.instance.clients.all().iter().map(|client| client.activity.output_pending_bytes.load(Relaxed)).max();
        bytes.unwrap_or(0) as u64
    }

    /// A parameter as CONFIG GET shows it.
    #[must_use]
    pub fn parameter(&self, name: &str) -> String {
        self.config.show(name).unwrap_or_default()
    }
}

fn watching(instance: &Instance) -> (u64, u64) {
    let watched = |client: &Arc<ClientShared>| client.transaction.watched.load(Relaxed) as u64;
    instance
        .clients
        .all()
        .iter()
        .map(watched)
        .filter(|keys| *keys > 0)
        .fold((0, 0), |(clients, keys), more| (clients + 1, keys + more))
}

/// `part` per `whole`; 0 of nothing.
#[expect(clippy::cast_precision_loss, reason = "a ratio for humans")]
pub(crate) fn ratio(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

/// Bytes as INFO's `_human` fields write them: `943.35K`.
#[must_use]
#[expect(clippy::cast_precision_loss, reason = "two decimals are shown")]
pub fn human(bytes: u64) -> String {
    if bytes < 1024 {
        return format!("{bytes}B");
    }
    let units = ["K", "M", "G", "T", "P"];
    let exponent = (bytes.ilog2() / 10).min(5);
    format!("{:.2}{}", bytes as f64 / 1024_f64.powi(exponent as i32), units[exponent as usize - 1])
}
