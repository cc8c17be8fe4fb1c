//! The operation log: units of work as bytes with numbers, from the rings of the threads that did them to files.
//!
//! **Is**: the order of units ([`order`]), what they did as bytes ([`entry`]), the rings that take them
//! from their threads ([`rings`]), and the log in files that is fed by a [`UnitSource`].
//! **Is not**: aware of commands, records or types of values: what a unit did is bytes of entries.
//! **Invariants**: INV-ORDER-1 in `docs/INVARIANTS.md`; what is written to files is a closed cut.
//! **Start reading at**: [`unit`], then [`order`], [`rings`], [`source`], [`group`] and [`append`].

#![cfg_attr(not(test), deny(clippy::disallowed_methods, clippy::disallowed_types))]

pub mod append;
pub mod archive;
pub mod backup;
pub mod backup_store;
pub mod crc32c;
pub mod directory;
pub mod draft;
pub mod encryption;
pub mod entry;
mod errands;
pub mod fault;
pub mod group;
pub mod manifest;
pub mod order;
pub mod read;
pub mod remains;
pub mod ring;
pub mod rings;
mod segment;
pub mod source;
mod spare;
mod sync;
pub mod unit;
pub mod writer;

pub use draft::Draft;
pub use encryption::{FileKind, LogKeys, NoKey};
pub use entry::{Attributes, LibraryForm, LogEntry, LogValue, NoEntry, Operation, PlainSet, Reason};
pub use fault::Fault;
pub use order::{Asked, Order};
pub use ring::{NoRing, Ring, RingName};
pub use rings::{RingOptions, RingSource, Rings, UnitPlace};
pub use source::{RingId, UnitSink, UnitSource};
pub use unit::{UnitHead, epoch_of, last_of};
