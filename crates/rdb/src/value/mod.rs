//! Values by type, and the footer of a payload.

mod any;
mod empty;
pub mod footer;
pub mod hash;
pub mod list;
pub mod set;
pub mod sorted_set;
pub mod stream;

pub use any::AnyValue;
pub use empty::is_empty_collection;
