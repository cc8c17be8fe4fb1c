//! A redis-server on a Unix socket, asked through redis-cli: for tests of crates that have no server of their own to compare with.
//!
//! Unlike [`crate::Server`] it has no flags but those that place it, so that its defaults are redis-server's.

use std::ffi::OsStr;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use std::{fs, thread};

/// `redis-server`, to be started by a test that has it as its oracle.
///
/// # Panics
/// With what to do, when it is not installed: a test without its oracle must not pass.
#[must_use]
pub fn redis_server() -> Command {
    let found = find("redis-server", &std::env::var_os("PATH").unwrap_or_default());
    Command::new(
        found.expect("redis-server is not installed: `apt-get install redis-server`, or `cargo xtask test`, which does it"),
    )
}

/// Where a program is, in a list of directories as `PATH` has it.
fn find(program: &str, path: &OsStr) -> Option<PathBuf> {
    std::env::split_paths(path).map(|directory| directory.join(program)).find(|file| file.is_file())
}

/// A running redis-server.
#[derive(Debug)]
pub struct Redis {
    child: Child,
    directory: PathBuf,
    arguments: Vec<String>,
}

static STARTED: AtomicU32 = AtomicU32::new(0);

impl Redis {
    /// Starts one with these arguments behind those that place it.
    ///
    /// # Panics
    /// When it does not start, as where it is not installed (see [`redis_server`]).
    #[must_use]
    pub fn start(arguments: &[&str]) -> Self {
        let number = STARTED.fetch_add(1, Ordering::Relaxed);
        let directory = std::env::temp_dir().join(format!("almandine-redis-{}-{number}", std::process::id()));
        fs::create_dir_all(&directory).expect("a directory for redis-server");
        let directory = directory.canonicalize().expect("the directory's real path");
        let socket = directory.join(SOCKET);
        let placed: [&str; 6] = ["--port", "0", "--unixsocket", text(&socket), "--dir", text(&directory)];
        let arguments: Vec<String> = placed.iter().chain(arguments).map(ToString::to_string).collect();
        Self { child: spawn(&arguments, &socket), directory, arguments }
    }

    /// Starts one from a configuration file, in a directory below the file's.
    ///
    /// # Panics
    /// When it does not start.
    #[must_use]
    pub fn start_from(file: &str) -> Self {
        let directory = Path::new(file).parent().expect("a file in a directory").join("second");
        fs::create_dir_all(&directory).expect("a directory for redis-server");
        let socket = directory.join(SOCKET);
        let arguments = [file, "--unixsocket", text(&socket), "--dir", text(&directory)].map(str::to_owned).to_vec();
        Self { child: spawn(&arguments, &socket), directory, arguments }
    }

    /// What it was started with.
    #[must_use]
    pub fn arguments(&self) -> &[String] {
        &self.arguments
    }

    /// Its working directory, removed at drop.
    #[must_use]
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Its answer to a command, as redis-cli prints it with these flags.
    ///
    /// # Panics
    /// When redis-cli cannot be run.
    #[must_use]
    pub fn ask(&self, flags: &[&str], command: &[&str]) -> String {
        let mut cli = Command::new("redis-cli");
        let output = cli.arg("-s").arg(self.directory.join(SOCKET)).args(flags).args(command).output().expect("redis-cli");
        String::from_utf8(output.stdout).expect("redis-cli prints text").trim_end().to_owned()
    }

    /// Its answer to a command, in RESP3 as JSON.
    ///
    /// # Panics
    /// When redis-cli cannot be run.
    #[must_use]
    pub fn ask_json(&self, command: &[&str]) -> String {
        self.ask(&["--json", "-3"], command)
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = fs::remove_dir_all(&self.directory);
    }
}

const SOCKET: &str = "redis.sock";

fn text(path: &Path) -> &str {
    path.to_str().expect("a path of text")
}

/// Starts the process and waits until it listens on its socket.
fn spawn(arguments: &[String], socket: &Path) -> Child {
    let mut child = redis_server().args(arguments).stdout(Stdio::null()).spawn().expect("redis-server can be started");
    for _ in 0..600 {
        // Its name is there before it listens.
        if UnixStream::connect(socket).is_ok() {
            return child;
        }
        thread::sleep(Duration::from_millis(50));
    }
    let _ = child.kill();
    let _ = child.wait();
    panic!("redis-server {arguments:?} listens on no socket");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_found_in_the_path_and_nowhere_else() {
        let directory = std::env::temp_dir().join(format!("almandine-path-{}", std::process::id()));
        fs::create_dir_all(&directory).unwrap();
        fs::write(directory.join("oracle"), "").unwrap();
        let path = std::env::join_paths([Path::new("/nowhere"), &directory]).unwrap();
        assert_eq!(find("oracle", &path), Some(directory.join("oracle")));
        assert_eq!(find("oracle", OsStr::new("/nowhere")), None);
        assert_eq!(find("oracle", OsStr::new("")), None);
        fs::remove_dir_all(&directory).unwrap();
    }
}
