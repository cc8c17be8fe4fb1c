//! Servers that leave a step out on purpose, to show that a proof notices (`node::fault`).

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};
use std::sync::Once;

use crate::{Program, Server};

/// A server that leaves the step out.
///
/// # Panics
/// When it leaves nothing out: a mutant that could not run is not one that was noticed.
#[must_use]
pub fn start(fault: &str, flags: &[&str]) -> Server {
    let server = Server::start_with(&Program::Mutants, flags, &[("ALMANDINE_FAULT", fault.to_owned())]);
    assert!(
        server.log().contains("left out on purpose"),
        "{fault}: this server leaves no step out; name one with debug assertions by ALMANDINE_MUTANTS_SERVER"
    );
    server
}

/// Runs a proof against servers without a step until it fails, at most so often.
///
/// # Panics
/// When it never does, or when the server leaves nothing out.
pub fn must_notice(fault: &str, flags: &[&str], rounds: usize, proof: impl Fn(&Server)) {
    for round in 0..rounds {
        let server = start(fault, flags);
        if let Err(report) = quietly(|| proof(&server)) {
            let text = report.downcast_ref::<String>().map(String::as_str).or(report.downcast_ref::<&str>().copied());
            println!("{fault}: noticed in round {round}: {}", text.and_then(|text| text.lines().next()).unwrap_or_default());
            return;
        }
    }
    panic!("{fault} was not noticed in {rounds} rounds");
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
