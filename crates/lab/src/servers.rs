//! The servers of a comparison: which are there, how each is started, pinned, stopped for a while and ended.

use std::env;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use clap::Args;
use rustix::process::{Pid, Signal, kill_process};

use super::folder::Folder;
use super::logs::LogMode;
use almandine_bench::control::{Address, Target};
use almandine_bench::system::affinity::{self, parse_cores};
use almandine_bench::system::process;
use almandine_testkit::server::free_port;
use almandine_testkit::tls;
use almandine_tls::{ClientOptions, Connector};

/// Our name in reports.
pub const OURS: &str = "almandine";
/// The name of canned replies in reports.
pub const FLOOR: &str = "floor";

/// Clients that servers take without being told.
const CLIENTS_DEFAULT: usize = 10_000;

/// Which servers take part and where they run.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Servers")]
pub struct LabOptions {
    /// Our server; otherwise looked for beside this program, in target/release and in PATH.
    #[arg(long, value_name = "FILE")]
    pub server_binary: Option<PathBuf>,
    /// One more argument for our server; may be repeated.
    #[arg(long = "server-arg", value_name = "ARG", allow_hyphen_values = true)]
    pub server_args: Vec<String>,
    /// One more instance of our server: NAME[@CORES]=ARGUMENTS, as in two@0,1= for two workers.
    #[arg(long = "variant", value_name = "SPEC")]
    pub variants: Vec<String>,
    /// A peer's program, where it is not in PATH or there are several: NAME=FILE, as in redis8=/opt/redis-8/redis-server. The name
    /// begins with that of a server that is known.
    #[arg(long = "binary", value_name = "NAME=FILE")]
    pub binaries: Vec<String>,
    /// A server that already runs: NAME=HOST:PORT. Its keys are overwritten; it is not pinned.
    #[arg(long = "peer", value_name = "NAME=ADDRESS")]
    pub peers: Vec<String>,
    /// Canned replies as one more server, and as the baseline: what the kernel takes for the same input and output.
    #[arg(long)]
    pub floor: bool,
    /// Only these servers, by name: almandine,redis,valkey,keydb,garnet,dragonfly,floor.
    #[arg(long, value_delimiter = ',', value_name = "NAMES")]
    pub only: Vec<String>,
    /// Cores of the servers; default: the first one.
    #[arg(long, value_name = "CORES")]
    pub server_cores: Option<String>,
    /// Cores of the load; default: all others.
    #[arg(long, value_name = "CORES")]
    pub load_cores: Option<String>,
    /// Worker threads per server; default: one per server core.
    #[arg(long)]
    pub server_threads: Option<usize>,
    /// First port of the servers that are started here; each takes the next one. Otherwise the system gives free ones.
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    pub first_port: Option<u16>,
    /// Servers and load speak TLS, with the certificates of our tests.
    #[arg(long)]
    pub tls: bool,
    /// The server that ratios refer to; default: the first that is not ours.
    #[arg(long, value_name = "NAME")]
    pub baseline: Option<String>,
}

/// A server that can take part.
#[derive(Debug, Clone)]
pub struct Candidate {
    /// Name in reports.
    pub name: String,
    origin: Origin,
    tls: Option<Connector>,
}

#[derive(Debug, Clone)]
enum Origin {
    Binary { path: PathBuf, family: Family, cores: Vec<usize>, extra: Vec<String>, port: Option<u16> },
    Running(Address),
}

/// Servers that take the same arguments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Family {
    Almandine,
    Redis,
    KeyDb,
    Garnet,
    Dragonfly,
    Canned,
}

/// Name, kind, and what its program is called.
const PEERS: &[(&str, Family, &[&str])] = &[
    ("redis", Family::Redis, &["redis-server"]),
    ("valkey", Family::Redis, &["valkey-server"]),
    ("keydb", Family::KeyDb, &["keydb-server"]),
    ("garnet", Family::Garnet, &["garnet-server", "GarnetServer"]),
    ("dragonfly", Family::Dragonfly, &["dragonfly"]),
];

