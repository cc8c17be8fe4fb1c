//! Commands whose keys are on the device: what they must not read, and what they must not overwrite.

use almandine_testkit::Server;
use almandine_testkit::storage::{Figures, MODES};

fn start() -> Server {
    MODES.iter().find(|mode| mode.name == "memory").expect("the mode").start()
}

#[test]
fn who_is_not_authenticated_reads_nothing_from_the_device() {
    let server = start();
    let mut owner = server.client();
    for key in 0..200 {
        owner.line(&format!("SET key:{key} value"));
    }
    owner.line("CONFIG SET requirepass secret");
    owner.line("AUTH secret");
    owner.line("DEBUG STORAGE EVICT");
    let reads = |owner: &mut almandine_testkit::Client| {
        let info = owner.line("INFO storage").to_string();
        let (_, rest) = info.split_once("storage_reads:").expect("the figure");
        rest.chars().take_while(char::is_ascii_digit).collect::<String>().parse::<u64>().expect("a number")
    };
    let before = reads(&mut owner);
    let mut stranger = server.client();
    for key in 0..200 {
        assert_eq!(stranger.line(&format!("GET key:{key}")).to_string(), "-\"NOAUTH Authentication required.\"");
    }
    assert_eq!(reads(&mut owner), before, "reads of the device for clients");
    stranger.line("AUTH secret");
    assert_eq!(stranger.line("GET key:7").to_string(), "$\"value\"");
    assert!(reads(&mut owner) > before);
}

#[test]
fn populate_leaves_cold_keys_as_they_are() {
    let server = start();
    let mut client = server.client();
    for key in 0..5000 {
        client.line(&format!("SET key:{key} mine"));
    }
    assert!(server.make_cold());
    assert_eq!(client.line("DEBUG POPULATE 5100").to_string(), "+OK");
    for key in [0, 1, 4095, 4096, 4999] {
        assert_eq!(client.line(&format!("GET key:{key}")).to_string(), "$\"mine\"", "key:{key}");
    }
    assert_eq!(client.line("GET key:5050").to_string(), "$\"value:5050\"");
    assert_eq!(client.line("DBSIZE").to_string(), ":5100");
    assert!(Figures::of(&server).get("storage_reads") > 0);
}

#[test]
fn a_command_that_waits_for_the_device_counts_once() {
    let server = start();
    let (mut client, mut listener) = (server.client(), server.client());
    client.line("SET key value");
    client.line("CONFIG RESETSTAT");
    listener.line("MONITOR");
    for _ in 0..5 {
        assert!(server.make_cold());
        // The second key is found only when the first is there, so that the command runs more than once.
        assert_eq!(client.line("SORT nosuch BY nosort GET key").to_string(), "*[]");
        assert_eq!(client.line("GET key").to_string(), "$\"value\"");
        assert_eq!(client.line("RANDOMKEY").to_string(), "$\"key\"");
    }
    let lines = listener.receive_until_quiet(std::time::Duration::from_millis(500)).expect("lines");
    for name in ["SORT", "GET", "RANDOMKEY"] {
        let shown = lines.iter().filter(|line| line.to_string().contains(&format!("] \\\"{name}\\\""))).count();
        assert_eq!(shown, 5, "{name} in MONITOR");
    }
    let info = client.line("INFO stats").to_string();
    let figure = |name: &str| {
        let (_, rest) = info.split_once(&format!("{name}:")).expect("the figure");
        rest.chars().take_while(char::is_ascii_digit).collect::<String>()
    };
    assert_eq!((figure("keyspace_hits"), figure("keyspace_misses")), ("5".to_owned(), "5".to_owned()));
}
