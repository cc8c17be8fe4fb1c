//! Sealed backups in object storage: several of one server, and of several servers, below one address.
//!
//! Objects are made and deleted, and never changed. A file of a backup is *pieces*, and an *inventory*, made last, says which there
//! are, with their sums: a backup counts while its inventory is there. One that is dropped loses the inventory first:
//! INV-SHIPPED-1.
//!
//! The *owner* of a backup is the directory of the log that it was taken of. Only its owner drops it, by a [`Ledger`] that says
//! what is on its way in and out, so that a server that was killed goes on with both. Nothing is inferred from objects that no
//! ledger names: they may be on their way from another server.
//!
//! ```text
//! backup-001795845103-000000123456-0123456789abcdef-00000007                          the inventory of an owner's 7th backup
//! piece-001795845103-000000123456-0123456789abcdef-00000007-000002-000008388608      its third file, from byte 8 MiB on
//! ```

mod fault;
mod inventory;
mod ledger;
mod listing;
mod name;
mod restore;
mod retain;
mod upload;

pub use self::fault::StoreFault;
pub use self::inventory::{Inventory, StoredFile, StoredPiece};
pub use self::ledger::{Ledger, Outgoing};
pub use self::listing::{StoredBackups, StoredObjects};
pub use self::name::StoredName;
pub use self::restore::{Restored, Wanted, choose, restore};
pub use self::retain::{Keep, Retained, retain};
pub use self::upload::{Shipment, Shipping, ship};
