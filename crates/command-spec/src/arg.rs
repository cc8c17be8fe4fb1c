//! One argument of a command, as its syntax line shows it. Arity and key positions follow from these.
//!
//! Constructors name the kind; the methods behind them add what is particular: `Arg::integer("seconds").token("EX").optional()`.

use crate::keys::Access;

/// What an argument is.
#[derive(Clone, Copy, Debug)]
pub enum ArgKind {
    /// A key, and what the command does to it.
    Key(Access),
    /// An integer that says how many keys follow.
    KeyCount,
    /// Any bytes.
    String,
    /// A 64-bit signed integer.
    Integer,
    /// A floating-point number.
    Double,
    /// A glob.
    Pattern,
    /// A point in time, in seconds or milliseconds since 1970.
    UnixTime,
    /// A word that stands for itself.
    PureToken,
    /// Exactly one of several.
    OneOf(&'static [Arg]),
    /// Several in a row.
    Block(&'static [Arg]),
}

impl ArgKind {
    /// The type in COMMAND DOCS.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Key(_) => "key",
            Self::KeyCount | Self::Integer => "integer",
            Self::String => "string",
            Self::Double => "double",
            Self::Pattern => "pattern",
            Self::UnixTime => "unix-time",
            Self::PureToken => "pure-token",
            Self::OneOf(_) => "oneof",
            Self::Block(_) => "block",
        }
    }
}

/// One argument.
#[derive(Clone, Copy, Debug)]
pub struct Arg {
    /// The name in the documentation.
    pub name: &'static str,
    /// The name that a syntax line displays, where it is another; empty otherwise.
    pub display: &'static str,
    /// What it is.
    pub kind: ArgKind,
    /// The word that precedes it (or that it is, for [`ArgKind::PureToken`]); empty for none.
    pub token: &'static str,
    /// May be left out.
    pub optional: bool,
    /// May be given more than once.
    pub multiple: bool,
    /// Repeated with its token.
    pub multiple_token: bool,
    /// The version that introduced it, where younger than the command; empty otherwise.
    pub since: &'static str,
    /// The version that deprecated it; empty for none.
    pub deprecated_since: &'static str,
    /// The access of a key depends on the other arguments.
    pub variable: bool,
    /// A remark on a key for COMMAND INFO; empty for none.
    pub notes: &'static str,
    /// The key spec it belongs to, where the order of keys does not say.
    pub key_spec: Option<u8>,
}

impl Arg {
    const fn new(name: &'static str, kind: ArgKind) -> Self {
        Self {
            name,
            display: "",
            kind,
            token: "",
            optional: false,
            multiple: false,
            multiple_token: false,
            since: "",
            deprecated_since: "",
            variable: false,
            notes: "",
            key_spec: None,
        }
    }

    /// A key.
    #[must_use]
    pub const fn key(name: &'static str, access: Access) -> Self {
        Self::new(name, ArgKind::Key(access))
    }

    /// The number of keys that follow.
    #[must_use]
    pub const fn key_count(name: &'static str) -> Self {
        Self::new(name, ArgKind::KeyCount)
    }

    /// Any bytes.
    #[must_use]
    pub const fn value(name: &'static str) -> Self {
        Self::new(name, ArgKind::String)
    }

    /// An integer.
    #[must_use]
    pub const fn integer(name: &'static str) -> Self {
        Self::new(name, ArgKind::Integer)
    }

    /// A floating-point number.
    #[must_use]
    pub const fn double(name: &'static str) -> Self {
        Self::new(name, ArgKind::Double)
    }

    /// A glob.
    #[must_use]
    pub const fn pattern(name: &'static str) -> Self {
        Self::new(name, ArgKind::Pattern)
    }

    /// A point in time.
    #[must_use]
    pub const fn unix_time(name: &'static str) -> Self {
        Self::new(name, ArgKind::UnixTime)
    }

    /// A word that stands for itself.
    #[must_use]
    pub const fn pure_token(name: &'static str, token: &'static str) -> Self {
        Self::new(name, ArgKind::PureToken).token(token)
    }

