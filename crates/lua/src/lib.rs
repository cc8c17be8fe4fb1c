//! Lua 5.1 for scripts inside of a server: shared prototypes, exact limits, suspension, no `unsafe`.
//!
//! **Is**: a compiler from text to immutable prototypes ([`compile`] gives an `Arc` of a [`Proto`] that all workers share), and a
//! register machine that runs them ([`Machine`], one per worker) with Lua's library as far as Redis admits it. A run can be
//! suspended between any two instructions, is limited in memory to the byte, and ends when the host says so, whatever the
//! script catches.
//!
//! **Is not**: aware of Redis, its commands, files, clocks or threads. There is no loader of compiled code, no debug library and no
//! finalizer. What a script may reach outside is the [`Host`]'s.
//!
//! **Invariants**:
//! - The interpreter does not recurse for calls between functions of Lua, protected calls, metamethods or coroutines.
//! - Values name objects by index; no object of a run outlives [`Machine::reset`], unless an older object was made to refer to it.
//! - A read-only table is not changed by anything that a script can do.
//! - Messages are those of PUC's Lua 5.1, with the names of variables, chunks and lines.
//!
//! **Start reading at**: [`compile`], then `vm/mod.rs` and `vm/execute.rs`.

#![cfg_attr(not(test), deny(clippy::disallowed_methods, clippy::disallowed_types))]
#![forbid(unsafe_code)]

mod calls;
mod compiler;
mod heap;
mod instruction;
mod json;
mod lexer;
mod library;
mod number;
mod number_operations;
mod proto;
mod random;
mod value;
mod vm;

pub use calls::{CallArgument, CallSite, Calls, Part, Rest, SoleArgument, Unseen};
pub use compiler::{SyntaxError, compile};
pub use heap::Heap;
pub use proto::Proto;
pub use value::{ClosureRef, LuaValue, NativeRef, StringRef, TableRef, ThreadRef};
pub use vm::{Host, HostCall, HostOutcome, Machine, MachineOptions, NoHost, RunEnd, Values};
