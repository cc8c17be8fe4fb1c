//! Width of interfaces: public methods of a public type, in whichever file of its crate they are written.
//!
//! Methods of traits do not count. A type above [`MOST`] needs an allowance, which only falls.

use std::collections::BTreeMap;

use super::allowances::{self, Found, WIDE_TYPES};
use super::layers;
use super::source::{Source, has_word};

/// Public methods of a type without an allowance.
const MOST: usize = 20;

pub(super) fn check(sources: &[Source]) -> Found {
    let wide = methods(sources).into_iter().filter(|(_, number)| *number > MOST).collect();
    allowances::falls("WIDE_TYPES", WIDE_TYPES, &wide, "public methods of this type")
}

/// Prints the widest types.
pub(crate) fn print(sources: &[Source]) {
    let mut types: Vec<(String, usize)> = methods(sources).into_iter().collect();
    types.sort_by_key(|(name, number)| (std::cmp::Reverse(*number), name.clone()));
    types.iter().take(24).for_each(|(name, number)| println!("{number:>4}  {name}"));
}

/// Public methods by `crate::Type`, of the product.
fn methods(sources: &[Source]) -> BTreeMap<String, usize> {
    let mut methods = BTreeMap::new();
    for source in sources.iter().filter(|source| source.is_rust()) {
        let Some(name) = source.crate_name().filter(|name| layers::is_product(name)) else { continue };
        let mut current = None;
        for line in &source.code[..source.tests_from.min(source.code.len())] {
            // rustfmt begins an item of a module in the first column, and ends it there.
            if line.starts_with("impl") {
                current = implemented(line).map(|of| format!("{name}::{of}"));
            } else if line.starts_with('}') {
                current = None;
            } else if let Some(current) = current.as_ref().filter(|_| line.starts_with("    pub ") && has_word(line, "fn")) {
                *methods.entry(current.clone()).or_default() += 1;
            }
        }
    }
    methods
}

/// The type of an inherent `impl`.
fn implemented(line: &str) -> Option<&str> {
    let mut rest = line.strip_prefix("impl")?;
    if rest.starts_with('<') {
        let mut depth = 0_usize;
        let end = rest.char_indices().find_map(|(at, c)| {
            depth = match c {
                '<' => depth + 1,
                '>' if !rest[..at].ends_with('-') => depth - 1,
                _ => depth,
            };
            (depth == 0).then_some(at)
        })?;
        rest = &rest[end + 1..];
    }
    let name = rest.trim_start().split(|c: char| !c.is_alphanumeric() && c != '_').next()?;
    (!has_word(rest, "for") && !name.is_empty()).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn public_methods_are_counted_over_files() {
        let a = "impl<'a, F: Fn() -> u8> Session<'a> {\n    pub fn one() {}\n    pub(crate) fn two() {}\n    fn three() {}\n}\n\
                 impl Drop for Session<'_> {\n    pub fn no() {}\n}\n#[cfg(test)]\nmod tests {\nimpl Session { pub fn no() {} }\n}";
        let b = "impl Session<'_> {\n    pub const fn four() {}\n}\n";
        let sources = [Source::new("crates/store/src/a.rs", a), Source::new("crates/store/src/b.rs", b)];
        assert_eq!(methods(&sources), BTreeMap::from([("store::Session".to_owned(), 2)]));
    }
}
