//! Connections: what one shows of itself, and the registry of all.

mod memory;
mod registry;
mod shared;

pub use memory::{ClientMemory, bucket};
pub use registry::Clients;
pub use shared::{
    Activity, Blocked, ClientIdentity, ClientOrigin, ClientShared, MemoryShown, ModesShown, TrackingShown, TransactionShown,
};
