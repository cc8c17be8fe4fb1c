//! ARCHITECTURE's table of mechanisms: each file that it names exists.

use super::problem::Problem;
use super::source::Source;

const PAGE: &str = "ARCHITECTURE.md";
const HEADING: &str = "## Mechanisms";

pub(super) fn check(sources: &[Source]) -> Vec<Problem> {
    let Some(page) = sources.iter().find(|source| source.path == PAGE) else {
        return vec![Problem::new(PAGE, 0, "is missing")];
    };
    let Some(start) = page.lines.iter().position(|line| line == HEADING) else {
        return vec![Problem::new(PAGE, 0, format!("has no {HEADING}"))];
    };
    let mut problems = Vec::new();
    let section = page.lines[start + 1..].iter().take_while(|line| !line.starts_with("## "));
    for (offset, line) in section.enumerate().filter(|(_, line)| line.starts_with('|')) {
        for name in line.split('`').skip(1).step_by(2) {
            let exists = name.split_once('/').is_some_and(|(of, path)| {
                let path = format!("crates/{of}/src/{path}");
                sources.iter().any(|source| source.path == path)
            });
            if !exists {
                let text = format!("names {name}, which does not exist: which file has its place in the reading order?");
                problems.push(Problem::new(PAGE, start + offset + 2, text));
            }
        }
    }
    problems
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_that_are_gone_are_found() {
        let page =
            "# A\n## Mechanisms\n`a/x.rs` is text\n\n| m | files |\n|---|---|\n| GET | `a/b.rs`, `a/c/d.rs` |\n## B\n| `e` |\n";
        let sources = |file: &str| [Source::new(PAGE, page), Source::new("crates/a/src/b.rs", ""), Source::new(file, "")];
        assert!(check(&sources("crates/a/src/c/d.rs")).is_empty());
        let found = check(&sources("crates/a/src/c.rs"));
        assert!(found.len() == 1 && found[0].to_string().starts_with("ARCHITECTURE.md:7: names a/c/d.rs"), "{found:?}");
        assert_eq!(check(&[Source::new(PAGE, "# A\n")]).len(), 1);
    }
}
