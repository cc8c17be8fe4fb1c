//! The suite's files: from Debian's source package, unpacked under `target`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::prerequisites;

/// The version whose suite it is; redis-server of that version is what everything else is compared with.
const VERSION: &str = "7.0";
const BY_HAND: &str =
    "Unpack the sources of Redis 7.0 and name their directory by ALMANDINE_REDIS_SOURCE, or add a line `deb-src` to apt's sources.";

/// A directory with the suite in it, which the suite may write to.
pub(super) fn prepare(root: &Path) -> Result<PathBuf, String> {
    prerequisites::tcl()?;
    let own = super::target(root).join("redis-suite");
    fs::create_dir_all(&own).map_err(|e| format!("{}: {e}", own.display()))?;
    let suite = own.join("redis");
    if !suite.join("tests/test_helper.tcl").is_file() {
        let _ = fs::remove_dir_all(&suite);
        match std::env::var_os("ALMANDINE_REDIS_SOURCE").map(PathBuf::from) {
            Some(source) => copy(&source, &suite)?,
            None => unpack(&fetch(&own)?, &suite)?,
        }
    }
    is_the_version(&suite)?;
    link_programs(&suite);
    Ok(suite)
}

fn is_the_version(suite: &Path) -> Result<(), String> {
    let text = fs::read_to_string(suite.join("src/version.h")).map_err(|e| format!("{}: {e}", suite.display()))?;
    let version = text.split('"').nth(1).unwrap_or_default();
    if version.starts_with(VERSION) && version[VERSION.len()..].starts_with('.') {
        return Ok(());
    }
    Err(format!("{} has the sources of Redis {version}, not {VERSION}. {BY_HAND}", suite.display()))
}

/// The archive of the upstream sources.
fn fetch(own: &Path) -> Result<PathBuf, String> {
    let archive = || {
        let found = fs::read_dir(own).ok()?.filter_map(Result::ok).map(|entry| entry.path());
        found.filter(|path| path.to_string_lossy().contains(".orig.tar.")).find(|path| path.is_file())
    };
    if let Some(archive) = archive() {
        return Ok(archive);
    }
    println!("fetching the sources of Redis");
    let download = || {
        let mut apt = Command::new("apt-get");
        apt.args(["source", "--download-only", "--only-source", "redis"]).current_dir(own);
        apt.status().is_ok_and(|status| status.success())
    };
    // The package list may be missing or old; updating it is slow, so it comes second.
    if !(download() || prerequisites::apt_update() && download()) {
        return Err(format!("`apt-get source redis` failed. {BY_HAND}"));
    }
    archive().ok_or_else(|| format!("`apt-get source redis` left no archive in {}. {BY_HAND}", own.display()))
}

fn unpack(archive: &Path, suite: &Path) -> Result<(), String> {
    fs::create_dir_all(suite).map_err(|e| format!("{}: {e}", suite.display()))?;
    let tar = Command::new("tar").arg("xf").arg(archive).arg("--strip-components=1").arg("-C").arg(suite).status();
    if tar.is_ok_and(|status| status.success()) { Ok(()) } else { Err(format!("tar could not unpack {}", archive.display())) }
}

fn copy(source: &Path, suite: &Path) -> Result<(), String> {
    let copied = Command::new("cp").arg("-a").arg(source).arg(suite).status();
    if copied.is_ok_and(|status| status.success()) { Ok(()) } else { Err(format!("{} could not be copied", source.display())) }
}

/// Some tests run the programs from where Redis builds them.
fn link_programs(suite: &Path) {
    for name in ["redis-cli", "redis-benchmark", "redis-server"] {
        let link = suite.join("src").join(name);
        if !link.exists() {
            let _ = std::os::unix::fs::symlink(Path::new("/usr/bin").join(name), link);
        }
    }
}
