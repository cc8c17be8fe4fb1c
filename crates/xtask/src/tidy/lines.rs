//! Lines of the product: the crates that users get, without tests and without the simulation, which no build for users has.
//!
//! Counted are lines that are not blank, comments among them. The ceiling is what there was when the house's second redesign
//! began; a feature that needs more says so by a new ceiling, with its reason in the commit.

use std::collections::BTreeMap;

use super::layers;
use super::problem::Problem;
use super::source::Source;

/// The sum that is allowed.
const CEILING: usize = 93_240;
/// Tools that users get.
const PACKAGED: [&str; 1] = ["bench"];
/// Built with the feature `sim` only, which `super::features` keeps out of the product.
pub(super) const SIMULATION: &str = "crates/io/src/sim/";

/// A note when there is more than allowed.
pub(super) fn check(sources: &[Source]) -> Vec<Problem> {
    check_with(sources, CEILING)
}

fn check_with(sources: &[Source], ceiling: usize) -> Vec<Problem> {
    let sum: usize = lines(sources).values().sum();
    let text = format!("the product has {sum} lines, {} above its ceiling (`cargo xtask lines`)", sum.saturating_sub(ceiling));
    if sum > ceiling { vec![Problem::new("crates", 0, text)] } else { Vec::new() }
}

/// Prints the lines of each crate, and their sum.
pub(crate) fn print(sources: &[Source]) {
    let lines = lines(sources);
    lines.iter().for_each(|(name, number)| println!("{name:<14} {number:>7}"));
    println!("{:<14} {:>7}  (ceiling {CEILING})", "product", lines.values().sum::<usize>());
}

fn lines(sources: &[Source]) -> BTreeMap<&str, usize> {
    let mut lines = BTreeMap::new();
    let counted = |source: &&Source| source.is_rust() && !source.is_test(0) && !source.path.starts_with(SIMULATION);
    for source in sources.iter().filter(counted) {
        if let Some(name) = source.crate_name().filter(|name| layers::is_product(name) || PACKAGED.contains(name)) {
            let product = &source.lines[..source.tests_from.min(source.lines.len())];
            *lines.entry(name).or_default() += product.iter().filter(|line| !line.trim().is_empty()).count();
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_blanks_tools_and_the_simulation_do_not_count() {
        let sources = [
            Source::new("crates/store/src/a.rs", "//! A.\n\nfn f() {}\n#[cfg(test)]\nmod tests {\n}\n"),
            Source::new("crates/store/tests/b.rs", "fn f() {}\n"),
            Source::new("crates/xtask/src/c.rs", "fn f() {}\n"),
            Source::new("crates/io/src/sim/turn/mod.rs", "fn f() {}\n"),
            Source::new("crates/bench/src/d.rs", "fn f() {}\n"),
        ];
        assert_eq!(lines(&sources), BTreeMap::from([("bench", 1), ("store", 2)]));
        assert!(check_with(&sources, 3).is_empty());
        assert!(check_with(&sources, 2)[0].to_string().contains("1 above"));
    }
}
