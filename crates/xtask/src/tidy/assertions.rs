//! Assertions per function: crates that other threads' mistakes corrupt say what they rely on.
//!
//! Counted are `assert…!` and `debug_assert…!` in product code, per hundred functions with a body.

use super::allowances::ASSERTIONS;
use super::functions::functions;
use super::problem::Problem;
use super::source::Source;

/// What the table rises to.
const WANTED: usize = 50;
/// How far the code may be ahead of the table before the table has to follow.
const SLACK: usize = 5;

pub(super) fn check(sources: &[Source]) -> Vec<Problem> {
    check_with(sources, ASSERTIONS)
}

fn check_with(sources: &[Source], table: &[(&str, usize)]) -> Vec<Problem> {
    let mut problems = Vec::new();
    for (name, least) in table {
        let present = per_hundred(sources, name);
        let text = if present < *least {
            format!(
                "{present} assertions per hundred functions, {least} are the least: which invariants does the new code rely on?"
            )
        } else if *least < WANTED && present >= least + SLACK {
            format!(
                "{present} assertions per hundred functions: raise its row of ASSERTIONS from {least} to {}",
                present.min(WANTED)
            )
        } else {
            continue;
        };
        problems.push(Problem::new(format!("crates/{name}"), 0, text));
    }
    problems
}

fn per_hundred(sources: &[Source], name: &str) -> usize {
    let (mut assertions, mut bodies) = (0, 0);
    for source in sources.iter().filter(|source| source.is_rust() && source.crate_name() == Some(name) && !source.is_test(0)) {
        let code = &source.code[..source.tests_from];
        assertions += code.iter().map(|line| count(line)).sum::<usize>();
        bodies += functions(code).len();
    }
    assertions * 100 / bodies.max(1)
}

fn count(line: &str) -> usize {
    ["assert!", "assert_eq!", "assert_ne!"].iter().map(|name| line.matches(name).count()).sum()
}

/// Prints the density of each crate that has a row.
pub(crate) fn print(sources: &[Source]) {
    for (name, least) in ASSERTIONS {
        println!("{name}: {} assertions per hundred functions, at least {least}", per_hundred(sources, name));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(least: usize) -> Vec<String> {
        let code = "//! A.\nfn f() { debug_assert!(a); assert_eq!(b, c); }\nfn g() {}\nfn h() {}\nfn i() {}\nfn k() {}\n\
                    #[cfg(test)]\nmod tests {\n fn t() { assert!(d); }\n}\n";
        let sources = [Source::new("crates/a/src/b.rs", code)];
        check_with(&sources, &[("a", least)]).into_iter().map(|problem| problem.text).collect()
    }

    #[test]
    fn fewer_than_before_are_refused_and_more_raise_the_table() {
        assert_eq!(texts(40), [""; 0], "two in five functions; those of tests count as neither");
        assert!(texts(41)[0].contains("are the least"));
        assert_eq!(texts(36), [""; 0]);
        assert!(texts(35)[0].contains("from 35 to 40"));
    }
}
