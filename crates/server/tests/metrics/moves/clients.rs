//! What clients do.

use almandine_testkit::server::free_port;
use almandine_testkit::tls::{Peer, file};
use almandine_testkit::{Client, Server, Value};

pub(super) fn listeners(server: &Server) -> Vec<Client> {
    let mut lines = server.client();
    for line in ["XADD stream * f v", "XGROUP CREATE stream g $", "SET a 1"] {
        lines.line(line);
    }
    let waiting: [&[&str]; 8] = [
        &["BLPOP none 100"],
        &["XREADGROUP GROUP g c BLOCK 100000 STREAMS stream >"],
        &["SUBSCRIBE a"],
        &["PSUBSCRIBE a*"],
        &["SSUBSCRIBE a"],
        &["WATCH a b"],
        &["HELLO 3", "CLIENT TRACKING ON", "GET a"],
        &["HELLO 3", "CLIENT TRACKING ON BCAST PREFIX x"],
    ];
    let begin = |lines: &&[&str]| {
        let mut client = server.client();
        let commands: Vec<Vec<&str>> = lines.iter().map(|line| line.split(' ').collect()).collect();
        client.send(&commands).unwrap();
        client
    };
    waiting.iter().map(begin).collect()
}

pub(super) fn sluggards(server: &Server) -> Vec<Client> {
    let mut half = server.client();
    half.send_raw(format!("*2\r\n$3\r\nGET\r\n$400000\r\n{}", "x".repeat(200_000)).as_bytes()).unwrap();
    let mut deaf = server.client();
    deaf.line("SETRANGE large 8000000 x");
    deaf.send(&[["GET", "large"]; 4]).unwrap();
    vec![half, deaf]
}

pub(super) fn breakers(server: &Server) -> Vec<Client> {
    let mut long = server.client();
    // The server may close before all of it is sent.
    let _ = long.send_raw(format!("*2\r\n$3\r\nGET\r\n$4000000\r\n{}", "x".repeat(3_000_000)).as_bytes());
    let mut deaf = server.client();
    for n in 0..16 {
        deaf.call(&["SET", &format!("k{n}"), &"x".repeat(900_000)]).unwrap();
    }
    let _ = deaf
        .send(&vec![["MGET", "k0", "k1", "k2", "k3", "k4", "k5", "k6", "k7", "k8", "k9", "k10", "k11", "k12", "k13", "k14"]; 8]);
    vec![long, deaf]
}

pub(super) fn holders(server: &Server) -> Vec<Client> {
    let mut client = server.client();
    client.line("MULTI");
    for _ in 0..4 {
        // It may be closed already.
        let _ = client.call(&["SET", "k", &"x".repeat(700_000)]);
    }
    vec![client]
}

pub(super) fn crowd(server: &Server) -> Vec<Client> {
    let mut clients: Vec<Client> = (0..6).map(|_| Client::connect(server.address()).unwrap()).collect();
    for client in &mut clients {
        // Those beyond the limit are told so, and closed.
        let _ = client.call(&["PING"]);
    }
    clients
}

pub(super) fn denied(server: &Server) -> Vec<Client> {
    let mut client = server.client();
    client.line("AUTH nobody wrong");
    client.line("ACL SETUSER u on nopass +get +publish +select ~k*");
    client.line("AUTH u x");
    for line in ["SET k 1", "GET other", "PUBLISH channel x"] {
        assert!(client.line(line).to_string().contains("NOPERM"), "{line}");
    }
    let mut other = server.client();
    assert_eq!(other.line("ACL SETUSER o on nopass +@all ~* db=0"), Value::ok());
    assert_eq!(other.line("AUTH o x"), Value::ok());
    assert!(other.line("SELECT 1").to_string().contains("NOPERM"));
    vec![client, other]
}

/// A certificate that names no user.
pub(super) fn denied_by_certificate(server: &Server) -> Vec<Client> {
    let mut client = server.client();
    let port = free_port();
    let [number, certificate, key, authority] = [port.to_string(), file("server.crt"), file("server.key"), file("ca.crt")];
    let secure = ["tls-port", &number, "tls-cert-file", &certificate, "tls-key-file", &key, "tls-ca-cert-file", &authority];
    let words = [&["CONFIG", "SET", "tls-auth-clients-user", "CN"][..], &secure].concat();
    assert_eq!(client.call(&words).unwrap(), Value::ok());
    assert!(Peer::with("alice").is_served(([127, 0, 0, 1], port).into()));
    vec![client]
}

/// Large collections that clients read slowly are removed meanwhile.
pub(super) fn slow_readers(server: &Server) -> Vec<Client> {
    let mut client = server.client();
    for first in (0..60_000).step_by(1_000) {
        let members = (first..first + 1_000).map(|n| format!("{n:0>100}"));
        let words: Vec<String> = ["SADD".to_owned(), "large".to_owned()].into_iter().chain(members).collect();
        assert_eq!(client.call(&words).unwrap(), Value::Integer(1_000));
    }
    let mut deaf = server.client();
    deaf.send(&[["SMEMBERS", "large"]; 8]).unwrap();
    // Of the first reply there is a beginning, so all are answered as far as memory goes.
    let mut one = [0];
    std::io::Read::read_exact(deaf.connection(), &mut one).unwrap();
    assert_eq!(client.line("UNLINK large"), Value::Integer(1));
    vec![client, deaf]
}
