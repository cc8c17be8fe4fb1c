//! Memory that is not used any more goes back to the system.

use std::time::Duration;

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
