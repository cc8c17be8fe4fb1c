//! What had to wait, for a unit that is alone or for latches, goes on with no earlier time than those had that it has waited for.

use std::thread;
use std::time::Duration;

use almandine_io::clock;
use almandine_keyspace::Accessor;

use crate::rig::{Rig, request};

/// How long the key lives that expires while a client waits.
const LIFE: &str = "40";

/// What a client is answered that reads the keys `a` and `b` while another worker is in the way, until `a` has expired.
fn waits(what: &[&str], hold: fn(&mut Accessor), let_go: fn(&mut Accessor)) -> String {
    let mut rig = Rig::new();
    let client = rig.open();
    assert_eq!(rig.send(client, &request(["SET", "a", "old", "PX", LIFE])), "+OK\r\n");
    assert_eq!(rig.send(client, &request(["SET", "b", "there"])), "+OK\r\n");
    let expired_ms = clock::unix_ms() + LIFE.parse::<i64>().unwrap();
    let mut other = rig.accessor();
    other.begin_batch(clock::unix_ms());
    hold(&mut other);
    thread::scope(|scope| {
        let requests: String = what.iter().map(|words| request(words.split('|'))).collect();
        let waiting = scope.spawn(move || rig.send(client, &requests));
        while clock::unix_ms() <= expired_ms {
            thread::sleep(Duration::from_millis(5));
        }
        // For the other worker it has expired.
        other.unit().follow_clock(true);
        other.unit().pass_time();
        let_go(&mut other);
        other.end_batch();
        waiting.join().unwrap()
    })
}

#[test]
fn what_waits_for_a_unit_that_is_alone_sees_what_has_expired_meanwhile() {
    let (hold, let_go) = (|other: &mut Accessor| other.unit().begin_alone(), |other: &mut Accessor| other.unit().end());
    assert_eq!(waits(&["GET|a"], hold, let_go), "$-1\r\n");
    assert_eq!(waits(&["SET|c|v|PX|60000", "GET|a"], hold, let_go), "+OK\r\n$-1\r\n");
    let keys = "*1\r\n$1\r\nb\r\n";
    assert_eq!(waits(&["KEYS|*"], hold, let_go), keys);
    assert_eq!(waits(&["MULTI", "KEYS|*", "EXEC"], hold, let_go), format!("+OK\r\n+QUEUED\r\n*1\r\n{keys}"));
}

#[test]
fn what_waits_for_latches_sees_what_has_expired_meanwhile() {
    let hold = |other: &mut Accessor| {
        other.unit().plan();
        other.unit().add(0, b"b", true);
        other.unit().begin();
    };
    let let_go = |other: &mut Accessor| other.unit().end();
    let both = "*2\r\n$-1\r\n$5\r\nthere\r\n";
    assert_eq!(waits(&["MGET|a|b"], hold, let_go), both);
    assert_eq!(waits(&["RENAME|b|c", "EXISTS|a|c"], hold, let_go), "+OK\r\n:1\r\n");
    assert_eq!(waits(&["MULTI", "GET|a", "GET|b", "EXEC"], hold, let_go), format!("+OK\r\n+QUEUED\r\n+QUEUED\r\n{both}"));
    let code = "return {redis.call('GET', KEYS[1]), redis.call('GET', KEYS[2])}";
    assert_eq!(waits(&[&format!("EVAL|{code}|2|a|b")], hold, let_go), both);
}
