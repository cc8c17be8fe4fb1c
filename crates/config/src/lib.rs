//! One parameter table: configuration file, flags, CONFIG GET, SET and REWRITE.
//!
//! **Is**: every parameter of Redis 7 and Valkey 9 and Almandine's own, each in one table entry from which everything else follows:
//! parsing, error texts, typed [`Settings`], the file, the manual.
//! **Is not**: the place where a parameter takes effect. It opens no socket and starts no thread; it touches only the configuration
//! file.
//! **Invariants**: a snapshot of settings is consistent; CONFIG SET changes all of its parameters or none; a parameter without a
//! typed field has no effect and says so; one that promises what does not exist yet is refused.
//! **Start reading at**: [`parameter`], then [`sections`], then [`config`].

#![cfg_attr(not(test), deny(clippy::disallowed_methods, clippy::disallowed_types))]

pub mod choices;
pub mod config;
mod effectless;
pub mod kind;
pub mod load;
pub mod manual;
mod missing;
pub mod parameter;
mod rewrite;
pub mod sections;
pub mod settings;
pub mod special;
mod suggest;
pub mod words;

pub use config::{Config, SetError, Snapshot};
pub use load::{LoadError, Report, Startup};
pub use parameter::Parameter;
pub use rewrite::Stated;
pub use settings::Settings;
