//! The thread that gives the log a new base: when a client asks for it, and when the log has grown.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use almandine_config::Settings;
use almandine_config::choices::AofFormat;
use almandine_instance::{Instance, RewriteCause, RewriteOutcome, SaveMeter};
use almandine_io::clock;
use almandine_io::thread::{self, JoinHandle, Waker};
use almandine_recovery::save::SaveError;

use super::base;
use super::running::{LogSlot, RunningLog};
use crate::meter::Meter;
use crate::redis_files;

/// How often the size of the log is looked at.
const PERIOD: Duration = Duration::from_millis(100);
/// How long a log without any base waits for the next try.
const RETRY_FIRST_NS: u64 = 1_000_000_000;
/// How long a broken log rests between two tries to heal it.
const HEAL_NS: u64 = 5_000_000_000;
/// How long the log is not rewritten by itself after a failure; twice as long after each further one, up to an hour.
const RETRY_NS: u64 = 60_000_000_000;
const RETRY_DOUBLINGS_MAX: u32 = 6;

/// The directory of the node, by its settings.
pub(crate) type NodeDirectory = Box<dyn Fn(&Settings) -> PathBuf + Send>;

/// The thread. It ends once the end of its instance is granted.
pub(crate) struct Rewriter {
    thread: JoinHandle<()>,
    waker: Arc<Waker>,
}

impl Rewriter {
    /// Waits for its end. A base that is being written is given up.
    pub(crate) fn join(self, instance: &Instance) {
        instance.persistence.rewrites.cancel();
        self.waker.wake();
        // A thread that panics ends the process.
        let _ = self.thread.join();
    }
}

/// Starts the thread.
pub(crate) fn start(instance: Arc<Instance>, log: Arc<LogSlot>, directory: NodeDirectory) -> io::Result<Rewriter> {
    let waker = Arc::new(Waker::new());
    instance.persistence.rewrites.install_waker(Arc::clone(&waker));
    let own = Arc::clone(&waker);
    let thread = thread::spawn("rewriter", move || {
        while !instance.shutdown.requested() {
            let persistence = &instance.persistence;
            let is_free = !persistence.saves.figures().in_background && !persistence.is_loading();
            let running = log.get().filter(|_| is_free);
            let cause = if is_free { persistence.rewrites.next(running.is_some() && is_due(&instance)) } else { None };
            if let Some(cause) = cause {
                persistence.rewrites.end(rewrite(&instance, running.as_deref(), &directory, cause));
            } else {
                own.wait(PERIOD);
            }
        }
    })?;
    Ok(Rewriter { thread, waker })
}

/// Whether the log has grown as much as the settings say.
fn is_due(instance: &Instance) -> bool {
    let snapshot = instance.config.snapshot();
    let (settings, persistence) = (&snapshot.settings.persistence, &instance.persistence);
    let Some(figures) = persistence.log.figures() else { return false };
    let rewrites = persistence.rewrites.figures();
    if rewrites.initial {
        return clock::monotonic_ns() - rewrites.ended_ns >= RETRY_FIRST_NS;
    }
    if persistence.log.lacks_base() {
        return heals(rewrites.ended_ns);
    }
    let (bytes, was) = (figures.bytes + persistence.log.base_bytes(), persistence.log.rewritten_bytes().max(1));
    let growth = (u128::from(bytes) * 100 / u128::from(was)).saturating_sub(100);
    let is_due = settings.rewrite_growth_percent != 0
        && bytes > settings.rewrite_bytes_min
        && growth >= u128::from(settings.rewrite_growth_percent)
        && !persistence.is_loading();
    if !is_due {
        return false;
    }
    if rewrites.failures > 0 {
        let rest_ns = RETRY_NS << (rewrites.failures - 1).min(RETRY_DOUBLINGS_MAX);
        if clock::monotonic_ns() - rewrites.ended_ns < rest_ns {
            return false;
        }
    }
    tracing::info!("Starting automatic rewriting of AOF on {growth}% growth");
    true
}

/// Whether a broken log is to be healed by a new base now, some seconds after the last try.
fn heals(ended_ns: u64) -> bool {
    let is_time = clock::monotonic_ns() - ended_ns >= HEAL_NS;
    if is_time {
        tracing::warn!("The log is broken: a new base is written, behind which writes are taken again");
    }
    is_time
}

fn rewrite(instance: &Instance, log: Option<&RunningLog>, node_directory: &NodeDirectory, cause: RewriteCause) -> RewriteOutcome {
    let meter = Arc::new(Meter::default());
    let settings = &instance.config.snapshot().settings;
    let delay_us = settings.persistence.key_save_delay_us;
    meter.0.key_delay_us.store(u64::try_from(delay_us).unwrap_or(0), Relaxed);
    tracing::info!("Background append only file rewriting started by the thread 'rewriter'");
    instance.persistence.rewrites.meter(Arc::clone(&meter) as Arc<dyn SaveMeter>);
    let directory = node_directory(settings);
    let exports = log.is_none() || cause == RewriteCause::Asked && settings.persistence.aof_format == AofFormat::Redis;
    let renewed = log.map_or(Ok(()), |log| renew(instance, log, &meter));
    let written = renewed.and_then(|()| if exports { export(instance, &directory, log.is_some(), &meter) } else { Ok(()) });
    match written {
        Ok(()) => {
            tracing::info!("Background AOF rewrite finished successfully");
            RewriteOutcome::Done
        }
        Err(SaveError::Cancelled) => {
            tracing::warn!("The rewriting of the log was given up");
            RewriteOutcome::Cancelled
        }
        Err(error) => {
            tracing::error!("Background AOF rewrite terminated with error: {error}. What was there before goes on as it is");
            RewriteOutcome::Failed
        }
    }
}

/// A new base for the log.
fn renew(instance: &Instance, log: &RunningLog, meter: &Meter) -> Result<(), SaveError> {
    let began_ns = clock::monotonic_ns();
    let bytes = base::renew(instance, log, &meter.0)?;
    let elapsed_ms = (clock::monotonic_ns() - began_ns) / 1_000_000;
    tracing::info!("The log begins with a new base: {} keys, {bytes} bytes, {elapsed_ms} ms", meter.keys());
    // From here on it counts, and not what was written before it began.
    Ok(redis_files::end_own(&log.directory)?)
}

/// An append-only file of Redis.
fn export(instance: &Instance, directory: &Path, has_log: bool, meter: &Meter) -> Result<(), SaveError> {
    let began_ns = clock::monotonic_ns();
    let saved = redis_files::export(instance, directory, has_log, &meter.0)?;
    let elapsed_ms = (clock::monotonic_ns() - began_ns) / 1_000_000;
    let directory = directory.join(&instance.config.snapshot().settings.persistence.log_directory);
    tracing::info!(
        "An append-only file of Redis is written in {}: {} keys, {} bytes, {elapsed_ms} ms",
        directory.display(),
        saved.keys,
        saved.bytes
    );
    Ok(())
}
