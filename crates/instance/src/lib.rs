//! What all sessions of a server share: configuration, statistics, client registry, command logs, latency monitor, tracking.
//!
//! **Is**: the state of one running server that is not data. Every worker holds the same `Arc<Instance>`.
//! **Is not**: a place for values ([`almandine_keyspace`]), for a connection's private state (the session), or for commands. It
//! knows keys only as bytes that clients track or that are counted as hot, and no command by name: commands are dense indexes here.
//! **Invariants**: nothing on a batch's ordinary path takes a mutex or writes a line that another worker writes; mutexes guard
//! what happens at connect, at close, for slow commands, for errors and for administrators.
//! **Start reading at**: [`Instance`], then [`client`] and [`observe`].

#![cfg_attr(not(test), deny(clippy::disallowed_methods, clippy::disallowed_types))]

pub mod acl;
mod breaks;
pub mod client;
mod instance;
mod lock;
mod messages;
pub mod metrics;
pub mod observe;
mod pause;
mod persistence;
pub mod pubsub;
mod rest;
mod shutdown;
pub mod tracking;

pub use acl::Acl;
pub use almandine_device::watched::DeviceState;
pub use breaks::Breaks;
pub use client::{Activity, ClientIdentity, ClientMemory, ClientOrigin, ClientShared, Clients};
pub use instance::{Applier, Build, Instance, Run};
pub use messages::{HeldOfUnit, Mailbox, Message, Unblock, UnblockAnswer, Workers};
pub use observe::gauges::{Gauges, NetworkCounts, NetworkGauges, ObjectGauges};
pub use observe::histogram::Histogram;
pub use observe::hot_keys::{HotKeys, HotKeysOptions, HotKeysReport};
pub use observe::latency::{self, LatencyMonitor};
pub use observe::monitor::MonitorFeed;
pub use observe::rates::Rates;
pub use observe::slowlog::{self, CommandLogs, SlowEntry, SlowLog};
pub use observe::statistics::{self, CommandTotals, Statistics, WorkerStatistics};
pub use pause::{Pause, PauseScope};
pub use persistence::{
    Archive, ArchiveFigures, ArchiveState, BackupFigures, BackupFiles, BackupState, Backups, Cancelled, Hearing, Loading,
    LoadingFigures, LogPurpose, LogSeal, OperationLog, Persistence, Reload, RewriteBegun, RewriteCause, RewriteFigures,
    RewriteOutcome, RewriteRuns, Rewrites, SaveFigures, SaveMeter, SaveOutcome, SaveRefused, SaveTask, Saves, Sealed, Sealer,
    UploadFigures, UploadState, Uploads,
};
pub use rest::{Awake, Rest};
pub use shutdown::{Shutdown, ShutdownRequest};
pub use tracking::{Changed, Tracking, TrackingOptions, TrackingTotals};

/// The version that INFO reports as ours.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The version of Redis whose behaviour clients may expect.
pub const REDIS_VERSION: &str = "7.4.0";
