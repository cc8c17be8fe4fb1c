//! What a client can get wrong on the wire, in Redis' words.
//!
//! Each of these ends the connection: after it the stream has no known command boundary.

use std::fmt;

/// A violation of the protocol by the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProtocolError {
    /// The number after `*` is no number, or above the limit.
    InvalidMultibulkLength,
    /// The number after `$` is no number, negative, or above the limit.
    InvalidBulkLength,
    /// Something else than `$` where an argument must start.
    ExpectedBulk {
        /// The byte found.
        found: u8,
    },
    /// No end of line after `*` within the inline limit.
    MultibulkCountTooBig,
    /// No end of line after `$` within the inline limit.
    BulkCountTooBig,
    /// More arguments than a client may send before it has authenticated.
    UnauthenticatedMultibulkLength,
    /// A longer argument than a client may send before it has authenticated.
    UnauthenticatedBulkLength,
    /// No end of line within the inline limit.
    InlineTooBig,
    /// Quotes of an inline command that do not close, or that close in the middle of a word.
    UnbalancedQuotes,
}

impl ProtocolError {
    /// The error's text: what follows `-` on the wire.
    #[must_use]
    pub fn message(&self) -> Vec<u8> {
        let mut message = [b"ERR Protocol error: ", self.reason().as_bytes()].concat();
        if let Self::ExpectedBulk { found } = *self {
            // Redis echoes the byte raw, except those that would end the reply.
            let shown = if matches!(found, b'\r' | b'\n') { b' ' } else { found };
            message.extend_from_slice(&[shown, b'\'']);
        }
        message
    }

    fn reason(&self) -> &'static str {
        match self {
            Self::InvalidMultibulkLength => "invalid multibulk length",
            Self::InvalidBulkLength => "invalid bulk length",
            Self::ExpectedBulk { .. } => "expected '$', got '",
            Self::MultibulkCountTooBig => "too big mbulk count string",
            Self::BulkCountTooBig => "too big bulk count string",
            Self::UnauthenticatedMultibulkLength => "unauthenticated multibulk length",
            Self::UnauthenticatedBulkLength => "unauthenticated bulk length",
            Self::InlineTooBig => "too big inline request",
            Self::UnbalancedQuotes => "unbalanced quotes in request",
        }
    }
}

impl fmt::Display for ProtocolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&String::from_utf8_lossy(&self.message()[b"ERR ".len()..]))
    }
}

impl std::error::Error for ProtocolError {}
