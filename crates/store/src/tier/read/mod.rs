//! Reading from the device: records into stages, the room that they count against, and which of them are worth a copy.
//!
//! **Start reading at**: [`stage`].

pub(crate) mod admission;
pub(crate) mod arriving;
mod blocks;
pub(crate) mod room;
pub(crate) mod stage;
