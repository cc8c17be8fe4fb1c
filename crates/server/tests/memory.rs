//! Memory that is not used any more goes back to the system.

use std::time::{Duration, Instant};

use almandine_testkit::hostile::{MIB, settles_below};
use almandine_testkit::{Program, Server, Value};

#[test]
fn emptied_databases_leave_memory() {
    let server = Server::start(&Program::Almandine, &["--enable-debug-command", "yes"]);
    let ok = Value::Simple(b"OK".to_vec());
    let mut client = server.client();
    let before = server.resident_bytes();
    assert_eq!(client.line("DEBUG POPULATE 2000000 key 8"), ok);
    assert!(server.resident_bytes() > before + 64 * MIB);
    assert_eq!(client.line("FLUSHALL"), ok);
    let bound = before + 26 * MIB;
    let settled = settles_below(&server, bound, Duration::from_secs(20));
    assert!(settled <= bound, "{} MiB resident at first, {} MiB with nothing stored", before / MIB, settled / MIB);
    assert_eq!(client.line("MEMORY PURGE"), ok);
}

/// What waits to be freed, and what was freed since CONFIG RESETSTAT.
#[test]
fn what_the_background_frees_is_counted() {
    let server = Server::start(&Program::Almandine, &["--workers", "1"]);
    let mut client = server.client();
    let mut settled = |what: &str| {
        let started = Instant::now();
        loop {
            let info = String::from_utf8_lossy(client.line("INFO memory").bytes().unwrap_or_default()).into_owned();
            let field =
                |name: &str| info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')?.trim().parse::<u64>().ok());
            if field("lazyfree_pending_objects") == Some(0) {
                return (client.line(what), field("lazyfreed_objects").unwrap_or(u64::MAX));
            }
            assert!(started.elapsed() < Duration::from_secs(10), "never done: {info}");
        }
    };
    assert_eq!(settled("CONFIG RESETSTAT").0, Value::ok());
    assert_eq!(settled("SETRANGE large 1000000 v").1, 0, "nothing since");
    assert_eq!(settled("SET small v").1, 0);
    assert_eq!(settled("UNLINK large small").0, Value::Integer(2));
    assert_eq!(settled("SET small v").1, 1, "the large one");
    assert_eq!(settled("FLUSHDB").1, 1);
    assert_eq!(settled("CONFIG RESETSTAT").1, 2, "and the database");
    assert_eq!(settled("PING").1, 0, "all were before");
}
