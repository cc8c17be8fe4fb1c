//! Backups of the log, as the thread that writes bases and the sessions use them.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};

use almandine_base::step;
use almandine_config::Settings;
use almandine_instance::{BackupFiles, Instance, Message, RewriteOutcome, Sealed, Sealer};
use almandine_io::file::File;
use almandine_io::{clock, files, thread};
use almandine_keyspace::DeviceBase;
use almandine_oplog::backup::{Pinned, check_empty, clear, keep, pin_base, seal};
use almandine_oplog::backup_store::Ledger;

use super::backup_log;
use super::base::DEVICE_PART;
use super::page_copies::{self, Order, PageCopies};
use super::retained::fills_storage;
use super::running::RunningLog;
use super::uploader::Outbox;

/// The directory of backups.
struct BackupDirectory {
    instance: Weak<Instance>,
    node: Box<dyn Fn(&Settings) -> PathBuf + Send + Sync>,
    helpers: Helpers,
}

/// What takes backups further, beside the thread that writes bases.
#[derive(Clone, Default)]
pub(crate) struct Helpers {
    copies: Arc<PageCopies>,
    pub(crate) outbox: Arc<Outbox>,
}

/// Backups of a node lie below its directory, which `node` says.
pub(crate) fn install(instance: &Arc<Instance>, node: impl Fn(&Settings) -> PathBuf + Send + Sync + 'static) -> Helpers {
    let helpers = Helpers::default();
    let directory = BackupDirectory { instance: Arc::downgrade(instance), node: Box::new(node), helpers: helpers.clone() };
    instance.persistence.backups.install(Box::new(directory));
    helpers
}

impl BackupDirectory {
    fn path(&self, instance: &Instance) -> Result<PathBuf, String> {
        path(instance, &(self.node)(&instance.config.snapshot().settings))
    }

    fn instance(&self) -> Result<Arc<Instance>, String> {
        self.instance.upgrade().ok_or_else(|| "the server ends".to_owned())
    }
}

impl BackupFiles for BackupDirectory {
    fn check(&self) -> Result<(), String> {
        let instance = self.instance()?;
        if !instance.persistence.log.is_on()
            && let Some(why) = backup_log::reason_against(&instance.config.snapshot().settings)
        {
            return Err(why.to_owned());
        }
        check_empty(&self.path(&instance)?).map_err(|fault| fault.to_string())
    }

    fn clear(&self) -> Result<(), String> {
        self.helpers.copies.stop();
        let path = self.path(&*self.instance()?)?;
        // A worker removes the names. The system frees the blocks with the last handle, which takes long: a thread closes those.
        let held = hold(&path);
        page_copies::clear(&path);
        let cleared = clear(&path);
        // If there is no thread to be had, they are closed here.
        let _ = thread::spawn("backup-free", move || {
            let _ = thread::rank_behind_workers(thread::Rank::Copies);
            drop(held);
        });
        cleared.map_err(|fault| fault.to_string())
    }

    fn give_up(&self) -> Result<(), String> {
        let instance = self.instance()?;
        let node = (self.node)(&instance.config.snapshot().settings);
        let given_up = self.helpers.outbox.ledger(&instance, &node).and_then(|ledger| ledger.map_or(Ok(()), Ledger::give_up));
        given_up.map_err(|fault| fault.to_string())
    }

    fn tell(&self, client: Sealer) {
        if let Some(instance) = self.instance.upgrade() {
            instance.workers.send(client.worker, Message::BackupEnded(client.id));
        }
    }
}

/// Opens all files of a backup.
fn hold(path: &Path) -> Vec<File> {
    let own = files::names(path).unwrap_or_default().into_iter().map(|name| path.join(name));
    let copied = page_copies::files_of(path).unwrap_or_default();
    own.filter(|file| !files::is_directory(file)).chain(copied).filter_map(|file| files::open(file).ok()).collect()
}

pub(super) fn path(instance: &Instance, node: &Path) -> Result<PathBuf, String> {
    let node = if node.as_os_str().is_empty() { Path::new(".") } else { node };
    let node = files::canonical(node).map_err(|error| format!("{} is not to be had: {error}", node.display()))?;
    Ok(node.join(&instance.config.snapshot().settings.persistence.backup_directory))
}

/// The backup that the thread has begun.
pub(super) struct Backup {
    pinned: Option<Pinned>,
    helpers: Helpers,
}

impl Backup {
    pub(super) fn new(helpers: Helpers) -> Self {
        Self { pinned: None, helpers }
    }

