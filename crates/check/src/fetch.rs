//! `fetch`: what a server has in object storage becomes a directory, and stays with its server: the archive of a log, or a backup.

mod archive;
mod backup;

use std::path::Path;
use std::sync::Arc;

use almandine_oplog::LogKeys;
use almandine_oplog::directory::read_manifest;
use almandine_server::object_folder;

pub(crate) use self::backup::Choice;
use crate::cut::Limit;
use crate::report::{Outcome, Report};

pub(crate) fn fetch(
    url: &str,
    (choice, limit): (&Choice, Limit),
    (to, storage): (&Path, Option<&Path>),
    keys: Option<Arc<LogKeys>>,
    report: &mut Report,
) -> Outcome {
    let objects = match object_folder("the address", url) {
        Ok(objects) => objects,
        Err(error) => return backup::fail(&error.into(), report),
    };
    let wanted = match limit {
        // Of backups a moment is cut by itself.
        Limit::Lsn(_) | Limit::Time(_) => Ok(None),
        Limit::Whole => choice.wanted(&*objects),
    };
    let outcome = match wanted {
        Ok(None) => archive::fetch((url, &*objects), limit, (to, storage, keys.clone()), report),
        Ok(Some(wanted)) => backup::fetch(url, &*objects, wanted, (to, storage), report),
        Err(fault) => return backup::fail(&fault, report),
    };
    if outcome != Outcome::Whole {
        return outcome;
    }
    // What is encrypted is copied as it is.
    let readable =
        keys.map_or(Ok(()), |keys| read_manifest(to).and_then(|manifest| manifest.unwrap_or_default().check_keys(to, &keys)));
    readable.map_or_else(|fault| report.fail(&fault), |()| outcome)
}

/// Lists what there is at an address.
pub(crate) fn list(url: &str, report: &mut Report) -> Outcome {
    let objects = match object_folder("the address", url) {
        Ok(objects) => objects,
        Err(error) => return backup::fail(&error.into(), report),
    };
    backup::list((url, &*objects), report).unwrap_or_else(|| archive::list((url, &*objects), report))
}
