//! What can be wrong with rules, in Redis' words.

/// Why a rule was not applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the texts say it")]
pub enum RuleError {
    Unknown,
    Syntax,
    KeyPatternBesideAll,
    ChannelPatternBesideAll,
    NoSuchPassword,
    BadHash,
    DuplicateUser,
    FirstArgumentOfSubcommand,
    DatabaseOutOfRange,
}

impl RuleError {
    /// The error for people.
    #[must_use]
    pub const fn text(self) -> &'static str {
        match self {
            Self::Unknown => "Unknown command or category name in ACL",
            Self::Syntax => "Syntax error",
            Self::KeyPatternBesideAll => {
                "Adding a pattern after the * pattern (or the 'allkeys' flag) is not valid and does not have any effect. Try \
                 'resetkeys' to start with an empty list of patterns"
            }
            Self::ChannelPatternBesideAll => {
                "Adding a pattern after the * pattern (or the 'allchannels' flag) is not valid and does not have any effect. Try \
                 'resetchannels' to start with an empty list of channels"
            }
            Self::NoSuchPassword => "The password you are trying to remove from the user does not exist",
            Self::BadHash => "The password hash must be exactly 64 characters and contain only lowercase hexadecimal characters",
            Self::DuplicateUser => "Duplicate user found. A user can only be defined once in config files",
            Self::FirstArgumentOfSubcommand => "Allowing first-arg of a subcommand is not supported",
            Self::DatabaseOutOfRange => "The provided database ID is out of range",
        }
    }
}

/// Why a user was not changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UserError {
    /// A selector that begins with this word does not end.
    Unmatched(Vec<u8>),
    /// A rule is wrong.
    Rule(Vec<u8>, RuleError),
}

impl UserError {
    /// The error for people. It repeats the rule, as Redis does: the client that sent the rule knows it.
    #[must_use]
    pub fn text(&self) -> Vec<u8> {
        match self {
            Self::Unmatched(word) => [b"Unmatched parenthesis in acl selector starting at '", &word[..], b"'."].concat(),
            Self::Rule(rule, error) => [b"Error in ACL SETUSER modifier '", &rule[..], b"': ", error.text().as_bytes()].concat(),
        }
    }
}
