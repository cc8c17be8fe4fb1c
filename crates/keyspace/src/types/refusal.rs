//! Why a key cannot be used as a type.

use crate::Missing;
use crate::access::reader::WrongKind;
use almandine_base::object;
use almandine_store::Full;

/// Why a key cannot be read or changed as a type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Its value is of another type.
    WrongKind,
    /// Something is not in memory.
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

impl From<object::Missing> for Refusal {
    fn from(_: object::Missing) -> Self {
        Self::Missing(Missing::Cold)
    }
}

impl From<Full> for Refusal {
    fn from(_: Full) -> Self {
        Self::Full
    }
}
