//! Loads beside an installed redis-server: what is filled, and what is said where nothing was measured.
//!
//! They fail where redis-server is not installed: `cargo xtask test` installs it.

use std::process::{Command, Output};

use almandine_testkit::server::{Program, Server};

fn start() -> Server {
    Server::start(&Program::Redis, &[])
}

fn bench(server: &Server, words: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_almandine-bench"));
    let mut words = words.split(' ');
    let port = server.address().port().to_string();
    command.args(words.next()).args(["-p", &port]).args(words).output().expect("the program starts")
}

fn said(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

#[test]
fn keys_of_other_programs_are_not_taken_for_loaded_ones() {
    let server = start();
    // As many keys as the load has, of which none is the load's.
    let output = bench(&server, "load -o hset -k 3000 --members 1 -q");
    assert!(output.status.success(), "{}", said(&output));
    let output = bench(&server, "load -o get -k 3000 -q");
    assert!(said(&output).contains("3000 keys are loaded") && said(&output).contains("holds 6000"), "{}", said(&output));
    let output = bench(&server, "load -o get -k 5000 -q");
    assert!(said(&output).contains("5000 keys are loaded") && said(&output).contains("holds 8000"), "{}", said(&output));
    let output = bench(&server, "offline -o get -k 5000 -c 2 -s 0.1 --verify -q");
    assert!(output.status.success() && !said(&output).contains("are null"), "{}", said(&output));
}

#[test]
fn what_was_not_measured_is_a_dash() {
    let server = start();
    // A hundred commands take the server less than the kernel's clock can tell.
    let output = bench(&server, "online -o set -k 10 -c 1 -r 100 -s 0.5 -q");
    let text = said(&output);
    assert!(output.status.success() && text.contains('–') && !text.contains("0.000"), "{text}");
    assert!(text.contains("less than 0.1 s of CPU"), "{text}");
}
