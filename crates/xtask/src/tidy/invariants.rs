//! Invariants have ids. What code mentions is listed in `docs/INVARIANTS.md`; what is listed there is asserted and tested.
//!
//! An entry is a heading with an id. One whose heading says *planned* belongs to what is not built yet: it needs neither, and no
//! code may lean on it.

use std::collections::BTreeMap;

use super::problem::Problem;
use super::source::Source;

const DOCUMENT: &str = "docs/INVARIANTS.md";
const PREFIX: &str = concat!("INV", "-");

#[derive(Default)]
struct Uses {
    first: Option<(String, usize)>,
    asserted: bool,
    tested: bool,
}

pub(super) fn check(sources: &[Source]) -> Vec<Problem> {
    let mut problems = Vec::new();
    let Some(document) = sources.iter().find(|s| s.path == DOCUMENT) else {
        return vec![Problem::new(DOCUMENT, 0, "is missing")];
    };
    let headings = document.lines.iter().enumerate().filter(|(_, l)| l.starts_with('#'));
    let mut listed: BTreeMap<String, (usize, bool)> = BTreeMap::new();
    for (id, entry) in headings.flat_map(|(i, l)| ids(l).into_iter().map(move |id| (id, (i + 1, l.contains("planned"))))) {
        if let Some((before, _)) = listed.get(&id) {
            problems.push(Problem::new(DOCUMENT, entry.0, format!("{id} has an entry in line {before} already")));
        }
        listed.insert(id, entry);
    }
    let uses = uses(sources);
    for (id, uses) in &uses {
        let Some((path, line)) = &uses.first else { continue };
        match listed.get(id) {
            None => problems.push(Problem::new(path, *line, format!("{id} is not in {DOCUMENT}"))),
            Some((_, true)) => problems.push(Problem::new(path, *line, format!("{id} is only planned in {DOCUMENT}"))),
            Some(_) => {}
        }
    }
    for (id, (line, planned)) in &listed {
        let uses = uses.get(id);
        if !planned && !uses.is_some_and(|u| u.asserted) {
            problems.push(Problem::new(DOCUMENT, *line, format!("{id} has no assertion: an assert whose message names it")));
        }
        if !planned && !uses.is_some_and(|u| u.tested) {
            problems.push(Problem::new(DOCUMENT, *line, format!("{id} has no test that names it")));
        }
    }
    problems
}

fn uses(sources: &[Source]) -> BTreeMap<String, Uses> {
    let mut all: BTreeMap<String, Uses> = BTreeMap::new();
    // The rules' own fixtures are no uses.
    for source in sources.iter().filter(|s| s.is_rust() && !s.path.starts_with("crates/xtask/")) {
        for (i, line) in source.lines.iter().enumerate() {
            for id in ids(line) {
                let uses = all.entry(id).or_default();
                uses.first.get_or_insert((source.path.clone(), i + 1));
                uses.tested |= source.is_test(i);
                uses.asserted |= !source.is_test(i) && is_assertion(source, i);
            }
        }
    }
    all
}

/// Whether the line's statement is an assertion: the macro may stand a few lines above its message.
fn is_assertion(source: &Source, line: usize) -> bool {
    let is_comment = source.lines[line].trim_start().starts_with("//");
    !is_comment
        && (line.saturating_sub(4)..=line)
            .rev()
            .take_while(|i| *i == line || !source.code[*i].trim_end().ends_with(';'))
            .any(|i| source.code[i].contains("assert"))
}

/// The ids in a line: `INV-AREA-1`, and `INV-AREA-1…3` for three of them.
fn ids(line: &str) -> Vec<String> {
    let mut found = Vec::new();
    for (at, _) in line.match_indices(PREFIX) {
        let rest = &line[at + PREFIX.len()..];
        let area: String = rest.chars().take_while(|c| c.is_ascii_uppercase() || *c == '_').collect();
        let Some(rest) = rest[area.len()..].strip_prefix('-') else { continue };
        let number = |text: &str| text.chars().take_while(char::is_ascii_digit).collect::<String>();
        let first = number(rest);
        let Ok(low) = first.parse::<u32>() else { continue };
        let high = rest[first.len()..].strip_prefix('…').map(number).and_then(|n| n.parse().ok()).unwrap_or(low);
        found.extend((low..=high).map(|n| format!("{PREFIX}{area}-{n}")));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(document: &str, code: &str) -> Vec<String> {
        let sources = [Source::new(DOCUMENT, document), Source::new("crates/a/src/b.rs", code)];
        check(&sources).into_iter().map(|p| p.text).collect()
    }

    const WHOLE: &str = "//! INV-A-1.\nfn f() {\n    debug_assert!(\n        x,\n        \"INV-A-1: why\"\n\
                         \x20   );\n}\n#[cfg(test)]\nmod tests {\n    // INV-A-1\n}\n";

    #[test]
    fn a_listed_asserted_tested_invariant_is_fine() {
        assert_eq!(run("### INV-A-1 Name\n", WHOLE), [""; 0]);
    }

    #[test]
    fn what_is_missing_is_named() {
        assert!(run("", WHOLE)[0].contains("is not in"));
        assert!(run("### INV-A-1 (planned)\n", WHOLE)[0].contains("only planned"));
        assert_eq!(run("### INV-A-2 (planned)\n### INV-A-1 x\n", WHOLE), [""; 0]);
        let no_assertion =
            run("### INV-A-1\n", "//! INV-A-1\n// assert INV-A-1\nfn f() {}\n#[cfg(test)]\nmod tests {\n// INV-A-1\n}\n");
        assert!(no_assertion.len() == 1 && no_assertion[0].contains("no assertion"), "{no_assertion:?}");
        let no_test = run("### INV-A-1\n", "fn f() { assert!(x, \"INV-A-1\"); }\n");
        assert!(no_test.len() == 1 && no_test[0].contains("no test"), "{no_test:?}");
        assert_eq!(check(&[]).len(), 1, "no document");
        let twice = run("### INV-A-1 Name\n### INV-A-1 Another\n", WHOLE);
        assert!(twice.len() == 1 && twice[0].contains("in line 1 already"), "{twice:?}");
    }

    #[test]
    fn ranges_and_neighbours_are_read() {
        assert_eq!(ids("INV-LOG-1…3, INV-X_Y-12."), ["INV-LOG-1", "INV-LOG-2", "INV-LOG-3", "INV-X_Y-12"]);
        assert_eq!(ids("INV-A and INV-1"), [""; 0]);
    }
}
