//! An accessor: one worker's way to the databases.

use crate::{Keyspace, Reader, Writer};
use almandine_store::Session;
use std::sync::Arc;

/// A key with its hash. The hash belongs to the namespace that its database had when it was computed; readers and writers
/// notice when that has changed (FLUSHDB, SWAPDB, SELECT in the same batch) and compute it anew.
pub type Key<'k> = almandine_store::Key<'k>;

/// Access for one worker thread.
pub struct Accessor {
    pub(crate) keyspace: Arc<Keyspace>,
    pub(crate) session: Session,
    pub(crate) scratch: Vec<u8>,
    pub(crate) hashes: Vec<u64>,
    /// Namespaces of other databases, fixed for as long as one reader or writer lives.
    pub(crate) namespaces: Vec<(u16, u16)>,
}

impl Accessor {
    pub(crate) fn new(keyspace: Arc<Keyspace>, session: Session) -> Self {
        Self { keyspace, session, scratch: Vec::with_capacity(4096), hashes: Vec::with_capacity(64), namespaces: Vec::new() }
    }

    /// The databases.
    #[must_use]
    pub fn keyspace(&self) -> &Arc<Keyspace> {
        &self.keyspace
    }

    /// Begins a batch of commands: enters the epoch. Records expire by `now_ms`.
    #[inline]
    pub fn begin_batch(&mut self, now_ms: i64) {
        self.session.enter(now_ms);
    }

    /// Ends a batch.
    #[inline]
    pub fn end_batch(&mut self) {
        self.session.leave();
    }

    /// A key of a database with its hash.
    #[inline]
    #[must_use]
    pub fn key<'k>(&self, db: u16, bytes: &'k [u8]) -> Key<'k> {
        self.session.key(self.keyspace.namespace(db), bytes)
    }

    /// Asks the cache for the key's index bucket.
    #[inline]
    pub fn prefetch_bucket(&self, hash: u64) {
        self.session.prefetch_bucket(hash);
    }

    /// Asks the cache for the key's record; the bucket should have arrived. False when the entry is not in the bucket's own line:
    /// then [`Accessor::prefetch_overflow`] asks for the record a little later.
    #[inline]
    pub fn prefetch_record(&self, hash: u64) -> bool {
        self.session.prefetch_record(hash)
    }

    /// The second half of [`Accessor::prefetch_record`].
    #[inline]
    pub fn prefetch_overflow(&self, hash: u64) {
        self.session.prefetch_overflow(hash);
    }

    /// Read access to a database.
    #[inline]
    pub fn reader(&mut self, db: u16) -> Reader<'_> {
        Reader::new(self, db)
    }

    /// Read and write access to a database.
    #[inline]
    pub fn writer(&mut self, db: u16) -> Writer<'_> {
        Writer::new(self, db)
    }
}
