//! What `cargo test` prints: how many tests passed, which failed, and why.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read};
use std::sync::{Mutex, PoisonError};

/// Lines that are kept of what a test said when it failed.
const MESSAGE_LINES_MAX: usize = 30;

/// Where a line came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Stream {
    Stdout,
    Stderr,
}

/// Results of tests.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) passed: usize,
    pub(super) failed: usize,
    pub(super) ignored: usize,
}

/// What was understood so far.
#[derive(Default, Debug)]
pub(super) struct Output {
    pub(super) counts: Counts,
    /// The tests that failed.
    pub(super) failed: Vec<String>,
    /// The names in the list that is being read, until the result behind it says that it was the last list.
    listed: Option<Vec<String>>,
    /// What tests, which are threads of their own, said when they panicked last.
    messages: HashMap<String, Vec<String>>,
    /// Whose message is being read, of each stream.
    speaking: HashMap<Stream, String>,
    /// The streams whose lines are kept instead of being shown, and these lines.
    keeps: Vec<Stream>,
    pub(super) kept: Vec<String>,
}

/// Shows a stream as it comes or keeps it, and reads it.
pub(super) fn read(input: impl Read, stream: Stream, output: &Mutex<Output>) {
    for line in BufReader::new(input).split(b'\n').map_while(Result::ok) {
        let line = String::from_utf8_lossy(&line);
        let mut output = output.lock().unwrap_or_else(PoisonError::into_inner);
        output.line(stream, &line);
        if output.keeps.contains(&stream) {
            output.kept.push(line.into_owned());
            continue;
        }
        drop(output);
        match stream {
            Stream::Stdout => println!("{line}"),
            Stream::Stderr => eprintln!("{line}"),
        }
    }
}

impl Output {
    /// Of a command whose lines in these streams are kept instead of being shown.
    pub(super) fn new(keeps: &[Stream]) -> Self {
        Self { keeps: keeps.to_vec(), ..Self::default() }
    }

    /// The tests that failed, each with what it said.
    pub(super) fn problems(&self) -> Vec<String> {
        let told = |name: &String| match self.messages.get(name) {
            Some(message) => format!("{name}: {}", message.join("\n    ")),
            None => name.clone(),
        };
        self.failed.iter().map(told).collect()
    }

    fn line(&mut self, stream: Stream, line: &str) {
        self.message(stream, line);
        if stream == Stream::Stdout {
            self.result(line);
        }
    }

    /// `thread 'a::b' (17) panicked at src/a.rs:1:2:`, the message in lines of its own, the stack or a note.
    fn message(&mut self, stream: Stream, line: &str) {
        // With --nocapture the beginning of a line may be another test's.
        let begun = line.split_once("thread '").and_then(|(_, rest)| rest.split_once('\'')).and_then(|(name, rest)| {
            let (_, place) = rest.split_once("panicked at ")?;
            Some((name.to_owned(), place.to_owned()))
        });
        if let Some((name, place)) = begun {
            self.messages.insert(name.clone(), vec![place]);
            self.speaking.insert(stream, name);
        } else if let Some(message) = self.speaking.get(&stream).and_then(|name| self.messages.get_mut(name)) {
            let ended = ["stack backtrace:", "note: ", "failures:", "test "].iter().any(|end| line.starts_with(end));
            if ended || message.len() > MESSAGE_LINES_MAX {
                self.speaking.remove(&stream);
            } else {
                message.push(line.to_owned());
            }
        }
    }

    /// `test result: ok. 3 passed; 0 failed; 1 ignored; …`
    fn result(&mut self, line: &str) {
        // With --nocapture a test's own output may stand before it on the line.
        let Some((_, rest)) = line.split_once("test result: ") else {
            // What was printed stands under the same headline before the names do.
            if line == "failures:" {
                self.listed = Some(Vec::new());
            } else if let (Some(listed), Some(name)) = (&mut self.listed, line.strip_prefix("    ")) {
                listed.push(name.trim().to_owned());
            }
            return;
        };
        self.failed.extend(self.listed.take().unwrap_or_default());
        let Counts { passed, failed, ignored } = &mut self.counts;
        let mut number = None;
        for word in rest.split([' ', ';', '.']).filter(|w| !w.is_empty()) {
            match (word, number) {
                ("passed", Some(n)) => *passed += n,
                ("failed", Some(n)) => *failed += n,
                ("ignored", Some(n)) => *ignored += n,
                _ => {}
            }
            number = word.parse::<usize>().ok();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn understood(stdout: &str, stderr: &str) -> Output {
        let output = Mutex::new(Output::default());
        read(stderr.as_bytes(), Stream::Stderr, &output);
        read(stdout.as_bytes(), Stream::Stdout, &output);
        output.into_inner().expect("nobody panicked")
    }

    #[test]
    fn results_are_counted() {
        let output = understood(
            "test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; 2 filtered out; finished in 0.00s\n\
             .test result: FAILED. 1 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out; finished in 1.50s\n\
             histories: 100 passed",
            "test result: ok. 3 passed",
        );
        assert_eq!(output.counts, Counts { passed: 4, failed: 2, ignored: 1 });
    }

    #[test]
    fn failed_tests_are_named() {
        let stdout = "test a::b ... FAILED\n\nfailures:\n\n---- a::b stdout ----\n    what it printed\n\n\nfailures:\n\
                      \x20   a::b\n    c\n\n\
                      test result: FAILED. 1 passed; 2 failed; 0 ignored;\n    of another kind\nfailures:\n    d\ntest result: \
                      FAILED. 0 passed; 1 failed";
        assert_eq!(understood(stdout, "").problems(), ["a::b", "c", "d"]);
    }

    #[test]
    fn failed_tests_say_why() {
        let panics = "\nthread 'passed' (1) panicked at a.rs:1:2:\nexpected\nstack backtrace:\n   0: begin\n\n\
                      thread 'a::b' (2) panicked at b.rs:3:4:\nassertion failed\n  left: 1\n\
                      note: run with `RUST_BACKTRACE=1`\nmore";
        let results = "failures:\n    a::b\n    c\ntest result: FAILED. 1 passed; 2 failed";
        let problems = ["a::b: b.rs:3:4:\n    assertion failed\n      left: 1", "c"];
        assert_eq!(understood(results, panics).problems(), problems);
        // Without --nocapture they are in the other stream.
        assert_eq!(understood(&format!("---- a::b stdout ----\n{panics}\n{results}"), "").problems(), problems);
    }
}
