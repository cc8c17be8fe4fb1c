//! What the machine says of itself and of the server's process: the kernel, limits, memory, disks, and which files there are.
//! Neither the command line nor the environment of the process is read, nor the content of any file of the server but its log.

use std::ffi::OsStr;
use std::fmt::Write;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use super::redact::LEFT_OUT;

/// Files of a directory that are listed.
const FILES_MAX: usize = 1000;
/// Texts of the kernel about the machine that are shown as they are.
const MACHINE: [&str; 15] = [
    "/proc/sys/kernel/ostype",
    "/proc/sys/kernel/osrelease",
    "/proc/sys/kernel/version",
    "/proc/sys/kernel/io_uring_disabled",
    "/proc/sys/vm/overcommit_memory",
    "/proc/sys/vm/swappiness",
    "/proc/sys/net/core/somaxconn",
    "/sys/kernel/mm/transparent_hugepage/enabled",
    "/proc/loadavg",
    "/proc/uptime",
    "/proc/pressure/cpu",
    "/proc/pressure/memory",
    "/proc/pressure/io",
    "/proc/meminfo",
    "/etc/os-release",
];
/// Files of a control group, of both versions.
const GROUP: [&str; 14] = [
    "memory.max",
    "memory.high",
    "memory.current",
    "memory.swap.max",
    "memory.events",
    "cpu.max",
    "cpu.stat",
    "cpuset.cpus.effective",
    "pids.max",
    "pids.current",
    "io.max",
    "memory.limit_in_bytes",
    "cpu.cfs_quota_us",
    "cpu.cfs_period_us",
];
/// How the lines of `/proc/PID/status` begin that are shown.
const STATUS: [&str; 11] = [
    "Vm",
    "Rss",
    "Threads",
    "voluntary",
    "nonvoluntary",
    "FDSize",
    "Seccomp",
    "NoNewPrivs",
    "CapEff",
    "Cpus_allowed_list",
    "HugetlbPages",
];

pub(super) fn kernel() -> String {
    let mut text = String::new();
    MACHINE.iter().for_each(|path| show(&mut text, Path::new(path)));
    let cores = std::thread::available_parallelism().map_or(0, std::num::NonZero::get);
    let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = cpuinfo.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": ")).map_or("", |(_, model)| model);
    let _ = writeln!(text, "== processors\n{cores} for this program, {model}");
    text
}

/// Appends a file of the kernel.
fn show(text: &mut String, path: &Path) {
    match fs::read_to_string(path) {
        Ok(content) => {
            let _ = writeln!(text, "== {}\n{}", path.display(), content.trim_end());
        }
        Err(error) => {
            let _ = writeln!(text, "== {}: {}", path.display(), error.kind());
        }
    }
}

/// Whether the process is a server of ours that runs here.
pub(super) fn is_server(pid: u32) -> bool {
    fs::read_to_string(format!("/proc/{pid}/status")).is_ok_and(|status| status.starts_with("Name:\talmandine"))
}

/// Limits, memory, control group and threads of the process.
pub(super) fn process(pid: u32) -> String {
    let process = PathBuf::from(format!("/proc/{pid}"));
    let mut text = String::from("== status\n");
    for line in fs::read_to_string(process.join("status")).unwrap_or_default().lines() {
        if STATUS.iter().any(|begin| line.starts_with(begin)) {
            let _ = writeln!(text, "{line}");
        }
    }
    for file in ["limits", "io", "oom_score", "oom_score_adj"] {
        show(&mut text, &process.join(file));
    }
    for group in groups(&fs::read_to_string(process.join("cgroup")).unwrap_or_default()) {
        for file in GROUP {
            if let Ok(content) = fs::read_to_string(group.join(file)) {
                let _ = writeln!(text, "== control group: {file}\n{}", content.trim_end());
            }
        }
    }
    text.push_str("== threads: name, user and system time in ticks\n");
    for thread in fs::read_dir(process.join("task")).into_iter().flatten().flatten() {
        let stat = fs::read_to_string(thread.path().join("stat")).unwrap_or_default();
        let Some((name, rest)) = stat.split_once('(').and_then(|(_, rest)| rest.rsplit_once(") ")) else { continue };
        let fields: Vec<&str> = rest.split(' ').collect();
        let _ = writeln!(text, "{name} {} {}", fields.get(11).unwrap_or(&"?"), fields.get(12).unwrap_or(&"?"));
    }
    text
}