impl LabOptions {
    /// Every server that is here and wanted, ours first.
    pub fn candidates(&self) -> Result<Vec<Candidate>, String> {
        let (mut found, tls) = (Vec::new(), self.connector()?);
        let programs = self.programs()?;
        self.check_names(&programs)?;
        let binary = |name: &str, path: PathBuf, family, cores, extra| Candidate {
            name: name.into(),
            origin: Origin::Binary { path, family, cores, extra, port: None },
            tls: tls.clone(),
        };
        let cores = self.server_cores()?;
        let ours = self.our_binary();
        let wanted = |name: &str| self.only.is_empty() || self.only.iter().any(|only| only == name);
        if let (Some(path), true) = (&ours, wanted(OURS)) {
            found.push(binary(OURS, path.clone(), Family::Almandine, cores.clone(), self.server_args.clone()));
        }
        for spec in &self.variants {
            let path = ours.clone().ok_or("--variant needs our server: give --server-binary")?;
            let (name, arguments) = spec.split_once('=').ok_or_else(|| format!("{spec:?}: write NAME[@CORES]=ARGUMENTS"))?;
            let (name, own_cores) = name.split_once('@').unwrap_or((name, ""));
            let own_cores = if own_cores.is_empty() { cores.clone() } else { parse_cores(own_cores)? };
            let extra = self.server_args.iter().cloned().chain(arguments.split_whitespace().map(str::to_owned));
            found.push(binary(name, path, Family::Almandine, own_cores, extra.collect()));
        }
        for (name, family, path) in programs.into_iter().filter(|(name, ..)| wanted(name)) {
            found.push(binary(&name, path, family, cores.clone(), Vec::new()));
        }
        if self.floor && wanted(FLOOR) {
            let path = env::current_exe().map_err(|e| e.to_string())?;
            found.push(binary(FLOOR, path, Family::Canned, cores.clone(), Vec::new()));
        }
        for spec in &self.peers {
            let (name, address) = spec.split_once('=').ok_or_else(|| format!("{spec:?}: write NAME=HOST:PORT"))?;
            found.push(Candidate { name: name.into(), origin: Origin::Running(Address::parse(address)?), tls: tls.clone() });
        }
        if let Some(first) = self.first_port {
            give_ports(&mut found, first)?;
        }
        match found.is_empty() {
            true => {
                Err("no server found: build ours (cargo build --release), install redis-server, or give --peer NAME=HOST:PORT"
                    .into())
            }
            false => Ok(found),
        }
    }

    /// What speaks TLS to them, if they do.
    fn connector(&self) -> Result<Option<Connector>, String> {
        let options = ClientOptions { ca_file: tls::file("ca.crt").into(), ..ClientOptions::default() };
        self.tls.then(|| Connector::new(&options)).transpose().map_err(|fault| fault.to_string())
    }

    /// The peers' programs: those in PATH, unless one of the same name is given, and those that are given.
    fn programs(&self) -> Result<Vec<(String, Family, PathBuf)>, String> {
        let given = self.binaries.iter().map(|spec| {
            let (name, file) = spec.split_once('=').ok_or_else(|| format!("{spec:?}: write NAME=FILE"))?;
            let known = PEERS.iter().find(|(known, ..)| name.starts_with(known));
            let (_, family, _) =
                known.ok_or_else(|| format!("--binary {spec}: the name must begin with one of {}", known_names()))?;
            // Servers run in other folders, so the path is absolute. Links stay: a program may go by the name it is called.
            let path = std::path::absolute(file).map_err(|e| format!("--binary {spec}: {e}"))?;
            if !path.is_file() {
                return Err(format!("--binary {spec}: there is no such file"));
            }
            Ok((name.to_owned(), *family, path))
        });
        let given = given.collect::<Result<Vec<_>, String>>()?;
        let in_path = PEERS.iter().filter_map(|(name, family, programs)| {
            let path = programs.iter().find_map(|program| in_path(program))?;
            (!given.iter().any(|(other, ..)| other == name)).then(|| ((*name).to_owned(), *family, path))
        });
        Ok(in_path.collect::<Vec<_>>().into_iter().chain(given.iter().cloned()).collect())
    }

