//! A server for a run of another project's program.

use std::fs::{self, File};
use std::net::{Ipv4Addr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use almandine_testkit::server::free_port;

use crate::root;

const START: Duration = Duration::from_secs(30);
const ATTEMPTS: usize = 3;

/// The server under test, built unless `ALMANDINE_SERVER` names it.
///
/// # Errors
/// When it cannot be built.
pub(crate) fn build(root: &Path, release: bool) -> Result<PathBuf, String> {
    if let Some(path) = std::env::var_os("ALMANDINE_SERVER") {
        return Ok(PathBuf::from(path));
    }
    let (profile, directory) = if release { ("release", "release") } else { ("dev", "debug") };
    let arguments = ["build", "--quiet", "--package", "almandine-server", "--profile", profile];
    let built = Command::new("cargo").args(arguments).current_dir(root).status();
    if !built.is_ok_and(|status| status.success()) {
        return Err("cargo build failed".to_owned());
    }
    Ok(root::target(root).join(directory).join("almandine-server"))
}

/// A server on a free port, in a directory of its own. Both end when this is dropped.
pub(crate) struct Server {
    child: Child,
    port: u16,
    directory: PathBuf,
}

impl Server {
    /// # Errors
    /// When it does not start; its log says why.
    pub(crate) fn start(program: &Path, flags: &[&str], directory: &Path) -> Result<Self, String> {
        let attempt = || Self::start_at(program, flags, directory, free_port());
        // Another process may take the port before the server does; then it ends, and says so in its log.
        (1..ATTEMPTS).find_map(|_| attempt().ok()).map_or_else(attempt, Ok)
    }

    /// On a port that others expect it at.
    ///
    /// # Errors
    /// When it does not start; its log says why.
    pub(crate) fn start_at(program: &Path, flags: &[&str], directory: &Path, port: u16) -> Result<Self, String> {
        let directory = directory.to_path_buf();
        fs::create_dir_all(&directory).map_err(|e| format!("{}: {e}", directory.display()))?;
        let log = File::create(directory.join("log")).map_err(|e| e.to_string())?;
        let mut command = Command::new(program);
        command.args(flags).args(["--bind", "127.0.0.1", "--port", &port.to_string(), "--dir"]).arg(&directory);
        let errors = log.try_clone().map_err(|e| e.to_string())?;
        let child = command.stdin(Stdio::null()).stdout(log).stderr(errors).spawn();
        let child = child.map_err(|e| format!("{}: {e}", program.display()))?;
        let mut server = Self { child, port, directory };
        let started = Instant::now();
        while TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_err() {
            if !server.lives() || started.elapsed() > START {
                return Err(format!("{} did not start: {}", program.display(), server.log()));
            }
            thread::sleep(Duration::from_millis(20));
        }
        Ok(server)
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    pub(crate) fn directory(&self) -> &Path {
        &self.directory
    }

    pub(crate) fn lives(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.directory.join("log")).unwrap_or_default()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = fs::remove_dir_all(&self.directory);
    }
}
