//! RESP2, RESP3 and inline commands, without I/O.
//!
//! **Is**: the wire protocol. [`Parser`] turns received bytes into a [`Batch`] of commands whose arguments stay where they were
//! received; [`Reply`] appends replies to an [`Output`](almandine_base::Output) in the protocol version that the client speaks. The
//! other side of the wire is in `tests/client`.
//!
//! **Is not**: aware of sockets, buffers' owners, command names, or clients. Nothing here blocks, reads a clock or logs.
//!
//! **Invariants**:
//! - The commands of a pipeline do not depend on how the bytes were cut into chunks.
//! - A call does not go again over what earlier calls understood of an incomplete command: a peer that trickles bytes, or a value
//!   of 512 MiB, costs what its bytes cost.
//! - Memory is taken for bytes that were received, never for lengths that were only announced.
//! - Parsing a pipeline of complete commands, and writing replies, allocates nothing once the buffers have grown.
//! - No `unsafe`.
//!
//! **Start reading at**: [`parse`], then [`reply`].

#![cfg_attr(not(test), deny(clippy::disallowed_methods, clippy::disallowed_types))]
#![forbid(unsafe_code)]

pub mod args;
pub mod batch;
pub mod error;
pub mod number;
pub mod parse;
pub mod reply;

pub use args::{Args, ArgsBuf, Span};
pub use batch::Batch;
pub use error::ProtocolError;
pub use parse::{Limits, Parsed, Parser};
pub use reply::{Deferred, ProtocolVersion, Reply};
