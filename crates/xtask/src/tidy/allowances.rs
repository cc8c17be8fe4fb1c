//! What the tree may still have of what the rules refuse. These tables only shrink: an allowance above what there is fails, too.
//!
//! When a rule says that an allowance is too large, lower it here, and take the row away when it says zero or names the rule's own limit.

use super::problem::Problem;

/// Files of the largest import circle, by crate. Without a row: four.
pub(super) const CIRCLES: &[(&str, usize)] = &[];

/// Functions of more than six parameters, by crate.
pub(super) const WIDE_FUNCTIONS: &[(&str, usize)] = &[];

/// Structs of more than sixteen fields, by crate.
pub(super) const WIDE_STRUCTS: &[(&str, usize)] = &[("lab", 2)];

/// Lines that release a latch by hand.
pub(super) const UNLOCKS: &[(&str, usize)] = &[("store", 4)];

/// Assertions per hundred functions, at least, by crate. These numbers only rise, to fifty.
pub(super) const ASSERTIONS: &[(&str, usize)] = &[("epoch", 50), ("store", 50)];

/// A crate's row.
pub(super) fn of(table: &[(&str, usize)], name: &str) -> Option<usize> {
    table.iter().find(|(listed, _)| *listed == name).map(|(_, allowance)| *allowance)
}

/// The complaint about an allowance that is no longer needed.
pub(super) fn too_large(table: &str, name: &str, allowance: usize, present: usize) -> String {
    format!("the allowance {allowance} in {table} is too large: make it {present} for {name} (crates/xtask/src/tidy/allowances.rs)")
}

/// Rows for what is not there.
pub(super) fn unknown(table: &[(&str, usize)], title: &str, names: &[String]) -> Vec<Problem> {
    let strange = table.iter().filter(|(listed, _)| !names.iter().any(|name| name == listed));
    strange
        .map(|(listed, _)| Problem::new("crates/xtask/src/tidy/allowances.rs", 0, format!("{title}: no crate {listed}")))
        .collect()
}
