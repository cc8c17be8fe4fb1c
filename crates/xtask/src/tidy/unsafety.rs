//! `unsafe` stands only behind its fences (decision D9). That each block argues its safety is clippy's
//! `undocumented_unsafe_blocks`.

use super::problem::Problem;
use super::source::{Source, has_word};

/// Path prefixes that may contain `unsafe`.
const FENCES: &[&str] = &["crates/io/", "crates/epoch/", "crates/oplog/src/ring.rs", "crates/store/"];

pub(super) fn check(sources: &[Source]) -> Vec<Problem> {
    let mut problems = Vec::new();
    for source in sources.iter().filter(|s| !FENCES.iter().any(|fence| s.path.starts_with(fence))) {
        for (i, line) in source.code.iter().enumerate().filter(|(_, line)| has_word(line, "unsafe")) {
            problems.push(Problem::new(&source.path, i + 1, format!("`unsafe` outside of {FENCES:?}: {}", line.trim())));
        }
    }
    problems
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unsafe_is_found_outside_its_fences_only() {
        let run = |path: &str, text: &str| check(&[Source::new(path, text)]).len();
        let code = "//! A.\nfn f() { unsafe { g() } }\n";
        assert_eq!(run("crates/commands/src/a.rs", code), 1);
        assert_eq!(run("crates/resp/src/parse.rs", code), 1);
        assert_eq!(run("crates/store/src/a.rs", code), 0);
        assert_eq!(run("crates/commands/src/a.rs", "#![forbid(unsafe_code)] // unsafe\nlet a = \"unsafe\";"), 0);
    }
}
