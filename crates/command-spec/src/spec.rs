//! The constant that describes one command.

use crate::arg::Arg;
use crate::category::{Category, Group};
use crate::keys::{Access, KeySpec};
use crate::shape::Shape;
use crate::traits::Traits;

/// Finds keys that no key spec finds: the first key after argument `after` (0 to start) with its access.
///
/// It is given the number of arguments and a function from index to argument, and holds no state, so it can be stepped without
/// allocation.
pub type NextKey = for<'a> fn(count: usize, arg: &dyn Fn(usize) -> &'a [u8], after: usize) -> Option<(usize, Access)>;

/// Where the keys of a command are.
#[derive(Clone, Copy, Debug)]
pub enum Keys {
    /// Where the arguments say. Right for almost every command.
    FromArgs,
    /// Where these specs say.
    Specs(&'static [KeySpec]),
    /// Where this function says. The specs are for documentation.
    Computed(&'static [KeySpec], NextKey),
    /// Where the arguments say, with the access that this function says.
    ComputedAccess(NextKey),
}

/// Whether argument `at` must not be shown to MONITOR or in logs. Argument 0 is the name; arguments up to `at` exist.
pub type SecretArgument = for<'a> fn(arg: &dyn Fn(usize) -> &'a [u8], at: usize) -> bool;

/// Since when a command should not be used, and what to use instead.
#[derive(Clone, Copy, Debug)]
pub struct Deprecated {
    /// The version that deprecated it.
    pub since: &'static str,
    /// Its replacement, as the documentation writes it.
    pub replaced_by: &'static str,
}

/// Everything about a command but its handler.
#[derive(Clone, Copy, Debug)]
pub struct CommandSpec {
    /// The name in capitals; a subcommand carries its container's: `CLIENT|KILL`.
    pub name: &'static str,
    /// The number that stands for the command in the operation log. Never reused, never changed.
    pub id: u16,
    /// The version of Redis or Valkey (or of Almandine) that introduced it.
    pub since: &'static str,
    /// Its cost, in the words of the documentation.
    pub complexity: &'static str,
    /// What it does, in one line.
    pub summary: &'static str,
    /// Its chapter.
    pub group: Group,
    /// Its arguments, without the name.
    pub args: &'static [Arg],
    /// What it needs and does.
    pub traits: Traits,
    /// Where its keys are.
    pub keys: Keys,
    /// The arity, where it does not follow from the arguments; 0 to derive. Counts the name; negative for "at least".
    pub arity: i16,
    /// The categories that replace the group's, for the few commands that Redis files differently.
    pub categories: Option<&'static [Category]>,
    /// Hints for clients and proxies, as COMMAND INFO gives them.
    pub tips: &'static [&'static str],
    /// Changes since the command was introduced: version, change.
    pub history: &'static [(&'static str, &'static str)],
    /// Set where the command should not be used any more.
    pub deprecated: Option<Deprecated>,
    /// Which arguments are secret, where some are.
    pub secret: Option<SecretArgument>,
    /// The subcommands of a container.
    pub subcommands: &'static [&'static CommandSpec],
}

impl CommandSpec {
    /// A spec with nothing in it, to be completed with `..CommandSpec::BLANK`.
    pub const BLANK: Self = Self {
        name: "",
        id: 0,
        since: "1.0.0",
        complexity: "O(1)",
        summary: "",
        group: Group::Generic,
        args: &[],
        traits: Traits::NONE,
        keys: Keys::FromArgs,
        arity: 0,
        categories: None,
        tips: &[],
        history: &[],
        deprecated: None,
        secret: None,
        subcommands: &[],
    };

    /// What follows from the spec. Meant to be computed once, best in a constant.
    ///
    /// # Panics
    /// When the key positions do not follow from the arguments and the spec does not state them.
    #[must_use]
    pub const fn shape(&self) -> Shape {
        Shape::of(self)
    }

    /// Whether the command only exists through its subcommands.
    #[must_use]
    pub const fn is_container(&self) -> bool {
        !self.subcommands.is_empty()
    }

    /// Whether the command is a subcommand: whether its name holds its container's.
    #[must_use]
    pub const fn is_subcommand(&self) -> bool {
        let name = self.name.as_bytes();
        let mut i = 0;
        while i < name.len() {
            if name[i] == b'|' {
                return true;
            }
            i += 1;
        }
        false
    }

    /// The name without the container's.
    #[must_use]
    pub fn own_name(&self) -> &'static str {
        self.name.split_once('|').map_or(self.name, |(_, own)| own)
    }
}
