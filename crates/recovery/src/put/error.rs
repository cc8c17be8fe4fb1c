//! Why a value does not become that of a key.

use almandine_keyspace::Refusal;

/// Why a value does not become that of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PutError {
    /// It is not what its type byte promises.
    Malformed,
    /// The store refuses it.
    Refused(Refusal),
}

impl<R: Into<Refusal>> From<R> for PutError {
    fn from(refusal: R) -> Self {
        Self::Refused(refusal.into())
    }
}
