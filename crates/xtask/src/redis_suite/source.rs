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

/// The archive of the upstream sources, from the first of the machine's package lists that has it.
///
/// Each list is asked by itself, as a private list of sources: one that is malformed, unreachable, without sources or with
/// another version does not keep the others from being asked.
fn fetch(own: &Path) -> Result<PathBuf, String> {
    if let Some(archive) = archive(own) {
        return Ok(archive);
    }
    println!("fetching the sources of Redis");
    let state = own.join("apt");
    let _ = fs::remove_dir_all(&state);
    let lists = package_lists(Path::new("/etc/apt"));
    for (number, (path, text)) in lists.iter().enumerate() {
        if fetch_by(text, path, own, &state.join(number.to_string())).map_err(|e| format!("{}: {e}", state.display()))? {
            let _ = fs::remove_dir_all(&state);
            return archive(own).ok_or_else(|| format!("the archive is gone from {}", own.display()));
        }
    }
    let tried: Vec<String> = lists.iter().map(|(path, _)| path.display().to_string()).collect();
    Err(format!("no package list gives the sources of Redis {VERSION} (tried: {}). {BY_HAND}", tried.join(", ")))
}

/// The archive that was fetched, of the right version.
fn archive(own: &Path) -> Option<PathBuf> {
    let wanted = format!("redis_{VERSION}.");
    let is_wanted = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.starts_with(&wanted) && name.contains(".orig.tar.") && path.is_file()
    };
    fs::read_dir(own).ok()?.filter_map(Result::ok).map(|entry| entry.path()).find(is_wanted)
}

/// Fetches by one list of sources; true when the archive is there then.
fn fetch_by(list: &str, path: &Path, own: &Path, state: &Path) -> std::io::Result<bool> {
    let (parts, lists, cache) = (state.join("parts"), state.join("lists"), state.join("cache"));
    for directory in [&parts, &lists.join("partial"), &cache.join("archives/partial")] {
        fs::create_dir_all(directory)?;
    }
    fs::write(parts.join(path.file_name().unwrap_or_default()), list)?;
    let apt = |arguments: &[&str]| {
        let mut apt = Command::new("apt-get");
        // The account that apt takes for downloads cannot write here.
        apt.args(["-o", "Dir::Etc::sourcelist=/dev/null", "-o", "APT::Sandbox::User=root"]);
        for (option, path) in [("Dir::Etc::sourceparts", &parts), ("Dir::State::lists", &lists), ("Dir::Cache", &cache)] {
            apt.arg("-o").arg(format!("{option}={}", path.display()));
        }
        apt.args(arguments).current_dir(own).status().is_ok_and(|status| status.success())
    };
    // An update fails when one place of several does; what the others gave may be enough.
    apt(&["update"]);
    Ok(apt(&["source", "--download-only", "--only-source", "redis"]) && archive(own).is_some())
}

/// The machine's lists of places that packages come from, as lists of sources: those of the distribution first.
fn package_lists(apt: &Path) -> Vec<(PathBuf, String)> {
    let parts = fs::read_dir(apt.join("sources.list.d")).into_iter().flatten().filter_map(Result::ok).map(|entry| entry.path());
    let paths = std::iter::once(apt.join("sources.list")).chain(parts);
    let mut lists: Vec<(PathBuf, String)> = paths
        .filter_map(|path| {
            let text = fs::read_to_string(&path).ok()?;
            let text = match path.extension()?.to_str()? {
                "sources" => sources_of_stanzas(&text),
                "list" => sources_of_lines(&text),
                _ => return None,
            };
            (!text.is_empty()).then_some((path, text))
        })
        .collect();
    lists.sort_by_key(|(path, text)| (!text.contains("debian.org/") && !text.contains("ubuntu.com/"), path.clone()));
    lists
}

/// Stanzas of a `.sources` file, each as one of sources.
fn sources_of_stanzas(text: &str) -> String {
    let is_types = |line: &str| line.get(..6).is_some_and(|name| name.eq_ignore_ascii_case("types:"));
    let lines: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
    if !lines.iter().any(|line| is_types(line)) {
        return String::new();
    }
    lines.iter().map(|line| if is_types(line) { "Types: deb-src\n".to_owned() } else { format!("{line}\n") }).collect()
}

/// The `deb` lines of a `.list` file, each as one of sources.
fn sources_of_lines(text: &str) -> String {
    let lines = text.lines().filter_map(|line| line.trim_start().strip_prefix("deb"));
    lines.filter(|rest| rest.starts_with([' ', '\t'])).map(|rest| format!("deb-src{rest}\n")).collect()
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
        let stanzas = sources_of_stanzas("# a comment\nTypes: deb\nURIs: http://a\n\ntypes: deb deb-src\nURIs: http://b");
        assert_eq!(stanzas, "Types: deb-src\nURIs: http://a\n\nTypes: deb-src\nURIs: http://b\n");
        assert_eq!(sources_of_stanzas("# nothing\n"), "");
        let lines =
            sources_of_lines("# deb http://c\n deb [arch=amd64] http://a x main\ndeb-src http://a x main\ndeb\thttp://b x main");
        assert_eq!(lines, "deb-src [arch=amd64] http://a x main\ndeb-src\thttp://b x main\n");
    }

    #[test]
    fn lists_of_the_distribution_come_first_and_others_by_themselves() {
        let apt = std::env::temp_dir().join(format!("almandine-apt-{}", std::process::id()));
        let parts = apt.join("sources.list.d");
        fs::create_dir_all(&parts).unwrap();
        for (name, text) in [
            ("a.list", "deb http://tools.test/apt x main\n"),
            ("b.sources", "Types: deb\nURIs: http://mirror.debian.org/debian\n"),
            ("c.list.disabled", "deb http://d x main\n"),
            ("e.list", "# nothing\n"),
        ] {
            fs::write(parts.join(name), text).unwrap();
        }
        let lists = package_lists(&apt);
        let names: Vec<_> = lists.iter().filter_map(|(path, _)| path.file_name()?.to_str()).collect();
        assert_eq!(names, ["b.sources", "a.list"]);
        fs::remove_dir_all(&apt).unwrap();
    }
}
