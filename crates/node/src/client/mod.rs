//! Connections: what one shows of itself, and the registry of all.

mod registry;
mod shared;

pub use registry::Clients;
pub use shared::{Activity, ClientIdentity, ClientOrigin, ClientShared, TrackingShown, TransactionShown};
