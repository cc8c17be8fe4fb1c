//! The suite's files: from Debian's source package, unpacked under `target`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::{prerequisites, root};

/// The version whose suite it is; redis-server of that version is what everything else is compared with.
const VERSION: &str = "7.0";
const BY_HAND: &str = "Unpack the sources of Redis 7.0 and name their directory by ALMANDINE_REDIS_SOURCE.";

/// A directory with the suite in it, which the suite may write to.
pub(super) fn prepare(root: &Path) -> Result<PathBuf, String> {
    prerequisites::tcl()?;
    let own = root::target(root).join("redis-suite");
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
    let state = own.join("apt");
    let parts = state.join("parts");
    for directory in [&parts, &state.join("lists/partial"), &state.join("cache/archives/partial")] {
        fs::create_dir_all(directory).map_err(|e| format!("{}: {e}", directory.display()))?;
    }
    list_sources(&parts)?;
    let apt = |arguments: &[&str]| {
        let mut apt = Command::new("apt-get");
        apt.args(["-o", "Dir::Etc::sourcelist=/dev/null"]);
        for (option, path) in
            [("Dir::Etc::sourceparts", &parts), ("Dir::State::lists", &state.join("lists")), ("Dir::Cache", &state.join("cache"))]
        {
            apt.arg("-o").arg(format!("{option}={}", path.display()));
        }
        apt.args(arguments).current_dir(own).status().is_ok_and(|status| status.success())
    };
    if !(apt(&["update"]) && apt(&["source", "--download-only", "--only-source", "redis"])) {
        return Err(format!("`apt-get source redis` failed. {BY_HAND}"));
    }
    archive().ok_or_else(|| format!("`apt-get source redis` left no archive in {}. {BY_HAND}", own.display()))
}

/// Writes the places that apt has packages from as places to have their sources from: those of the machine are not changed.
fn list_sources(parts: &Path) -> Result<(), String> {
    let mut files = vec![PathBuf::from("/etc/apt/sources.list")];
    files.extend(fs::read_dir("/etc/apt/sources.list.d").into_iter().flatten().filter_map(Result::ok).map(|entry| entry.path()));
    for (number, file) in files.iter().enumerate() {
        let Ok(text) = fs::read_to_string(file) else { continue };
        // apt takes no others.
        let (lines, extension) = match file.extension().and_then(|extension| extension.to_str()) {
            Some("sources") => (as_sources(&text, "Types:"), "sources"),
            Some("list") => (as_sources(&text, "deb "), "list"),
            _ => continue,
        };
        let own = parts.join(format!("{number}.{extension}"));
        fs::write(&own, lines).map_err(|e| format!("{}: {e}", own.display()))?;
    }
    Ok(())
}

/// The lines of a list of places with what begins with `word`, and says that packages are had from there, saying so of sources.
fn as_sources(text: &str, word: &str) -> String {
    let line = |line: &str| match line.strip_prefix(word) {
        Some(_) if word == "Types:" => "Types: deb-src\n".to_owned(),
        Some(rest) => format!("deb-src {rest}\n"),
        None => format!("{line}\n"),
    };
    text.lines().map(line).collect()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_of_packages_become_places_of_sources() {
        let new = as_sources("Types: deb\nURIs: http://a\n\nTypes: deb deb-src\nURIs: http://b", "Types:");
        assert_eq!(new, "Types: deb-src\nURIs: http://a\n\nTypes: deb-src\nURIs: http://b\n");
        let old = as_sources("# a comment\ndeb http://a bookworm main\ndeb-src http://a bookworm main", "deb ");
        assert_eq!(old, "# a comment\ndeb-src http://a bookworm main\ndeb-src http://a bookworm main\n");
    }
}
