//! The thread that writes snapshots: those that are asked for, those that are due by save points, and the one at the end.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use almandine_config::Settings;
use almandine_instance::{Instance, Message, PauseScope, Reload, SaveOutcome, SaveTask, ShutdownRequest};
use almandine_io::clock;
use almandine_io::thread::{self, JoinHandle, Waker};
use almandine_recovery::load::Existing;
use almandine_script::RestorePolicy;

use super::load;
use super::write::{path, write};
use crate::node::Host;

/// How often save points are looked at that may be reached by a change.
const PERIOD: Duration = Duration::from_millis(100);
/// The same while nothing has changed since the last snapshot.
const UNCHANGED: Duration = Duration::from_secs(1);
/// And while none can be reached.
const REST: Duration = Duration::from_secs(10);
/// How long the end waits for the first base of a log.
const FIRST_BASE: Duration = Duration::from_secs(1);
/// Seconds before a snapshot that has failed is tried again.
const RETRY_S: i64 = 5;
/// No wall clock comes there.
const NEVER_MS: i64 = i64::MAX / 2;

/// Puts what the files of the log have in place of the data.
pub(crate) type LoadLog = Box<dyn Fn() -> io::Result<()> + Send>;

/// The thread. It ends once the end of its instance is granted.
pub(crate) struct Saver {
    thread: JoinHandle<()>,
    waker: Arc<Waker>,
}

impl Saver {
    /// Waits for its end. A snapshot in the background is given up.
    pub(crate) fn join(self, instance: &Instance) {
        instance.persistence.saves.cancel();
        self.waker.wake();
        // A thread that panics ends the process.
        let _ = self.thread.join();
    }
}

/// Starts the thread.
pub(crate) fn start(instance: Arc<Instance>, host: Arc<dyn Host>, load_log: LoadLog) -> io::Result<Saver> {
    let waker = Arc::new(Waker::new());
    instance.persistence.saves.install_waker(Arc::clone(&waker));
    instance.shutdown.install_waker(Arc::clone(&waker));
    let own = Arc::clone(&waker);
    let thread = thread::spawn("saver", move || {
        // Where that is not allowed, it competes with the workers on equal terms.
        let _ = thread::rank_behind_workers(thread::Rank::Copies);
        while !instance.shutdown.requested() {
            if let Some(request) = instance.shutdown.pending() {
                end(&instance, &*host, request);
            } else if let Some(task) = instance.persistence.saves.next(instance.persistence.rewrites.is_running()) {
                perform(&instance, &*host, task, &load_log);
            } else if is_due(&instance) && instance.persistence.saves.take_up(SaveTask::Background) {
                perform(&instance, &*host, SaveTask::Background, &load_log);
            } else {
                own.wait(due_in(&instance));
            }
        }
        // A client that waits for a snapshot is told that there is none.
        while instance.persistence.saves.next(false).is_some() {
            instance.persistence.end_save(SaveOutcome::Failed);
        }
    })?;
    Ok(Saver { thread, waker })
}

/// Whether a save point is reached.
fn is_due(instance: &Instance) -> bool {
    let snapshot = instance.config.snapshot();
    let points = &snapshot.settings.persistence.save_points;
    if points.is_empty() || instance.persistence.is_loading() || instance.persistence.rewrites.is_running() {
        return false;
    }
    let (figures, now_s) = (instance.persistence.saves.figures(), clock::unix_ms() / 1000);
    if figures.failed && now_s - instance.persistence.saves.tried_s() <= RETRY_S {
        return false;
    }
    let changes = i64::try_from(instance.unsaved_changes()).unwrap_or(i64::MAX);
    let since_s = now_s - figures.last_s;
    // One that has failed is owed, also where nothing changes because writes are refused for it.
    let reached = points.iter().find(|point| (changes >= point.changes || figures.failed) && since_s > point.seconds);
    if let Some(point) = reached {
        tracing::info!("{} changes in {} seconds. Saving...", point.changes, point.seconds);
    }
    reached.is_some()
}

/// In what time a save point is to be looked at again, if the thread is told nothing before.
fn due_in(instance: &Instance) -> Duration {
    let snapshot = instance.config.snapshot();
    let points = &snapshot.settings.persistence.save_points;
    let Some(seconds) = points.iter().map(|point| point.seconds).min() else { return REST };
    let figures = instance.persistence.saves.figures();
    // A point is reached behind its seconds.
    let left_s = figures.last_s.saturating_add(seconds).saturating_add(1) - clock::unix_ms() / 1000;
    match u64::try_from(left_s) {
        Ok(left_s @ 1..) => Duration::from_secs(left_s).min(REST),
        _ if instance.unsaved_changes() == 0 => UNCHANGED,
        _ => PERIOD,
    }
}

