//! Publish/subscribe with several workers: what each listener hears, in which order, and what becomes of one that does not listen.

use std::time::Duration;

use almandine_testkit::mutants::must_notice;
use almandine_testkit::promises::channels::hear_one_order;
use almandine_testkit::{Client, Program, Server, Value, full};

fn messages_of_each() -> usize {
    if full() { 20_000 } else { 2_000 }
}

fn subscribe(client: &mut Client, word: &str, name: &str) {
    let reply = client.call(&[word, name]).expect("a confirmation");
    assert!(matches!(reply, Value::Array(_)), "{reply:?}");
}

/// The channel and the text of a message, which comes by a channel or by a pattern.
fn message(client: &mut Client) -> (String, String) {
    let Value::Array(parts) = client.receive().expect("a message") else { panic!("no message") };
    let text = |value: &Value| String::from_utf8_lossy(value.bytes().expect("a string")).into_owned();
    (text(&parts[parts.len() - 2]), text(&parts[parts.len() - 1]))
}

/// Four publishers and eight listeners over four workers: each listener hears all messages of a channel, in the order in which
/// any other hears them, and those of one publisher in the order in which they were published.
#[test]
fn all_listeners_of_a_channel_hear_one_order_and_miss_nothing() {
    hear_one_order(&Server::start(&Program::Almandine, &["--workers", "4"]).address(), messages_of_each());
}

/// A server that posts messages when others may publish to the channel is noticed.
#[test]
fn messages_that_are_posted_in_no_order_are_noticed() {
    must_notice("PostUnderLock", &["--workers", "4"], 10, |server| hear_one_order(&server.address(), messages_of_each()));
}

/// A listener that reads nothing is closed by the limit of its class; publishers and other listeners go on, and the memory is
/// bounded.
#[test]
fn a_listener_that_does_not_read_is_closed() {
    let flags = ["--workers", "2", "--client-output-buffer-limit", "pubsub 4mb 0 0"];
    let server = Server::start(&Program::Almandine, &flags);
    let (mut deaf, mut listener, mut publisher) = (server.client(), server.client(), server.client());
    subscribe(&mut deaf, "SUBSCRIBE", "c");
    subscribe(&mut listener, "SUBSCRIBE", "c");
    let text = "x".repeat(100_000);
    let mut closed = false;
    for _ in 0..2_000 {
        let reply = publisher.call(&["PUBLISH", "c", &text]).expect("a reply");
        assert_eq!(message(&mut listener).1.len(), text.len());
        closed |= reply == Value::Integer(1);
        if closed {
            break;
        }
    }
    assert!(closed, "200 MB wait for a listener");
}

/// Listeners that come and go leave nothing behind, whichever way they go.
#[test]
fn who_has_gone_is_forgotten() {
    let server = Server::start(&Program::Almandine, &["--workers", "3"]);
    let mut client = server.client();
    for round in 0..20 {
        let mut listeners: Vec<Client> = (0..6).map(|_| server.client()).collect();
        for listener in &mut listeners {
            subscribe(listener, "SUBSCRIBE", "c");
            subscribe(listener, "PSUBSCRIBE", "c*");
            subscribe(listener, "SSUBSCRIBE", "c");
        }
        assert_eq!(client.call(&["PUBLISH", "c", "m"]).expect("a reply"), Value::Integer(12));
        match round % 3 {
            0 => drop(listeners),
            1 => {
                client.call(&["CLIENT", "KILL", "TYPE", "pubsub"]).expect("a reply");
            }
            _ => listeners.iter_mut().for_each(|listener| {
                listener.send(&[&["RESET"]]).expect("sent");
            }),
        }
        // A worker that is stopped in the middle has ended one kind of subscription and not yet another.
        let nobody = (0..1_000).any(|_| {
            std::thread::sleep(Duration::from_millis(5));
            client.call(&["PUBSUB", "NUMPAT"]).expect("a reply") == Value::Integer(0)
                && client.call(&["PUBLISH", "c", "m"]).expect("a reply") == Value::Integer(0)
                && client.call(&["SPUBLISH", "c", "m"]).expect("a reply") == Value::Integer(0)
                && client.call(&["PUBSUB", "CHANNELS"]).expect("a reply") == Value::Array(Vec::new())
        });
        assert!(nobody, "somebody listens after round {round}");
    }
}
