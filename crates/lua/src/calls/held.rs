//! What registers hold, as far as it is known.

/// What a register holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Held {
    Unknown,
    /// The constant of this number, of the function that is gone through.
    Constant(u32),
    /// A number that is no larger than a table.
    Count,
    /// The table with the functions of the host.
    Host,
    /// One of its functions that call.
    Call,
    /// The one that takes functions of a library.
    Register,
    /// The table of the keys.
    Keys,
    /// One of the keys,
    Key,
    /// this one.
    KeyAt(u8),
    /// The table of the arguments.
    Arguments,
    /// One of the arguments,
    Argument,
    /// this one.
    ArgumentAt(u8),
    /// What `ipairs` or `pairs` have given for the arguments.
    ArgumentIterator,
    /// A text built of such parts, by its number in the search.
    Built(u16),
    /// Keys, up to the top of the stack.
    KeysFromHere,
    /// A function of the script, by its number in the search.
    Function(u16),
    /// A function that neither keeps nor returns a table that it is given.
    Harmless,
    /// `unpack`
    Unpack,
    /// `ipairs` or `pairs`
    Pairs,
    /// What they have given for the keys.
    KeyIterator,
    /// `pcall`
    Protected,
    /// Perhaps one that must not get out of sight.
    Mixed,
}

impl Held {
    /// Whether it must not get out of sight.
    pub(super) fn is_special(self) -> bool {
        matches!(self, Self::Host | Self::Call | Self::Register | Self::Keys | Self::Protected | Self::Mixed)
    }

    pub(super) fn is_key(self) -> bool {
        matches!(self, Self::Key | Self::KeyAt(_))
    }

    pub(super) fn is_argument(self) -> bool {
        matches!(self, Self::Argument | Self::ArgumentAt(_))
    }

    /// What is known where paths meet. A function of the script is the caller's to look after.
    pub(super) fn merge(self, other: Self) -> Self {
        if self == other {
            self
        } else if self.is_special() || other.is_special() {
            Self::Mixed
        } else if self.is_key() && other.is_key() {
            Self::Key
        } else if self.is_argument() && other.is_argument() {
            Self::Argument
        } else {
            Self::Unknown
        }
    }

    /// The same in another function, whose constants are others.
    pub(super) fn elsewhere(self) -> Self {
        if matches!(self, Self::Constant(_) | Self::KeysFromHere) { Self::Unknown } else { self }
    }

    /// What a global holds; `None` for one that could lead anywhere.
    pub(super) fn of_global(name: &[u8]) -> Option<Self> {
        match name {
            b"redis" | b"server" => Some(Self::Host),
            b"KEYS" => Some(Self::Keys),
            b"ARGV" => Some(Self::Arguments),
            b"unpack" => Some(Self::Unpack),
            b"ipairs" | b"pairs" => Some(Self::Pairs),
            b"pcall" => Some(Self::Protected),
            name if HARMLESS.contains(&name) => Some(Self::Harmless),
            name if OTHERS.contains(&name) => Some(Self::Unknown),
            _ => None,
        }
    }
}

/// Functions of the host's table that call.
pub(super) const CALLS: [&[u8]; 2] = [b"call", b"pcall"];

/// Globals that neither keep nor return a table that they are given.
const HARMLESS: [&[u8]; 4] = [b"tonumber", b"tostring", b"type", b"next"];
/// Globals that lead to no function of the host.
const OTHERS: [&[u8]; 11] =
    [b"select", b"assert", b"error", b"string", b"table", b"math", b"os", b"bit", b"cjson", b"cmsgpack", b"struct"];

/// Whether inner functions see a register.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Captured {
    #[default]
    No,
    /// They read it.
    Read,
    /// One of them sets it: nothing is known of it.
    Set,
}

/// A register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Register {
    pub(super) held: Held,
    pub(super) captured: Captured,
}

/// What is known before an instruction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Registers(pub(super) Vec<Register>);

impl Registers {
    /// Those of a function whose first registers hold its parameters.
    pub(super) fn new(parameters: &[Held]) -> Self {
        let register = |index| Register { held: parameters.get(index).copied().unwrap_or(Held::Unknown), captured: Captured::No };
        Self((0..256).map(register).collect())
    }

    pub(super) fn held(&self, register: u8) -> Held {
        self.0[usize::from(register)].held
    }

    /// From a register on, what each holds.
    pub(super) fn from(&self, first: usize) -> impl Iterator<Item = Held> + '_ {
        self.0[first.min(256)..].iter().map(|register| register.held)
    }

    /// Where paths meet. Functions of the script that are not known any more are given to `lost`; true when anything has changed.
    pub(super) fn merge(&mut self, other: &Self, mut lost: impl FnMut(Held)) -> bool {
        let mut changed = false;
        for (one, other) in self.0.iter_mut().zip(&other.0) {
            let merged = Register { held: one.held.merge(other.held), captured: one.captured.max(other.captured) };
            if one.held != other.held {
                lost(one.held);
                lost(other.held);
            }
            changed |= merged != *one;
            *one = merged;
        }
        changed
    }
}
