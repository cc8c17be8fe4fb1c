//! Histories of blocking commands: clients wait for lists, others fill them, and each answer must be explained by one order in
//! which the first to wait is the first to be served.
//!
//! The model is redis-server's: a waiter begins to wait at one moment between its call and its answer, and the client that
//! makes a list ready serves its waiters at the same moment, in the order in which they began to wait, through chains of BLMOVE
//! too. From that follows all that is promised: an element is in one place, no client waits beside a list that has elements,
//! and none overtakes.
//!
//! When a waiter began to wait is known better than from its call alone: another connection looks, through CLIENT LIST, until
//! the server says that it is blocked. Connections are killed and closed while they wait. What was handed to one whose end had
//! not been seen is lost with it; once the end was seen, by the client or in CLIENT LIST, nothing is.
//!
//! [`crowd`] has the same promises for thousands of connections at once, where orders are too many to search.

mod check;
mod command;
pub mod crowd;
mod model;
mod record;
mod search;

pub use check::check;
pub use command::{Action, Command, End};
pub use record::{Entry, Settings, record};
