//! Figures that background threads bring to where INFO finds them, ten times a second; what the network counts is read where it
//! arises.

use std::fmt;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, OnceLock, PoisonError};

use almandine_device::watched::{DeviceState, Health};
use almandine_io::sync::Mutex;

use super::rates::Rates;

/// All of them.
#[derive(Debug, Default)]
pub struct Gauges {
    /// What the network reports.
    pub network: NetworkGauges,
    /// What object storage reports.
    pub objects: ObjectGauges,
    /// How the storage takes writes.
    pub storage: StorageGauge,
    /// Rates of late.
    pub rates: Rates,
}

/// Connections that the network has refused or closed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NetworkCounts {
    /// Refused because of `maxclients`.
    pub rejected: u64,
    /// Closed because they were idle.
    pub timed_out: u64,
    /// Closed because of `client-output-buffer-limit`.
    pub output_limit: u64,
    /// Closed because of `client-query-buffer-limit`.
    pub input_limit: u64,
}

/// Asks the network for its counts since the start.
struct Ask(Box<dyn Fn() -> NetworkCounts + Send + Sync>);

impl fmt::Debug for Ask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Ask")
    }
}

/// Figures of the network. Those of now are copied here ten times a second by a background thread.
#[derive(Debug, Default)]
pub struct NetworkGauges {
    ask: OnceLock<Ask>,
    /// The counts as of the last CONFIG RESETSTAT.
    baseline: Mutex<NetworkCounts>,
    /// Bytes of replies that peers have not taken.
    pub output_pending_bytes: AtomicU64,
    /// Bytes reserved for incomplete input.
    pub input_buffer_bytes: AtomicU64,
}

impl NetworkGauges {
    /// Says whom to ask for the counts since the start; a second call changes nothing.
    pub fn install(&self, ask: impl Fn() -> NetworkCounts + Send + Sync + 'static) {
        let _ = self.ask.set(Ask(Box::new(ask)));
    }

    fn since_start(&self) -> NetworkCounts {
        self.ask.get().map_or_else(NetworkCounts::default, |ask| (ask.0)())
    }

    /// What was counted since the last CONFIG RESETSTAT.
    #[must_use]
    pub fn counts(&self) -> NetworkCounts {
        let before = *self.baseline.lock().unwrap_or_else(PoisonError::into_inner);
        let now = self.since_start();
        NetworkCounts {
            rejected: now.rejected.saturating_sub(before.rejected),
            timed_out: now.timed_out.saturating_sub(before.timed_out),
            output_limit: now.output_limit.saturating_sub(before.output_limit),
            input_limit: now.input_limit.saturating_sub(before.input_limit),
        }
    }

    /// CONFIG RESETSTAT.
    pub fn reset(&self) {
        *self.baseline.lock().unwrap_or_else(PoisonError::into_inner) = self.since_start();
    }
}

/// How the storage takes writes, read where it arises.
#[derive(Debug, Default)]
pub struct StorageGauge {
    health: OnceLock<Arc<Health>>,
}

impl StorageGauge {
    /// Says where to read; a second call changes nothing.
    pub fn install(&self, health: Arc<Health>) {
        let _ = self.health.set(health);
    }

    /// Whether the storage takes writes; sound without one.
    #[must_use]
    pub fn state(&self) -> DeviceState {
        self.health.get().map_or(DeviceState::Sound, |health| health.state())
    }

    /// What the last write that the storage refused said, as one line; empty if there was none.
    #[must_use]
    pub fn last_error(&self) -> String {
        self.health.get().map_or_else(String::new, |health| one_line(&health.last_error()))
    }
}

/// Figures of object storage, copied here ten times a second by a background thread.
#[derive(Debug, Default)]
pub struct ObjectGauges {
    /// Bytes that the directories above it keep.
    pub directory_bytes: AtomicU64,
    /// Bytes that it holds.
    pub bytes: AtomicU64,
    /// Bytes that the directories have and that are on their way to it.
    pub backlog_bytes: AtomicU64,
    /// Reads that failed, since the start.
    pub read_errors: AtomicU64,
    /// Writes that failed, since the start; they are tried again.
    pub write_errors: AtomicU64,
    /// Deletions that failed, since the start.
    pub delete_errors: AtomicU64,
    /// What the last failure said; empty if there was none.
    pub last_error: Mutex<String>,
}

impl ObjectGauges {
    /// What the last failure said, as one line.
    #[must_use]
    pub fn last_error(&self) -> String {
        self.last_error.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Sets what the last failure said; as one line, which INFO needs.
    pub fn set_last_error(&self, text: &str) {
        *self.last_error.lock().unwrap_or_else(PoisonError::into_inner) = one_line(text);
    }
}

/// An error's text as INFO can show it.
fn one_line(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(LAST_ERROR_CHARS_MAX).collect()
}

/// Longest error text in INFO: object stores answer with whole documents.
const LAST_ERROR_CHARS_MAX: usize = 500;
