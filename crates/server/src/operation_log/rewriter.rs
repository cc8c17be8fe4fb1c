//! The thread that gives the log a new base: when a client asks for it, and when the log has grown.
//!
//! It is told when the log has become so large that it may be time ([`almandine_instance::Rewrites::wake_at`]), when a snapshot
//! ends, when the log fails and when settings change, and sleeps until then.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use almandine_config::Settings;
use almandine_config::choices::AofFormat;
use almandine_instance::{Instance, LogPurpose, RewriteCause, RewriteOutcome, SaveMeter};
use almandine_io::clock;
use almandine_io::thread::{self, JoinHandle, Waker};
use almandine_keyspace::DeviceBase;
use almandine_recovery::save::SaveError;

use super::backup::{Backup, Helpers};
use super::retained::retained_too_much;
use super::running::{LogSlot, RunningLog};
use super::{backup_log, base, rekey};
use crate::meter::Meter;
use crate::redis_files;

/// How long the thread sleeps at most while it waits for a word.
const REST: Duration = Duration::from_secs(10);
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

/// Starts the thread; `helpers` take its backups further.
pub(crate) fn start(
    instance: Arc<Instance>,
    log: Arc<LogSlot>,
    directory: NodeDirectory,
    helpers: Helpers,
) -> io::Result<Rewriter> {
    let waker = Arc::new(Waker::new());
    instance.persistence.rewrites.install_waker(Arc::clone(&waker));
    let own = Arc::clone(&waker);
    let thread = thread::spawn("rewriter", move || {
        // Where that is not allowed, it competes with the workers on equal terms.
        let _ = thread::rank_behind_workers(thread::Rank::Copies);
        let mut backup = Backup::new(helpers);
        backup_log::remove_left(&instance, &directory(&instance.config.snapshot().settings));
        while !instance.shutdown.requested() {
            let persistence = &instance.persistence;
            let node = directory(&instance.config.snapshot().settings);
            backup_log::follow(&instance, &log, &node);
            if backup.go_on(&instance, &node, log.get().as_deref()) {
                continue;
            }
            let kept = persistence.backups.clean_after(instance.config.snapshot().settings.persistence.backup_sealed_s);
            let saves = persistence.saves.figures();
            // A snapshot that was asked for behind a rewriting that begins at once waits for that.
            let goes_first = persistence.rewrites.is_running() && saves.running_s.is_none();
            let is_free = (goes_first || !saves.in_background) && !persistence.is_loading();
            let running = log.get().filter(|_| is_free);
            let sleep = if running.is_some() { due_in(&instance) } else { REST };
            let is_due = sleep.is_zero() || running.is_some() && persistence.backups.is_pending();
            let may_begin = is_free && !persistence.backups.holds_log();
            let cause = if may_begin { persistence.rewrites.next(is_due) } else { None };
            if let Some(cause) = cause {
                // It may be the first one of a log that has begun since, or of one that has ended.
                let (before, running) = (running, log.get());
                if running.is_none() && (before.is_some() || cause == RewriteCause::Due) {
                    persistence.rewrites.end(RewriteOutcome::Cancelled);
                    continue;
                }
                let number = persistence.backups.begin();
                let written = rewrite(&instance, running.as_deref(), (&directory, cause), &mut backup);
                persistence.rewrites.end(written.0);
                if let Some((log, number)) = running.as_deref().zip(number) {
                    let node = directory(&instance.config.snapshot().settings);
                    backup.pin(&instance, (log, &node), number, written);
                }
                // A snapshot may wait for its end.
                persistence.saves.wake();
                continue;
            }
            own.wait(kept.map_or(sleep, |left| left.min(sleep)));
        }
        backup.end(&instance);
        backup_log::follow(&instance, &log, &directory(&instance.config.snapshot().settings));
    })?;
    Ok(Rewriter { thread, waker })
}

