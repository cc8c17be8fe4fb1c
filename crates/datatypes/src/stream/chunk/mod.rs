//! The chunks of a stream: blocks of entries ([`block`]), which Redis' formats have as nodes ([`node`]).

pub(super) mod block;
pub(super) mod node;
pub(super) mod varint;

pub use block::NodeLimits;
pub use node::{NewStreamNode, StreamNode};
