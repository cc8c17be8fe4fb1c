//! Listeners, connections, buffers and back-pressure.
//!
//! **Is**: what carries bytes between peers and a [`Service`]: it accepts, spreads connections over workers, gives each chunk to
//! the service, sends what the service answers, reads from devices for the service, and holds every limit that a peer
//! could otherwise break.
//! **Is not**: a protocol, a command or a client registry. It does not know what the bytes mean, with one exception: it writes the
//! RESP error that refuses a connection beyond `maxclients`, for which no session exists yet.
//! **Invariants**: *N1* an idle connection owns no buffer. *N2* a connection whose peer does not read has bounded output: past the
//! limit its input is neither read nor executed. *N3* the bytes given to a service are contiguous and each is given
//! until it is consumed, then never again. *N4* replies leave in the order in which they were written. *N5* after
//! [`Service::close`] nothing refers to that connection.
//! **Start reading at**: [`service`], the interface; then `worker.rs`, the loop; then `connection.rs` and `input.rs`.

#![cfg_attr(not(test), deny(clippy::disallowed_methods, clippy::disallowed_types))]

pub mod counters;
pub mod limits;
pub mod mailbox;
pub mod service;
pub mod transport;
pub mod worker;

mod connection;
mod connection_table;
mod control;
mod encoded;
mod endpoints;
mod input;
mod kept;
mod output;
mod slab;

pub use counters::Counters;
pub use endpoints::Endpoint;
pub use limits::{Limits, OutputLimit};
pub use mailbox::Handle;
pub use service::{Buffers, ConnectionId, Control, Held, Next, OutputClass, Peer, Progress, Service};
pub use transport::{Stage, Transport, TransportFactory};
pub use worker::{Options, Worker, open};
