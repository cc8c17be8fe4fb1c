//! The oracle: the same random commands to our server and to redis-server; every reply and the final keyspace must be equal.
//!
//! What to generate is one table ([`table`]), one line per command in the notation of its manual. What is not the same in two
//! right servers (clocks, order of keys) is stated there too, per command, and nowhere else.

mod arguments;
pub mod compare;
pub mod generate;
pub mod run;
pub mod streams;
pub mod table;

pub use run::{Difference, Report, Settings, run};