    /// Refuses names in --only that nothing has, and says which servers are not here.
    fn check_names(&self, programs: &[(String, Family, PathBuf)]) -> Result<(), String> {
        let of = |specs: &[String], name: &str| specs.iter().any(|spec| spec.split(['@', '=']).next() == Some(name));
        for name in &self.only {
            let is_here = [OURS, FLOOR].contains(&name.as_str())
                || programs.iter().any(|(other, ..)| other == name)
                || of(&self.variants, name)
                || of(&self.peers, name);
            match PEERS.iter().find(|(known, ..)| known == name) {
                _ if is_here => {}
                Some((_, _, names)) => {
                    eprintln!("note: {name} is not here: there is no {} in PATH and no --binary {name}=FILE", names[0]);
                }
                None => return Err(format!("--only {name}: no server has that name; known are {OURS},{},{FLOOR}", known_names())),
            }
        }
        Ok(())
    }

    /// Cores of the servers.
    pub fn server_cores(&self) -> Result<Vec<usize>, String> {
        match &self.server_cores {
            Some(text) => parse_cores(text),
            None => Ok(affinity::allowed().into_iter().take(1).collect()),
        }
    }

    /// Cores of the load: those that no server has, if there are any.
    pub fn load_cores(&self) -> Result<Vec<usize>, String> {
        if let Some(text) = &self.load_cores {
            return parse_cores(text);
        }
        let taken = self.server_cores()?;
        let free: Vec<usize> = affinity::allowed().into_iter().filter(|core| !taken.contains(core)).collect();
        Ok(if free.is_empty() { taken } else { free })
    }

    /// Writes down the cores before this thread is pinned, which would change the defaults.
    pub fn fix_cores(&mut self) -> Result<(), String> {
        let list = |cores: Vec<usize>| Some(cores.iter().map(usize::to_string).collect::<Vec<_>>().join(","));
        (self.server_cores, self.load_cores) = (list(self.server_cores()?), list(self.load_cores()?));
        Ok(())
    }

    /// The position of the baseline among `names`.
    pub fn baseline(&self, names: &[&str]) -> Result<usize, String> {
        match &self.baseline {
            Some(name) => names
                .iter()
                .position(|other| other == name)
                .ok_or_else(|| format!("--baseline {name}: only {} take part", names.join(", "))),
            None if self.floor => Ok(names.iter().position(|&name| name == FLOOR).unwrap_or(0)),
            None => {
                let variant = |name: &str| self.variants.iter().any(|spec| spec.split(['@', '=']).next() == Some(name));
                Ok(names.iter().position(|&name| name != OURS && !variant(name)).unwrap_or(0))
            }
        }
    }

    fn our_binary(&self) -> Option<PathBuf> {
        if self.server_binary.is_some() {
            return self.server_binary.clone();
        }
        let beside = env::current_exe().ok().map(|path| path.with_file_name("almandine-server"));
        let built = PathBuf::from("target/release/almandine-server");
        beside.into_iter().chain([built]).find(|path| path.is_file()).or_else(|| in_path("almandine-server"))
    }
}

fn known_names() -> String {
    PEERS.iter().map(|(name, ..)| *name).collect::<Vec<_>>().join(",")
}

fn in_path(program: &str) -> Option<PathBuf> {
    env::split_paths(&env::var_os("PATH")?).map(|folder| folder.join(program)).find(|path| path.is_file())
}

/// A server that runs.
#[derive(Debug)]
pub struct Subject {
    /// Name in reports.
    pub name: String,
    /// How to reach it.
    pub target: Target,
    /// Its process, if it runs here.
    pub pid: Option<u32>,
    /// What it says it is.
    pub version: String,
    child: Option<Owned>,
}

#[derive(Debug)]
struct Owned {
    process: Child,
    folder: Folder,
}

