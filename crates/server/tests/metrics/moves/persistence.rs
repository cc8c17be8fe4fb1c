//! Snapshots, the log of writes, and loading.

use std::time::Duration;

use almandine_testkit::{Client, Server, Value};

use super::data::fill;

pub(super) fn snapshot(server: &Server) -> Vec<Client> {
    let mut clients = fill(server, 20_000, 100);
    let client = &mut clients[0];
    client.line("CONFIG SET rdb-key-save-delay 100");
    // Times are told in seconds.
    std::thread::sleep(Duration::from_millis(1_100));
    assert!(matches!(client.line("BGSAVE"), Value::Simple(_)));
    // What is changed before it is saved is kept for the snapshot.
    for n in (0..20_000).rev().step_by(10) {
        client.call(&["APPEND", &format!("key:{n}"), "x"]).unwrap();
    }
    client.line("CONFIG SET rdb-key-save-delay 0");
    clients
}

pub(super) fn long_snapshot(server: &Server) -> Vec<Client> {
    let mut clients = fill(server, 20_000, 10);
    clients[0].line("CONFIG SET rdb-key-save-delay 1000");
    assert!(matches!(clients[0].line("BGSAVE"), Value::Simple(_)));
    clients
}

/// Rewriting the log takes seconds.
pub(super) fn long_rewrite(server: &Server) -> Vec<Client> {
    let mut clients = fill(server, 2_500, 10);
    clients[0].line("CONFIG SET rdb-key-save-delay 1000");
    assert!(matches!(clients[0].line("BGREWRITEAOF"), Value::Simple(_)));
    clients
}

/// The log is to be rewritten while a snapshot is written.
pub(super) fn rewrite_behind_snapshot(server: &Server) -> Vec<Client> {
    let mut clients = long_snapshot(server);
    assert!(matches!(clients[0].line("BGREWRITEAOF"), Value::Simple(_)));
    clients
}

/// Writes that are logged within a second.
pub(super) fn log(server: &Server) {
    server.client().line("SET a 1");
}

/// Another process takes the place of this one.
pub(super) fn another_process(server: &mut Server) {
    server.kill();
    server.start_again_with(&["--storage-dir", "{dir}/data", "--maxmemory", "1gb", "--index-size", "16mb"]);
}

/// A snapshot is loaded, key by key, with a key whose time is over by then.
pub(super) fn load(server: &mut Server) {
    let mut client = fill(server, 2_000, 1_000).remove(0);
    client.line("SET passing 1 PX 6000");
    assert_eq!(client.line("SAVE"), Value::ok());
    server.kill();
    std::thread::sleep(Duration::from_millis(6_100));
    server.start_again_with(&["--key-load-delay", "3000"]);
}
