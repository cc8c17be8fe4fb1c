//! `/health/ready` of a server whose disk is broken or full: 503 with the reason as long as clients should go elsewhere, and 200
//! again afterwards. `/health/live` is 200 all the time.

use std::fs;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use almandine_testkit::{Client, Server, Value};

use super::http::{get, page};
use super::start;

const PATIENCE: Duration = Duration::from_secs(30);

/// Sets some keys, of 100 kB in all. The first error, also of the connection, which a log that breaks closes.
pub(super) fn write(server: &Server, client: &mut Client, round: usize) -> Option<String> {
    let sets: Vec<[String; 3]> = (0..50).map(|n| ["SET".into(), format!("{round}.{n}"), "v".repeat(2_000)]).collect();
    match client.pipeline(&sets) {
        Ok(replies) if !replies.contains(&Value::Closed) => {
            replies.iter().find(|reply| matches!(reply, Value::Error(_))).map(ToString::to_string)
        }
        _ => {
            *client = server.client();
            Some("closed".to_owned())
        }
    }
}

/// Writes until the server is not ready, and returns its reason.
fn until_not_ready(server: &Server, client: &mut Client, console: SocketAddr) -> String {
    let end = Instant::now() + PATIENCE;
    for round in 0.. {
        write(server, client, round);
        let ready = get(console, "/health/ready");
        if ready.status != 200 {
            assert_eq!((ready.status, get(console, "/health/live").status), (503, 200));
            return ready.body;
        }
        assert!(Instant::now() < end, "always ready: {}", server.log());
    }
    unreachable!("it ends by its time")
}

/// Does something again and again until the server is ready.
fn until_ready(server: &Server, console: SocketAddr, mut mend: impl FnMut()) {
    let end = Instant::now() + PATIENCE;
    while get(console, "/health/ready").status != 200 {
        mend();
        assert!(Instant::now() < end, "never ready again: {}", server.log());
    }
}

#[test]
fn a_log_whose_directory_is_gone_makes_the_server_not_ready_until_it_has_a_new_base() {
    let (server, console) = start(&["--appendonly", "yes", "--appendfsync", "everysec", "--log-segment-size", "4mb"]);
    let mut client = server.client();
    assert_eq!(write(&server, &mut client, 0), None);
    assert_eq!((get(console, "/health/ready").status, page(console)["redis_aof_last_write_status"]), (200, 1.0));
    let (directory, away) = (server.directory().join("appendonlydir"), server.directory().join("away"));
    fs::rename(&directory, &away).unwrap();
    let reason = until_not_ready(&server, &mut client, console);
    assert_eq!(reason, "the log of writes takes nothing: its disk is full or fails, see the log of the server\n");
    assert_eq!(page(console)["redis_aof_last_write_status"], 0.0);
    let refused = (0..10).find_map(|_| write(&server, &mut client, 0).filter(|error| error != "closed"));
    assert!(refused.is_some_and(|error| error.contains("MISCONF")), "it says what clients meet");
    fs::rename(&away, &directory).unwrap();
    until_ready(&server, console, || {
        server.client().line("BGREWRITEAOF");
    });
    assert_eq!(write(&server, &mut server.client(), 0), None);
    assert_eq!(page(console)["redis_aof_last_write_status"], 1.0);
}

#[test]
fn a_full_storage_makes_the_server_not_ready_until_there_is_room() {
    let (server, console) = start(&["--maxmemory", "16mb", "--storage-dir", "{dir}/s", "--storage-dir-size", "24mb"]);
    let mut client = server.client();
    let reason = until_not_ready(&server, &mut client, console);
    assert!(reason.starts_with("storage is full: "), "{reason}");
    let mut round = 0;
    until_ready(&server, console, || {
        assert_eq!(client.line("FLUSHALL"), Value::ok());
        round += 1;
        write(&server, &mut client, round);
    });
}

#[test]
fn a_storage_that_refuses_writes_makes_the_server_not_ready() {
    let flags = ["--maxmemory", "16mb", "--storage-device", "faulty", "--storage-faults", "write-errors=1000000"];
    let (server, console) = start(&flags);
    let reason = until_not_ready(&server, &mut server.client(), console);
    assert!(reason.starts_with("storage is failing: injected: failed write"), "{reason}");
}
