//! The types of values: views that open a key as a type, and do not show whether the value is packed in its record or an object.

mod collection;
mod elements;
pub mod hash;
pub mod list;
mod refusal;
mod replay;
pub mod set;
pub mod sorted_set;
pub mod stream;
mod table;
#[cfg(test)]
mod table_tests;
#[cfg(test)]
pub(crate) mod testing;

pub use collection::{Collection, Contents, Frozen, New, Snapshot, Stored, ValueMut};
pub use elements::Elements;
pub use refusal::{Refusal, WrongKind};
pub use table::TypeTable;
