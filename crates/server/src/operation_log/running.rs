//! The log while it takes writes, for the threads that ask something of its writer.

use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, PoisonError};

use almandine_config::Settings;
use almandine_config::choices::CommitTier;
use almandine_instance::{Instance, LogPurpose};
use almandine_io::sync::{Condvar, Mutex};
use almandine_keyspace::StorageCiphers;
use almandine_oplog::append::Appender;
use almandine_oplog::archive::NamedBase;
use almandine_oplog::writer::{LogProgress, LogWriter, SyncMode, WriterOptions};
use almandine_oplog::{LogKeys, NoKey, RingSource, Rings};

use super::found::mode;
use super::listener::Listener;
use super::naming::Naming;
use super::rings::lie_within;

/// Whether replies wait for the archive.
pub(super) fn is_awaited(settings: &Settings) -> bool {
    let persistence = &settings.persistence;
    !persistence.log_object_url.is_empty() && persistence.commit_tier == CommitTier::ObjectStore
}

/// Whether all pages of `storage-dir` can be read with these keys.
///
/// # Errors
/// When one that they need is not there.
pub(super) fn check_page_keys(ciphers: &StorageCiphers, keys: &LogKeys) -> Result<(), NoKey> {
    ciphers.keys().keys().try_for_each(|mark| keys.check(mark))
}

/// See the module.
#[derive(Debug)]
pub(crate) struct RunningLog {
    pub(super) writer: LogWriter,
    pub(super) directory: PathBuf,
    pub(super) id: u128,
    /// The number of the last base that was begun. One that has failed may be named all the same: no other has its number.
    pub(super) last_base: AtomicU64,
    /// The last base that is durably named.
    named_base: Mutex<NamedBase>,
    /// Its rings lie with its files, as they are.
    pub(super) has_rings_within: bool,
    /// What is written is encrypted with, and what there is can be read with.
    keys: Mutex<Arc<LogKeys>>,
    pub(super) naming: Naming,
    pub(super) purpose: LogPurpose,
    /// Those of `storage-dir`.
    ciphers: Option<Arc<StorageCiphers>>,
}

/// What a log is written with.
pub(super) struct Written {
    pub(super) rings: Arc<Rings>,
    pub(super) progress: Arc<LogProgress>,
    /// The number of the last base that there was.
    pub(super) last_base: u64,
    pub(super) keys: Arc<LogKeys>,
    pub(super) naming: Naming,
    pub(super) purpose: LogPurpose,
}

impl RunningLog {
    /// Starts the thread that writes it. Sessions know of it from now on; units are logged when the keyspace is told so.
    pub(super) fn start(
        instance: &Arc<Instance>,
        log: Appender,
        source: RingSource,
        Written { rings, progress, last_base, keys, naming, purpose }: Written,
    ) -> io::Result<Self> {
        if !log.is_direct() {
            tracing::info!("The log is written through the page cache: its file system has no direct writes");
        }
        let rings_survive = rings.options().directory.is_some();
        let settings = &instance.config.snapshot().settings;
        // What is for a backup is synced when that is sealed.
        let mode = if purpose == LogPurpose::Backup { SyncMode::Never } else { mode(settings) };
        let options = WriterOptions { mode, rings_survive };
        let listener =
            Box::new(Listener { instance: Arc::clone(instance), progress: Arc::clone(&progress), purpose, has_told: false.into() });
        progress.await_archive(is_awaited(settings));
        let (directory, id) = (log.directory().to_owned(), log.manifest().id);
        // What was before it is not known.
        let number = log.manifest().base.map_or(0, |base| base.number);
        let named_base = Mutex::new(NamedBase { number, broken_at: number });
        let ciphers = instance.keyspace.log().device().map(|device| device.storage().ciphers);
        let writer = LogWriter::start(log, Box::new(source), options, listener, Arc::clone(&progress))?;
        instance.workers.rest.install_waker(progress.waker());
        let pressed = Arc::clone(&progress);
        rings.on_much(move || pressed.press());
        let has_rings_within = lie_within(&rings, &directory);
        instance.persistence.log.begin(purpose, progress, rings, instance.keyspace.log().order());
        let keys = Mutex::new(keys);
        Ok(Self {
            writer,
            directory,
            id,
            has_rings_within,
            last_base: last_base.into(),
            named_base,
            keys,
            naming,
            purpose,
            ciphers,
        })
    }