    /// A base was written, of this backup; with a device, what it names there is copied now.
    pub(super) fn pin(
        &mut self,
        instance: &Arc<Instance>,
        (log, node): (&RunningLog, &Path),
        number: u64,
        (outcome, device): (RewriteOutcome, Option<DeviceBase>),
    ) {
        let backups = &instance.persistence.backups;
        let pin = || {
            if outcome != RewriteOutcome::Done {
                return Err("its base could not be written, see the server's log".to_owned());
            }
            let directory = path(instance, node)?;
            let (pinned, files) = pin_base(&log.directory, &directory).map_err(|fault| fault.to_string())?;
            if let Some(base) = device {
                let order = Order { number, directory, table: pinned.base_path(DEVICE_PART), log: pinned.log(), base };
                self.helpers.copies.start(instance, order)?;
            } else {
                tracing::info!("The backup in {} has its base; BACKUP SEAL ends it", directory.display());
            }
            self.pinned = Some(pinned);
            Ok(files)
        };
        backups.pin(number, device.is_some(), pin);
    }

    /// Before a base is named: what drops out of the log then and belongs to the backup is in it.
    pub(super) fn keep(&mut self, instance: &Instance, log: &RunningLog) {
        let persistence = &instance.persistence;
        if persistence.log.lacks_base() {
            persistence.backups.fail(LOG_BROKEN);
        }
        persistence.backups.keep(|| {
            let pinned = self.pinned.as_mut().ok_or_else(|| "its base is unknown".to_owned())?;
            step!(KeepSegments, keep(pinned, &log.directory).map_err(|fault| fault.to_string()), else Ok(Vec::new()))
        });
    }

    /// Does what is asked of the one that is under way. True: it has.
    pub(super) fn go_on(&mut self, instance: &Instance, node: &Path, log: Option<&RunningLog>) -> bool {
        let persistence = &instance.persistence;
        let backups = &persistence.backups;
        let log = log.filter(|_| persistence.log.is_on());
        if log.is_none() {
            backups.fail("the log of writes was turned off");
        } else if backups.needs_log() && persistence.log.lacks_base() {
            backups.fail(LOG_BROKEN);
        } else if backups.copies() && fills_storage(instance) {
            backups.fail("storage-dir was full, and only the backup needed some of it");
        }
        if !backups.copies() {
            self.helpers.copies.stop();
        }
        let Some(log) = log else { return false };
        if let Some((number, copied)) = self.helpers.copies.take_copied() {
            match &copied {
                Ok(_) => tracing::info!("The backup has its base and what that names; BACKUP SEAL ends it"),
                Err(why) => tracing::error!("The backup has failed: {why}"),
            }
            backups.copied(number, copied);
            return true;
        }
        let Some(number) = backups.asked_to_seal() else { return false };
        backups.end(number, || {
            let sealed = self.pinned.take().ok_or_else(|| "its base is unknown".to_owned()).and_then(|pinned| {
                let end = log.writer.rotate().map_err(|fault| fault.to_string())?;
                // What a killed server has sealed is known to be on its way.
                let ledger = self.helpers.outbox.ledger(instance, node).map_err(|fault| fault.to_string())?;
                let upload =
                    ledger.map(|ledger| outgoing(ledger, &pinned, backups.figures().start_s, end.place.lsn)).transpose()?;
                let files = seal(pinned, &log.directory, end.place).map_err(|fault| {
                    let _ = ledger.map(Ledger::give_up);
                    fault.to_string()
                })?;
                Ok(Sealed { files, upload })
            });
            match &sealed {
                Ok(_) => tracing::info!("The backup is sealed"),
                Err(why) => tracing::error!("The backup has failed: {why}"),
            }
            sealed
        });
        true
    }

    /// The server ends.
    pub(super) fn end(self, instance: &Instance) {
        instance.persistence.backups.fail("the server ends");
        self.helpers.copies.stop();
    }
}

/// The name of a backup that ends here, which is to be in object storage.
fn outgoing(ledger: &Ledger, pinned: &Pinned, start_s: i64, lsn: u64) -> Result<String, String> {
    let seconds = |seconds: i64| u64::try_from(seconds).unwrap_or(0);
    let begun = ledger.begin((seconds(clock::unix_ms() / 1000), lsn), (pinned.log(), seconds(start_s)));
    begun.map(|outgoing| outgoing.name.to_string()).map_err(|fault| fault.to_string())
}

const LOG_BROKEN: &str = "the log of writes was broken";
