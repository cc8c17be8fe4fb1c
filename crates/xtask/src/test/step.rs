//! A step of the run: a command, and how it ended.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};

use super::output::{self, Counts, Output, Stream};

/// A command of the run.
pub(super) struct Step {
    /// Its row of the summary. Those of several steps with one name are one.
    pub(super) name: String,
    /// What runs, and of it what, where that is not the whole step.
    pub(super) program: PathBuf,
    pub(super) part: String,
    pub(super) arguments: Vec<String>,
    pub(super) environment: Vec<(&'static str, String)>,
    /// Where it runs, unless at the root.
    pub(super) directory: Option<PathBuf>,
}

/// How a step ended.
pub(super) struct Ended {
    pub(super) name: String,
    pub(super) passed: usize,
    pub(super) failed: usize,
    pub(super) skipped: usize,
    pub(super) took: Duration,
    /// Of all its processes together, where that is known.
    pub(super) processor: Option<Duration>,
    /// What failed in it, and why where that is known: told once more at the very end.
    pub(super) problems: Vec<String>,
    /// What of it could not be run on this machine, by name and with the reason: told at the very end.
    pub(super) left_out: Vec<String>,
    /// What failed in it at first, and passed when it was tried again.
    pub(super) unsteady: Vec<String>,
    /// Tries what has failed again.
    pub(super) again: Option<Again>,
}

/// Tries what has failed again, alone.
pub(super) type Again = Box<dyn FnOnce() -> Ended + Send>;

impl Ended {
    pub(super) fn new(name: &str, took: Duration) -> Self {
        let (problems, left_out, unsteady) = (Vec::new(), Vec::new(), Vec::new());
        let name = name.to_owned();
        Self { name, passed: 0, failed: 0, skipped: 0, took, processor: None, problems, left_out, unsteady, again: None }
    }

    /// Tries what has failed again, where that may be. It has passed when nothing fails now, and as much passes as had failed.
    pub(super) fn try_again(&mut self) {
        let Some(again) = self.again.take().filter(|_| self.failed > 0) else { return };
        let second = again();
        self.took += second.took;
        if second.failed == 0 && second.passed >= self.failed {
            self.passed += std::mem::take(&mut self.failed);
            self.unsteady.append(&mut self.problems);
        }
    }

    /// Adds a further part of the same step.
    pub(super) fn add(&mut self, part: Self) {
        self.passed += part.passed;
        self.failed += part.failed;
        self.skipped += part.skipped;
        self.took += part.took;
        self.processor = self.processor.zip(part.processor).map(|(one, other)| one + other);
        self.problems.extend(part.problems);
        self.left_out.extend(part.left_out);
        self.unsteady.extend(part.unsteady);
    }
}

/// A step that cargo takes.
pub(super) fn cargo(name: &str, arguments: &[&str]) -> Step {
    program(name, Path::new("cargo"), arguments)
}

/// A step that another program takes.
pub(super) fn program(name: &str, program: &Path, arguments: &[&str]) -> Step {
    let arguments = arguments.iter().map(|a| (*a).to_owned()).collect();
    let (name, program) = (name.to_owned(), program.to_owned());
    Step { name, program, part: String::new(), arguments, environment: Vec::new(), directory: None }
}

impl Step {
    /// The step in words, on one line.
    fn title(&self) -> String {
        let program = self.program.file_name().unwrap_or_default().display();
        let what = if self.part.is_empty() { format!("{program} {}", self.arguments.join(" ")) } else { self.part.clone() };
        format!("{}: {what}", self.name)
    }

