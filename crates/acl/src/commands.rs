//! Which commands may be run: a bit for each, and the rules that led there.
//!
//! The rules are kept in their order and shown again, without those that a later one made void. Rules about commands apply to what
//! exists: a selector that began with `+@all` and lost a few commands again permits those that a later version brings, one that
//! began with `-@all` does not.

use std::collections::BTreeMap;

use almandine_command_spec::Category;

use crate::catalog::{self, Catalog};
use crate::error::RuleError;
use crate::pattern::has_blanks;

/// A set of commands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandSet {
    /// A bit for each dense index.
    bits: Box<[u64]>,
    /// Every bit is set and none was cleared since.
    all: bool,
    /// Whether the rules begin with `+@all`.
    from_all: bool,
    /// The rules behind that, in order.
    rules: Vec<Rule>,
    /// Commands that are permitted with one of these first arguments only.
    first_arguments: BTreeMap<u16, Vec<Box<[u8]>>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Rule {
    allow: bool,
    /// Command or category, in lower case.
    name: Vec<u8>,
}

impl CommandSet {
    /// None of the commands of the catalog.
    pub(crate) fn none(catalog: &Catalog) -> Self {
        Self {
            bits: vec![0; catalog.len().div_ceil(64)].into(),
            all: false,
            from_all: false,
            rules: Vec::new(),
            first_arguments: BTreeMap::new(),
        }
    }

    /// Whether all commands are permitted, with all arguments.
    #[inline]
    #[must_use]
    pub fn is_all(&self) -> bool {
        self.all
    }

    /// Whether the command of a dense index is permitted with all arguments.
    #[inline]
    #[must_use]
    pub fn contains(&self, index: u16) -> bool {
        self.bits.get(usize::from(index / 64)).is_some_and(|word| word & 1 << (index % 64) != 0)
    }

    /// Whether a command that is not in the set is permitted with this first argument.
    #[must_use]
    pub fn permits_first(&self, index: u16, argument: &[u8]) -> bool {
        self.first_arguments.get(&index).is_some_and(|permitted| permitted.iter().any(|one| one.eq_ignore_ascii_case(argument)))
    }

    /// `+@all` and `-@all`.
    pub(crate) fn set_all(&mut self, allow: bool) {
        self.bits.fill(if allow { u64::MAX } else { 0 });
        (self.all, self.from_all) = (allow, allow);
        self.rules.clear();
        self.first_arguments.clear();
    }

    /// Applies a rule that begins with `+` or `-`.
    pub(crate) fn apply(&mut self, rule: &[u8], catalog: &Catalog) -> Result<(), RuleError> {
        let (allow, name) = (rule[0] == b'+', &rule[1..]);
        if let Some(category) = name.strip_prefix(b"@") {
            let category = catalog::category(category).ok_or(RuleError::Unknown)?;
            self.set_category(category, allow, catalog);
            self.note(allow, name);
            return Ok(());
        }
        let separator = name.iter().rposition(|byte| *byte == b'|').filter(|_| allow);
        let Some(separator) = separator else {
            let index = catalog.find(name).ok_or(RuleError::Unknown)?;
            self.set(index, allow, catalog);
            self.note(allow, catalog.name(index).as_bytes());
            return Ok(());
        };
        let (command, argument) = (catalog.find(&name[..separator]).ok_or(RuleError::Unknown)?, &name[separator + 1..]);
        if catalog.is_subcommand(command) {
            return Err(RuleError::FirstArgumentOfSubcommand);
        }
        // With a blank it could not be read again where it was saved.
        if argument.is_empty() || has_blanks(argument) {
            return Err(RuleError::Syntax);
        }
        if catalog.subcommands(command).is_empty() {
            let permitted = self.first_arguments.entry(command).or_default();
            if !permitted.iter().any(|one| one.eq_ignore_ascii_case(argument)) {
                permitted.push(argument.into());
            }
        } else {
            self.set(catalog.find(name).ok_or(RuleError::Unknown)?, true, catalog);
        }
        self.note(true, name);
        Ok(())
    }

    fn set_category(&mut self, category: Category, allow: bool, catalog: &Catalog) {
        for index in catalog.of_category(category) {
            self.set(index, allow, catalog);
        }
    }

