//! Brings sealed backups to object storage, and drops older ones there, by a thread of its own.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use almandine_config::Settings;
use almandine_instance::Instance;
use almandine_io::thread::{self, JoinHandle, Waker};
use almandine_io::{clock, files};
use almandine_oplog::archive::Objects;
use almandine_oplog::backup_store::{Keep, Ledger, Outgoing, Shipment, Shipping, StoreFault, retain, ship};
use almandine_oplog::directory::read_manifest;

use super::backup::path;
use super::objects::object_folder;
use super::page_copies;

/// How long the thread sleeps at most: so often it looks for backups that have become too old.
const REST: Duration = Duration::from_secs(600);
/// How long it waits behind a failure.
const RETRY: Duration = Duration::from_secs(1);
/// The same where nothing waits for it, or where it will hardly help.
const RETRY_LATER: Duration = Duration::from_secs(60);
/// How long it rests at most before it looks whether it is to end.
const NAP: Duration = Duration::from_millis(20);

/// What the threads share that seal, give up and upload backups: which are on their way. None without `backup-object-url`.
#[derive(Default)]
pub(crate) struct Outbox {
    /// Known once the log has its directory.
    ledger: OnceLock<Ledger>,
    is_on: AtomicBool,
}

impl Outbox {
    pub(super) fn ledger(&self, instance: &Instance, node: &Path) -> Result<Option<&Ledger>, StoreFault> {
        if !self.is_on.load(Ordering::Acquire) {
            return Ok(None);
        }
        if let Some(ledger) = self.ledger.get() {
            return Ok(Some(ledger));
        }
        let opened = Ledger::open(&node.join(&instance.config.snapshot().settings.persistence.log_directory))?;
        // Another thread may have been faster: both have read the same, or its owner counts.
        Ok(Some(self.ledger.get_or_init(|| opened)))
    }
}

/// The thread.
pub(crate) struct Uploader {
    thread: JoinHandle<()>,
    waker: Arc<Waker>,
    ends: Arc<AtomicBool>,
}

impl Uploader {
    /// Starts it, where the settings name a place for backups. What an earlier process has sealed and not shipped goes on.
    pub(crate) fn start(
        instance: &Arc<Instance>,
        outbox: Arc<Outbox>,
        node: impl Fn(&Settings) -> PathBuf + Send + 'static,
    ) -> io::Result<Option<Self>> {
        let settings = &instance.config.snapshot().settings;
        let url = &settings.persistence.backup_object_url;
        if url.is_empty() {
            return Ok(None);
        }
        let objects = object_folder("backup-object-url", url)?;
        outbox.is_on.store(true, Ordering::Release);
        let (waker, ends) = (Arc::new(Waker::new()), Arc::<AtomicBool>::default());
        instance.persistence.backups.uploads.install_waker(Arc::clone(&waker));
        let work = Work {
            instance: Arc::clone(instance),
            outbox,
            node: Box::new(node),
            objects,
            waker: Arc::clone(&waker),
            ends: Arc::clone(&ends),
        };
        work.resume().map_err(io::Error::other)?;
        let thread = thread::spawn("uploader", move || work.run())?;
        Ok(Some(Self { thread, waker, ends }))
    }

    /// Waits for its end: what is on its way goes on behind the next start.
    pub(crate) fn join(self) {
        self.ends.store(true, Ordering::Release);
        self.waker.wake();
        // A thread that panics ends the process.
        let _ = self.thread.join();
    }
}

struct Work {
    instance: Arc<Instance>,
    outbox: Arc<Outbox>,
    node: Box<dyn Fn(&Settings) -> PathBuf + Send>,
    objects: Box<dyn Objects>,
    waker: Arc<Waker>,
    ends: Arc<AtomicBool>,
}

impl Work {
    fn run(self) {
        // Where that is not allowed, it competes with the workers on equal terms.
        let _ = thread::rank_behind_workers(thread::Rank::Copies);
        let mut is_failing = false;
        while !self.ends() {
            let upload = self.instance.persistence.backups.uploads.name();
            let name = upload.as_deref().unwrap_or_default();
            match self.turn() {
                Ok(()) => {
                    is_failing = false;
                    self.waker.wait(REST);
                }
                // What was given up is dropped at once.
                Err(StoreFault::Stopped) => {}
                Err(fault) => {
                    self.instance.persistence.backups.uploads.fail(name, fault.to_string());
                    if !std::mem::replace(&mut is_failing, true) {
                        tracing::error!("Backups in object storage: {fault}. It is tried again");
                    }
                    let is_urgent = upload.is_some() && matches!(fault, StoreFault::Store(_));
                    self.waker.wait(if is_urgent { RETRY } else { RETRY_LATER });
                }
            }
        }
    }

    fn ends(&self) -> bool {
        self.ends.load(Ordering::Acquire)
    }

