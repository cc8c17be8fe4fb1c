//! A stream as it was at one time, to be read without a latch.

use almandine_datatypes::stream::StreamObject;

use super::Streams;
use crate::types::collection::Snapshot;
use crate::{Key, Reader};

/// A large stream as it was at one time. It holds memory, and nobody up.
pub struct StreamSnapshot(Snapshot<Streams>);

impl StreamSnapshot {
    /// The stream; None for a value of another type, which there is none of.
    #[must_use]
    pub fn object(&self) -> Option<&StreamObject> {
        self.0.object()
    }
}

impl Reader<'_> {
    /// A snapshot of a key that is a large stream; None: it is not there, small or of another type.
    pub fn large_stream(&mut self, key: Key<'_>) -> Option<StreamSnapshot> {
        self.snapshot_of::<Streams>(key).map(StreamSnapshot)
    }
}
