//! One file of the suite, run against a server of its own.

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use super::expected::Expected;

/// How Redis' own CI starts a server for the external mode.
const FLAGS: &[&str] =
    &["--save", "", "--enable-protected-configs", "yes", "--enable-debug-command", "yes", "--enable-module-command", "yes"];
const START: Duration = Duration::from_secs(30);
/// Seconds without a result after which the suite gives up.
const SILENCE: &str = "240";

/// What happened to the tests of a file.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Results {
    pub(super) passed: Vec<String>,
    pub(super) failed: Vec<Failure>,
    /// Tests that the suite did not run: tagged, or listed.
    pub(super) skipped: usize,
    /// The suite reached its end, and the server lived.
    pub(super) complete: bool,
    /// The lines that come belong to the failure told last.
    pub(super) in_failure: bool,
}

/// A test that failed.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Failure {
    pub(super) name: String,
    /// Its name, and why.
    pub(super) text: String,
}

/// What failed between tests has no name.
const UNNAMED: &str = "(outside of a test)";

/// A server that ends when this is dropped.
pub(super) struct Server {
    child: Child,
    port: u16,
    directory: PathBuf,
}

impl Server {
    pub(super) fn start(program: &Path, flags: &[&str], suite: &Path) -> Result<Self, String> {
        let directory = suite.with_file_name(format!("server-{}", std::process::id()));
        fs::create_dir_all(&directory).map_err(|e| format!("{}: {e}", directory.display()))?;
        let log = File::create(directory.join("log")).map_err(|e| e.to_string())?;
        // Another process may take the port before the server does; then it ends, and says so in its log.
        let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).and_then(|listener| listener.local_addr());
        let port = free.map_err(|e| e.to_string())?.port();
        let mut command = Command::new(program);
        command.args(FLAGS).args(flags).args(["--bind", "127.0.0.1", "--port", &port.to_string(), "--dir"]).arg(&directory);
        let errors = log.try_clone().map_err(|e| e.to_string())?;
        let child = command.stdin(Stdio::null()).stdout(log).stderr(errors).spawn();
        let child = child.map_err(|e| format!("{}: {e}", program.display()))?;
        let mut server = Self { child, port, directory };
        let started = Instant::now();
        while TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_err() {
            if !server.lives() || started.elapsed() > START {
                let log = fs::read_to_string(server.directory.join("log")).unwrap_or_default();
                return Err(format!("{} did not start: {log}", program.display()));
            }
            thread::sleep(Duration::from_millis(20));
        }
        Ok(server)
    }

    fn lives(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = fs::remove_dir_all(&self.directory);
    }
}

/// Runs a file, without what is not to be looked at.
pub(super) fn run(suite: &Path, file: &str, mut server: Server, expected: &Expected, verbose: bool) -> Result<Results, String> {
    let skipped = expected.skipped(file);
    let skip_file = server.directory.join("skipped");
    fs::write(&skip_file, skipped.join("\n") + "\n").map_err(|e| format!("{}: {e}", skip_file.display()))?;
    let mut tclsh = Command::new("tclsh");
    tclsh.current_dir(suite).env("TERM", "dumb").args(["tests/test_helper.tcl", "--host", "127.0.0.1", "--port"]);
    // Its own processes talk by ports from here on, which another run beside this one must not have.
    let base = 21_111 + std::process::id() % 128 * 64;
    tclsh.arg(server.port.to_string()).args(["--baseport", &base.to_string()]);
    tclsh.args(["--durable", "--timeout", SILENCE, "--single", file]);
    if expected.ignores_encodings(file) {
        tclsh.arg("--ignore-encoding");
    }
    if !skipped.is_empty() {
        tclsh.arg("--skipfile").arg(&skip_file);
    }
    let child = tclsh.stdin(Stdio::null()).stdout(Stdio::piped()).spawn();
    let mut child = child.map_err(|e| format!("tclsh: {e}"))?;
    let mut results = Results::default();
    if let Some(output) = child.stdout.take() {
        for line in BufReader::new(output).split(b'\n').map_while(Result::ok) {
            let line = String::from_utf8_lossy(&line);
            if verbose {
                println!("    {line}");
            }
            results.line(&line);
        }
    }
    let _ = child.wait();
    results.complete &= server.lives();
    Ok(results)
}

impl Results {
    /// `[ok]: name (3 ms)`, `[err]: name in tests/unit/file.tcl` with more lines behind it, `[skip]: name`, `[ignore]: name: why`, then the end
    /// with all failures once more.
    fn line(&mut self, line: &str) {
        if self.complete {
            return;
        }
        if line.trim() == "The End" {
            self.complete = true;
            return;
        }
        let Some((status, rest)) = line.strip_prefix('[').and_then(|line| line.split_once("]: ")) else {
            if let Some(failure) = self.failed.last_mut().filter(|_| self.in_failure) {
                failure.text += "\n    ";
                failure.text += line;
            }
            return;
        };
        self.in_failure = false;
        match status {
            "ok" => self.passed.push(rest.rsplit_once(" (").map_or(rest, |(name, _)| name).to_owned()),
            "err" => {
                let name = rest.rsplit_once(" in tests/").map_or(UNNAMED, |(name, _)| name).to_owned();
                self.failed.push(Failure { name, text: rest.to_owned() });
                self.in_failure = true;
            }
            "skip" | "ignore" => self.skipped += 1,
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_suite_prints_is_read() {
        let output = "Cleanup: may take some time... OK
[ready]: 71
[testing unit/sort]
[ok]: SORT with (odd) name (3 ms)
[err]: SORT BY in order in tests/unit/sort.tcl
Expected '1' to equal or match '2'
[ignore]: SORT speed: Tag: external:skip denied
[skip]: SORT for ever
[err]: ERR no
    while executing
[1/1 done]: unit/sort (2 seconds)

                   The End

*** [err]: SORT BY in order in tests/unit/sort.tcl";
        let mut results = Results::default();
        output.lines().for_each(|line| results.line(line));
        assert!(results.complete);
        assert_eq!((&results.passed[..], results.skipped), (&["SORT with (odd) name".to_owned()][..], 2));
        let [one, other] = &results.failed[..] else { panic!("{:?}", results.failed) };
        assert_eq!(one.name, "SORT BY in order");
        assert!(one.text.ends_with("\n    Expected '1' to equal or match '2'"), "{}", one.text);
        assert_eq!(other.name, UNNAMED);
    }
}