    fn ledger(&self) -> Result<&Ledger, StoreFault> {
        let node = (self.node)(&self.instance.config.snapshot().settings);
        let ledger = self.outbox.ledger(&self.instance, &node)?;
        ledger.ok_or_else(|| StoreFault::Refused("backups do not go to object storage".to_owned()))
    }

    /// What an earlier process has sealed goes on, if its files are there still.
    fn resume(&self) -> Result<(), StoreFault> {
        let ledger = self.ledger()?;
        let Some(Outgoing { name, log, start_s }) = ledger.outgoing() else { return Ok(()) };
        let node = (self.node)(&self.instance.config.snapshot().settings);
        let directory = path(&self.instance, &node).map_err(StoreFault::Refused)?;
        let manifest = read_manifest(&directory).ok().flatten();
        if manifest.is_none_or(|manifest| manifest.id != log || manifest.end != Some(name.lsn)) {
            tracing::warn!(
                "The backup {name} was not shipped, and its files are not in {} any more: it is given up",
                directory.display()
            );
            return ledger.give_up();
        }
        let files = sealed_files(&directory).map_err(StoreFault::Store)?;
        tracing::info!("The backup {name}, which an earlier process has sealed, is shipped from {}", directory.display());
        let seconds = |seconds: u64| i64::try_from(seconds).unwrap_or(i64::MAX);
        self.instance.persistence.backups.resume(name.to_string(), files, (seconds(start_s), seconds(name.end_s)));
        Ok(())
    }

    /// Ships what is to be, and drops what is not to be kept.
    fn turn(&self) -> Result<(), StoreFault> {
        let (backups, ledger) = (&self.instance.persistence.backups, self.ledger()?);
        if let Some(name) = backups.uploads.name()
            && let Some(outgoing) = ledger.outgoing().filter(|outgoing| outgoing.name.to_string() == name)
        {
            self.ship(ledger, outgoing, backups.figures().files)?;
        }
        let settings = &self.instance.config.snapshot().settings.persistence;
        let keep = Keep { count: settings.backup_object_keep, seconds: settings.backup_object_ttl_s };
        let now_s = u64::try_from(clock::unix_ms() / 1000).unwrap_or(0);
        let retained = retain(&*self.objects, ledger, keep, now_s)?;
        backups.uploads.set_kept(retained.kept);
        if retained.dropped > 0 {
            tracing::info!("{} backups are dropped from object storage, {} are kept", retained.dropped, retained.kept);
        }
        Ok(())
    }

    fn ship(&self, ledger: &Ledger, outgoing: Outgoing, files: Vec<PathBuf>) -> Result<(), StoreFault> {
        let (backups, name) = (&self.instance.persistence.backups, outgoing.name.to_string());
        let node = (self.node)(&self.instance.config.snapshot().settings);
        let directory = path(&self.instance, &node).map_err(StoreFault::Refused)?;
        let shipment = Shipment { outgoing, directory, files };
        let (began_ns, mut last_ns) = (clock::monotonic_ns(), clock::monotonic_ns());
        let inventory = ship(&*self.objects, &shipment, &mut |Shipping { done, all, shipped }| {
            backups.uploads.advance(&name, shipped, (done, all));
            self.rest(&name, &mut last_ns, shipped)
        })?;
        // Given up meanwhile, it is dropped.
        if !ledger.shipped(inventory.name)? {
            return Err(StoreFault::Stopped);
        }
        if !backups.uploads.end(&name) {
            ledger.drop(&[inventory.name])?;
            return Err(StoreFault::Stopped);
        }
        let elapsed_ms = (clock::monotonic_ns() - began_ns) / 1_000_000;
        tracing::info!("The backup {name} is in object storage: {} bytes, {elapsed_ms} ms", inventory.bytes());
        // It may be time to remove its files.
        self.instance.persistence.rewrites.wake();
        Ok(())
    }

    /// Rests as the pace says; false: the upload is not to go on.
    fn rest(&self, name: &str, last_ns: &mut u64, bytes: u64) -> bool {
        loop {
            if self.ends() || !self.instance.persistence.backups.uploads.is(name) {
                return false;
            }
            let rate = self.instance.config.snapshot().settings.persistence.backup_copy_rate.max(1);
            let due_ns = *last_ns + u64::try_from(u128::from(bytes) * 1_000_000_000 / u128::from(rate)).unwrap_or(u64::MAX);
            let now_ns = clock::monotonic_ns();
            if now_ns >= due_ns {
                *last_ns = now_ns;
                return true;
            }
            thread::sleep(Duration::from_nanos(due_ns - now_ns).min(NAP));
        }
    }
}

/// The files of a sealed backup.
fn sealed_files(directory: &Path) -> io::Result<Vec<PathBuf>> {
    let mut all: Vec<PathBuf> = files::names(directory)?.into_iter().map(|name| directory.join(name)).collect();
    all.retain(|path| !files::is_directory(path));
    all.extend(page_copies::files_of(directory)?);
    Ok(all)
}
