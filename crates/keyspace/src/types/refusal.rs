//! Why a key cannot be used as a type.

use crate::Missing;
use almandine_store::{Full, NotSet};

/// The key holds a value of another kind than the command works on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WrongKind;

/// Why a key cannot be read or changed as a type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Its value is of another type.
    WrongKind,
    /// Something is not at hand.
    Missing(Missing),
    /// The store is full.
    Full,
}

impl From<WrongKind> for Refusal {
    fn from(_: WrongKind) -> Self {
        Self::WrongKind
    }
}

impl From<Missing> for Refusal {
    fn from(missing: Missing) -> Self {
        Self::Missing(missing)
    }
}

impl From<Full> for Refusal {
    fn from(_: Full) -> Self {
        Self::Full
    }
}

impl From<NotSet> for Refusal {
    #[inline]
    fn from(refused: NotSet) -> Self {
        match refused {
            NotSet::Full => Self::Full,
            NotSet::Missing(missing) => Self::Missing(missing),
        }
    }
}
