//! Promises that a short scenario shows to be kept or broken: against a server process, whose address is a [`Runtime`], or in a
//! simulation. Each scenario panics with what was broken, or counts it.

pub mod channels;
pub mod claims;
pub mod computations;
pub mod durability;
pub mod events;
pub mod eviction;
pub mod moment;
pub mod moves;
pub mod rights;
pub mod suspended;
pub mod told;
pub mod tracking;
pub mod values;

use std::time::Duration;

use crate::runtime::Stream;
use crate::{Client, Runtime, Value};

/// How long anything may take that is not timed itself.
const PATIENCE: Duration = Duration::from_secs(20);

/// A new connection.
fn connect<R: Runtime>(runtime: &R) -> Client<R::Stream> {
    Client::of(runtime).expect("a connection")
}

/// Sends the words of a line and does not wait for the answer.
fn send<S: Stream>(client: &mut Client<S>, line: &str) {
    client.send(&[line.split(' ').collect::<Vec<_>>()]).expect("a command is sent");
}

/// Sends lines at once; the last answer.
fn last_of<S: Stream>(client: &mut Client<S>, lines: &[&str]) -> Value {
    let commands: Vec<Vec<&str>> = lines.iter().map(|line| line.split(' ').collect()).collect();
    client.pipeline(&commands).expect("replies").pop().expect("a command")
}

/// A figure of INFO.
fn figure<S: Stream>(client: &mut Client<S>, section: &str, name: &str) -> u64 {
    figure_of(&client.call(&["INFO", section]).expect("INFO"), name)
}

/// A figure of what INFO has answered.
fn figure_of(info: &Value, name: &str) -> u64 {
    let info = info.to_string();
    let (_, rest) = info.split_once(&format!("{name}:")).unwrap_or_else(|| panic!("INFO has no {name}"));
    rest.chars().take_while(char::is_ascii_digit).collect::<String>().parse().expect("a number")
}

/// Waits until the server says that this number of clients is blocked.
fn await_blocked<R: Runtime>(runtime: &R, client: &mut Client<R::Stream>, count: u64) {
    let asked_ns = runtime.now_ns();
    loop {
        let blocked = figure(client, "clients", "blocked_clients");
        if blocked == count {
            return;
        }
        let waited = Duration::from_nanos(runtime.now_ns() - asked_ns);
        assert!(waited < PATIENCE, "{blocked} clients are blocked, not {count}");
        runtime.sleep(Duration::from_millis(1));
    }
}

/// Channel and text of a message that comes by a channel or by a pattern.
fn message<S: Stream>(client: &mut Client<S>) -> (String, String) {
    let value = client.receive().expect("a message");
    let parts = value.elements().unwrap_or_else(|| panic!("no message: {value}"));
    let text = |value: &Value| String::from_utf8_lossy(value.bytes().expect("a string")).into_owned();
    (text(&parts[parts.len() - 2]), text(&parts[parts.len() - 1]))
}

/// Subscribes to a channel or to a pattern.
fn subscribe<S: Stream>(client: &mut Client<S>, word: &str, name: &str) {
    let reply = client.call(&[word, name]).expect("a confirmation");
    assert!(matches!(reply, Value::Array(_)), "{reply}");
}