    /// Permits or forbids a command and its subcommands.
    fn set(&mut self, index: u16, allow: bool, catalog: &Catalog) {
        self.set_bit(index, allow);
        self.first_arguments.remove(&index);
        for subcommand in catalog.subcommands(index) {
            self.set_bit(*subcommand, allow);
        }
    }

    fn set_bit(&mut self, index: u16, allow: bool) {
        let (word, bit) = (&mut self.bits[usize::from(index / 64)], 1 << (index % 64));
        if allow {
            *word |= bit
        } else {
            *word &= !bit
        }
        self.all &= allow;
    }

    /// Keeps a rule, and forgets those that it makes void: about the same, or about a part of it.
    fn note(&mut self, allow: bool, name: &[u8]) {
        let name = name.to_ascii_lowercase();
        self.rules.retain(|rule| rule.name.strip_prefix(&name[..]).is_none_or(|rest| !rest.is_empty() && rest[0] != b'|'));
        self.rules.push(Rule { allow, name });
    }

    /// The rules that make the set.
    #[must_use]
    pub fn describe(&self) -> Vec<u8> {
        let mut text = if self.from_all { b"+@all".to_vec() } else { b"-@all".to_vec() };
        for rule in &self.rules {
            text.extend_from_slice(if rule.allow { b" +" } else { b" -" });
            text.extend_from_slice(&rule.name);
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use almandine_command_spec::Categories;

    use super::*;

    fn catalog() -> Catalog {
        let slow = Categories::default().with(Category::Slow);
        let string = Categories::default().with(Category::String).with(Category::Fast);
        Catalog::new([
            ("get", string),
            ("set", string.with(Category::Slow)),
            ("config", slow),
            ("config|get", slow),
            ("config|set", slow),
        ])
    }

    fn of(rules: &str) -> (CommandSet, Result<(), RuleError>) {
        let mut set = CommandSet::none(&catalog());
        let mut outcome = Ok(());
        for rule in rules.split(' ') {
            match rule {
                "+@all" | "-@all" => set.set_all(rule == "+@all"),
                _ => outcome = outcome.and(set.apply(rule.as_bytes(), &catalog())),
            }
        }
        (set, outcome)
    }

    fn described(rules: &str) -> String {
        let (set, outcome) = of(rules);
        assert_eq!(outcome, Ok(()), "{rules}");
        String::from_utf8(set.describe()).unwrap()
    }

    #[test]
    fn a_rule_takes_the_place_of_what_it_makes_void() {
        assert_eq!(described("+GET -get +get"), "-@all +get");
        assert_eq!(described("+config|get +config -config|set"), "-@all +config -config|set");
        assert_eq!(described("+config|get -config"), "-@all -config");
        assert_eq!(described("-@string +get +@all"), "+@all");
        assert_eq!(described("+@all -@String +get|x"), "+@all -@string +get|x");
        // A name that begins like another is another.
        assert_eq!(described("+config|get +config|set"), "-@all +config|get +config|set");
    }

    #[test]
    fn a_container_brings_its_subcommands_and_a_category_its_containers() {
        let (set, _) = of("+@slow");
        assert!((1..5).all(|index| set.contains(index)) && !set.contains(0) && !set.is_all());
        let (set, _) = of("+@all -config|set");
        assert!(set.contains(2) && set.contains(3) && !set.contains(4) && !set.is_all() && set.contains(0));
        let (set, _) = of("-@all +get|x");
        assert!(!set.contains(0) && set.permits_first(0, b"X") && !set.permits_first(0, b"y") && !set.permits_first(1, b"x"));
        assert!(!of("-@all +get|x -get").0.permits_first(0, b"x"));
    }

    #[test]
    fn wrong_rules_are_refused() {
        for (rule, error) in [
            ("+nosuch", RuleError::Unknown),
            ("-get|x", RuleError::Unknown),
            ("+@nosuch", RuleError::Unknown),
            ("+config|nosuch", RuleError::Unknown),
            ("+get|", RuleError::Syntax),
            ("+get|a\tb", RuleError::Syntax),
            ("+config|get|x", RuleError::FirstArgumentOfSubcommand),
        ] {
            assert_eq!(of(rule).1, Err(error), "{rule}");
        }
    }
}
