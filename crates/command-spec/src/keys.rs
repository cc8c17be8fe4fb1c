//! Where the keys of a command are, and what the command does to each: Redis' key specifications.
//!
//! A spec is two steps: find where the keys begin, then find them from there. Most specs follow from the arguments; see `shape`.

/// What a command does to a key. Each variant stands for one combination of Redis' key flags.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Access {
    /// `RO access`: reads the value.
    Read,
    /// `RO`: reads properties of the value such as type, length or expiry, not its content.
    Inspect,
    /// `OW update`: replaces the value whatever it was.
    Overwrite,
    /// `OW insert`: creates the key where it is missing.
    Create,
    /// `RM delete`: deletes the key without reading it.
    Remove,
    /// `RW update`: changes the value or its properties.
    Update,
    /// `RW access update`: changes the value and answers from it.
    ReadUpdate,
    /// `RW insert`: adds to the value.
    Insert,
    /// `RW access insert`: adds to the value what it reads from it.
    ReadInsert,
    /// `RW delete`: deletes from the value.
    Delete,
    /// `RW access delete`: deletes from the value and answers what it deleted.
    Take,
    /// `RW access`: answers from the value and may rewrite how it is stored.
    ReadRepair,
    /// `not_key`: routed like a key, but names no key (a shard channel).
    NotKey,
}

impl Access {
    /// Redis' key flags.
    #[must_use]
    pub const fn flags(self) -> &'static [&'static str] {
        match self {
            Self::Read => &["RO", "access"],
            Self::Inspect => &["RO"],
            Self::Overwrite => &["OW", "update"],
            Self::Create => &["OW", "insert"],
            Self::Remove => &["RM", "delete"],
            Self::Update => &["RW", "update"],
            Self::ReadUpdate => &["RW", "access", "update"],
            Self::Insert => &["RW", "insert"],
            Self::ReadInsert => &["RW", "access", "insert"],
            Self::Delete => &["RW", "delete"],
            Self::Take => &["RW", "access", "delete"],
            Self::ReadRepair => &["RW", "access"],
            Self::NotKey => &["not_key"],
        }
    }

    /// Whether the content of the value is read: Redis' flag `access`.
    #[must_use]
    pub const fn reads_value(self) -> bool {
        match self {
            Self::Read | Self::ReadUpdate | Self::ReadInsert | Self::Take | Self::ReadRepair => true,
            Self::Inspect | Self::Overwrite | Self::Create | Self::Remove => false,
            Self::Update | Self::Insert | Self::Delete | Self::NotKey => false,
        }
    }

    /// Whether the value is changed: one of Redis' flags `insert`, `update` and `delete`. A change of how it is stored alone is
    /// none.
    #[must_use]
    pub const fn changes_value(self) -> bool {
        self.is_write() && !matches!(self, Self::ReadRepair)
    }

    /// Whether the key must be locked exclusively.
    #[must_use]
    pub const fn is_write(self) -> bool {
        !matches!(self, Self::Read | Self::Inspect | Self::NotKey)
    }
}

/// Where the keys of one spec begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Begin {
    /// At this argument; 0 is the command's name.
    Index(i16),
    /// At the argument after a keyword, searched for from `from`; a negative `from` counts from the end and searches backwards.
    Keyword {
        /// The keyword, in capitals.
        word: &'static str,
        /// Where the search starts.
        from: i16,
    },
    /// Cannot be told from a rule.
    Unknown,
}

/// How the keys of one spec follow from where they begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Find {
    /// Up to a last argument.
    Range {
        /// The last key, relative to the first; negative counts from the last argument, which is -1.
        last: i16,
        /// Distance between keys.
        step: i16,
        /// With `last` of -1: the keys are the first 1/`limit` of what is left. 0 and 1: no limit.
        limit: i16,
    },
    /// As many as an argument says; offsets are relative to where the spec begins.
    KeyNum {
        /// The argument that holds the count.
        count: i16,
        /// The first key.
        first: i16,
        /// Distance between keys.
        step: i16,
    },
    /// Cannot be told from a rule.
    Unknown,
}

/// One key specification.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeySpec {
    /// Where the keys begin.
    pub begin: Begin,
    /// Which arguments are keys from there on.
    pub find: Find,
    /// What the command does to them.
    pub access: Access,
    /// The command has keys that no spec finds.
    pub incomplete: bool,
    /// The access depends on the arguments; `access` is the strongest.
    pub variable: bool,
    /// A remark for COMMAND INFO; empty for none.
    pub notes: &'static str,
}

impl KeySpec {
    /// One key at argument `index`.
    #[must_use]
    pub const fn one(index: i16, access: Access) -> Self {
        Self::range(index, 0, 1, access)
    }

    /// Every `step`-th argument from `index` to `last`, which is relative to `index`, or to the end when negative.
    #[must_use]
    pub const fn range(index: i16, last: i16, step: i16, access: Access) -> Self {
        Self::new(Begin::Index(index), Find::Range { last, step, limit: 0 }, access)
    }

    /// A count at argument `index` and that many keys after it, `step` arguments apart.
    #[must_use]
    pub const fn counted(index: i16, step: i16, access: Access) -> Self {
        Self::new(Begin::Index(index), Find::KeyNum { count: 0, first: 1, step }, access)
    }

    /// Keys whose places depend on more than the places of arguments.
    #[must_use]
    pub const fn unknown(access: Access) -> Self {
        Self::new(Begin::Unknown, Find::Unknown, access)
    }

    /// A spec from its two steps.
    #[must_use]
    pub const fn new(begin: Begin, find: Find, access: Access) -> Self {
        Self { begin, find, access, incomplete: false, variable: false, notes: "" }
    }

    /// The same spec with a remark.
    #[must_use]
    pub const fn notes(self, notes: &'static str) -> Self {
        Self { notes, ..self }
    }

    /// The same spec, with access that depends on the arguments.
    #[must_use]
    pub const fn variable(self) -> Self {
        Self { variable: true, ..self }
    }

    /// The same spec, missing keys.
    #[must_use]
    pub const fn incomplete(self) -> Self {
        Self { incomplete: true, ..self }
    }

    /// Redis' flags of the spec, in the order of COMMAND INFO.
    pub fn flags(&self) -> impl Iterator<Item = &'static str> {
        let marks = [("incomplete", self.incomplete), ("variable_flags", self.variable)];
        self.access.flags().iter().copied().chain(marks.into_iter().filter(|m| m.1).map(|m| m.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_done_to_a_value_is_what_the_flags_say() {
        use Access::*;
        for access in
            [Read, Inspect, Overwrite, Create, Remove, Update, ReadUpdate, Insert, ReadInsert, Delete, Take, ReadRepair, NotKey]
        {
            let has = |flag: &str| access.flags().contains(&flag);
            assert_eq!(access.reads_value(), has("access"), "{access:?}");
            assert_eq!(access.changes_value(), has("insert") || has("update") || has("delete"), "{access:?}");
        }
    }
}
