//! Why a key is not set.

use almandine_base::object::Missing;

/// The store cannot take another record: the log's address ring or the index is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full;

impl std::fmt::Display for Full {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("the store is full: its log or index has no space left")
    }
}

impl std::error::Error for Full {}

/// Why a key was not set; nothing has changed then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotSet {
    /// The store is full.
    Full,
    /// What the key had, or has, is not at hand.
    Missing(Missing),
}

impl std::fmt::Display for NotSet {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Full => Full.fmt(formatter),
            Self::Missing(missing) => missing.fmt(formatter),
        }
    }
}

impl std::error::Error for NotSet {}

impl From<Full> for NotSet {
    fn from(_: Full) -> Self {
        Self::Full
    }
}

impl From<Missing> for NotSet {
    fn from(missing: Missing) -> Self {
        Self::Missing(missing)
    }
}
