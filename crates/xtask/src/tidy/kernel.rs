//! Crates of the product reach the kernel, the clock, threads, locks and files through `io` only. Clippy holds them to it
//! (`clippy.toml`); here it is held that each crate lets it.

use super::layers;
use super::problem::Problem;
use super::source::Source;

const LINE: &str = "#![cfg_attr(not(test), deny(clippy::disallowed_methods, clippy::disallowed_types))]";

pub(super) fn check(sources: &[Source]) -> Vec<Problem> {
    let mut problems = Vec::new();
    for source in sources.iter().filter(|source| is_root(&source.path)) {
        let is_bound = source.crate_name().is_some_and(|name| name != "io" && layers::is_product(name));
        if is_bound && !source.lines.iter().any(|line| line == LINE) {
            problems.push(Problem::new(&source.path, 1, format!("goes round `io` unseen; add {LINE}")));
        }
    }
    problems
}

fn is_root(path: &str) -> bool {
    path.split_once("/src/").is_some_and(|(_, file)| matches!(file, "lib.rs" | "main.rs"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_root_without_the_lint_is_found() {
        let run = |path: &str, text: &str| check(&[Source::new(path, text)]).len();
        assert_eq!(run("crates/store/src/lib.rs", "//! A.\n"), 1);
        assert_eq!(run("crates/server/src/main.rs", "//! A.\n"), 1);
        assert_eq!(run("crates/store/src/lib.rs", &format!("//! A.\n{LINE}\n")), 0);
        for free in ["crates/io/src/lib.rs", "crates/bench/src/main.rs", "crates/store/src/index.rs"] {
            assert_eq!(run(free, "//! A.\n"), 0, "{free}");
        }
    }
}