/// The directories of a process' control groups, from its innermost to the root's, whose limits hold for it, too.
fn groups(lines: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for line in lines.lines() {
        let mut parts = line.splitn(3, ':').skip(1);
        let (controllers, path) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
        let root = Path::new("/sys/fs/cgroup").join(controllers);
        for group in Path::new(path.trim_start_matches('/')).ancestors() {
            found.push(root.join(group));
        }
    }
    found
}

/// What may be used of the disk below a directory.
pub(super) fn disk(text: &mut String, what: &str, directory: &Path) {
    let _ = match rustix::fs::statvfs(directory) {
        Ok(disk) => writeln!(
            text,
            "== disk of {what}: {}\nbytes {} of which {} are free for the server, inodes {} of which {} are free",
            file_system(directory),
            disk.f_blocks * disk.f_frsize,
            disk.f_bavail * disk.f_frsize,
            disk.f_files,
            disk.f_favail,
        ),
        Err(error) => writeln!(text, "== disk of {what}: {}", std::io::Error::from(error).kind()),
    };
}

/// The kind of the file system, by the mount whose path is the longest that holds the directory.
fn file_system(directory: &Path) -> String {
    let directory = fs::canonicalize(directory).unwrap_or_else(|_| directory.to_owned());
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let mut kinds: Vec<(usize, &str)> = Vec::new();
    for line in mounts.lines() {
        let Some((mount, rest)) = line.split_once(" - ") else { continue };
        let Some(path) = mount.split(' ').nth(4).filter(|path| directory.starts_with(path)) else { continue };
        kinds.push((path.len(), rest.split(' ').next().unwrap_or_default()));
    }
    kinds.iter().max_by_key(|(length, _)| *length).map_or("unknown", |(_, kind)| kind).to_owned()
}

/// Lists a directory: name, bytes and time of change of each entry. Names that are not `known` are left out.
pub(super) fn files(text: &mut String, what: &str, directory: &Path, known: impl Fn(&str) -> bool) {
    let entries = match fs::read_dir(directory) {
        Ok(entries) => entries,
        Err(error) => {
            let _ = writeln!(text, "== {what}: {}", error.kind());
            return;
        }
    };
    let _ = writeln!(text, "== {what}: name, bytes, Unix time of the last change");
    let mut lines: Vec<String> = Vec::new();
    for entry in entries.flatten().take(FILES_MAX) {
        let Ok(metadata) = entry.metadata() else { continue };
        let time_s =
            metadata.modified().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok()).map_or(0, |time| time.as_secs());
        lines.push(format!(
            "{}{} {} {time_s}",
            name(&entry.file_name(), &known),
            if metadata.is_dir() { "/" } else { "" },
            metadata.len()
        ));
    }
    lines.sort();
    let _ = writeln!(text, "{}", lines.join("\n"));
}

fn name(name: &OsStr, known: impl Fn(&str) -> bool) -> &str {
    std::str::from_utf8(name.as_bytes()).ok().filter(|name| known(name)).unwrap_or(LEFT_OUT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_groups_are_found_up_to_the_root() {
        let found = groups("0::/a.slice/b.service\n4:memory:/c\n");
        let paths: Vec<_> = found.iter().map(|path| path.to_str().unwrap()).collect();
        let root = "/sys/fs/cgroup";
        let expected = ["/a.slice/b.service", "/a.slice", "/", "/memory/c", "/memory/"].map(|path| format!("{root}{path}"));
        assert_eq!(paths, expected);
    }

    #[test]
    fn the_file_system_is_that_of_the_innermost_mount() {
        assert_eq!(file_system(Path::new("/proc/self")), "proc");
    }
}