/// In what time the thread is to look again whether the log is to be rewritten by itself, if it is told nothing before; zero: now.
fn due_in(instance: &Instance) -> Duration {
    let snapshot = instance.config.snapshot();
    let (settings, persistence) = (&snapshot.settings.persistence, &instance.persistence);
    let rewrites = persistence.rewrites.figures();
    let rested_ns = clock::monotonic_ns() - rewrites.ended_ns;
    let rest = |all_ns: u64| Duration::from_nanos(all_ns.saturating_sub(rested_ns)).min(REST);
    if !persistence.log.is_on() {
        return REST;
    }
    if rewrites.initial {
        return rest(RETRY_FIRST_NS);
    }
    if persistence.log.lacks_base() {
        let left = rest(HEAL_NS);
        if left.is_zero() {
            tracing::warn!("The log is broken: a new base is written, behind which writes are taken again");
        }
        return left;
    }
    if persistence.backups.holds_log() {
        return REST;
    }
    if let Some(bytes) = retained_too_much(instance)
        && !persistence.is_loading()
        && (rewrites.failures == 0 || rest(RETRY_NS).is_zero())
    {
        tracing::info!("Starting a base of the log: {} MiB of the storage are kept for the one before", bytes >> 20);
        return Duration::ZERO;
    }
    let (was, base) = (persistence.log.rewritten_bytes().max(1), persistence.log.base_bytes());
    let percent = settings.rewrite_growth_percent;
    let due = due_bytes(was, percent, settings.rewrite_bytes_min);
    persistence.rewrites.wake_at(due.map(|bytes| bytes.saturating_sub(base)));
    let bytes = persistence.log.figures().map_or(0, |figures| figures.bytes) + base;
    if due.is_none_or(|due| bytes < due) {
        return REST;
    }
    // What it waits for now is not growth.
    persistence.rewrites.wake_at(None);
    if persistence.is_loading() {
        return REST;
    }
    if rewrites.failures > 0 {
        let left = rest(RETRY_NS << (rewrites.failures - 1).min(RETRY_DOUBLINGS_MAX));
        if !left.is_zero() {
            return left;
        }
    }
    let growth = (u128::from(bytes) * 100 / u128::from(was)).saturating_sub(100);
    tracing::info!("Starting automatic rewriting of AOF on {growth}% growth");
    Duration::ZERO
}

/// Bytes of the log and its base from which on it is rewritten by itself: more than `bytes_min`, and `percent` more than it had.
fn due_bytes(was: u64, percent: u64, bytes_min: u64) -> Option<u64> {
    let grown = (u128::from(was) * (u128::from(percent) + 100)).div_ceil(100);
    (percent != 0).then(|| u64::try_from(grown).unwrap_or(u64::MAX).max(bytes_min.saturating_add(1)))
}

/// What became of it, and what a new base names on the device.
type Written = (RewriteOutcome, Option<DeviceBase>);

fn rewrite(
    instance: &Instance,
    log: Option<&RunningLog>,
    (node_directory, cause): (&NodeDirectory, RewriteCause),
    backup: &mut Backup,
) -> Written {
    let meter = Arc::new(Meter::default());
    let settings = &instance.config.snapshot().settings;
    let delay_us = settings.persistence.key_save_delay_us;
    meter.0.key_delay_us.store(u64::try_from(delay_us).unwrap_or(0), Relaxed);
    tracing::info!("Background append only file rewriting started by the thread 'rewriter'");
    instance.persistence.rewrites.meter(Arc::clone(&meter) as Arc<dyn SaveMeter>);
    let directory = node_directory(settings);
    let is_promised = log.is_some_and(|log| log.purpose == LogPurpose::Durability);
    let is_asked = cause == RewriteCause::Asked;
    let exports = log.is_none() || is_asked && (!is_promised || settings.persistence.aof_format == AofFormat::Redis);
    let keyed = log.map_or(Ok(()), |log| rekey::read_again(log, settings, &directory, cause));
    let renewed = keyed.map_err(SaveError::from).and_then(|()| log.map_or(Ok(None), |log| renew(instance, log, &meter, backup)));
    let written = renewed.and_then(|device| {
        if exports {
            export(instance, &directory, is_promised, &meter)?;
        }
        Ok(device)
    });
    match written {
        Ok(device) => {
            tracing::info!("Background AOF rewrite finished successfully");
            (RewriteOutcome::Done, device)
        }
        Err(error) if matches!(error, SaveError::Cancelled) || log.is_some_and(|log| log.naming.has_ended()) => {
            tracing::warn!("The rewriting of the log was given up");
            (RewriteOutcome::Cancelled, None)
        }
        Err(error) => {
            tracing::error!("Background AOF rewrite terminated with error: {error}. What was there before goes on as it is");
            (RewriteOutcome::Failed, None)
        }
    }
}

/// A new base for the log; what it names on the device.
fn renew(instance: &Instance, log: &RunningLog, meter: &Meter, backup: &mut Backup) -> Result<Option<DeviceBase>, SaveError> {
    let began_ns = clock::monotonic_ns();
    let (bytes, device) = base::renew(instance, log, &meter.0, &mut || backup.keep(instance, log))?;
    instance.persistence.archive.wake();
    let elapsed_ms = (clock::monotonic_ns() - began_ns) / 1_000_000;
    tracing::info!("The log begins with a new base: {} keys, {bytes} bytes, {elapsed_ms} ms", meter.keys());
    // From here on it counts, and not what was written before it began.
    redis_files::end_own(&log.directory)?;
    Ok(device)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_is_due_when_it_has_grown_by_its_share_and_is_large() {
        assert_eq!(due_bytes(1000, 0, 0), None);
        assert_eq!(due_bytes(1000, 100, 64), Some(2000));
        assert_eq!(due_bytes(1001, 50, 64), Some(1502), "1501 bytes are 49 % more");
        assert_eq!(due_bytes(1000, 100, 2000), Some(2001), "more than the least size");
        assert_eq!(due_bytes(u64::MAX, 100, 0), Some(u64::MAX));
    }
}
