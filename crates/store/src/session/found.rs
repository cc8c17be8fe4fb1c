//! What a look-up under a bucket's latch has found.

use crate::index::Position;
use crate::record::{Header, Record};

/// A record with its place in the index. Its bucket is latched for as long as this is used.
#[derive(Clone, Copy)]
pub(crate) struct Found<'p> {
    /// The bucket's number.
    pub(crate) number: u64,
    /// The hash of the key.
    pub(crate) hash: u64,
    /// The entry that points to the record.
    pub(crate) position: Position<'p>,
    pub(crate) record: Record,
    pub(crate) header: Header,
}

impl Found<'_> {
    /// What the entry points to now.
    pub(crate) fn address(&self) -> u64 {
        self.position.entry().address()
    }
}