fn perform(instance: &Instance, host: &dyn Host, task: SaveTask, load_log: &LoadLog) {
    let outcome = match task {
        SaveTask::Foreground => write(instance, host),
        SaveTask::Background => {
            tracing::info!("Background saving started by the thread 'saver'");
            let outcome = write(instance, host);
            match outcome {
                SaveOutcome::Done { .. } => tracing::info!("Background saving terminated with success"),
                SaveOutcome::Cancelled => {}
                SaveOutcome::Failed => tracing::warn!("Background saving error"),
            }
            outcome
        }
        SaveTask::Reload(how) => reload(instance, host, how),
        SaveTask::LoadLog => loaded(instance, load_log()),
    };
    instance.persistence.end_save(outcome);
}

/// DEBUG RELOAD. Clients are told that data is being loaded.
fn reload(instance: &Instance, host: &dyn Host, how: Reload) -> SaveOutcome {
    if how.save {
        let outcome = write(instance, host);
        if !matches!(outcome, SaveOutcome::Done { .. }) {
            return outcome;
        }
    }
    let path = path(instance, host);
    let loaded = load::announced_bytes(&path).and_then(|bytes| {
        let bytes = bytes.ok_or_else(|| io::Error::other(format!("there is no {}", path.display())))?;
        let mut accessor = instance.keyspace.accessor().ok_or_else(|| io::Error::other("the store has no session left"))?;
        instance.persistence.begin_loading(bytes);
        if how.flush {
            let dbs: Vec<u16> = (0..instance.keyspace.databases()).filter_map(|db| u16::try_from(db).ok()).collect();
            accessor.begin_batch(clock::unix_ms());
            accessor.flush(&dbs);
            accessor.end_batch();
        }
        let there = match (how.merge, how.flush) {
            (true, false) => (Existing::Replace, RestorePolicy::Replace),
            (true, true) => (Existing::Replace, RestorePolicy::Flush),
            (false, false) => (Existing::Refuse, RestorePolicy::Append),
            (false, true) => (Existing::Refuse, RestorePolicy::Flush),
        };
        let loaded = load::load_with(instance, &path, &mut accessor, there);
        accessor.begin_batch(clock::unix_ms());
        instance.log_functions(&mut accessor);
        accessor.end_batch();
        loaded
    });
    instance.persistence.end_loading();
    self::loaded(instance, loaded.map(drop))
}

/// What has become of the data.
fn loaded(instance: &Instance, loaded: io::Result<()>) -> SaveOutcome {
    match loaded {
        Ok(()) => SaveOutcome::Done { changes: instance.keyspace.figures().totals().changes, keys: 0 },
        Err(error) => {
            tracing::error!("{error}");
            SaveOutcome::Failed
        }
    }
}

/// Saves what there is, if it is to be saved, and grants the end; or refuses it where the data would be lost.
fn end(instance: &Instance, host: &dyn Host, request: ShutdownRequest) {
    let is_unwritten = || instance.persistence.rewrites.figures().initial && !instance.persistence.is_loading();
    // A script that has written and does not end holds the first base up until the worker asks for the end.
    if is_unwritten() && !request.force {
        instance.persistence.rewrites.await_first(FIRST_BASE);
    }
    if is_unwritten() {
        if !request.force {
            tracing::error!("Writing initial AOF, can't exit. SHUTDOWN FORCE ends the server without its log");
            return instance.shutdown.refuse();
        }
        tracing::warn!("Writing initial AOF. Exit anyway.");
    }
    let snapshot = instance.config.snapshot();
    if !instance.persistence.log.is_promised() {
        // An append-only file of Redis that is being written, or the base of a backup, holds a snapshot up.
        instance.persistence.rewrites.cancel();
    }
    if !saves_at_end(&snapshot.settings, request) || instance.persistence.is_loading() {
        return instance.shutdown.accept();
    }
    tracing::info!("Saving the final RDB snapshot before exiting.");
    // No client is answered behind the moment of the snapshot: what it was told is in it.
    instance.pause.start(PauseScope::All, NEVER_MS, clock::unix_ms());
    let written = instance.persistence.saves.take_up(SaveTask::Foreground).then(|| write(instance, host));
    let outcome = written.unwrap_or(SaveOutcome::Failed);
    if written.is_some() {
        instance.persistence.end_save(outcome);
    }
    if matches!(outcome, SaveOutcome::Done { .. }) {
        return instance.shutdown.accept();
    }
    if request.force {
        tracing::warn!("The server ends without it, as FORCE asks");
        return instance.shutdown.accept();
    }
    tracing::error!("Error trying to save the DB, can't exit. SHUTDOWN NOSAVE or FORCE ends the server without its data.");
    instance.pause.stop();
    instance.workers.broadcast(&Message::Resume);
    instance.shutdown.refuse();
}

/// Whether the data is to be saved before the end.
fn saves_at_end(settings: &Settings, request: ShutdownRequest) -> bool {
    request.save.unwrap_or(!settings.persistence.save_points.is_empty())
}
