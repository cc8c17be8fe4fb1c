//! Every file opens with what it is; every library with what it is not, its invariants, and where to start.

use super::problem::Problem;
use super::source::Source;

const PARTS: [&str; 4] = ["**Is**", "**Is not**", "**Invariants**", "**Start reading at**"];

pub(super) fn check(sources: &[Source]) -> Vec<Problem> {
    let mut problems = Vec::new();
    for source in sources.iter().filter(|s| s.is_rust()) {
        let header: Vec<&String> = source.lines.iter().take_while(|l| l.starts_with("//!")).collect();
        if header.is_empty() {
            problems.push(Problem::new(&source.path, 1, "does not open with `//!`: what it is, why, what it must not do"));
        } else if source.path.ends_with("/src/lib.rs") {
            for part in PARTS.iter().filter(|part| !header.iter().any(|l| l.contains(*part))) {
                problems.push(Problem::new(&source.path, 1, format!("its header has no {part}")));
            }
        }
    }
    problems
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_header_and_a_missing_part_are_found() {
        let whole = "//! A.\n//! **Is**: a.\n//! **Is not**: b.\n//! **Invariants**: c.\n//! **Start reading at**: d.\n";
        let run = |path: &str, text: &str| check(&[Source::new(path, text)]).len();
        assert_eq!(run("crates/a/src/lib.rs", whole), 0);
        assert_eq!(run("crates/a/src/lib.rs", "//! A.\n//! **Is**: a.\n"), 3);
        assert_eq!(run("crates/a/src/lib.rs", &whole.replace("//! A.\n", "use b;\n")), 1);
        assert_eq!(run("crates/a/src/b.rs", "//! B.\nfn f() {}\n"), 0);
        assert_eq!(run("crates/a/src/b.rs", "// B.\n"), 1);
        assert_eq!(run("crates/a/src/b.rs", ""), 1);
        assert_eq!(run("docs/a.md", "# A\n"), 0);
    }
}
