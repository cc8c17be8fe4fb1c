//! `almandine-server`: the composition root.
//!
//! **Is**: where configuration, keyspace, instance, network and sessions are put together to a [`Node`], and the process' life from
//! command line to exit.
//! **Is not**: a place for behaviour: nothing depends on this crate but its two programs, `almandine-check` and the simulation.
//! **Invariants**: a server that has started has written to its log and holds its storage. A node leaves its process as it is.
//! **Start reading at**: [`Node`] in `node.rs`; then [`main`] and `run.rs` for the process.

#![cfg_attr(not(test), deny(clippy::disallowed_methods, clippy::disallowed_types))]

mod apply;
mod background;
mod check;
mod commands;
mod convert;
mod cores;
mod crash;
mod listeners;
mod log;
mod meter;
mod network;
mod node;
mod offline;
mod oom_score;
mod open_files;
mod operation_log;
mod process;
mod redis_files;
mod reference;
mod refusals;
mod run;
mod snapshots;
mod startup;
mod storage;
mod supervisor;
mod title;
mod tls;
mod unserved;
mod users;
mod watchdog;
mod workers;

use std::process::ExitCode;

use almandine_config::{Config, Startup};

pub use commands::command_names;
pub use convert::{Conversion, Converted, Form};
pub use node::Node;
pub use operation_log::object_folder;
pub use storage::{FetchedPages, PagesRead, read_pages};

#[cfg(not(feature = "jemalloc"))]
#[global_allocator]
static ALLOCATOR: almandine_io::allocator::Allocator = almandine_io::allocator::Allocator;

#[cfg(feature = "jemalloc")]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// The program: what its command line says, then its exit status.
#[must_use]
pub fn main() -> ExitCode {
    let mut args = almandine_io::title::take_command_line();
    let program = if args.is_empty() { "almandine-server".to_owned() } else { args.remove(0) };
    if let [flag, what] = args.as_slice()
        && flag == "--print-reference"
    {
        return reference::print(what);
    }
    match Config::load(&args) {
        Ok(Startup::Run(config)) => run::run(*config, &program, &args),
        Ok(Startup::Check(report)) => check::print(&report),
        Ok(Startup::Print(text)) => {
            print!("{text}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprint!("{error}");
            ExitCode::FAILURE
        }
    }
}
