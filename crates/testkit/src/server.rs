//! A server process as a fixture: started on a free loopback port, awaited until it answers, killed at drop.
//!
//! Ours is found beside the test binary or named by `ALMANDINE_SERVER`. When it is missing the test fails: a proof that skips
//! itself proves nothing.

use std::fs::{self, File};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

pub use crate::ports::free_port;
use crate::{Client, Value, redis_server, storage};

/// Which server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Program {
    /// `almandine-server`, or what `ALMANDINE_SERVER` names.
    Almandine,
    /// Our server in a build that leaves steps out: `almandine-mutants`, or what `ALMANDINE_MUTANTS_SERVER` names.
    Mutants,
    /// A script that starts our server with the arguments that it is given.
    Script(PathBuf),
    /// Debian's `redis-server`: the oracle.
    Redis,
}

impl Program {
    /// The word of `@only` in golden sessions.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Almandine | Self::Mutants | Self::Script(_) => "almandine",
            Self::Redis => "redis",
        }
    }

    fn command(&self) -> Command {
        match self {
            Self::Almandine => Command::new(almandine_path()),
            Self::Mutants => Command::new(mutants_path()),
            Self::Script(path) => Command::new(path),
            Self::Redis => redis_server(),
        }
    }
}

/// Where our server is.
///
/// # Panics
/// When it is nowhere, with the command that builds it.
#[must_use]
pub fn almandine_path() -> PathBuf {
    built("ALMANDINE_SERVER", "almandine-server", "")
}

/// Where our server with steps that can be left out is.
///
/// # Panics
/// When it is nowhere, with the command that builds it.
#[must_use]
pub fn mutants_path() -> PathBuf {
    built("ALMANDINE_MUTANTS_SERVER", "almandine-mutants", " --bin almandine-mutants --features mutants")
}

fn built(variable: &str, name: &str, features: &str) -> PathBuf {
    if let Some(path) = std::env::var_os(variable) {
        return PathBuf::from(path);
    }
    let own = std::env::current_exe().unwrap_or_default();
    let profile = own.parent().and_then(Path::parent).map(Path::to_path_buf).unwrap_or_default();
    let target = profile.parent().map(Path::to_path_buf).unwrap_or_default();
    let candidates = [profile, target.join("fast"), target.join("release"), target.join("debug")].map(|p| p.join(name));
    candidates.iter().find(|p| p.is_file()).cloned().unwrap_or_else(|| {
        panic!("no {name} at {candidates:?}: run `cargo build -p almandine-server{features}` first, or set {variable}")
    })
}

/// A running server.
#[derive(Debug)]
pub struct Server {
    child: Child,
    address: SocketAddr,
    directory: PathBuf,
    program: Program,
    flags: Vec<String>,
    environment: Vec<(String, String)>,
}

static STARTED: AtomicU32 = AtomicU32::new(0);
const START_TIMEOUT: Duration = Duration::from_secs(30);

impl Server {
    /// Starts a server with these flags after the fixture's own (`--port`, `--bind`, `--dir`, no persistence). `{dir}` in a
    /// flag is the server's directory.
    ///
    /// # Panics
    /// When the server does not start; the message holds its log.
    #[must_use]
    pub fn start(program: &Program, flags: &[&str]) -> Self {
        Self::start_with(program, flags, &[])
    }

    /// Starts a server with some variables of the environment.
    ///
    /// # Panics
    /// When the server does not start; the message holds its log.
    #[must_use]
    pub fn start_with(program: &Program, flags: &[&str], environment: &[(&str, String)]) -> Self {
        let mut last = String::new();
        // The port is free when it is chosen; another process may still take it before the server binds.
        for _ in 0..3 {
            match Self::try_start(program, flags, environment) {
                Ok(server) => return server,
                Err(reason) => last = reason,
            }
        }
        panic!("{} {flags:?} did not start: {last}", program.name());
    }

