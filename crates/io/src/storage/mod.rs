//! Reads of devices: what a worker asks for, and what it gets back.
//!
//! A request owns all that its read needs, the buffer and the file or source, and moves into the [`crate::reactor::Reactor`].
//! From then on it belongs to the kernel or to the thread of the pool that executes it, until it comes back as a
//! [`ReadDone`] in [`crate::reactor::Event::Read`]. So nothing that is being written into can be freed or looked at.
//!
//! Writes are not here: they belong to background threads, which may block.

use std::io;
use std::sync::Arc;

use crate::file::File;

pub use batch::{BatchRead, BatchReader};
pub use buffer::{BLOCK_BYTES, Buffer, BufferPool};

pub(crate) mod arena;
mod batch;
mod buffer;
pub(crate) mod threads;

/// What a thread of the pool can read from, blocking: devices that have no file of their own, as memory or an object store.
pub trait BlockingSource: Send + Sync {
    /// Fills the buffer with the bytes from `offset` on.
    ///
    /// # Errors
    /// When not all of it can be read; then the buffer's contents are undefined.
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()>;
}

/// Where to read.
#[derive(Clone)]
pub enum Source {
    /// A file; with io_uring it is read on the worker's own ring. Opened with `O_DIRECT`, the offset must be aligned as a
    /// buffer is.
    File {
        /// The file, which stays open until the read is done.
        file: Arc<File>,
        /// Position of the first byte.
        offset: u64,
    },
    /// Anything else; read by a thread of the pool.
    Blocking {
        /// What is read.
        source: Arc<dyn BlockingSource>,
        /// Position of the first byte.
        offset: u64,
    },
}

impl std::fmt::Debug for Source {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (kind, offset) = match self {
            Self::File { offset, .. } => ("File", offset),
            Self::Blocking { offset, .. } => ("Blocking", offset),
        };
        formatter.debug_struct(kind).field("offset", offset).finish_non_exhaustive()
    }
}

/// A read that fills the whole buffer.
pub struct ReadRequest {
    /// Comes back with the result; means something to the asker only.
    pub token: u64,
    /// Where to read.
    pub source: Source,
    /// What to read into.
    pub buffer: Buffer,
}

/// The outcome of a [`ReadRequest`].
#[derive(Debug)]
pub struct ReadDone {
    /// As in the request.
    pub token: u64,
    /// The buffer of the request; after an error its contents are undefined.
    pub buffer: Buffer,
    /// Whether all of the buffer was read. The end of the file within it is [`io::ErrorKind::UnexpectedEof`].
    pub result: io::Result<()>,
}
