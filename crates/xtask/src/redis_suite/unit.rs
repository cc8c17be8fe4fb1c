//! One file of the suite, run against a server of its own.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use super::expected::Expected;
use super::ports::Ports;
use crate::server::Server;

/// Seconds without a result after which the suite gives up.
const SILENCE: &str = "240";

/// What happened to the tests of a file.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Results {
    pub(super) passed: Vec<String>,
    pub(super) failed: Vec<Failure>,
    /// Tests that the suite did not run, being listed.
    pub(super) skipped: Vec<String>,
    /// Tests that it did not run for a tag.
    pub(super) ignored: usize,
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

/// How files are run.
pub(super) struct Run<'a> {
    pub(super) ports: &'a Ports,
    pub(super) expected: &'a Expected,
    /// Clients speak TLS.
    pub(super) tls: bool,
    /// What the suite prints is shown.
    pub(super) verbose: bool,
}

/// Runs a file in the external mode, against a server at a port that it has.
pub(super) fn run(tree: &Path, file: &str, (mut server, port): (Server, &str), run: &Run<'_>) -> Result<Results, String> {
    let mut tclsh = suite(tree, file, &server.directory().join("skipped"), run)?;
    tclsh.args(["--host", "127.0.0.1", "--port", port]);
    let mut results = drive(&mut tclsh, run.verbose)?;
    results.complete &= server.lives();
    Ok(results)
}

/// The command that runs a file; `skip_file` is written.
pub(super) fn suite(tree: &Path, file: &str, skip_file: &Path, run: &Run<'_>) -> Result<Command, String> {
    let expected = run.expected;
    let skipped = expected.skipped(file);
    fs::write(skip_file, skipped.join("\n") + "\n").map_err(|e| format!("{}: {e}", skip_file.display()))?;
    let mut tclsh = Command::new("tclsh");
    let ports = run.ports.servers();
    tclsh.current_dir(tree).env("TERM", "dumb").arg("tests/test_helper.tcl");
    tclsh.args(["--baseport", &ports.start.to_string(), "--portcount", &ports.len().to_string()]);
    tclsh.args(["--durable", "--timeout", SILENCE, "--single", file]);
    if run.tls {
        tclsh.arg("--tls");
    }
    let tags: Vec<String> = expected.skipped_tags(file).iter().map(|tag| format!("-{tag}")).collect();
    if !tags.is_empty() {
        tclsh.args(["--tags", &tags.join(" ")]);
    }
    if !skipped.is_empty() {
        tclsh.arg("--skipfile").arg(skip_file);
    }
    Ok(tclsh)
}

/// Runs the suite to its end, and reads what it prints.
pub(super) fn drive(tclsh: &mut Command, verbose: bool) -> Result<Results, String> {
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
    Ok(results)
}

impl Results {
    /// `[ok]: name (3 ms)`, `[err]: name in tests/unit/file.tcl` with more lines behind it, `[skip]: name`, `[ignore]: name:
    /// why`, then the end with all failures once more.
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
            "skip" => self.skipped.push(rest.to_owned()),
            "ignore" => self.ignored += 1,
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
        assert_eq!((&results.passed[..], results.ignored), (&["SORT with (odd) name".to_owned()][..], 1));
        assert_eq!(results.skipped, ["SORT for ever"]);
        let [one, other] = &results.failed[..] else { panic!("{:?}", results.failed) };
        assert_eq!(one.name, "SORT BY in order");
        assert!(one.text.ends_with("\n    Expected '1' to equal or match '2'"), "{}", one.text);
        assert_eq!(other.name, UNNAMED);
    }
}
