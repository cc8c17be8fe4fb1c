//! Commands that the server does not serve, and what an operator learns of them and of other refusals.

#![allow(clippy::unwrap_used, reason = "tests")]

use std::time::{Duration, Instant};

use almandine_testkit::{Client, Program, Server, Value};

fn error(reply: &Value) -> String {
    let Value::Error(text) = reply else { panic!("{reply} is no error") };
    String::from_utf8_lossy(text).into_owned()
}

fn field(client: &mut Client, section: &str, name: &str) -> String {
    let info = client.line(&format!("INFO {section}")).to_string();
    let behind = info.split(&format!("\\n{name}:")).nth(1).unwrap_or_else(|| panic!("no {name} in {info}"));
    behind.split("\\r").next().unwrap_or_default().to_owned()
}

/// The line of the log that has `text`, which a background thread writes.
fn told(server: &Server, text: &str) -> String {
    let started = Instant::now();
    loop {
        if let Some(line) = server.log().lines().find(|line| line.contains(text)) {
            return line.to_owned();
        }
        assert!(started.elapsed() < Duration::from_secs(20), "no '{text}' in\n{}", server.log());
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn a_command_that_is_not_served_yet_says_so_behind_redis_words() {
    let server = Server::start(&Program::Almandine, &[]);
    let mut client = server.client();
    for (line, reason) in [
        ("SYNC", "(replication is not served yet)"),
        ("PSYNC ? -1", "(replication is not served yet)"),
        ("MIGRATE host 6379 key 0 100", "(it is not served yet: DUMP and RESTORE move keys)"),
        ("VADD k", "(it is not served yet)"),
    ] {
        let (name, text) = (line.split(' ').next().unwrap(), error(&client.line(line)));
        let prefix = format!("ERR unknown command '{name}', with args beginning with:");
        assert!(text.starts_with(&prefix) && text.ends_with(reason), "{text}");
    }
    assert_eq!(error(&client.line("NOSUCH x")), "ERR unknown command 'NOSUCH', with args beginning with: 'x' ");
}

#[test]
fn a_script_that_is_not_known_is_asked_for() {
    let server = Server::start(&Program::Almandine, &[]);
    let mut client = server.client();
    // Clients send the script when they read this.
    for line in ["EVALSHA 0123456789012345678901234567890123456789 0", "evalsha_ro x 0"] {
        assert_eq!(error(&client.line(line)), "NOSCRIPT No matching script. Please use EVAL.");
    }
    assert_eq!(error(&client.line("EVALSHA x")), "ERR wrong number of arguments for 'evalsha' command");
    assert_eq!(client.line("SCRIPT EXISTS x").to_string(), "*[:0]");
    assert_eq!(field(&mut client, "stats", "unknown_commands"), "0");
    let locked = Server::start(&Program::Almandine, &["--requirepass", "secret"]);
    assert!(error(&locked.client().line("EVALSHA x 0")).starts_with("NOAUTH"));
    assert_eq!(client.line("ACL SETUSER u on nopass ~* +@all -evalsha"), Value::ok());
    assert_eq!(client.line("AUTH u x"), Value::ok());
    assert!(error(&client.line("EVALSHA x 0")).starts_with("NOPERM"));
}

#[test]
fn refused_commands_leave_one_line_for_all_and_a_count() {
    let server = Server::start(&Program::Almandine, &[]);
    let mut client = server.client();
    assert_eq!(field(&mut client, "stats", "unknown_commands"), "0");
    let commands = vec![["VADD", "x", "0"]; 1000];
    assert!(client.pipeline(&commands).unwrap().iter().all(|reply| matches!(reply, Value::Error(_))));
    assert_eq!(field(&mut client, "stats", "unknown_commands"), "1000");
    let line = told(&server, "that this server does not know or serve, among them 'VADD'");
    assert!(line.contains(" # Refused "), "{line}");
    assert_eq!(server.log().matches("does not know or serve").count(), 1, "{}", server.log());
    assert_eq!(client.line("CONFIG RESETSTAT"), Value::ok());
    assert_eq!(field(&mut client, "stats", "unknown_commands"), "0");
}

#[test]
fn loglevel_verbose_shows_connections_flushes_and_kills_and_notice_what_is_configured() {
    let server = Server::start(&Program::Almandine, &["--loglevel", "verbose"]);
    let (mut client, mut victim) = (server.client(), server.client());
    let (id, address) = (victim.line("CLIENT ID").integer().unwrap(), victim.stream().local_addr().unwrap());
    told(&server, &format!(" - Accepted {address} as client {id}"));
    assert_eq!(client.line(&format!("CLIENT KILL ID {id}")).integer(), Some(1));
    let me = format!(
        "by client {} at {}, user default",
        client.line("CLIENT ID").integer().unwrap(),
        client.stream().local_addr().unwrap()
    );
    told(&server, &format!(" - CLIENT KILL of client {id} at {address} {me}"));
    told(&server, &format!(" - Closed the connection of client {id} at {address}"));
    assert_eq!(client.line("SET a 1"), Value::ok());
    assert_eq!((client.line("FLUSHDB"), client.line("FLUSHALL")), (Value::ok(), Value::ok()));
    told(&server, &format!(" - FLUSHDB of database 0 with 1 keys {me}"));
    told(&server, &format!(" - FLUSHALL {me}"));
    assert_eq!(client.line("CONFIG SET loglevel notice timeout 100 requirepass secret"), Value::ok());
    told(&server, &format!(" * CONFIG SET loglevel 'notice' timeout '100' requirepass '(redacted)' {me}"));
    assert!(!server.log().contains("secret"));
    assert_eq!(client.line("FLUSHALL"), Value::ok());
    assert_eq!(server.log().matches("FLUSHALL").count(), 1, "a notice is no verbose line");
}

#[test]
fn the_first_write_that_finds_no_memory_is_told() {
    let server = Server::start(&Program::Almandine, &["--maxmemory", "1kb"]);
    assert!(error(&server.client().line("SET a 1")).starts_with("OOM "));
    told(&server, "commands because memory is full: ");
}

#[test]
fn exec_that_is_refused_says_that_the_transaction_is_discarded() {
    let server = Server::start(&Program::Almandine, &["--requirepass", "secret"]);
    let mut client = server.client();
    assert_eq!(error(&client.line("EXEC")), "EXECABORT Transaction discarded because of: NOAUTH Authentication required.");
    assert_eq!(error(&client.line("DISCARD")), "NOAUTH Authentication required.");
    assert_eq!(client.line("AUTH secret"), Value::ok());
    assert_eq!(error(&client.line("EXEC")), "ERR EXEC without MULTI");
    client.line("SUBSCRIBE channel");
    let refused = error(&client.line("EXEC"));
    assert!(
        refused.starts_with("EXECABORT Transaction discarded because of: Can't execute 'exec': only (P|S)SUBSCRIBE"),
        "{refused}"
    );
}
