//! The seam between a connection's bytes on the wire and the bytes that a service sees.
//!
//! A plain connection has no transport and pays nothing. TLS is a transport: it decodes what arrives, encodes what is sent, and
//! may answer by itself, as in a handshake. It does no I/O; the worker moves the bytes.

use std::sync::Arc;

use almandine_base::Output;

/// The peer broke the transport's rules; what it wrote into `reply` is sent before the connection is closed.
#[derive(Clone, Copy, Debug)]
pub struct Broken;

/// A byte stream inside another.
pub trait Transport {
    /// Takes bytes from the wire. Appends what the service shall see to `plain` and what the peer shall see at once to `reply`.
    ///
    /// # Errors
    /// When the bytes make no sense.
    fn decode(&mut self, wire: &[u8], plain: &mut Vec<u8>, reply: &mut Vec<u8>) -> Result<(), Broken>;

    /// Takes the service's output and appends its form on the wire.
    fn encode(&mut self, plain: &Output, wire: &mut Vec<u8>);
}

/// Makes the transport of a new connection.
pub type TransportFactory = Arc<dyn Fn() -> Box<dyn Transport> + Send + Sync>;
