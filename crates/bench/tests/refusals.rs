//! What the program refuses: numbers that mean nothing, and servers that answer nothing but errors.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

fn bench(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_almandine-bench")).args(arguments).output().expect("the program starts")
}

fn errors(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn zero_of_anything_is_refused() {
    for option in ["-c", "-P", "-k", "-t", "-n", "--members", "--group", "--in-flight"] {
        let output = bench(&["offline", option, "0"]);
        assert!(!output.status.success() && errors(&output).contains("0"), "{option}: {}", errors(&output));
        assert!(errors(&output).contains("invalid value"), "{option}: {}", errors(&output));
    }
}

#[test]
fn hands_find_the_options_they_know() {
    let help = bench(&["offline", "--help"]);
    assert!(help.status.success());
    let help = String::from_utf8_lossy(&help.stdout).into_owned();
    for option in ["-h, --host", "-p, --port", "-a, --password", "-c, --connections", "-P, --pipeline", "--help"] {
        assert!(help.contains(option), "{option}: {help}");
    }
    assert!(errors(&bench(&["offline", "-h", "127.0.0.1", "-p", "1"])).contains("127.0.0.1:1"), "it tried that address");
}

#[test]
fn errors_say_what_to_do() {
    let said = errors(&bench(&["offline", "--address", "127.0.0.1:1", "-s", "0.1"]));
    assert!(said.contains("is the server running there?"), "{said}");
    let said = errors(&bench(&["offline", "-o", "nosuch"]));
    assert!(said.contains("almandine-bench list"), "{said}");
    let said = errors(&bench(&["offline", "-k", "1000000", "--key-length", "8"]));
    assert!(said.contains("--key-length of at least 10"), "{said}");
}

/// A server that refuses whatever it is asked.
fn refusing() -> u16 {
    let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
    let port = listener.local_addr().expect("an address").port();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            std::thread::spawn(move || {
                let mut buffer = vec![0; 1 << 16];
                while let Ok(received @ 1..) = stream.read(&mut buffer) {
                    let commands = buffer[..received].iter().filter(|byte| **byte == b'*').count();
                    if stream.write_all(&b"-NOAUTH Authentication required.\r\n".repeat(commands)).is_err() {
                        return;
                    }
                }
            });
        }
    });
    port
}

#[test]
fn a_run_of_errors_only_ends_at_once_and_says_which() {
    let (port, begin) = (refusing().to_string(), Instant::now());
    let output = bench(&["offline", "-p", &port, "-s", "60", "-k", "100"]);
    assert!(!output.status.success());
    let said = errors(&output);
    assert!(said.contains("every reply is an error") && said.contains("NOAUTH Authentication required."), "{said}");
    assert!(begin.elapsed() < Duration::from_secs(50), "it did not run to its end");
}
