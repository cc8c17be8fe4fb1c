//! A crash leaves a report in the log: what, where, which command, registers, stack, INFO; and no values.

use std::os::unix::process::ExitStatusExt;
use std::time::Duration;

use almandine_testkit::{Program, Server, Value};

const ABORT: i32 = 6;
const SEGMENTATION_FAULT: i32 = 11;

fn start(flags: &[&str]) -> Server {
    Server::start(&Program::Almandine, &[&["--enable-debug-command", "yes"], flags].concat())
}

/// Sends a command that ends the server by this signal; the log.
fn crash(mut server: Server, command: &str, signal: i32) -> String {
    let reply = server.client().call(&command.split(' ').collect::<Vec<_>>());
    assert!(!matches!(reply, Ok(Value::Simple(_))), "{reply:?}");
    let status = server.await_exit(Duration::from_secs(20));
    assert_eq!(status.and_then(|status| status.signal()), Some(signal), "{status:?}\n{}", server.log());
    server.log()
}

fn assert_in_order(log: &str, texts: &[&str]) {
    let mut rest = log;
    for text in texts {
        let at = rest.find(text).unwrap_or_else(|| panic!("no '{text}' behind what comes before it in\n{log}"));
        rest = &rest[at..];
    }
}

#[test]
fn a_fault_is_reported_with_registers_stack_and_info() {
    let log = crash(start(&[]), "DEBUG SEGFAULT", SEGMENTATION_FAULT);
    let report = [
        "=== ALMANDINE BUG REPORT START",
        "crashed by signal 11 (SIGSEGV)",
        "in thread 'worker-",
        "CURRENT COMMAND ------\ndebug with 2 arguments",
        "STACK TRACE",
        "segfault",
        "REGISTERS",
        "INFO OUTPUT",
        "# Memory\nused_memory:",
        "=== ALMANDINE BUG REPORT END",
    ];
    assert_in_order(&log, &report);
    assert!(!cfg!(target_arch = "x86_64") || log.contains("RIP:0000"), "{log}");
    assert_eq!(log.matches("BUG REPORT START").count(), 1);
}

#[test]
fn a_panic_is_reported_too() {
    let log = crash(start(&[]), "DEBUG PANIC", ABORT);
    assert_in_order(
        &log,
        &["BUG REPORT START", "DEBUG PANIC", "debug with 2 arguments", "STACK TRACE", "# Stats", "BUG REPORT END"],
    );
    assert_eq!(log.matches("BUG REPORT START").count(), 1);
}

#[test]
fn a_signal_from_outside_finds_no_command() {
    let mut server = start(&[]);
    let pid = rustix::process::Pid::from_raw(i32::try_from(server.pid()).unwrap_or(0)).expect("a process id");
    rustix::process::kill_process(pid, rustix::process::Signal::BUS).expect("the server runs");
    assert!(server.await_exit(Duration::from_secs(20)).is_some());
    assert_in_order(&server.log(), &["crashed by signal 7 (SIGBUS)", "CURRENT COMMAND ------\nnone", "BUG REPORT END"]);
}

#[test]
fn the_report_can_be_turned_off() {
    let server = start(&[]);
    assert_eq!(server.client().line("CONFIG SET crash-log-enabled no"), Value::Simple(b"OK".to_vec()));
    let log = crash(server, "DEBUG SEGFAULT", SEGMENTATION_FAULT);
    assert!(!log.contains("BUG REPORT"), "{log}");
}