    /// Another server of the same program with the same flags and some more.
    #[must_use]
    pub fn start_another(&self, flags: &[&str]) -> Self {
        let all: Vec<&str> = self.flags.iter().map(String::as_str).chain(flags.iter().copied()).collect();
        let environment: Vec<_> = self.environment.iter().map(|(name, value)| (name.as_str(), value.clone())).collect();
        Self::start_with(&self.program, &all, &environment)
    }

    /// Tries once.
    ///
    /// # Errors
    /// When the server does not start: why, and its log.
    pub fn try_start(program: &Program, flags: &[&str], environment: &[(&str, String)]) -> Result<Self, String> {
        let number = STARTED.fetch_add(1, Ordering::Relaxed);
        let directory = std::env::temp_dir().join(format!("almandine-test-{}-{number}", std::process::id()));
        fs::create_dir_all(&directory).map_err(|e| e.to_string())?;
        let port = free_port();
        let child = spawn(program, flags, environment, (&directory, port))?;
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let flags = flags.iter().map(|&flag| flag.to_owned()).collect();
        let environment = environment.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
        let mut server = Self { child, address, directory, program: program.clone(), flags, environment };
        server.await_ready().map_err(|reason| format!("{reason}; its log:\n{}", server.log()))?;
        Ok(server)
    }

