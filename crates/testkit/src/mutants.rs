//! Servers that leave steps out on purpose, to show that a proof notices (`almandine_base::mutants`).

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};
use std::sync::Once;

use crate::{Program, Server};

/// A server that leaves the steps out, with commas between their names.
///
/// # Panics
/// When it leaves nothing out: a mutant that could not run is not one that was noticed.
#[must_use]
pub fn start(mutant: &str, flags: &[&str]) -> Server {
    start_by(&Program::Mutants, mutant, flags)
}

/// As [`start`], by a program that starts [`Program::Mutants`].
///
/// # Panics
/// When it leaves nothing out.
#[must_use]
pub fn start_by(program: &Program, mutant: &str, flags: &[&str]) -> Server {
    let server = Server::start_with(program, flags, &[("ALMANDINE_MUTANT", mutant.to_owned())]);
    assert!(
        leaves_out(&server.log(), mutant),
        "this server leaves no {mutant} out; name one with the feature `mutants` by ALMANDINE_MUTANTS_SERVER"
    );
    server
}

/// Whether a server says that it leaves the steps out, these and no others.
fn leaves_out(log: &str, mutant: &str) -> bool {
    log.contains(&format!("Steps are left out on purpose: [{}]", mutant.replace(',', ", ")))
}

/// Runs a proof against servers without a step until it fails, at most so often.
///
/// # Panics
/// When it never does, or when the server leaves nothing out.
pub fn must_notice(mutant: &str, flags: &[&str], rounds: usize, proof: impl Fn(&Server)) {
    for round in 0..rounds {
        let server = start(mutant, flags);
        if let Err(report) = quietly(|| proof(&server)) {
            let text = report.downcast_ref::<String>().map(String::as_str).or(report.downcast_ref::<&str>().copied());
            println!("{mutant}: noticed in round {round}: {}", text.and_then(|text| text.lines().next()).unwrap_or_default());
            return;
        }
    }
    panic!("{mutant} was not noticed in {rounds} rounds");
}

thread_local! {
    /// Whether a panic of this thread is awaited, and so not shown as one.
    static AWAITED: Cell<bool> = const { Cell::new(false) };
}

/// Runs a proof that may well panic. What it says is in the result only; threads of its own still show theirs.
fn quietly(proof: impl FnOnce()) -> std::thread::Result<()> {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let shown = take_hook();
        set_hook(Box::new(move |panic| {
            if !AWAITED.get() {
                shown(panic);
            }
        }));
    });
    AWAITED.set(true);
    let result = catch_unwind(AssertUnwindSafe(proof));
    AWAITED.set(false);
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_leaves_nothing_or_something_else_out_is_no_mutant() {
        let log = "Steps are left out on purpose: [OneServer, GiveWay]\nReady\n";
        assert!(leaves_out(log, "OneServer,GiveWay"));
        assert!(!leaves_out(log, "OneServer") && !leaves_out(log, "GiveWay") && !leaves_out("Ready\n", "OneServer"));
    }
}