impl Drop for Owned {
    fn drop(&mut self) {
        // It holds nothing worth keeping, and SIGKILL also ends a stopped process.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Candidate {
    /// Whether this program starts and ends the server.
    pub fn is_started_here(&self) -> bool {
        matches!(self.origin, Origin::Binary { .. })
    }

    /// Whether it is our server.
    pub fn is_ours(&self) -> bool {
        matches!(self.origin, Origin::Binary { family: Family::Almandine, .. })
    }

    /// Arguments that limit its memory; `None` for servers that have no policies under the names of Redis.
    pub fn limit(&self, bytes: u64, policy: &str) -> Option<Vec<String>> {
        match self.origin {
            Origin::Binary { family: Family::Almandine | Family::Redis | Family::KeyDb, .. } => {
                let words = ["--maxmemory", &bytes.to_string(), "--maxmemory-policy", policy].map(str::to_owned);
                Some(words.into())
            }
            _ => None,
        }
    }

    /// Arguments that give it a log of writes in a mode, which is not rewritten; `None` for servers that are not known to have it.
    pub fn log(&self, mode: LogMode) -> Option<Vec<String>> {
        let Origin::Binary { family, .. } = self.origin else { return None };
        let words = match (family, mode) {
            (Family::Almandine | Family::Redis | Family::KeyDb, LogMode::None) => "--appendonly no",
            (Family::Almandine | Family::Redis | Family::KeyDb, LogMode::No) => "--appendonly yes --appendfsync no",
            (Family::Almandine | Family::Redis | Family::KeyDb, LogMode::Everysec) => "--appendonly yes --appendfsync everysec",
            (Family::Almandine | Family::Redis | Family::KeyDb, LogMode::Always) => "--appendonly yes --appendfsync always",
            (Family::Garnet, LogMode::None) => "",
            (Family::Garnet, LogMode::Everysec) => "--aof --aof-commit-freq 1000",
            (Family::Garnet, LogMode::Always) => "--aof --aof-commit-wait",
            _ => return None,
        };
        let rewriting = match family {
            Family::Garnet => "",
            _ => "--auto-aof-rewrite-percentage 0",
        };
        Some(words.split(' ').chain(rewriting.split(' ')).filter(|word| !word.is_empty()).map(str::to_owned).collect())
    }

    /// Arguments that let this many clients connect; none for servers with other names for it.
    pub fn clients(&self, number: usize) -> Vec<String> {
        match self.origin {
            Origin::Binary { family: Family::Almandine | Family::Redis | Family::KeyDb | Family::Dragonfly, .. } => {
                vec!["--maxclients".to_owned(), number.max(CLIENTS_DEFAULT).to_string()]
            }
            _ => Vec::new(),
        }
    }

    /// Starts the server, or connects to it, and waits until it answers.
    pub fn start(&self, threads: Option<usize>) -> Result<Subject, String> {
        self.start_with(threads, &[])
    }

    /// The same with more arguments, which a server that runs already does not get.
    pub fn start_with(&self, threads: Option<usize>, more: &[String]) -> Result<Subject, String> {
        let (target, child) = match &self.origin {
            Origin::Running(address) => (self.target(address.clone()), None),
            Origin::Binary { path, family, cores, extra, port } => {
                let port = port.unwrap_or_else(free_port);
                let threads = threads.unwrap_or(cores.len()).max(1);
                let (address, owned) = self.spawn(path, (*family, port), cores, threads, &[extra, more].concat())?;
                (self.target(address), Some(owned))
            }
        };
        let mut subject =
            Subject { name: self.name.clone(), target, pid: child.as_ref().map(|c| c.process.id()), version: String::new(), child };
        let start = Instant::now();
        while let Err(error) = wait_until_ready(&subject.target, Duration::from_millis(200)) {
            if subject.has_ended() || start.elapsed() > Duration::from_secs(20) {
                return Err(format!("{} did not start: {error}{}", self.name, subject.log_tail()));
            }
        }
        subject.version = subject.read_version();
        if subject.pid.is_none() && subject.target.address.is_local() {
            subject.pid = subject.target.control()?.info("process_id").ok().flatten().and_then(|pid| pid.trim().parse().ok());
        }
        Ok(subject)
    }

    fn target(&self, address: Address) -> Target {
        Target { tls: self.tls.clone(), ..Target::new(address) }
    }

    fn spawn(
        &self,
        path: &Path,
        (family, port): (Family, u16),
        cores: &[usize],
        threads: usize,
        extra: &[String],
    ) -> Result<(Address, Owned), String> {
        if self.tls.is_some() && !matches!(family, Family::Almandine | Family::Redis) {
            return Err(format!("{} is not known to speak TLS by Redis' parameters: leave it out with --only", self.name));
        }
        let folder = Folder::new(None)?;
        let log = File::create(folder.path().join("log")).map_err(|e| e.to_string())?;
        let errors = log.try_clone().map_err(|e| e.to_string())?;
        let launcher = env::current_exe().map_err(|e| e.to_string())?;
        let cores = cores.iter().map(usize::to_string).collect::<Vec<_>>().join(",");
        let process = Command::new(launcher)
            .args(["launch", &format!("--cores={cores}"), "--"])
            .arg(path)
            .args(family.arguments(port, threads, &folder.path().to_string_lossy()))
            .args(self.tls.iter().flat_map(|_| tls_arguments(port)))
            .args(extra)
            .current_dir(folder.path())
            .stdin(Stdio::null())
            .stdout(log)
            .stderr(errors)
            .spawn()
            .map_err(|e| format!("cannot start {}: {e}", self.name))?;
        Ok((Address::Tcp("127.0.0.1".into(), port), Owned { process, folder }))
    }
}

impl Family {
    /// Loopback only, no persistence, this many threads.
    fn arguments(self, port: u16, threads: usize, folder: &str) -> Vec<String> {
        let common = format!("--port {port} --bind 127.0.0.1");
        let redis = format!("--appendonly no --daemonize no --dir {folder} --save");
        let words = match self {
            Self::Almandine => format!("{common} --workers {threads} --dir {folder} --save"),
            Self::Redis => format!("{common} {redis}"),
            Self::KeyDb => format!("{common} --server-threads {threads} {redis}"),
            Self::Garnet => format!("{common} --logdir {folder} --checkpointdir {folder}"),
            Self::Canned => format!("canned --port {port}"),
            Self::Dragonfly => format!("{common} --proactor_threads {threads} --dir {folder} --dbfilename="),
        };
        let mut arguments: Vec<String> = words.split_whitespace().map(str::to_owned).collect();
        if matches!(self, Self::Almandine | Self::Redis | Self::KeyDb) {
            // The argument of --save.
            arguments.push(String::new());
        }
        arguments
    }
}

/// Has a server speak TLS on the port that it was given, and nothing else.
fn tls_arguments(port: u16) -> Vec<String> {
    let words = format!("--port 0 --tls-port {port} --tls-auth-clients no");
    let files = [("--tls-cert-file", "server.crt"), ("--tls-key-file", "server.key"), ("--tls-ca-cert-file", "ca.crt")];
    let files = files.into_iter().flat_map(|(flag, name)| [flag.to_owned(), tls::file(name)]);
    words.split(' ').map(str::to_owned).chain(files).collect()
}

/// Gives each server that is started here a port of its own, from `first` on.
fn give_ports(candidates: &mut [Candidate], first: u16) -> Result<(), String> {
    let mut next = Some(first);
    for candidate in candidates {
        if let Origin::Binary { port, .. } = &mut candidate.origin {
            *port = Some(next.ok_or("--first-port leaves no ports for all servers")?);
            next = port.and_then(|port| port.checked_add(1));
        }
    }
    Ok(())
}

impl Subject {
    /// Stops the process until [`Subject::resume`], so that it takes nothing from the one that is measured.
    pub fn pause(&self) {
        self.signal(Signal::STOP);
    }

