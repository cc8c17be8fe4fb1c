//! `fetch`: what a server has in object storage becomes a directory, and stays with its server: the archive of a log, or a backup.

mod backup;

use std::path::Path;
use std::sync::Arc;

use almandine_oplog::LogKeys;
use almandine_oplog::archive::{ArchiveFault, Fetched, Objects, copy, is_to_be_fetched};
use almandine_oplog::directory::{Directory, read_manifest};
use almandine_server::{FetchedPages, object_folder};
use serde_json::json;

pub(crate) use self::backup::{Choice, list};
use crate::report::{Outcome, Report};

/// Bytes of the files of pages.
const SEGMENT_BYTES: u64 = 256 << 20;

pub(crate) fn fetch(
    url: &str,
    choice: &Choice,
    (to, storage): (&Path, Option<&Path>),
    keys: Option<Arc<LogKeys>>,
    report: &mut Report,
) -> Outcome {
    let objects = match object_folder("the address", url) {
        Ok(objects) => objects,
        Err(error) => return backup::fail(&error.into(), report),
    };
    let outcome = match choice.wanted(&*objects) {
        Ok(None) => fetch_archive(url, &*objects, (to, storage, keys.clone()), report),
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

fn fetch_archive(
    url: &str,
    objects: &dyn Objects,
    (to, storage, keys): (&Path, Option<&Path>, Option<Arc<LogKeys>>),
    report: &mut Report,
) -> Outcome {
    match copy_archive(objects, to, (storage, keys)) {
        Ok(Some(Fetched { objects, bytes, pages })) => {
            report.say("objects", objects, format!("{objects} objects of {url} are copied to {}", to.display()));
            report.say("bytes", bytes, format!("{bytes} bytes; the server that writes the archive goes on with it"));
            if pages > 0 {
                report.say("storage_pages", pages, format!("{pages} pages of storage-dir are among them"));
            }
            Outcome::Whole
        }
        Ok(None) => {
            report.say("objects", 0, format!("{url} has no archive of a log, and no backup"));
            Outcome::CouldNotLook
        }
        Err(ArchiveFault::Log(fault)) => report.fail(&fault),
        Err(fault) => {
            let (outcome, kind) = match fault {
                ArchiveFault::Damaged(_) => (Outcome::Damaged, "damaged"),
                _ => (Outcome::CouldNotLook, "error"),
            };
            report.say("fault", json!({ "kind": kind, "text": fault.to_string() }), fault.to_string());
            outcome
        }
    }
}

fn copy_archive(
    objects: &dyn Objects,
    to: &Path,
    (storage, keys): (Option<&Path>, Option<Arc<LogKeys>>),
) -> Result<Option<Fetched>, ArchiveFault> {
    let directory = Directory::take(to)?;
    if !is_to_be_fetched(&directory)? {
        let why = format!("{} has a log already: name a directory that is empty, or not there", to.display());
        return Err(ArchiveFault::Owned(why));
    }
    let storage = storage.iter().map(|storage| storage.to_path_buf()).collect();
    copy(objects, &directory, &mut FetchedPages::new(storage, SEGMENT_BYTES, keys))
}
