//! `almandine-server`.

#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

use std::process::ExitCode;

fn main() -> ExitCode {
    almandine_server::main()
}
