//! The list of what does not pass, with reasons.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use super::unit::Results;

/// The list, by file.
#[derive(Default)]
pub(super) struct Expected {
    files: BTreeMap<String, Vec<Entry>>,
}

struct Entry {
    verb: Verb,
    test: String,
}

/// Before the name of a file: in the mode in which the suite starts its servers.
const OWN: &str = "own ";

#[derive(Clone, Copy, PartialEq, Eq)]
enum Verb {
    /// Runs, and fails.
    Fails,
    /// Runs, and may fail: it depends on time.
    MayFail,
    /// Is not run, since the suite would not go on behind it.
    Skip,
    /// Nothing with this tag is run.
    SkipTag,
}

impl Expected {
    pub(super) fn read(path: &Path) -> Result<Self, String> {
        let text = fs::read_to_string(path).map_err(|e| format!("{}: {e}", path.display()))?;
        Self::parse(&text).map_err(|e| format!("{}: {e}", path.display()))
    }

    /// `fails | unit/geo | the reason | the test's name`; lines that begin with # are remarks.
    fn parse(text: &str) -> Result<Self, String> {
        let mut files: BTreeMap<String, Vec<Entry>> = BTreeMap::new();
        for line in text.lines().filter(|line| !line.trim().is_empty() && !line.starts_with('#')) {
            let [verb, file, reason, test] = line.splitn(4, " | ").collect::<Vec<_>>()[..] else {
                return Err(format!("not `verb | file | reason | test`: {line}"));
            };
            let verb = match verb.trim() {
                "fails" => Verb::Fails,
                "may fail" => Verb::MayFail,
                "skip" => Verb::Skip,
                "skip tag" => Verb::SkipTag,
                other => return Err(format!("{other} is none of: fails, may fail, skip, skip tag")),
            };
            if reason.trim().is_empty() {
                return Err(format!("no reason: {line}"));
            }
            files.entry(file.trim().to_owned()).or_default().push(Entry { verb, test: test.to_owned() });
        }
        Ok(Self { files })
    }

    /// The list for the mode in which the suite starts its servers: what holds for a file in the external mode may hold there
    /// too, and lines that name the file as `own unit/acl` are for this mode alone.
    pub(super) fn of_own_servers(self) -> Self {
        let mut files: BTreeMap<String, Vec<Entry>> = BTreeMap::new();
        for (file, entries) in self.files {
            let (file, own) = file.strip_prefix(OWN).map_or((file.as_str(), false), |file| (file, true));
            let relaxed = |entry: Entry| match entry.verb {
                Verb::Fails if !own => Entry { verb: Verb::MayFail, ..entry },
                _ => entry,
            };
            files.entry(file.to_owned()).or_default().extend(entries.into_iter().map(relaxed));
        }
        Self { files }
    }

    fn of(&self, file: &str) -> impl Iterator<Item = &Entry> {
        self.files.get(file).into_iter().flatten()
    }

    /// The tests that are not to be run.
    pub(super) fn skipped(&self, file: &str) -> Vec<&str> {
        self.of(file).filter(|entry| entry.verb == Verb::Skip).map(|entry| entry.test.as_str()).collect()
    }

    /// The tags of what is not to be run.
    pub(super) fn skipped_tags(&self, file: &str) -> Vec<&str> {
        self.of(file).filter(|entry| entry.verb == Verb::SkipTag).map(|entry| entry.test.as_str()).collect()
    }

    /// What the list says and is not so any more, or has not run.
    pub(super) fn stale(&self, file: &str, results: &Results) -> Vec<String> {
        let failed: BTreeSet<&str> = results.failed.iter().map(|failure| failure.name.as_str()).collect();
        let told = self.of(file).filter_map(|entry| {
            let what = match entry.verb {
                Verb::Fails if failed.contains(entry.test.as_str()) => return None,
                Verb::Fails if results.passed.contains(&entry.test) => "passed, and is listed as failing",
                Verb::Fails => "is listed, and did not run",
                Verb::Skip if !results.skipped.contains(&entry.test) => "is to be skipped, and there is no such test",
                _ => return None,
            };
            Some(format!("{file}: {what}: {}", entry.test))
        });
        told.collect()
    }

    /// What fails and is not listed.
    pub(super) fn compare(&self, file: &str, results: &Results) -> Vec<String> {
        let mut problems = Vec::new();
        let listed: BTreeSet<&str> = self.of(file).map(|entry| entry.test.as_str()).collect();
        for failure in results.failed.iter().filter(|failure| !listed.contains(failure.name.as_str())) {
            problems.push(format!("{file}: failed: {}", failure.text));
        }
        if !results.complete {
            problems.push(format!("{file}: the suite or the server ended early; --verbose shows where"));
        }
        problems
    }
}

#[cfg(test)]
mod tests {
    use super::super::unit::Failure;
    use super::*;

    const LIST: &str = "# A remark.
fails | unit/a | does not exist yet | one | two

skip | unit/a | waits for ever | three
skip tag | unit/a | wants a parameter | needs:four
may fail | unit/a | takes time | four
";

    fn results(passed: &[&str], failed: &[&str]) -> Results {
        let failed = failed.iter().map(|name| Failure { name: (*name).to_owned(), text: String::new() }).collect();
        let (passed, skipped) =
            (passed.iter().map(|name| (*name).to_owned()).collect(), vec!["three".to_owned(), "five".to_owned()]);
        Results { passed, failed, skipped, complete: true, ..Results::default() }
    }

    #[test]
    fn results_must_be_as_listed() {
        let expected = Expected::parse(LIST).unwrap();
        assert_eq!(expected.skipped("unit/a"), ["three"]);
        assert_eq!(expected.skipped_tags("unit/a"), ["needs:four"]);
        assert!(expected.compare("unit/a", &results(&["four", "x"], &["one | two"])).is_empty());
        assert!(expected.compare("unit/a", &results(&[], &["one | two", "four"])).is_empty());
        assert_eq!(expected.stale("unit/a", &results(&["one | two"], &[])).len(), 1);
        assert_eq!(expected.stale("unit/a", &results(&[], &[])).len(), 1);
        assert_eq!(expected.stale("unit/a", &Results { skipped: Vec::new(), ..results(&[], &["one | two"]) }).len(), 1);
        assert!(expected.stale("unit/a", &results(&[], &["one | two"])).is_empty());
        assert_eq!(expected.compare("unit/a", &results(&[], &["one | two", "x"])).len(), 1);
        assert_eq!(expected.compare("unit/b", &Results::default()).len(), 1);
    }

    #[test]
    fn servers_of_the_suite_have_lines_of_their_own() {
        let list = format!("{LIST}skip | own unit/a | why | five\nfails | own unit/c | why | six\n");
        let external = Expected::parse(&list).unwrap();
        assert_eq!(external.skipped("unit/a"), ["three"]);
        let own = Expected::parse(&list).unwrap().of_own_servers();
        assert_eq!(
            {
                let mut skipped = own.skipped("unit/a");
                skipped.sort_unstable();
                skipped
            },
            ["five", "three"]
        );
        assert!(own.stale("unit/a", &results(&["one | two"], &[])).is_empty());
        assert_eq!(own.stale("unit/c", &results(&["six"], &[])).len(), 1);
    }

    #[test]
    fn each_entry_has_a_reason() {
        assert!(Expected::parse("fails | unit/a | one").is_err());
        assert!(Expected::parse("fails | unit/a |   | one").is_err());
        assert!(Expected::parse("fail | unit/a | why | one").is_err());
    }
}
