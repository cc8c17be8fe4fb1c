//! A mutant that could not run is not one that was noticed.

use std::panic::catch_unwind;

use almandine_testkit::Server;
use almandine_testkit::mutants::must_notice;

fn report(mutant: &str, proof: fn(&Server)) -> String {
    let outcome = catch_unwind(|| must_notice(mutant, &[], 1, proof));
    outcome.err().map(|report| *report.downcast::<String>().expect("a text")).unwrap_or_default()
}

#[test]
fn a_step_that_there_is_not_is_no_mutant() {
    let told = report("NoSuchStep", |_| panic!("the proof has failed, as if it had noticed"));
    assert!(told.contains("no step is named 'NoSuchStep'"), "{told}");
}

#[test]
fn a_proof_that_passes_has_noticed_nothing() {
    let told = report("GiveWay", |server| assert!(!server.client().line("PING").is_error()));
    assert_eq!(told, "GiveWay was not noticed in 1 rounds");
    assert_eq!(report("GiveWay", |_| panic!("the proof has failed")), "");
}
