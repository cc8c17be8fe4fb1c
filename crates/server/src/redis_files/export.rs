//! Writes an append-only file of Redis: one snapshot and a manifest that names it, from which a Redis or Valkey starts with
//! `appendonly yes`, and this server where there is no log.
//!
//! Only files that this server has written are replaced. When the server is killed on the way, the manifest names the files before
//! or those behind, whole in both cases.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use almandine_instance::Instance;
use almandine_io::files;
use almandine_oplog::directory::Directory;
use almandine_rdb::aof::{AofFile, AofKind, AofManifest};
use almandine_recovery::save::{SaveError, SaveProgress, Saved, remove_stale};

use super::mark::of_redis;
use super::own::{Own, begun, describe_snapshot, file};
use super::source::bytes_of;
use crate::snapshots::base::write_base;

/// Writes it below `directory`, that of the node, in the directory of the log, which this process has taken if there is a log.
///
/// # Errors
/// When it cannot be written, or would replace what this server has not written.
pub(crate) fn export(instance: &Instance, directory: &Path, has_log: bool, progress: &SaveProgress) -> Result<Saved, SaveError> {
    let settings = &instance.config.snapshot().settings.persistence;
    let base = files::canonical(if directory.as_os_str().is_empty() { Path::new(".") } else { directory })?;
    let path = base.join(&settings.log_directory);
    let _taken = if has_log { None } else { Some(Directory::take(&path).map_err(io::Error::other)?) };
    let mut own = Own::read(&path)?.unwrap_or_default();
    check(&own, &path, &base.join(&settings.append_file))?;
    remove_stale(&path)?;
    let manifest_name = format!("{}.manifest", settings.append_file);
    let manifest_path = path.join(&manifest_name);
    let before = match bytes_of(&manifest_path)? {
        Some(_) => AofManifest::decode(&files::read(&manifest_path)?).map_err(io::Error::other)?,
        None => AofManifest::default(),
    };
    let sequence = before.base.as_ref().map_or(0, |file| file.sequence) + 1;
    let name = format!("{}.{sequence}.base.rdb", settings.append_file);
    // What the walk begins behind may be in the snapshot that is there.
    own.snapshot = describe_snapshot(&base.join(&settings.snapshot_file))?;
    own.is_older = has_log;
    own.lines.push(begun(&name));
    own.write(&path)?;
    let saved = write_base(instance, &path.join(&name), progress)?;
    let named = AofFile { name: name.clone().into_bytes(), sequence, kind: AofKind::Base };
    let text = AofManifest { base: Some(named), ..AofManifest::default() }.encode();
    let lines = [file(&name, &path.join(&name))?, begun(&manifest_name)];
    own.lines.extend(lines.clone());
    own.write(&path)?;
    files::replace(&manifest_path, &text)?;
    for old in before.base.iter().chain(&before.history).chain(&before.increments) {
        let _ = files::remove(path.join(OsStr::from_bytes(&old.name)));
    }
    own.lines = vec![lines[0].clone(), file(&manifest_name, &manifest_path)?];
    own.write(&path)?;
    Ok(saved)
}

/// Whether nothing is replaced, or hidden, that is of another server.
fn check(own: &Own, path: &Path, alone: &Path) -> io::Result<()> {
    let foreign = of_redis(path)?.into_iter().find(|name| !own.has(name, &path.join(name)));
    let foreign: Option<PathBuf> = match foreign {
        Some(name) => Some(path.join(name)),
        None => bytes_of(alone)?.map(|_| alone.to_owned()),
    };
    foreign.map_or(Ok(()), |file| {
        Err(io::Error::other(format!(
            "{} is of an append-only file that this server has not written, or that was changed since: move it to another \
             directory to have one written here",
            file.display()
        )))
    })
}
