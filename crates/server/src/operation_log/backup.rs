//! Backups of the log, as the thread that writes bases and the sessions use them.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};

use almandine_config::Settings;
use almandine_instance::{BackupFiles, Instance, RewriteOutcome};
use almandine_io::files;
use almandine_oplog::backup::{Pinned, check_empty, clear, pin_base, seal};

use super::running::RunningLog;

/// The directory of backups.
struct BackupDirectory {
    instance: Weak<Instance>,
    node: Box<dyn Fn(&Settings) -> PathBuf + Send + Sync>,
}

/// Backups of a node lie below its directory, which `node` says.
pub(crate) fn install(instance: &Arc<Instance>, node: impl Fn(&Settings) -> PathBuf + Send + Sync + 'static) {
    let directory = BackupDirectory { instance: Arc::downgrade(instance), node: Box::new(node) };
    instance.persistence.backups.install(Box::new(directory));
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
        if !instance.persistence.log.is_on() {
            return Err("a backup needs the log of writes: set appendonly to yes".to_owned());
        }
        if instance.keyspace.log().device().is_some() {
            return Err("a backup does not have what lies in storage-dir yet: use BGSAVE".to_owned());
        }
        check_empty(&self.path(&instance)?).map_err(|fault| fault.to_string())
    }

    fn clear(&self) -> Result<(), String> {
        clear(&self.path(&*self.instance()?)?).map_err(|fault| fault.to_string())
    }
}

fn path(instance: &Instance, node: &Path) -> Result<PathBuf, String> {
    let node = if node.as_os_str().is_empty() { Path::new(".") } else { node };
    let node = files::canonical(node).map_err(|error| format!("{} is not to be had: {error}", node.display()))?;
    Ok(node.join(&instance.config.snapshot().settings.persistence.backup_directory))
}

/// The backup that the thread has begun.
#[derive(Default)]
pub(super) struct Backup {
    pinned: Option<Pinned>,
}

impl Backup {
    /// A base was written, of this backup.
    pub(super) fn pin(&mut self, instance: &Instance, log: &RunningLog, node: &Path, number: u64, outcome: RewriteOutcome) {
        instance.persistence.backups.pin(number, || {
            if outcome != RewriteOutcome::Done {
                return Err("its base could not be written, see the server's log".to_owned());
            }
            let directory = path(instance, node)?;
            let (pinned, files) = pin_base(&log.directory, &directory).map_err(|fault| fault.to_string())?;
            tracing::info!("The backup in {} has its base; BACKUP SEAL ends it", directory.display());
            self.pinned = Some(pinned);
            Ok(files)
        });
    }

    /// Does what is asked of the one that is under way. True: it has.
    pub(super) fn go_on(&mut self, instance: &Instance, log: Option<&RunningLog>) -> bool {
        let persistence = &instance.persistence;
        let Some(log) = log.filter(|_| persistence.log.is_on()) else {
            persistence.backups.fail("the log of writes was turned off");
            return false;
        };
        if persistence.backups.holds_log() && persistence.log.lacks_base() {
            persistence.backups.fail("the log of writes was broken");
        }
        let Some(number) = persistence.backups.asked_to_seal() else { return false };
        persistence.backups.end(number, || {
            let sealed = self.pinned.take().ok_or_else(|| "its base is unknown".to_owned()).and_then(|pinned| {
                let end = log.writer.rotate().map_err(|fault| fault.to_string())?;
                seal(&pinned, &log.directory, end.place).map_err(|fault| fault.to_string())
            });
            match &sealed {
                Ok(_) => tracing::info!("The backup is sealed"),
                Err(why) => tracing::error!("The backup has failed: {why}"),
            }
            sealed
        });
        true
    }
}
