//! What the tree may still have of what the rules refuse. These tables only shrink: an allowance above what there is fails, too.
//!
//! When a rule says that an allowance is too large, lower it here, and take the row away when it says zero or names the rule's
//! own limit.

use std::collections::BTreeMap;

use super::problem::Problem;

/// Files of the largest import circle, by crate. Without a row: four.
pub(super) const CIRCLES: &[(&str, usize)] = &[];

/// Functions of more than six parameters, by crate.
pub(super) const WIDE_FUNCTIONS: &[(&str, usize)] = &[];

/// Structs of more than sixteen fields, by crate.
pub(super) const WIDE_STRUCTS: &[(&str, usize)] = &[("lab", 2)];

/// Lines that release a latch by hand.
pub(super) const UNLOCKS: &[(&str, usize)] = &[("store", 4)];

/// Lines of comments that hide their subject, by crate; `cargo xtask prose CRATE` shows them.
pub(super) const HIDDEN_SUBJECTS: &[(&str, usize)] = &[];

/// Docs that only refer to another item, by crate.
pub(super) const MERE_REFERENCES: &[(&str, usize)] = &[];

/// Lines wider than 132 columns, by crate.
pub(super) const WIDE_LINES: &[(&str, usize)] = &[];

/// Public methods of types that have more than twenty.
pub(super) const WIDE_TYPES: &[(&str, usize)] = &[];

/// Names of public types that there are too often: within a crate, as `crate::Name`, and in the product.
pub(super) const REPEATED_NAMES: &[(&str, usize)] = &[("Kind", 3), ("Options", 4), ("Run", 4), ("Set", 3), ("datatypes::Run", 2)];

/// Assertions per hundred functions, at least, by crate. These numbers only rise, to fifty.
pub(super) const ASSERTIONS: &[(&str, usize)] = &[("device", 20), ("epoch", 50), ("store", 50)];

/// A crate's row.
pub(super) fn of(table: &[(&str, usize)], name: &str) -> Option<usize> {
    table.iter().find(|(listed, _)| *listed == name).map(|(_, allowance)| *allowance)
}

/// How far a count may be below its allowance before the allowance has to follow: a tenth, or ten.
fn slack(allowance: usize) -> usize {
    (allowance / 10).max(10)
}

/// Problems, and notes.
pub(super) type Found = (Vec<Problem>, Vec<Problem>);

/// Counts by name against a table whose numbers only fall. `hint` says what is counted. What moves to another crate moves its
/// allowance with it. An allowance that has become too large is a note, so that a change that mends much does not fail those
/// that land with it.
pub(super) fn falls(title: &str, table: &[(&str, usize)], counts: &BTreeMap<String, usize>, hint: &str) -> Found {
    let (mut problems, mut notes) = (Vec::new(), Vec::new());
    for (name, present) in counts {
        let allowance = of(table, name).unwrap_or(0);
        if *present > allowance {
            let text = format!("{present} {hint}, {allowance} are allowed by {title} (crates/xtask/src/tidy/allowances.rs)");
            problems.push(Problem::new(name, 0, text));
        } else if allowance - present > slack(allowance) {
            notes.push(Problem::new(name, 0, too_large(title, name, allowance, *present)));
        }
    }
    notes.extend(unknown(table, title, &counts.keys().cloned().collect::<Vec<_>>()));
    (problems, notes)
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
