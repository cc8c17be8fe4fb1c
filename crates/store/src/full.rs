//! The error of a store without space.

/// The store cannot take another record: the log's address ring or the index is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full;

impl std::fmt::Display for Full {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("the store is full: its log or index has no space left")
    }
}

impl std::error::Error for Full {}