    /// Kills the process as kill -9 does, and waits until it is gone.
    ///
    /// # Panics
    /// When it has ended by itself before.
    pub fn kill(&mut self) {
        assert_eq!(self.exit_status(), None, "the server ended by itself; its log:\n{}", self.log());
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Starts the program again in its directory, with its flags, on its port, and waits until it answers.
    ///
    /// # Panics
    /// When it does not.
    pub fn start_again(&mut self) {
        let (flags, variables) = (self.flags.clone(), self.environment.clone());
        let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
        let environment: Vec<_> = variables.iter().map(|(name, value)| (name.as_str(), value.clone())).collect();
        let spawned = spawn(&self.program, &flags, &environment, (&self.directory, self.address.port()));
        let ready = spawned.and_then(|child| {
            self.child = child;
            self.await_ready()
        });
        ready.unwrap_or_else(|reason| panic!("the server did not start again: {reason}; its log:\n{}", self.log()));
    }

    /// As [`Server::start_again`], with further flags from now on: of two with one name the last one counts.
    ///
    /// # Panics
    /// When it does not start.
    pub fn start_again_with(&mut self, flags: &[&str]) {
        self.flags.extend(flags.iter().map(|&flag| flag.to_owned()));
        self.start_again();
    }

    fn await_ready(&mut self) -> Result<(), String> {
        let deadline = Instant::now() + START_TIMEOUT;
        loop {
            if let Some(status) = self.exit_status() {
                return Err(format!("it ended with {status}"));
            }
            // Any reply will do but that it loads: with a password the first one is an error.
            let is_ready = |value: &Value| match value {
                Value::Closed => false,
                Value::Error(text) => !text.starts_with(b"LOADING"),
                _ => true,
            };
            if let Ok(mut client) = Client::connect(self.address)
                && client.call(&["PING"]).is_ok_and(|value| is_ready(&value))
            {
                // The server has forgotten this client before a test counts clients.
                client.end();
                return Ok(());
            }
            if Instant::now() > deadline {
                return Err(format!("no reply to PING within {START_TIMEOUT:?}"));
            }
            thread::sleep(Duration::from_millis(5));
        }
    }

    /// Makes all keys cold: whatever is asked for next must come from the storage device. Returns false when the server does not
    /// let this client do so.
    ///
    /// # Panics
    /// When the server does not answer or has no device.
    pub fn make_cold(&self) -> bool {
        storage::make_cold(&mut self.client())
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Which program it is.
    #[must_use]
    pub fn program(&self) -> &Program {
        &self.program
    }

    /// Its working directory, removed at drop.
    #[must_use]
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// A new connection.
    ///
    /// # Panics
    /// When it is refused; the message holds the server's log.
    #[must_use]
    pub fn client(&self) -> Client {
        Client::connect(self.address).unwrap_or_else(|e| panic!("connect: {e}; server log:\n{}", self.log()))
    }

    /// What the server printed so far.
    #[must_use]
    pub fn log(&self) -> String {
        fs::read(self.directory.join("log")).map(|b| String::from_utf8_lossy(&b).into_owned()).unwrap_or_default()
    }

    /// The status with which it ended, if it has.
    pub fn exit_status(&mut self) -> Option<std::process::ExitStatus> {
        self.child.try_wait().ok().flatten()
    }

    /// Waits for the process to end by itself.
    #[must_use]
    pub fn await_exit(&mut self, within: Duration) -> Option<std::process::ExitStatus> {
        let deadline = Instant::now() + within;
        while Instant::now() < deadline {
            if let Some(status) = self.exit_status() {
                return Some(status);
            }
            thread::sleep(Duration::from_millis(5));
        }
        None
    }

    /// Process id.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Resident bytes of the process, from `/proc`.
    ///
    /// # Panics
    /// When the process has ended.
    #[must_use]
    pub fn resident_bytes(&self) -> u64 {
        self.status_bytes("VmRSS:")
    }

    /// The most bytes of the process that were ever resident at once, from `/proc`.
    ///
    /// # Panics
    /// When the process has ended.
    #[must_use]
    pub fn resident_bytes_most(&self) -> u64 {
        self.status_bytes("VmHWM:")
    }

    fn status_bytes(&self, field: &str) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.pid()))
            .unwrap_or_else(|e| panic!("server is gone ({e}):\n{}", self.log()));
        let line = status.lines().find_map(|l| l.strip_prefix(field)).unwrap_or("0 kB");
        line.trim().trim_end_matches(" kB").parse::<u64>().unwrap_or(0) * 1024
    }

    /// Lets all threads of the server that run now share one core, the first that this process may use.
    ///
    /// # Panics
    /// When the process has ended.
    pub fn share_one_core(&self) {
        let allowed = sched_getaffinity(None).expect("the cores of this process");
        let mut one = CpuSet::new();
        one.set((0..CpuSet::MAX_CPU).find(|&core| allowed.is_set(core)).expect("a core"));
        for thread in fs::read_dir(format!("/proc/{}/task", self.pid())).expect("the server's threads").flatten() {
            let number = thread.file_name().to_string_lossy().parse().ok().and_then(Pid::from_raw);
            sched_setaffinity(number, &one).expect("a thread of the server");
        }
    }

    /// Panics with the log when the process has ended or no longer answers.
    ///
    /// # Panics
    /// See above.
    pub fn assert_alive(&mut self, after: &str) {
        if let Some(status) = self.exit_status() {
            panic!("server ended with {status} after {after}; its log:\n{}", self.log());
        }
        let reply = self.client().call(&["PING"]);
        assert!(
            matches!(&reply, Ok(Value::Simple(p)) if p == b"PONG"),
            "PING after {after}: {reply:?}; server log:\n{}",
            self.log()
        );
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = fs::remove_dir_all(&self.directory);
    }
}

/// Starts a process in a directory, on a port. Its log goes on where it ended.
fn spawn(
    program: &Program,
    flags: &[&str],
    environment: &[(&str, String)],
    (directory, port): (&Path, u16),
) -> Result<Child, String> {
    let log = File::options().create(true).append(true).open(directory.join("log")).map_err(|e| e.to_string())?;
    // A configuration file comes before all flags.
    let (file, flags): (&[&str], &[&str]) = match flags {
        [file, flags @ ..] if !file.starts_with('-') => (&[file], flags),
        flags => (&[], flags),
    };
    let mut command = program.command();
    command
        .args(file)
        .args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--daemonize", "no"])
        .arg("--dir")
        .arg(directory)
        .args(flags.iter().map(|flag| flag.replace("{dir}", &directory.to_string_lossy())))
        .envs(environment.iter().map(|(name, value)| (name, value)))
        .stdin(Stdio::null())
        .stdout(log.try_clone().map_err(|e| e.to_string())?)
        .stderr(log);
    command.spawn().map_err(|e| format!("{e} (is it installed and built? see docs/HACKING.md)"))
}
