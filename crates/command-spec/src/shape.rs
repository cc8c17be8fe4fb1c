//! What follows from a spec: arity, key positions, categories.
//!
//! Positions are followed from left to right as long as the words before an argument are a fixed number. Keys after that point need
//! an explicit spec; leaving it out is a panic, which in a constant is a compile error.

use crate::arg::{Arg, ArgKind, are_fixed, words_min};
use crate::category::Categories;
use crate::keys::{Access, Begin, Find, KeySpec};
use crate::positions::Positions;
use crate::spec::{CommandSpec, Keys, NextKey};

/// Most key specs that one command has.
const SPECS_MAX: usize = 4;

/// Where the keys are, for the paths that must not search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// No keys.
    None,
    /// One key, always at this argument.
    One(u16),
    /// Several, or not always at the same place: see [`Shape::keys`].
    Many,
}

/// What follows from a [`CommandSpec`].
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// Number of arguments with the name; negative: at least that many.
    pub arity: i16,
    /// Where the keys are.
    pub layout: Layout,
    /// Whether any key is written: the strongest access over all key specs.
    pub writes_keys: bool,
    /// First key of the legacy range; 0 for no keys.
    pub first: i16,
    /// Last key of the legacy range, from the end when negative.
    pub last: i16,
    /// Step of the legacy range.
    pub step: i16,
    /// Whether the legacy range misses keys.
    pub movable: bool,
    /// Access-control categories.
    pub categories: Categories,
    specs: [KeySpec; SPECS_MAX],
    specs_len: u8,
    next: Option<NextKey>,
    exact: Option<NextKey>,
}

impl Shape {
    /// What follows from `spec`.
    ///
    /// # Panics
    /// When the key positions do not follow from the arguments and the spec does not state them.
    #[must_use]
    pub const fn of(spec: &CommandSpec) -> Self {
        let mut shape = Self {
            arity: arity(spec),
            layout: Layout::None,
            writes_keys: false,
            first: 0,
            last: 0,
            step: 0,
            movable: false,
            categories: Categories::derive(spec.group, spec.traits, spec.categories, spec.is_container()),
            specs: [KeySpec::unknown(Access::Read); SPECS_MAX],
            specs_len: 0,
            next: None,
            exact: None,
        };
        match spec.keys {
            Keys::FromArgs => shape.push_args(spec),
            Keys::Specs(specs) => shape.push_all(specs),
            Keys::Computed(specs, next) => {
                shape.push_all(specs);
                shape.next = Some(next);
                shape.exact = Some(next);
            }
            Keys::ComputedAccess(exact) => {
                shape.push_args(spec);
                shape.exact = Some(exact);
            }
        }
        shape.set_layout();
        shape.set_legacy_range();
        shape
    }

    /// Whether a call with `count` arguments, name included, has the right number.
    #[must_use]
    pub const fn accepts(&self, count: usize) -> bool {
        if self.arity >= 0 { count == self.arity as usize } else { count >= self.arity.unsigned_abs() as usize }
    }

    /// The key specs.
    #[must_use]
    pub fn key_specs(&self) -> &[KeySpec] {
        &self.specs[..usize::from(self.specs_len)]
    }

