//! Turns the log off and on while units are done.

use std::time::Duration;

use almandine_testkit::{Client, Runtime, Value};

use crate::runtime::{Connection, Simulated};

/// What the start says that finds a log and a device that is no part of it any more.
pub(super) const BELONGS_TO_NONE: &str = "holds nothing of";

/// How long a first base is waited for that a device may have made impossible, whose sync has failed.
const LONGEST_NS: u64 = 5_000_000_000;

/// Does it again and again until the server ends; true: the log was on then, and had its base.
pub(super) fn go_on(server: &Simulated, until_ns: u64, first_ns: u64) -> bool {
    let Ok(mut client) = Client::of(server) else { return true };
    let mut pause = Duration::from_nanos(first_ns);
    while server.now_ns() + (pause.as_nanos() as u64) < until_ns {
        server.sleep(pause);
        pause = Duration::from_millis(5);
        // In some lives the log ends while it gets a new base.
        if first_ns.is_multiple_of(2) && !is_served(&client.call(&["BGREWRITEAOF"])) {
            return true;
        }
        // From here on it may be off, whatever the reply is.
        if !is_served(&client.call(&["CONFIG", "SET", "appendonly", "no"])) {
            return false;
        }
        server.sleep(Duration::from_micros(first_ns / 1000 % 7_000));
        if !has_begun(server, &mut client, until_ns) {
            return false;
        }
    }
    true
}

/// Turns it on where it may be off, on a disk that is sound; true: it has its base.
pub(super) fn turn_on(server: &Simulated) -> bool {
    let until_ns = server.now_ns() + LONGEST_NS;
    Client::of(server).is_ok_and(|mut client| has_begun(server, &mut client, until_ns))
}

/// Turns it on, and waits until its first base is named; false: the time is up, or the server has ended.
fn has_begun(server: &Simulated, client: &mut Client<Connection>, until_ns: u64) -> bool {
    while server.now_ns() < until_ns {
        let turned = client.call(&["CONFIG", "SET", "appendonly", "yes"]);
        if !is_served(&turned) {
            return false;
        }
        // The disk may refuse what it takes.
        if turned.is_ok_and(|reply| reply == Value::ok()) {
            let info = client.call(&["INFO", "persistence"]);
            if !is_served(&info) {
                return false;
            }
            let text =
                info.map(|reply| String::from_utf8_lossy(reply.bytes().unwrap_or_default()).into_owned()).unwrap_or_default();
            let has = ["aof_rewrite_in_progress:0", "aof_rewrite_scheduled:0", "aof_last_bgrewrite_status:ok"];
            if has.iter().all(|line| text.contains(line)) {
                return true;
            }
        }
        server.sleep(Duration::from_millis(1));
    }
    false
}

fn is_served<E>(reply: &Result<Value, E>) -> bool {
    reply.as_ref().is_ok_and(|reply| *reply != Value::Closed)
}
