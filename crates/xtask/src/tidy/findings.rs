//! The table of findings: each row has a number, a claim, and a test that exists or the reason why the claim is wrong.

use std::collections::BTreeSet;

use super::problem::Problem;
use super::source::Source;

const DOCUMENT: &str = "docs/findings.md";

pub(super) fn check(sources: &[Source]) -> Vec<Problem> {
    let Some(document) = sources.iter().find(|source| source.path == DOCUMENT) else {
        return vec![Problem::new(DOCUMENT, 0, "is missing")];
    };
    let mut problems = Vec::new();
    let mut seen = BTreeSet::new();
    let known = functions(sources);
    let rows = document.lines.iter().enumerate().filter(|(_, line)| line.starts_with('|'));
    for (i, line) in rows.skip(2) {
        let mut problem = |text: String| problems.push(Problem::new(DOCUMENT, i + 1, text));
        let cells = cells(line);
        let [number, what, shown] = cells.as_slice() else {
            problem(format!("a row has three cells, not {}", cells.len()));
            continue;
        };
        if !is_number(number) {
            problem(format!("{number:?} is no number of a finding: 7, 7b, M2, U3"));
        }
        if !seen.insert(number.clone()) {
            problem(format!("{number} has two rows"));
        }
        if what.is_empty() || shown.is_empty() {
            problem(format!("{number} has an empty cell"));
        }
        for test in tests(shown).filter(|test| !known.contains(*test)) {
            problem(format!("{number} names the test {test}, which is not there"));
        }
    }
    problems
}

/// A row's cells. A bar within backticks or behind a backslash separates nothing.
fn cells(line: &str) -> Vec<String> {
    let mut cells = vec![String::new()];
    let (mut quoted, mut escaped) = (false, false);
    for c in line.trim().trim_start_matches('|').trim_end_matches('|').chars() {
        quoted ^= c == '`';
        if c == '|' && !quoted && !escaped {
            cells.push(String::new());
        } else {
            cells.last_mut().into_iter().for_each(|cell| cell.push(c));
        }
        escaped = c == '\\';
    }
    cells.iter().map(|cell| cell.trim().to_owned()).collect()
}

/// `12`, `12b`, or a minor one, or one that users meet: `M3`, `U4`, `M3b`.
fn is_number(text: &str) -> bool {
    let text = text.strip_prefix(['M', 'U']).unwrap_or(text);
    let digits = text.trim_end_matches(|c: char| c.is_ascii_lowercase());
    text.len() - digits.len() <= 1 && !digits.is_empty() && digits.bytes().all(|c| c.is_ascii_digit())
}

/// The last parts of what looks like a test's path: `crate::module::test`.
fn tests(cell: &str) -> impl Iterator<Item = &str> {
    let words = cell.split(|c: char| !(c.is_alphanumeric() || "_-:".contains(c)));
    let paths = words.map(|word| word.trim_matches(':')).filter(|word| word.contains("::"));
    paths.filter_map(|path| path.rsplit("::").next())
}

/// Names of all functions, modules, files and folders.
fn functions(sources: &[Source]) -> BTreeSet<&str> {
    let parts = sources.iter().filter(|source| source.is_rust()).flat_map(|source| source.path.split('/'));
    let mut names: BTreeSet<&str> = parts.map(|part| part.trim_end_matches(".rs")).collect();
    for line in sources.iter().filter(|source| source.is_rust()).flat_map(|source| &source.code) {
        for keyword in ["fn ", "mod "] {
            let after = line.find(keyword).map(|at| &line[at + keyword.len()..]);
            let end = |text: &str| text.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(text.len());
            names.extend(after.map(|text| &text[..end(text)]));
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(rows: &str) -> Vec<String> {
        let document = format!("# F\n\n| finding | what | shown by |\n|---|---|---|\n{rows}");
        let sources = [Source::new(DOCUMENT, &document), Source::new("crates/a/tests/b.rs", "#[test]\nfn holds() {}")];
        check(&sources).into_iter().map(|problem| problem.text).collect()
    }

    #[test]
    fn whole_rows_pass() {
        assert_eq!(
            run("| 1 | lost | `a::b::holds` |\n| 1b | `a|b` leaks | Wrong: it is freed. |\n| M2 | x | `a::holds` |\n"),
            [""; 0]
        );
    }

    #[test]
    fn broken_rows_are_named() {
        assert!(run("| 1 | lost |\n")[0].contains("three cells"));
        assert!(run("| one | lost | `a::holds` |\n")[0].contains("no number"));
        assert!(run("| 1 | lost | |\n")[0].contains("empty cell"));
        assert!(run("| 1 | lost | `a::fails` |\n")[0].contains("not there"));
        assert!(run("| 1 | lost | a::holds, a::b::fails |\n")[0].contains("fails, which"));
        assert!(run("| 1 | lost | `a::holds` |\n| 1 | found | `a::holds` |\n")[0].contains("two rows"));
        assert_eq!(check(&[]).len(), 1, "no document");
    }
}