    /// The keys of a call, for routing and locking: argument index and strongest access. `arg` gives an argument by index.
    pub fn keys<'a, F: Fn(usize) -> &'a [u8]>(&self, count: usize, arg: F) -> Positions<'_, F> {
        Positions::new(self.key_specs(), self.next, count, arg)
    }

    /// The keys of a call as COMMAND GETKEYSANDFLAGS and access control see them: with the access that these arguments imply.
    pub fn keys_exact<'a, F: Fn(usize) -> &'a [u8]>(&self, count: usize, arg: F) -> Positions<'_, F> {
        Positions::new(self.key_specs(), self.exact, count, arg)
    }

    const fn push(&mut self, spec: KeySpec) {
        assert!((self.specs_len as usize) < SPECS_MAX, "too many key specs");
        self.specs[self.specs_len as usize] = spec;
        self.specs_len += 1;
        self.writes_keys |= spec.access.is_write();
    }

    const fn push_all(&mut self, specs: &[KeySpec]) {
        let mut i = 0;
        while i < specs.len() {
            self.push(specs[i]);
            i += 1;
        }
    }

    const fn push_args(&mut self, spec: &CommandSpec) {
        let args = spec.args;
        // Known as long as all words before were a fixed number.
        let mut known = true;
        let mut position = name_words(spec);
        let mut i = 0;
        while i < args.len() {
            let arg = &args[i];
            if let ArgKind::KeyCount = arg.kind {
                assert!(i + 1 < args.len(), "a key count has keys behind it");
                let Some((key, step)) = leading_key(&args[i + 1]) else { panic!("a key count has keys behind it") };
                assert!(known && !arg.optional, "key positions do not follow from the arguments: state them in `keys`");
                self.push(marked(KeySpec::counted(position, step, access_of(key)), key));
                known = false;
                i += 2;
                continue;
            }
            if let Some((key, step)) = leading_key(arg) {
                assert!(known && !arg.optional, "key positions do not follow from the arguments: state them in `keys`");
                let begin = if arg.token.is_empty() { position } else { position + 1 };
                let last = if arg.multiple {
                    let rest = args.split_at(i + 1).1;
                    assert!(are_fixed(rest), "key positions do not follow from the arguments: state them in `keys`");
                    -1 - words_min(rest)
                } else {
                    0
                };
                self.push(marked(KeySpec::range(begin, last, if arg.multiple { step } else { 1 }, access_of(key)), key));
            } else {
                assert!(!has_key(arg), "key positions do not follow from the arguments: state them in `keys`");
            }
            known = known && arg.is_fixed();
            position += arg.words_min();
            i += 1;
        }
    }

    const fn set_layout(&mut self) {
        self.layout = match (self.specs_len, self.specs[0].begin, self.specs[0].find) {
            (0, ..) => Layout::None,
            (1, Begin::Index(index), Find::Range { last: 0, .. }) => Layout::One(index as u16),
            _ => Layout::Many,
        };
    }

    /// First, last and step as clients older than key specs expect them: the longest run of consecutive ranges.
    const fn set_legacy_range(&mut self) {
        let one = self.specs_len == 1;
        let (mut first, mut last, mut step) = (0, 0, 0);
        let mut i = 0;
        while i < self.specs_len as usize {
            let spec = &self.specs[i];
            self.movable |= spec.incomplete;
            match (spec.begin, spec.find) {
                (Begin::Index(index), Find::Range { last: relative, step: s, .. })
                    if one || (s == 1 && (first == 0 || last == index - 1)) =>
                {
                    if first == 0 {
                        first = index;
                    }
                    last = if relative >= 0 { index + relative } else { relative };
                    step = s;
                }
                _ => self.movable = true,
            }
            i += 1;
        }
        (self.first, self.last, self.step) = (first, last, step);
    }
}

/// Number of words that name the command: a subcommand has two.
const fn name_words(spec: &CommandSpec) -> i16 {
    if spec.is_subcommand() { 2 } else { 1 }
}

const fn arity(spec: &CommandSpec) -> i16 {
    if spec.arity != 0 {
        return spec.arity;
    }
    if spec.is_container() {
        return -2;
    }
    let words = name_words(spec) + words_min(spec.args);
    if are_fixed(spec.args) { words } else { -words }
}

/// The key that an argument starts with, and the distance to the next when the argument is repeated.
const fn leading_key(arg: &Arg) -> Option<(&Arg, i16)> {
    match arg.kind {
        ArgKind::Key(_) => Some((arg, 1)),
        ArgKind::Block(args) if arg.multiple && !args.is_empty() => match args[0].kind {
            ArgKind::Key(_) => Some((&args[0], words_min(args))),
            _ => None,
        },
        _ => None,
    }
}

const fn access_of(arg: &Arg) -> Access {
    match arg.kind {
        ArgKind::Key(access) => access,
        _ => panic!("not a key"),
    }
}

const fn marked(spec: KeySpec, arg: &Arg) -> KeySpec {
    KeySpec { variable: arg.variable, notes: arg.notes, ..spec }
}