    /// Lets it run again.
    pub fn resume(&self) {
        self.signal(Signal::CONT);
    }

    /// Resident memory in bytes.
    pub fn resident_bytes(&self) -> Option<u64> {
        self.pid.and_then(process::resident_bytes)
    }

    /// Number of keys, as far as the server can tell.
    pub fn key_count(&self) -> Option<u64> {
        let count = self.target.control().and_then(|mut control| control.integer(&["DBSIZE"]));
        count.ok().and_then(|count| u64::try_from(count).ok())
    }

    /// Waits until the server has noticed that its clients are gone, so that the next measurement does not pay for it.
    pub fn wait_for_clients_to_go(&self) -> Result<(), String> {
        let begin = Instant::now();
        loop {
            let clients = self.target.control()?.info("connected_clients")?.and_then(|number| number.trim().parse::<u64>().ok());
            // One of them asks.
            if clients.is_none_or(|clients| clients <= 1) {
                return Ok(());
            }
            if begin.elapsed() > Duration::from_secs(60) {
                return Err(format!("{} still has {} clients after a minute", self.name, clients.unwrap_or(0)));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn signal(&self, signal: Signal) {
        let pid = self.child.as_ref().and_then(|child| Pid::from_raw(child.process.id() as i32));
        if let Some(pid) = pid {
            // It fails only when the server has died, which the next connection reports better.
            let _ = kill_process(pid, signal);
        }
    }

    fn has_ended(&mut self) -> bool {
        self.child.as_mut().is_some_and(|child| !matches!(child.process.try_wait(), Ok(None)))
    }

    fn read_version(&self) -> String {
        let Ok(mut control) = self.target.control() else { return String::new() };
        let fields = ["almandine_version", "valkey_version", "garnet_version", "dragonfly_version", "redis_version"];
        fields.iter().find_map(|field| control.info(field).ok().flatten()).map(|v| v.trim().to_owned()).unwrap_or_default()
    }

    fn log_tail(&self) -> String {
        let Some(child) = &self.child else { return String::new() };
        let text = fs::read_to_string(child.folder.path().join("log")).unwrap_or_default();
        let lines: Vec<&str> = text.lines().rev().take(5).collect();
        lines.iter().rev().map(|line| format!("\n    {line}")).collect()
    }
}

/// `almandine 0.1.0, redis 7.0.15 …`, with the cores.
pub fn describe(subjects: &[Subject], options: &LabOptions) -> Result<String, String> {
    let names: Vec<String> = subjects.iter().map(|s| format!("{} {}", s.name, s.version).trim().to_owned()).collect();
    let (server, load) = (options.server_cores()?, options.load_cores()?);
    let shared = if server.iter().any(|core| load.contains(core)) { " (shared: expect noise)" } else { "" };
    Ok(format!("{}; servers on cores {server:?}, load on cores {load:?}{shared}", names.join(", ")))
}

/// Waits until the server answers PING.
fn wait_until_ready(target: &Target, limit: Duration) -> Result<(), String> {
    let start = Instant::now();
    loop {
        let error = match target.control().and_then(|mut control| control.ask(&["PING"])) {
            Ok(_) => return Ok(()),
            Err(error) => error,
        };
        if start.elapsed() > limit {
            return Err(format!("no PONG within {} s: {error}", limit.as_secs()));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_that_are_started_take_ports_one_after_the_other() {
        let binary = |name: &str| Candidate {
            name: name.into(),
            origin: Origin::Binary { path: "a".into(), family: Family::Redis, cores: Vec::new(), extra: Vec::new(), port: None },
            tls: None,
        };
        let running = Candidate { name: "b".into(), origin: Origin::Running(Address::Tcp("c".into(), 1)), tls: None };
        let mut candidates = [binary("a"), running, binary("d")];
        give_ports(&mut candidates, 65_534).unwrap();
        let ports: Vec<Option<u16>> = candidates
            .iter()
            .map(|candidate| match candidate.origin {
                Origin::Binary { port, .. } => port,
                Origin::Running(_) => None,
            })
            .collect();
        assert_eq!(ports, [Some(65_534), None, Some(65_535)]);
        assert!(give_ports(&mut [binary("a"), binary("b")], 65_535).is_err());
    }
}