    /// Exactly one of `args`.
    #[must_use]
    pub const fn one_of(name: &'static str, args: &'static [Arg]) -> Self {
        Self::new(name, ArgKind::OneOf(args))
    }

    /// All of `args` in a row.
    #[must_use]
    pub const fn block(name: &'static str, args: &'static [Arg]) -> Self {
        Self::new(name, ArgKind::Block(args))
    }

    /// Preceded by a word.
    #[must_use]
    pub const fn token(self, token: &'static str) -> Self {
        Self { token, ..self }
    }

    /// May be left out.
    #[must_use]
    pub const fn optional(self) -> Self {
        Self { optional: true, ..self }
    }

    /// May be given more than once.
    #[must_use]
    pub const fn multiple(self) -> Self {
        Self { multiple: true, ..self }
    }

    /// May be given more than once, each time with its token.
    #[must_use]
    pub const fn multiple_token(self) -> Self {
        Self { multiple: true, multiple_token: true, ..self }
    }

    /// Introduced in this version.
    #[must_use]
    pub const fn since(self, since: &'static str) -> Self {
        Self { since, ..self }
    }

    /// Deprecated in this version.
    #[must_use]
    pub const fn deprecated_since(self, deprecated_since: &'static str) -> Self {
        Self { deprecated_since, ..self }
    }

    /// Shown under another name.
    #[must_use]
    pub const fn display(self, display: &'static str) -> Self {
        Self { display, ..self }
    }

    /// A key whose access depends on the other arguments.
    #[must_use]
    pub const fn variable(self) -> Self {
        Self { variable: true, ..self }
    }

    /// A key with a remark.
    #[must_use]
    pub const fn notes(self, notes: &'static str) -> Self {
        Self { notes, ..self }
    }

    /// Belongs to this key spec.
    #[must_use]
    pub const fn key_spec(self, index: u8) -> Self {
        Self { key_spec: Some(index), ..self }
    }

    /// How many words the argument takes at least.
    #[must_use]
    pub(crate) const fn words_min(&self) -> i16 {
        if self.optional {
            return 0;
        }
        if let ArgKind::PureToken = self.kind {
            return 1;
        }
        let token = if self.token.is_empty() { 0 } else { 1 };
        token
            + match self.kind {
                ArgKind::OneOf(args) => one_of_min(args),
                ArgKind::Block(args) => words_min(args),
                _ => 1,
            }
    }

    /// Whether the argument always takes [`words_min`](Self::words_min) words.
    #[must_use]
    pub(crate) const fn is_fixed(&self) -> bool {
        if self.optional || self.multiple {
            return false;
        }
        match self.kind {
            ArgKind::OneOf(args) => {
                let words = one_of_min(args);
                let mut i = 0;
                while i < args.len() {
                    if !args[i].is_fixed() || args[i].words_min() != words {
                        return false;
                    }
                    i += 1;
                }
                true
            }
            ArgKind::Block(args) => are_fixed(args),
            _ => true,
        }
    }
}

/// How many words `args` take at least.
#[must_use]
pub const fn words_min(args: &[Arg]) -> i16 {
    let (mut words, mut i) = (0, 0);
    while i < args.len() {
        words += args[i].words_min();
        i += 1;
    }
    words
}

/// Whether `args` always take as many words as they take at least.
#[must_use]
pub const fn are_fixed(args: &[Arg]) -> bool {
    let mut i = 0;
    while i < args.len() {
        if !args[i].is_fixed() {
            return false;
        }
        i += 1;
    }
    true
}

const fn one_of_min(args: &[Arg]) -> i16 {
    let (mut least, mut i) = (i16::MAX, 0);
    while i < args.len() {
        let words = args[i].words_min();
        // An alternative that may be left out still takes its place when it is the one that is given.
        if words < least && words > 0 {
            least = words;
        }
        i += 1;
    }
    if least == i16::MAX { 1 } else { least }
}
