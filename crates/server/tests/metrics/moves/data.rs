//! What becomes of data.

use std::thread;

use almandine_testkit::{Client, Server, Value};

/// Sets `keys` keys to values of `bytes` bytes; errors are answers, too.
pub(super) fn fill(server: &Server, keys: usize, bytes: usize) -> Vec<Client> {
    let mut client = server.client();
    let value = "v".repeat(bytes);
    for first in (0..keys).step_by(1000) {
        let commands: Vec<[String; 3]> = (first..first + 1000).map(|n| ["SET".into(), format!("key:{n}"), value.clone()]).collect();
        let replies = client.pipeline(&commands).unwrap();
        assert_eq!(replies.len(), 1000);
    }
    vec![client]
}

pub(super) fn fill_memory(server: &Server) -> Vec<Client> {
    fill(server, 40_000, 2_000)
}

pub(super) fn churn(server: &Server) -> Vec<Client> {
    let mut clients = fill(server, 100_000, 100);
    let client = &mut clients[0];
    for round in 0..3_usize {
        for first in (0..100_000).step_by(1000) {
            let value = "w".repeat(100 + 40 * round);
            let of = |n: usize| ["SET".into(), format!("key:{n}"), value.clone()];
            client.pipeline(&(first..first + 1000).map(of).collect::<Vec<[String; 3]>>()).unwrap();
        }
    }
    for first in (0..100_000).step_by(1000) {
        let keys = (first..first + 1000).filter(|n| n % 8 != 0).map(|n| ["UNLINK".into(), format!("key:{n}")]);
        client.pipeline(&keys.collect::<Vec<[String; 2]>>()).unwrap();
    }
    clients
}

pub(super) fn beyond_memory(server: &Server) -> Vec<Client> {
    let mut clients = fill(server, 40_000, 2_000);
    let client = &mut clients[0];
    for _ in 0..20 {
        for n in 0..200 {
            assert!(matches!(client.call(&["GET", &format!("key:{n}")]).unwrap(), Value::Bulk(_)));
        }
    }
    // What is overwritten is garbage on the device, and what lives between it is moved.
    let value = "w".repeat(2_000);
    for first in (0..40_000).step_by(1000) {
        let keys = (first..first + 1000).filter(|n| n % 8 != 0);
        let commands: Vec<[String; 3]> = keys.map(|n| ["SET".into(), format!("key:{n}"), value.clone()]).collect();
        client.pipeline(&commands).unwrap();
    }
    clients[0].line("CONFIG SET maxmemory 32mb");
    clients
}

/// A large collection goes, bit by bit.
pub(super) fn remove_large(server: &Server) {
    let mut client = server.client();
    let words = |first: usize| {
        let members = (first..first + 1_000).map(|n| n.to_string());
        ["SADD".to_owned(), "large".to_owned()].into_iter().chain(members.map(|member| format!("m{member}"))).collect::<Vec<_>>()
    };
    let commands: Vec<Vec<String>> = (0..200_000).step_by(1_000).map(words).collect();
    client.pipeline(&commands).unwrap();
    assert_eq!(client.line("UNLINK large"), Value::Integer(1));
}

/// One key is written and read at once.
pub(super) fn contend(server: &Server) {
    thread::scope(|threads| {
        for command in [&["APPEND", "a", "x"][..], &["SETRANGE", "a", "0", "y"], &["GET", "a"], &["GET", "a"]] {
            threads.spawn(move || server.client().pipeline(&vec![command; 500]).unwrap());
        }
    });
    server.client().line("SET a 1234");
}

/// Many keys come and go.
pub(super) fn grow_and_shrink(server: &Server) -> Vec<Client> {
    let mut clients = fill(server, 100_000, 10);
    for first in (0..100_000).step_by(1000) {
        let keys: Vec<[String; 2]> = (first..first + 1000).map(|n| ["DEL".into(), format!("key:{n}")]).collect();
        clients[0].pipeline(&keys).unwrap();
    }
    clients
}

/// Scripts beyond those that are kept.
pub(super) fn many_scripts(server: &Server) -> Vec<Client> {
    let mut client = server.client();
    let scripts: Vec<[String; 3]> = (0..1_000).map(|n| ["EVAL".into(), format!("return {n}"), "0".into()]).collect();
    client.pipeline(&scripts).unwrap();
    vec![client]
}

/// Pages on the device are given up, which a base of the log still names.
pub(super) fn replace_what_a_base_has(server: &Server) -> Vec<Client> {
    let mut clients = beyond_memory(server);
    clients[0].line("BGREWRITEAOF");
    clients.extend(beyond_memory(server));
    clients
}
