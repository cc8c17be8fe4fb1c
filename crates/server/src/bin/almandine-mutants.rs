//! `almandine-mutants`: the server in a build that leaves steps out, those that `ALMANDINE_MUTANT` names (`docs/HACKING.md`).

use std::process::ExitCode;

fn main() -> ExitCode {
    match almandine_base::mutants::named() {
        Ok(mutants) => {
            eprintln!("Steps are left out on purpose: {mutants:?}");
            almandine_server::main()
        }
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
