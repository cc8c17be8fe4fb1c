//! What a command is: name, id, arity, keys, flags, categories, documentation. No handlers.
//!
//! **Is**: the constant data of a command ([`CommandSpec`]), what follows from it ([`Shape`]: arity, key positions, categories),
//! the table
//! that finds a command by name ([`Table`]), and the descriptions that COMMAND INFO and COMMAND DOCS give ([`describe`]).
//! **Is not**: a place for behaviour. It knows no handler, no reply encoding and no list of commands; those live in `handler` and
//! above.
//! **Invariants**: nothing that follows from the arguments is stated twice; what cannot follow from them is stated in the spec and
//! says so.
//! **Start reading at**: [`spec`], then [`arg`], then [`shape`].

#![cfg_attr(not(test), deny(clippy::disallowed_methods, clippy::disallowed_types))]

pub mod arg;
pub mod category;
pub mod describe;
pub mod keys;
mod positions;
pub mod shape;
pub mod spec;
mod table;
pub mod traits;

pub use arg::{Arg, ArgKind};
pub use category::{Categories, Category, Group};
pub use keys::{Access, Begin, Find, KeySpec};
pub use positions::Positions;
pub use shape::{Layout, Shape};
pub use spec::{CommandSpec, Deprecated, Keys, NextKey};
pub use table::Table;
pub use traits::Traits;
