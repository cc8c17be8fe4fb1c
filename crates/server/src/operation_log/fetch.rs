//! The start of a server with an archive: its log is fetched where a directory has none.

use std::io;
use std::path::Path;
use std::sync::Arc;

use almandine_config::Settings;
use almandine_io::clock;
use almandine_oplog::LogKeys;
use almandine_oplog::archive::{ArchiveFault, Shipper, fetch, is_to_be_fetched, is_unfinished};
use almandine_oplog::directory::Directory;
use almandine_oplog::manifest::Manifest;

use super::objects::object_folder;
use crate::storage::FetchedPages;

/// Before a log is looked at: its archive can be gone on with, or was fetched where the directory has no log.
///
/// # Errors
/// When another server owns the archive, or it is not known whether there is one where there is no log.
pub(super) fn prepare(settings: &Settings, base: &Path, directory: &Directory, keys: &Arc<LogKeys>) -> io::Result<Option<Shipper>> {
    let url = &settings.persistence.log_object_url;
    if url.is_empty() {
        return if is_unfinished(directory.path()).map_err(io::Error::other)? {
            let why = "FETCHING is there: what almandine-check has fetched is not whole. Fetch it again";
            Err(io::Error::other(format!("{}: {why}", directory.path().display())))
        } else {
            Ok(None)
        };
    }
    let failed = |fault: ArchiveFault| io::Error::other(format!("log-object-url {url}: {fault}"));
    let objects = object_folder("log-object-url", url)?;
    if is_to_be_fetched(directory).map_err(io::Error::other)? {
        let began_ns = clock::monotonic_ns();
        tracing::info!("There is no log in {}: it is fetched from {url}, if that has one", directory.path().display());
        let directories = settings.storage.directories.iter().map(|directory| base.join(directory)).collect();
        let mut pages = FetchedPages::new(directories, settings.storage.segment_bytes, Some(Arc::clone(keys)));
        match fetch(&*objects, directory, keys, &mut pages).map_err(failed)? {
            None => tracing::info!("{url} has no archive of a log: one begins there"),
            Some(fetched) => tracing::warn!(
                "The log is fetched from {url}, and goes on here from now on: {} objects, {} bytes, {} pages of storage-dir, {} ms",
                fetched.objects,
                fetched.bytes,
                fetched.pages,
                (clock::monotonic_ns() - began_ns) / 1_000_000
            ),
        }
        return Ok(None);
    }
    match Shipper::begin(objects, directory.path()) {
        Ok(shipper) => Ok(Some(shipper)),
        Err(ArchiveFault::Store(error)) => {
            tracing::warn!("log-object-url {url} does not answer: {error}. The log here counts, and is shipped when it does");
            Ok(None)
        }
        Err(fault) => Err(failed(fault)),
    }
}

/// Whether the archive has more of a log than was found here up to an LSN.
///
/// # Errors
/// When it has: then something is missing here that was durable.
pub(super) fn compare(shipper: Option<&Shipper>, manifest: &Manifest, end: u64, directory: &Path) -> io::Result<()> {
    match shipper.and_then(|shipper| shipper.archived_end(manifest)) {
        Some(archived) if archived > end => Err(io::Error::other(format!(
            "the log in {} ends at LSN {end}, and its archive has it through LSN {archived}: what was durable here is lost. Move \
             the directory away to start from the archive",
            directory.display()
        ))),
        _ => Ok(()),
    }
}
