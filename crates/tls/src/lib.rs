//! TLS as a transport of connections.
//!
//! **Is**: a [`Transport`](almandine_net::Transport) on rustls; an [`Acceptor`], which makes one for each new connection with
//! the newest certificates, read from files as an operator names them in the way of Redis; and a [`Connector`] for programs that
//! are clients.
//! **Is not**: cryptography or a protocol, which are rustls' and AWS-LC's; a socket; a user. It does not know which commands a
//! peer may run: it tells the names that a certificate proves.
//! **Invariants**: *T1* a connection keeps the configuration that it began with; a reload changes what begins behind it. *T2* what
//! a peer makes the server keep before its handshake is over is bounded by a constant.
//! **Start reading at**: `acceptor.rs`, then `transport.rs` and `records.rs`.

#![cfg_attr(not(test), deny(clippy::disallowed_methods, clippy::disallowed_types))]

mod acceptor;
mod certificate;
mod ciphers;
mod connector;
mod der;
mod files;
mod key;
mod options;
mod records;
mod refused;
mod sessions;
mod time;
mod transport;

pub use acceptor::{Acceptor, Configuration, fingerprint, read};
pub use connector::{ClientOptions, ClientSession, Connector};
pub use options::{Clients, NameField, Sessions, TlsFault, TlsOptions};
pub use refused::Refused;
