//! Names of public types: a crate has each once, all crates of the product together at most twice.
//!
//! Two types of one name make a reader open the wrong file, and an import say less than it seems to.

use std::collections::BTreeMap;

use super::allowances::{self, Found, REPEATED_NAMES};
use super::layers;
use super::lines::SIMULATION;
use super::source::Source;

/// Types of one name in the product.
const IN_PRODUCT_MAX: usize = 2;
const HINT: &str = "public types have this name";

pub(super) fn check(sources: &[Source]) -> Found {
    allowances::falls("REPEATED_NAMES", REPEATED_NAMES, &repeated(sources), HINT)
}

/// Names that are used too often, with their number: `crate::Name` within a crate, `Name` in the product.
fn repeated(sources: &[Source]) -> BTreeMap<String, usize> {
    let mut uses: BTreeMap<&str, BTreeMap<&str, usize>> = BTreeMap::new();
    // What stands in for a type of the product in the simulation has its name.
    let counts = |source: &&Source| source.is_rust() && !source.is_test(0) && !source.path.starts_with(SIMULATION);
    for source in sources.iter().filter(counts) {
        let Some(owner) = source.crate_name().filter(|name| layers::is_product(name)) else { continue };
        let code = &source.code[..source.tests_from.min(source.code.len())];
        for name in code.iter().filter_map(|line| type_name(line)) {
            *uses.entry(name).or_default().entry(owner).or_default() += 1;
        }
    }
    let mut repeated = BTreeMap::new();
    for (name, owners) in uses {
        let sum: usize = owners.values().sum();
        if sum > IN_PRODUCT_MAX {
            repeated.insert(name.to_owned(), sum);
        }
        let twice = owners.iter().filter(|(_, number)| **number > 1);
        repeated.extend(twice.map(|(owner, number)| (format!("{owner}::{name}"), *number)));
    }
    repeated
}

/// The public type that a line defines.
fn type_name(line: &str) -> Option<&str> {
    let rest = line.trim_start().strip_prefix("pub ")?;
    let rest = rest.strip_prefix("unsafe ").unwrap_or(rest);
    let (keyword, rest) = rest.split_once(' ')?;
    let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
    ["struct", "enum", "trait", "union", "type"].contains(&keyword).then_some(&rest[..end]).filter(|name| !name.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_name_in_a_crate_and_a_third_in_the_product_are_found() {
        let source = |path: &str, text: &str| Source::new(path, text);
        let twice = [
            source("crates/store/src/a.rs", "pub struct Entry<'a> {\n}\npub fn Entry() {}\nstruct Own;\n"),
            source("crates/acl/src/b.rs", "pub enum Entry {}\nstruct Own;\n// pub struct Entry\n"),
            source("crates/xtask/src/c.rs", "pub struct Entry;\n"),
            source("crates/io/src/sim/sync/entry.rs", "pub struct Entry;\n"),
            source("crates/acl/src/d.rs", "#[cfg(test)]\nmod tests {\n    pub struct Entry;\n}\n"),
        ];
        assert!(repeated(&twice).is_empty(), "{:?}", repeated(&twice));
        let [mut one, two, ..] = twice;
        one.code.push("pub trait Entry {}".to_owned());
        one.tests_from += 1;
        let expected = [("Entry".to_owned(), 3), ("store::Entry".to_owned(), 2)];
        assert_eq!(repeated(&[one, two]), BTreeMap::from(expected));
    }
}
