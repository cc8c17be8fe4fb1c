//! CLIENT LIST and CLIENT KILL among several clients, what is counted of a client that waits, and what follows CONFIG SET in its
//! pipeline.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

use std::thread::sleep;
use std::time::{Duration, Instant};

use almandine_testkit::{Client, Program, Server, Value};

const PATIENCE: Duration = Duration::from_secs(10);

fn start() -> Server {
    Server::start(&Program::Almandine, &["--workers", "1"])
}

fn text(client: &mut Client, line: &str) -> String {
    match client.line(line) {
        Value::Bulk(text) => String::from_utf8(text).unwrap(),
        other => panic!("{line}: {other:?}"),
    }
}

fn id(client: &mut Client) -> i64 {
    match client.line("CLIENT ID") {
        Value::Integer(id) => id,
        other => panic!("{other:?}"),
    }
}

#[test]
fn all_numbers_of_id_count() {
    let server = start();
    let mut clients: Vec<Client> = (0..4).map(|_| server.client()).collect();
    let ids: Vec<i64> = clients.iter_mut().map(id).collect();
    let (own, one, two, three) = (ids[0], ids[1], ids[2], ids[3]);
    let listed = |list: &str| {
        let mut found: Vec<i64> =
            list.lines().map(|line| line.strip_prefix("id=").unwrap().split(' ').next().unwrap().parse().unwrap()).collect();
        found.sort_unstable();
        found
    };
    let own_client = &mut clients[0];
    assert_eq!(listed(&text(own_client, &format!("CLIENT LIST ID {one} ID {three}"))), [one, three]);
    assert_eq!(listed(&text(own_client, &format!("CLIENT LIST NOT-ID {one} NOT-ID {two} {three}"))), [own]);
    assert_eq!(listed(&text(own_client, &format!("CLIENT LIST ID {one} ID {two} NOT-ID {one}"))), [two]);
    assert_eq!(own_client.line(&format!("CLIENT KILL ID {one} ID {two}")), Value::Integer(2));
}

/// What CLIENT LIST says of a client's commands, and INFO of BLPOP.
fn counted(control: &mut Client, waiting: i64) -> (String, String) {
    let list = text(control, &format!("CLIENT LIST ID {waiting}"));
    let commands = list.split(' ').find_map(|field| field.strip_prefix("tot-cmds=")).unwrap().trim().to_owned();
    let info = text(control, "INFO commandstats");
    let line = info.lines().find(|line| line.starts_with("cmdstat_blpop:")).unwrap_or_default();
    let [calls, .., rejected, failed] = line.split([':', ',']).skip(1).collect::<Vec<_>>()[..] else {
        return (commands, String::new());
    };
    (commands, format!("{calls} {rejected} {failed}"))
}

fn await_blocked(control: &mut Client) {
    let started = Instant::now();
    while !text(control, "INFO clients").contains("\r\nblocked_clients:1\r\n") {
        assert!(started.elapsed() < PATIENCE, "the client does not wait");
        sleep(Duration::from_millis(2));
    }
}

#[test]
fn a_command_that_waits_counts_with_its_answer_and_fails_by_an_error_alone() {
    let server = start();
    let (mut control, mut waiting) = (server.client(), server.client());
    let waiting_id = id(&mut waiting);
    let mut ends = |command: &str, before: &str, after: (&str, &str)| {
        waiting.send(&[["BLPOP", "k", "0"]]).unwrap();
        await_blocked(&mut control);
        assert_eq!(counted(&mut control, waiting_id).0, before, "{command}");
        control.line(command);
        let reply = waiting.receive().unwrap();
        assert_eq!(counted(&mut control, waiting_id), (after.0.to_owned(), after.1.to_owned()), "{command}: {reply:?}");
    };
    ends("RPUSH k a", "1", ("2", "calls=1 rejected_calls=0 failed_calls=0"));
    ends(&format!("CLIENT UNBLOCK {waiting_id} TIMEOUT"), "2", ("3", "calls=2 rejected_calls=0 failed_calls=0"));
    ends(&format!("CLIENT UNBLOCK {waiting_id} ERROR"), "3", ("4", "calls=3 rejected_calls=0 failed_calls=1"));
}

/// Set and asked for in one write, in a transaction and outside, each twice so that there is always a change.
#[test]
fn what_follows_config_set_in_a_pipeline_follows_its_settings() {
    let server = start();
    let mut client = server.client();
    for wrap in [false, true] {
        for (entries, encoding) in [("2", "listpack"), ("512", "intset"), ("2", "listpack"), ("512", "intset")] {
            let lines = [
                format!("CONFIG SET set-max-intset-entries {entries}"),
                if wrap { "MULTI".to_owned() } else { "PING".to_owned() },
                "DEL s".to_owned(),
                "SADD s 1 2 3".to_owned(),
                "OBJECT ENCODING s".to_owned(),
                if wrap { "EXEC".to_owned() } else { "PING".to_owned() },
            ];
            let words: Vec<Vec<&str>> = lines.iter().map(|line| line.split(' ').collect()).collect();
            let replies = client.pipeline(&words).unwrap();
            let encoded = if wrap { replies[5].elements().unwrap()[2].clone() } else { replies[4].clone() };
            assert_eq!(encoded, Value::Bulk(encoding.into()), "{lines:?}: {replies:?}");
        }
    }
}
