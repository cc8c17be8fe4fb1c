//! HTTP for operators: metrics for Prometheus, and health for tools that start and restart servers.
//!
//! **Is**: the server behind `metrics-port`, on a thread of its own; the table of what it exposes ([`FAMILIES`]); from where it
//! may be asked, by address, TLS and the header `Host`.
//! **Is not**: a way to data or commands, or a place where anything is counted: it reads the counters that INFO reads, and workers
//! do not know it.
//! **Invariants**: *H1* beyond loopback it speaks TLS only. *H2* what a peer makes it keep is bounded, in memory and in time.
//! **Start reading at**: `console.rs`, then `request.rs` and `page/table.rs`.

#![cfg_attr(not(test), deny(clippy::disallowed_methods, clippy::disallowed_types))]

mod connections;
mod console;
mod health;
mod hosts;
mod page;
mod request;

pub use console::{Change, Console, needs_tls};
pub use page::{FAMILIES, Family, FamilyKind};
