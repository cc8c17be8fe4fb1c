//! Prose of comments, and the width of lines: counts per crate that only fall.
//!
//! A comment whose subject is one of [`HIDDEN`] does not say which thread, client or record it speaks of. A doc that only refers
//! to another item says nothing. rustfmt wraps neither comments nor long strings, so a line that is too wide is counted
//! here. Tests count, too.

use std::collections::BTreeMap;

use super::allowances::{self, Found, HIDDEN_SUBJECTS, MERE_REFERENCES, WIDE_LINES};
use super::source::{Source, has_word};

/// Words and pairs of words that stand where a noun of the glossary should.
const HIDDEN: [&str; 6] = ["who", "whoever", "somebody", "nobody", "anybody", "so many"];
/// Columns of a line.
const COLUMNS_MAX: usize = 132;

type Counts = BTreeMap<String, usize>;

pub(super) fn check(sources: &[Source]) -> Found {
    let mut found = Found::default();
    for (title, allowed, hint, counted) in RULES {
        let (problems, notes) = allowances::falls(title, allowed, &count(sources, counted), hint);
        found.0.extend(problems);
        found.1.extend(notes);
    }
    found
}

/// Prints each count, by crate; with a crate's name the lines of that crate, too.
pub(crate) fn print(sources: &[Source], only: &str) {
    for (title, _, hint, counted) in RULES {
        let counts = count(sources, counted);
        println!("{title}: {} {hint}", counts.values().sum::<usize>());
        counts.iter().filter(|(_, number)| **number > 0).for_each(|(name, number)| println!("  (\"{name}\", {number}),"));
        for source in sources.iter().filter(|source| !only.is_empty() && crate_of(source) == Some(only)) {
            let lines = source.lines.iter().enumerate().filter(|(_, line)| counted(line));
            lines.for_each(|(number, line)| println!("    {}:{}: {}", source.path, number + 1, line.trim()));
        }
    }
}

type Rule = (&'static str, &'static [(&'static str, usize)], &'static str, fn(&str) -> bool);

const RULES: [Rule; 3] = [
    ("HIDDEN_SUBJECTS", HIDDEN_SUBJECTS, "lines of comments hide their subject (who, somebody, so many …)", hides_subject),
    ("MERE_REFERENCES", MERE_REFERENCES, "docs say only \"As [`x`]\"", is_mere_reference),
    ("WIDE_LINES", WIDE_LINES, "lines are wider than 132 columns", is_wide),
];

fn count(sources: &[Source], counted: fn(&str) -> bool) -> Counts {
    let mut counts = Counts::new();
    for source in sources.iter().filter(|source| source.is_rust()) {
        if let Some(name) = crate_of(source) {
            *counts.entry(name.to_owned()).or_default() += source.lines.iter().filter(|line| counted(line)).count();
        }
    }
    counts
}

fn crate_of(source: &Source) -> Option<&str> {
    source.path.strip_prefix("crates/")?.split_once('/').map(|(name, _)| name)
}

/// The text of a line that is a comment.
fn comment(line: &str) -> Option<&str> {
    line.trim_start().strip_prefix("//").map(|text| text.trim_start_matches(['/', '!']).trim())
}

fn hides_subject(line: &str) -> bool {
    comment(line).is_some_and(|text| {
        let text = text.to_lowercase();
        HIDDEN.iter().any(|word| has_word(&text, word))
    })
}

/// `/// As [`x`].`, alone on its line.
fn is_mere_reference(line: &str) -> bool {
    let reference = comment(line).and_then(|text| text.strip_prefix("As [`")).and_then(|rest| rest.split_once("`]"));
    line.trim_start().starts_with("///") && reference.is_some_and(|(_, rest)| matches!(rest, "" | "."))
}

fn is_wide(line: &str) -> bool {
    line.chars().count() > COLUMNS_MAX
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hidden_subjects_mere_references_and_wide_lines_are_found() {
        for line in ["// Who waits.", "    /// so many of them", "//! Nobody may."] {
            assert!(hides_subject(line), "{line}");
        }
        for line in ["let who = 1;", "// The whole.", "// Anyone's whom"] {
            assert!(!hides_subject(line), "{line}");
        }
        assert!(is_mere_reference("    /// As [`Reader::get`].") && is_mere_reference("/// As [`a`]"));
        assert!(!is_mere_reference("/// As [`a`], without a latch.") && !is_mere_reference("// As [`a`]."));
        assert!(is_wide(&"é".repeat(133)) && !is_wide(&"é".repeat(132)));
    }

    #[test]
    fn a_count_may_not_rise() {
        let source = |lines: usize| [Source::new("crates/a/src/b.rs", &"// who\n".repeat(lines))];
        let texts = |lines, allowed: &[(&str, usize)]| {
            let (problems, notes) = allowances::falls("T", allowed, &count(&source(lines), hides_subject), "bad lines");
            problems.into_iter().chain(notes).map(|problem| problem.text).collect::<Vec<_>>()
        };
        assert_eq!(texts(3, &[("a", 3)]), [""; 0]);
        assert!(texts(4, &[("a", 3)])[0].contains("4 bad lines, 3 are allowed"));
        assert!(texts(1, &[])[0].contains("0 are allowed"));
        assert!(texts(10, &[("a", 40)])[0].contains("is too large"));
        assert!(texts(0, &[("b", 40)])[0].contains("no crate b"));
    }
}
