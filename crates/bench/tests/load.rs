//! Loads beside an installed redis-server: what is filled, and what is said where nothing was measured.
//!
//! They fail where redis-server is not installed: `cargo xtask test` installs it.

use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use almandine_testkit::redis_server;

struct Server(Child, String);

impl Server {
    fn start() -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
        let port = listener.local_addr().expect("an address").port();
        drop(listener);
        let child = redis_server()
            .args(["--port", &port.to_string(), "--save", "", "--bind", "127.0.0.1"])
            .stdout(Stdio::null())
            .spawn()
            .expect("redis-server starts");
        let begin = Instant::now();
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            assert!(begin.elapsed() < Duration::from_secs(20));
            thread::sleep(Duration::from_millis(20));
        }
        Self(child, port.to_string())
    }

    fn bench(&self, words: &str) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_almandine-bench"));
        let mut words = words.split(' ');
        command.args(words.next()).args(["-p", &self.1]).args(words).output().expect("the program starts")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn said(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

#[test]
fn keys_of_other_programs_are_not_taken_for_loaded_ones() {
    let server = Server::start();
    // As many keys as the load has, of which none is the load's.
    assert!(server.bench("load -o hset -k 3000 --members 1 -q").status.success());
    let output = server.bench("load -o get -k 3000 -q");
    assert!(said(&output).contains("3000 keys are loaded") && said(&output).contains("holds 6000"), "{}", said(&output));
    let output = server.bench("load -o get -k 5000 -q");
    assert!(said(&output).contains("5000 keys are loaded") && said(&output).contains("holds 8000"), "{}", said(&output));
    let output = server.bench("offline -o get -k 5000 -c 2 -s 0.1 --verify -q");
    assert!(output.status.success() && !said(&output).contains("are null"), "{}", said(&output));
}

#[test]
fn what_was_not_measured_is_a_dash() {
    let server = Server::start();
    // A hundred commands take the server less than the kernel's clock can tell.
    let output = server.bench("online -o set -k 10 -c 1 -r 100 -s 0.5 -q");
    let text = said(&output);
    assert!(output.status.success() && text.contains('–') && !text.contains("0.000"), "{text}");
    assert!(text.contains("less than 0.1 s of CPU"), "{text}");
}
