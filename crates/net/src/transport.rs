//! The seam between a connection's bytes on the wire and the bytes that a service sees.
//!
//! A plain connection has no transport and pays nothing. TLS is a transport: it decodes what arrives, encodes what is sent, and
//! may answer by itself, as in a handshake. It does no I/O; the worker moves the bytes. A service sees a connection once its
//! handshake is over.

use std::sync::Arc;

use crate::service::Peer;

/// The peer broke the transport's rules; what it wrote into `reply` is sent before the connection is closed.
#[derive(Clone, Copy, Debug)]
pub struct Broken;

/// How far a transport is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// The peers have not agreed yet.
    Handshake,
    /// Bytes of the service go both ways.
    Open,
    /// As [`Stage::Open`], but the peer has said that it sends no more.
    Ended,
}

/// A byte stream inside another.
pub trait Transport {
    /// Takes bytes from the wire, which it may change. Appends what the service shall see to `plain` and what the peer shall see at
    /// once to `reply`. What is not complete is kept, within a bound.
    ///
    /// # Errors
    /// When the bytes make no sense, or are too many.
    fn decode(&mut self, wire: &mut [u8], plain: &mut Vec<u8>, reply: &mut Vec<u8>) -> Result<(), Broken>;

    /// Keeps bytes of the wire for the next call of [`Transport::decode`]; none of them, and false, when they are too many.
    fn keep(&mut self, wire: &[u8]) -> bool;

    /// Takes the service's output and appends its form on the wire.
    ///
    /// # Errors
    /// When no more can be sent.
    fn encode(&mut self, plain: &[u8], wire: &mut Vec<u8>) -> Result<(), Broken>;

    /// Appends what tells the peer that nothing more comes.
    fn end(&mut self, wire: &mut Vec<u8>);

    /// How far it is.
    fn stage(&self) -> Stage;

    /// The names that the peer has proven to have, as far as the operator lets transports tell them.
    fn names(&self) -> Vec<Box<str>>;

    /// Memory that it holds.
    fn memory_bytes(&self) -> usize;
}

/// Makes the transport of a new connection; none when the system has no memory for it.
pub type TransportFactory = Arc<dyn Fn(&Peer) -> Option<Box<dyn Transport>> + Send + Sync>;
