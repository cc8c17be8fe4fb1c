//! Eviction as clients see it.

use almandine_testkit::{Client, Program, Server};

fn used(client: &mut Client) -> u64 {
    let info = client.line("INFO memory").to_string();
    let (_, rest) = info.split_once("used_memory:").expect("the figure");
    rest.chars().take_while(char::is_ascii_digit).collect::<String>().parse().expect("a number")
}

#[test]
fn a_lower_limit_holds_when_config_set_has_answered() {
    let server = Server::start(&Program::Almandine, &["--maxmemory-policy", "allkeys-lru"]);
    let mut client = server.client();
    let value = "v".repeat(1000);
    let commands: Vec<[String; 3]> = (0..60_000).map(|key| ["SET".into(), format!("key:{key}"), value.clone()]).collect();
    commands.chunks(1000).for_each(|chunk| drop(client.pipeline(chunk).expect("replies")));
    let limit = used(&mut client) / 2;
    assert_eq!(client.line(&format!("CONFIG SET maxmemory {limit}")).to_string(), "+OK");
    let now = used(&mut client);
    // What the log takes at once, beyond.
    assert!(now <= limit + (1 << 20), "{now} bytes used, {limit} allowed");
}
