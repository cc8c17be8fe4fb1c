//! Keyspace events: those of a key come in the order of its changes.

use std::collections::HashMap;

use super::{connect, message, subscribe};
use crate::runtime::{Joiner, Stream};
use crate::{Client, Runtime, Value};

const KEYS: usize = 3;

/// INV-EVENT-1: four clients, which send `each` commands, make and remove the same keys, by single commands, transactions
/// and expiry. Of each key, listeners hear that it was made and that it went by turns, as its states follow each other, all else
/// between, and all of them hear the same. The server tells the events `Kg$xn`.
///
/// # Panics
/// When it is otherwise.
pub fn come_in_order<R: Runtime>(runtime: &R, each: usize) {
    let listener = |_| {
        let mut client = connect(runtime);
        subscribe(&mut client, "PSUBSCRIBE", "__keyspace@0__:*");
        client
    };
    let mut listeners: Vec<Client<R::Stream>> = (0..4).map(listener).collect();
    let changing: Vec<Joiner<()>> = (0..4)
        .map(|number| {
            let client = connect(runtime);
            runtime.spawn(&format!("changer-{number}"), move || change(client, number, each))
        })
        .collect();
    changing.into_iter().for_each(Joiner::join);
    let mut client = connect(runtime);
    for key in 0..KEYS {
        client.call(&["DEL", &format!("k{key}")]).expect("a reply");
    }
    client.call(&["PUBLISH", "__keyspace@0__:end", "the end"]).expect("a reply");
    let heard: Vec<Vec<(String, String)>> = listeners.iter_mut().map(|client| messages_until(client, "the end")).collect();
    check(&heard);
}

fn change<S: Stream>(mut client: Client<S>, own: usize, each: usize) {
    for part in (0..each).collect::<Vec<usize>>().chunks(24) {
        let mut commands: Vec<Vec<String>> = Vec::new();
        let mut add = |line: String| commands.push(line.split(' ').map(str::to_owned).collect());
        for number in part {
            let key = (number + own) % KEYS;
            match number % 7 {
                0 => add(format!("SETNX k{key} v")),
                1 => add(format!("DEL k{key}")),
                2 => add(format!("SET k{key} v NX PX 1")),
                3 => add(format!("GETDEL k{key}")),
                4 => ["MULTI".to_owned(), format!("DEL k{key}"), format!("SETNX k{key} v"), "EXEC".to_owned()]
                    .into_iter()
                    .for_each(&mut add),
                5 => add(format!("MSETNX k{key} v")),
                _ => add(format!("UNLINK k{} k{key}", (key + 1) % KEYS)),
            }
        }
        let replies = client.pipeline(&commands).expect("replies");
        assert!(!replies.iter().any(|reply| matches!(reply, Value::Error(_))), "{replies:?}");
    }
}

/// Messages up to one with this text.
fn messages_until<S: Stream>(client: &mut Client<S>, last: &str) -> Vec<(String, String)> {
    std::iter::repeat_with(|| message(client)).take_while(|message| message.1 != last).collect()
}

fn check(heard: &[Vec<(String, String)>]) {
    let mut events: HashMap<&str, Vec<&str>> = HashMap::new();
    for (channel, event) in &heard[0] {
        events.entry(channel).or_default().push(event);
    }
    for (channel, events) in &events {
        let states: Vec<&str> = events.iter().copied().filter(|event| ["new", "del", "expired"].contains(event)).collect();
        let by_turns = states.chunks(2).all(|pair| pair[0] == "new" && pair.get(1).is_some_and(|gone| *gone != "new"));
        // What is said of a key's value is said between the two.
        let mut is_there = false;
        for (at, event) in events.iter().enumerate() {
            match *event {
                "new" => is_there = true,
                "del" | "expired" => is_there = false,
                _ => assert!(is_there, "{channel}: {event} of a key that is gone: {:?}", &events[at.saturating_sub(4)..=at]),
            }
        }
        assert!(by_turns && states.len() > 100, "{channel}: {} states are not by turns: {:?}", states.len(), around(&states));
    }
    for other in &heard[1..] {
        for (channel, first) in &events {
            let of_key: Vec<&str> = other.iter().filter(|(other, _)| other == channel).map(|(_, event)| event.as_str()).collect();
            assert!(of_key == *first, "two orders of {channel}");
        }
    }
}

/// The states around the first place where a key was made twice, or went twice.
fn around<'s>(states: &[&'s str]) -> Vec<&'s str> {
    let is_new = |state: &str| state == "new";
    let at = states.windows(2).position(|pair| is_new(pair[0]) == is_new(pair[1])).unwrap_or(0);
    states[at.saturating_sub(2)..(at + 4).min(states.len())].to_vec()
}
