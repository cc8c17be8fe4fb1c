//! What the tests need from the system: redis-server and Lua 5.1 as oracles, the clients, redis-py in a throwaway environment.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// What makes file systems in images and stops them, and the packages that have it.
pub(crate) const FILE_SYSTEMS: &[(&str, &str)] =
    &[("mkfs.ext4", "e2fsprogs"), ("mkfs.xfs", "xfsprogs"), ("xfs_io", "xfsprogs"), ("unshare", "util-linux")];

/// Installs what is missing; returns the Python that has redis-py.
pub(crate) fn install(root: &Path) -> Result<PathBuf, String> {
    let mut packages = Vec::new();
    if !present("redis-server") {
        packages.push("redis-server");
    }
    if !present("redis-cli") || !present("redis-benchmark") {
        packages.push("redis-tools");
    }
    if !present("python3") {
        packages.extend(["python3", "python3-venv"]);
    }
    // It has no --version.
    if Command::new("lua5.1").arg("-v").output().is_err() {
        packages.push("lua5.1");
    }
    if !packages.is_empty() {
        apt_install(&packages)?;
    }
    if rustix::process::geteuid().is_root() {
        let mut tools: Vec<_> = FILE_SYSTEMS.iter().filter(|(program, _)| !present(program)).map(|(_, package)| *package).collect();
        tools.dedup();
        // Without them power is not cut, which the run says.
        if !tools.is_empty()
            && let Err(e) = apt_install(&tools)
        {
            eprintln!("{e}");
        }
    }
    redis_py(root)
}

pub(crate) fn present(program: &str) -> bool {
    let version = if program.contains("fs") { "-V" } else { "--version" };
    Command::new(program).arg(version).output().is_ok_and(|o| o.status.success())
}

/// Installs what runs Redis' own suite, and brings the programs that it calls.
pub(crate) fn tcl() -> Result<(), String> {
    let mut packages = Vec::new();
    // It has no --version; with empty input it ends.
    if !Command::new("tclsh").stdin(Stdio::null()).status().is_ok_and(|status| status.success()) {
        packages.push("tcl");
    }
    if !present("redis-server") {
        packages.push("redis-server");
    }
    if !present("redis-cli") {
        packages.push("redis-tools");
    }
    if packages.is_empty() { Ok(()) } else { apt_install(&packages) }
}

/// Installs what has Tcl speak TLS, and makes what the suite wants for it.
pub(crate) fn tcl_tls() -> Result<(), String> {
    let mut packages = Vec::new();
    // A script that fails ends it with 1; one that is typed does not.
    let mut tclsh = Command::new("tclsh");
    let asked = tclsh.arg("/dev/stdin").stdin(Stdio::piped()).stderr(Stdio::null()).spawn().and_then(|mut child| {
        child.stdin.take().map_or(Ok(()), |mut input| input.write_all(b"package require tls"))?;
        child.wait()
    });
    if !asked.is_ok_and(|status| status.success()) {
        packages.push("tcl-tls");
    }
    // It has no --version.
    if Command::new("openssl").arg("version").output().is_err() {
        packages.push("openssl");
    }
    if packages.is_empty() { Ok(()) } else { apt_install(&packages) }
}

/// Renews the package list.
fn apt_update() -> bool {
    apt(&["update"])
}

fn apt(arguments: &[&str]) -> bool {
    let root = rustix::process::geteuid().is_root();
    let mut command = if root { Command::new("apt-get") } else { Command::new("sudo") };
    if !root {
        command.arg("apt-get");
    }
    command.args(arguments).env("DEBIAN_FRONTEND", "noninteractive");
    command.status().is_ok_and(|s| s.success())
}

fn apt_install(packages: &[&str]) -> Result<(), String> {
    let by_hand = format!("the tests need {}; install them and run this again", packages.join(", "));
    if !Path::new("/etc/debian_version").exists() {
        return Err(format!("this is not Debian or a relative of it, and {by_hand}"));
    }
    println!("installing {}", packages.join(", "));
    let install: Vec<&str> = ["install", "--yes", "--no-install-recommends"].into_iter().chain(packages.iter().copied()).collect();
    // The package list may be missing or old; updating it is slow, so it comes second.
    if apt(&install) || apt_update() && apt(&install) { Ok(()) } else { Err(format!("apt-get failed, and {by_hand}")) }
}

/// A virtual environment under `target` with redis-py in it.
fn redis_py(root: &Path) -> Result<PathBuf, String> {
    let environment = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from).join("test-python");
    let python = environment.join("bin/python");
    let ready = |python: &Path| Command::new(python).args(["-c", "import redis"]).output().is_ok_and(|o| o.status.success());
    if ready(&python) {
        return Ok(python);
    }
    let create = || Command::new("python3").args(["-m", "venv"]).arg(&environment).status().is_ok_and(|s| s.success());
    if !create() {
        // Debian's python3 comes without ensurepip.
        apt_install(&["python3-venv"])?;
        if !create() {
            return Err("python3 -m venv failed".to_owned());
        }
    }
    let installed =
        Command::new(&python).args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "redis"]).status();
    if installed.is_ok_and(|s| s.success()) && ready(&python) { Ok(python) } else { Err("pip could not install redis".to_owned()) }
}