const fn has_key(arg: &Arg) -> bool {
    match arg.kind {
        ArgKind::Key(_) => true,
        ArgKind::OneOf(args) | ArgKind::Block(args) => {
            let mut i = 0;
            while i < args.len() {
                if has_key(&args[i]) {
                    return true;
                }
                i += 1;
            }
            false
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Category, Group, Traits};

    const SET: CommandSpec = CommandSpec {
        name: "SET",
        group: Group::String,
        args: &[
            Arg::key("key", Access::ReadUpdate).variable(),
            Arg::value("value"),
            Arg::one_of("condition", &[Arg::pure_token("nx", "NX"), Arg::pure_token("xx", "XX")]).optional(),
            Arg::pure_token("get", "GET").optional(),
        ],
        traits: Traits { write: true, denyoom: true, ..Traits::NONE },
        keys: Keys::ComputedAccess(access_of_set),
        ..CommandSpec::BLANK
    };

    fn access_of_set<'a>(count: usize, arg: &dyn Fn(usize) -> &'a [u8], after: usize) -> Option<(usize, Access)> {
        let gets = (3..count).any(|i| arg(i).eq_ignore_ascii_case(b"GET"));
        (after == 0).then_some((1, if gets { Access::ReadUpdate } else { Access::Overwrite }))
    }

    const SORT: CommandSpec = CommandSpec {
        name: "SORT",
        args: &[Arg::key("key", Access::Read), Arg::key("destination", Access::Overwrite).token("STORE").optional()],
        keys: Keys::Computed(&[KeySpec::one(1, Access::Read), KeySpec::unknown(Access::Overwrite)], next_of_sort),
        ..CommandSpec::BLANK
    };

    fn next_of_sort<'a>(count: usize, arg: &dyn Fn(usize) -> &'a [u8], after: usize) -> Option<(usize, Access)> {
        match after {
            0 => Some((1, Access::Read)),
            1 => (2..count - 1).rev().find(|i| arg(*i).eq_ignore_ascii_case(b"STORE")).map(|i| (i + 1, Access::Overwrite)),
            _ => None,
        }
    }

    #[test]
    fn shapes_are_constants() {
        const SHAPE: Shape = SET.shape();
        assert_eq!((SHAPE.arity, SHAPE.layout, SHAPE.writes_keys, SHAPE.movable), (-3, Layout::One(1), true, false));
        assert!(SHAPE.accepts(3) && SHAPE.accepts(9) && !SHAPE.accepts(2));
        assert!(SHAPE.categories.iter().eq([Category::Write, Category::String, Category::Slow]));
    }

    #[test]
    fn repeated_blocks_and_trailing_arguments_bound_the_keys() {
        const fn shape(args: &'static [Arg]) -> Shape {
            CommandSpec { args, ..CommandSpec::BLANK }.shape()
        }
        const PAIRS: Arg = Arg::block("data", &[Arg::key("key", Access::Overwrite), Arg::value("value")]).multiple();
        const MSET: &[Arg] = &[PAIRS];
        const BLPOP: &[Arg] = &[Arg::key("key", Access::Take).multiple(), Arg::double("timeout")];
        const MSETEX: &[Arg] = &[Arg::key_count("numkeys"), PAIRS, Arg::pure_token("nx", "NX").optional()];
        let (mset, blpop, msetex) = (shape(MSET), shape(BLPOP), shape(MSETEX));
        assert_eq!((mset.arity, mset.first, mset.last, mset.step), (-3, 1, -1, 2));
        assert_eq!((blpop.arity, blpop.first, blpop.last, blpop.step), (-3, 1, -2, 1));
        assert_eq!(msetex.key_specs(), [KeySpec::counted(1, 2, Access::Overwrite)]);
        assert_eq!((msetex.arity, msetex.layout, msetex.movable), (-4, Layout::Many, true));
    }

    #[test]
    #[should_panic(expected = "do not follow")]
    fn a_key_behind_an_option_must_be_stated() {
        const ARGS: &[Arg] = &[Arg::value("option").optional(), Arg::key("key", Access::Read)];
        let _ = CommandSpec { args: ARGS, ..CommandSpec::BLANK }.shape();
    }

    #[test]
    fn computed_keys_and_access_follow_the_call() {
        let keys = |spec: &CommandSpec, line: &str, exact: bool| -> Vec<_> {
            let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
            let (shape, arg) = (spec.shape(), |i: usize| words[i]);
            if exact { shape.keys_exact(words.len(), arg).collect() } else { shape.keys(words.len(), arg).collect() }
        };
        assert_eq!(keys(&SET, "set k v", false), [(1, Access::ReadUpdate)]);
        assert_eq!(keys(&SET, "set k v", true), [(1, Access::Overwrite)]);
        assert_eq!(keys(&SET, "set k v get", true), [(1, Access::ReadUpdate)]);
        assert_eq!(keys(&SORT, "sort k store a store b", false), [(1, Access::Read), (5, Access::Overwrite)]);
        assert_eq!(keys(&SORT, "sort k", false), [(1, Access::Read)]);
    }
}
