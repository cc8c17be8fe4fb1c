//! What a transaction may hold: its commands count as input, its replies as output.

use almandine_net::Next;

use crate::rig::{Rig, request};

#[test]
fn what_waits_for_exec_has_the_limit_of_input() {
    let mut rig = Rig::new();
    let client = rig.open();
    assert_eq!(rig.send(client, &request(["CONFIG", "SET", "client-query-buffer-limit", "1mb"])), "+OK\r\n");
    let set = request(["SET", "k", &"v".repeat(400_000)]);
    assert_eq!(rig.send(client, &[request(["MULTI"]), set.clone(), set.clone()].concat()), "+OK\r\n+QUEUED\r\n+QUEUED\r\n");
    assert_eq!(rig.next, Next::Continue);
    rig.send(client, &set);
    assert_eq!(rig.next, Next::CloseOverInput);
    let other = rig.open();
    assert_eq!(rig.send(other, &request(["EXISTS", "k"])), ":0\r\n", "no command has run");
    assert_eq!(rig.send(other, &set), "+OK\r\n", "a command by itself does not wait");
}

#[test]
fn replies_of_exec_pile_up_as_far_as_the_limit_of_output() {
    let mut rig = Rig::new();
    let client = rig.open();
    let limit = request(["CONFIG", "SET", "client-output-buffer-limit", "normal 100000 0 0"]);
    assert_eq!(rig.send(client, &limit), "+OK\r\n");
    rig.send(client, &request(["SET", "k", &"v".repeat(5_000)]));
    rig.send(client, &request(["MULTI"]));
    (0..1000).for_each(|_| drop(rig.send(client, &request(["GET", "k"]))));
    rig.send(client, &request(["SET", "last", "command"]));
    let replies = rig.send(client, &request(["EXEC"])).len();
    assert!((100_000..110_000).contains(&replies), "{replies} bytes of replies");
    let other = rig.open();
    assert_eq!(rig.send(other, &request(["GET", "last"])), "$7\r\ncommand\r\n");
}