    pub(super) fn keys(&self) -> Arc<LogKeys> {
        Arc::clone(&self.keys.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// What is written from now on is encrypted with the first of these, or plain.
    pub(super) fn set_keys(&self, keys: Arc<LogKeys>) {
        if let Some(ciphers) = &self.ciphers {
            ciphers.set_keys(Arc::clone(&keys));
        }
        self.writer.set_keys(Arc::clone(&keys));
        *self.keys.lock().unwrap_or_else(PoisonError::into_inner) = keys;
    }

    /// Whether all pages of `storage-dir` can be read with these keys.
    ///
    /// # Errors
    /// When one that they need is not there.
    pub(super) fn check_page_keys(&self, keys: &LogKeys) -> Result<(), NoKey> {
        self.ciphers.as_ref().map_or(Ok(()), |ciphers| check_page_keys(ciphers, keys))
    }

    pub(super) fn named_base(&self) -> NamedBase {
        *self.named_base.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A base is durably named, which heals a broken log or follows what was there.
    pub(super) fn set_named_base(&self, number: u64, heals: bool) {
        let mut named = self.named_base.lock().unwrap_or_else(PoisonError::into_inner);
        *named = NamedBase { number, broken_at: if heals { number } else { named.broken_at } };
    }

    pub(super) fn next_base(&self) -> u64 {
        self.last_base.fetch_add(1, Ordering::Relaxed) + 1
    }
}

/// The place of the log of a node; empty while there is none.
#[derive(Debug, Default)]
pub(crate) struct LogSlot {
    running: Mutex<Option<Arc<RunningLog>>>,
    /// The last one, also when it has ended: what it has may not be shipped yet.
    last: Mutex<Option<Arc<RunningLog>>>,
    /// The last one has its end, and no ring of it counts.
    has_ended: AtomicBool,
    /// A log begins or ends.
    is_turning: Mutex<bool>,
    turned: Condvar,
}

/// The right to begin a log or to end one.
pub(super) struct Turn<'s>(&'s LogSlot);

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        *self.0.is_turning.lock().unwrap_or_else(PoisonError::into_inner) = false;
        self.0.turned.notify_all();
    }
}

impl LogSlot {
    /// No log begins or ends but by the caller, until this is dropped. Not in a batch: what a log waits for there may wait for it.
    pub(super) fn turn(&self) -> Turn<'_> {
        let is_turning = self.is_turning.lock().unwrap_or_else(PoisonError::into_inner);
        *self.turned.wait_while(is_turning, |is_turning| *is_turning).unwrap_or_else(PoisonError::into_inner) = true;
        Turn(self)
    }

    pub(crate) fn get(&self) -> Option<Arc<RunningLog>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn put(&self, log: RunningLog) {
        self.has_ended.store(false, Ordering::Relaxed);
        let log = Arc::new(log);
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::clone(&log));
        *self.running.lock().unwrap_or_else(PoisonError::into_inner) = Some(log);
    }

    /// The log that runs, or the one that has run last.
    pub(super) fn last(&self) -> Option<Arc<RunningLog>> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn take(&self) -> Option<Arc<RunningLog>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// The log that was here has its end.
    pub(crate) fn end(&self) {
        self.has_ended.store(true, Ordering::Relaxed);
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.has_ended.load(Ordering::Relaxed)
    }

    /// There was no log yet, or the last one has its end.
    pub(super) fn is_settled(&self) -> bool {
        self.last().is_none() || self.has_ended()
    }
}
