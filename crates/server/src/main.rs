//! `almandine-server`.

#![cfg_attr(not(test), deny(clippy::disallowed_methods, clippy::disallowed_types))]

use std::process::ExitCode;

fn main() -> ExitCode {
    almandine_server::main()
}