    /// Of the tests that it runs, those with these names.
    fn only(mut self, names: &[String]) -> Self {
        // Words without a dash select tests, and what they select is in the names.
        self.arguments.retain(|argument| argument.starts_with('-'));
        self.arguments.push("--exact".to_owned());
        self.arguments.extend_from_slice(names);
        self.part = format!("{}, once more: {}", self.part, names.join(", "));
        self
    }
}

/// Takes a step, shows its output as it comes, and counts what it reports.
pub(super) fn execute(root: &Path, step: &Step) -> Ended {
    println!("\n=== {}", step.title());
    run(root, step, &[]).0
}

/// Takes a step whose standard output is for us; also brings its lines.
pub(super) fn listen(root: &Path, step: &Step) -> (Ended, Vec<String>) {
    println!("\n=== {}", step.title());
    let (ended, lines, _) = run(root, step, &[Stream::Stdout]);
    (ended, lines)
}

/// Takes a step beside others, and shows its output in one piece when it has ended.
pub(super) fn execute_beside(root: &Path, step: &Step) -> Ended {
    execute_and_name(root, step).0
}

/// Takes a step beside others as [`execute_beside`]. What failed in it by itself may be tried again.
pub(super) fn execute_twice(root: &Path, step: Step) -> Ended {
    let (mut ended, failed) = execute_and_name(root, &step);
    // What ended otherwise than by failed tests was killed, or could not run.
    if !failed.is_empty() && failed.len() == ended.failed {
        let root = root.to_owned();
        ended.again = Some(Box::new(move || execute_beside(&root, &step.only(&failed))));
    }
    ended
}

/// As [`execute_beside`], with the names of the tests that failed.
fn execute_and_name(root: &Path, step: &Step) -> (Ended, Vec<String>) {
    println!("begun: {}", step.title());
    let (ended, lines, failed) = run(root, step, &[Stream::Stdout, Stream::Stderr]);
    let [took, used] = [ended.took, ended.processor.unwrap_or_default()].map(|time| time.as_secs_f64());
    println!("\n=== {} ({took:.1} s, {used:.1} s of processors)\n{}", step.title(), lines.join("\n"));
    (ended, failed)
}

/// Takes a step. The lines of the streams in `kept` come back instead of being shown, and the names of the tests that failed.
fn run(root: &Path, step: &Step, kept: &[Stream]) -> (Ended, Vec<String>, Vec<String>) {
    let started = Instant::now();
    let mut command = Command::new(&step.program);
    command.args(&step.arguments).current_dir(step.directory.as_deref().unwrap_or(root));
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    // Cargo says RUSTFLAGS and the like to its children; a step decides for itself.
    command.env_remove("RUSTFLAGS");
    for (name, value) in &step.environment {
        command.env(name, value);
    }
    let output = Mutex::new(Output::new(kept));
    let mut processor = None;
    let status = command.spawn().and_then(|mut child| {
        thread::scope(|scope| {
            if let Some(stderr) = child.stderr.take() {
                scope.spawn(|| output::read(stderr, Stream::Stderr, &output));
            }
            if let Some(stdout) = child.stdout.take() {
                output::read(stdout, Stream::Stdout, &output);
            }
        });
        processor = processor_time(&child);
        child.wait()
    });
    let output = output.into_inner().unwrap_or_else(PoisonError::into_inner);
    let (mut counts, mut problems) = (output.counts, output.problems());
    let ok = status.as_ref().is_ok_and(std::process::ExitStatus::success);
    let how = match status {
        Ok(status) => status.to_string(),
        Err(e) => format!("{}: {e}", step.program.display()),
    };
    // A step that counts nothing is one check; one that fails without a failed test failed to build, or was killed.
    if !ok && counts.failed == 0 {
        counts.failed = 1;
        problems.push(format!("{}: {how}", step.title()));
    } else if ok && counts.passed == 0 && step.part.is_empty() {
        counts.passed = 1;
    }
    let Counts { passed, failed, ignored } = counts;
    let ended = Ended { passed, failed, skipped: ignored, processor, problems, ..Ended::new(&step.name, started.elapsed()) };
    (ended, output.kept, output.failed)
}

/// What a process has used, with all that it has waited for. Waits for its end, and leaves it to be waited for.
fn processor_time(child: &Child) -> Option<Duration> {
    waitid(WaitId::Pid(Pid::from_child(child)), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT).ok()?;
    ticks(&fs::read_to_string(format!("/proc/{}/stat", child.id())).ok()?)
        .map(|ticks| Duration::from_millis(ticks * 1000 / rustix::param::clock_ticks_per_second()))
}

/// `utime`, `stime`, `cutime` and `cstime` of a line as `/proc/PID/stat` has it: the 14th field and those behind it.
fn ticks(stat: &str) -> Option<u64> {
    // The second is the name in parentheses, in which anything may stand.
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace().skip(11);
    (0..4).map(|_| fields.next()?.parse::<u64>().ok()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_that_fails_or_is_missing_counts_as_failed() {
        let root = crate::root::root();
        assert_eq!(execute(&root, &cargo("nonsense", &["no-such-command"])).failed, 1);
        assert_eq!(execute(&root, &cargo("version", &["--version"])).passed, 1);
        let missing = execute_beside(&root, &program("missing", Path::new("no-such-program"), &[]));
        assert_eq!((missing.failed, missing.problems.len()), (1, 1));
    }

    #[test]
    fn a_program_that_is_killed_is_named() {
        let mut killed = program("unit", Path::new("sh"), &["-c", "echo 'test result: ok. 1 passed; 0 failed'; kill -9 $$"]);
        killed.part = "server backup".to_owned();
        let ended = execute_beside(&crate::root::root(), &killed);
        assert_eq!((ended.passed, ended.failed), (1, 1));
        assert!(ended.problems[0].starts_with("unit: server backup: signal: 9"), "{:?}", ended.problems);
    }

    #[test]
    fn what_failed_is_tried_again_once() {
        let again = |second: &'static str| {
            let root = crate::root::root();
            let script = "echo 'failures:'; echo '    a::b'; echo 'test result: FAILED. 3 passed; 1 failed'; exit 1";
            let mut ended = execute_twice(&root, program("unit", Path::new("sh"), &["-c", script]));
            assert_eq!((ended.passed, ended.failed, ended.again.is_some()), (3, 1, true));
            ended.again = Some(Box::new(move || {
                let script = format!("echo 'test result: {second}'; case '{second}' in FAILED*) exit 1;; esac");
                let mut step = program("unit", Path::new("sh"), &["-c", &script]);
                step.part = "server backup".to_owned();
                execute_beside(&root, &step)
            }));
            ended.try_again();
            (ended.passed, ended.failed, ended.problems.len(), ended.unsteady)
        };
        assert_eq!(again("ok. 1 passed; 0 failed"), (4, 0, 0, vec!["a::b".to_owned()]));
        assert_eq!(again("FAILED. 0 passed; 1 failed"), (3, 1, 1, Vec::new()));
        // It ran nothing.
        assert_eq!(again("ok. 0 passed; 0 failed"), (3, 1, 1, Vec::new()));
    }

    #[test]
    fn what_was_killed_is_not_tried_again() {
        let script = "echo 'failures:'; echo '    a::b'; echo 'test result: FAILED. 3 passed; 2 failed'; kill -9 $$";
        let step = |script| program("unit", Path::new("sh"), &["-c", script]);
        assert!(execute_twice(&crate::root::root(), step(script)).again.is_none());
        assert!(execute_twice(&crate::root::root(), step("kill -9 $$")).again.is_none());
    }

    #[test]
    fn only_what_failed_is_tried_again() {
        let step = program("unit", Path::new("backup"), &["mutants", "--nocapture"]).only(&["a::b".to_owned(), "c".to_owned()]);
        assert_eq!(step.arguments, ["--nocapture", "--exact", "a::b", "c"]);
    }

    #[test]
    fn lines_come_back_instead_of_being_shown() {
        let said = program("said", Path::new("sh"), &["-c", "echo one; echo two; echo three >&2"]);
        assert_eq!(listen(&crate::root::root(), &said).1, ["one", "two"]);
    }

    #[test]
    fn processor_time_is_that_of_a_process_and_its_children() {
        assert_eq!(ticks("17 (a b) c) S 1 2 3 4 5 6 7 8 9 10 100 20 3000 40000 20 0"), Some(43120));
        assert_eq!(ticks("17 (a) S 1 2"), None);
        assert_eq!(ticks("17 a"), None);
        let busy = program("busy", Path::new("sh"), &["-c", "sh -c 'i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done'; true"]);
        let used = execute_beside(&crate::root::root(), &busy).processor.expect("Linux knows it");
        assert!(used > Duration::ZERO, "{used:?}");
    }
}
