//! Publish/subscribe: all listeners of a channel hear one order.

use std::collections::HashMap;

use super::{connect, message, subscribe};
use crate::runtime::Joiner;
use crate::{Client, Runtime, Value};

const PUBLISHERS: usize = 4;
const CHANNELS: [&str; 2] = ["one", "two"];
/// Commands that a publisher sends at once: a message each, and one of them by a script, as long as there are parts with scripts.
const PART: usize = 32;
const PARTS_WITH_SCRIPT: usize = 8;
/// A script that publishes computes for so long behind it that it would be suspended, and begin anew for the key that others
/// change, if nothing of it had been seen.
const SCRIPT: &str = "redis.call('GET', KEYS[1]) local heard = redis.call('PUBLISH', ARGV[1], ARGV[2])
    for i = 1, 70000 do end redis.call('GET', KEYS[1]) return heard";
/// The key that such scripts read, and that others change.
const CHANGING: &str = "changing";

/// Four publishers, which send `each` messages, a part of them by scripts, and eight listeners: each listener hears all messages of
/// a channel once, in the order in which any other hears them, and those of one publisher in the order in which they were
/// published.
///
/// # Panics
/// When it is otherwise.
pub fn hear_one_order<R: Runtime>(runtime: &R, each: usize) {
    let mut listeners: Vec<Client<R::Stream>> = (0..8).map(|_| connect(runtime)).collect();
    for (number, listener) in listeners.iter_mut().enumerate() {
        if number % 2 == 0 {
            CHANNELS.iter().for_each(|channel| subscribe(listener, "SUBSCRIBE", channel));
        } else {
            subscribe(listener, "PSUBSCRIBE", ["[ot][nw][eo]", "*"][number % 4 / 2]);
        }
    }
    let publishing: Vec<Joiner<()>> = (0..PUBLISHERS)
        .map(|publisher| {
            let client = connect(runtime);
            runtime.spawn(&format!("publisher-{publisher}"), move || publish(client, publisher, each))
        })
        .collect();
    let hearing: Vec<_> = listeners
        .into_iter()
        .enumerate()
        .map(|(number, mut listener)| {
            let hear = move || {
                let heard: Vec<_> = (0..PUBLISHERS * each).map(|_| message(&mut listener)).collect();
                (listener, heard)
            };
            runtime.spawn(&format!("listener-{number}"), hear)
        })
        .collect();
    // Publishers count the listeners: these stay until all is published.
    let (listeners, heard): (Vec<_>, Vec<Vec<(String, String)>>) = hearing.into_iter().map(Joiner::join).unzip();
    publishing.into_iter().for_each(Joiner::join);
    drop(listeners);
    CHANNELS.iter().for_each(|channel| check(&heard, channel, each));
}

fn publish<S: crate::runtime::Stream>(mut client: Client<S>, publisher: usize, each: usize) {
    for (part, first) in (0..each).step_by(PART).enumerate() {
        let command = |number: usize| -> Vec<String> {
            let (channel, text) = (CHANNELS[number % 2], format!("{publisher} {number}"));
            let is_script = part < PARTS_WITH_SCRIPT && number % PART == publisher * PART / PUBLISHERS;
            let words =
                if is_script { vec!["EVAL", SCRIPT, "1", CHANGING, channel, &text] } else { vec!["PUBLISH", channel, &text] };
            words.into_iter().map(str::to_owned).collect()
        };
        let change = |number: usize| {
            let changes = part < PARTS_WITH_SCRIPT && number % 4 == 1;
            changes.then(|| ["SET", CHANGING, &format!("{publisher} {number}")].map(str::to_owned).to_vec())
        };
        let numbers = first..each.min(first + PART);
        let commands: Vec<_> = numbers.flat_map(|number| [Some(command(number)), change(number)]).flatten().collect();
        let replies = client.pipeline(&commands).expect("replies");
        let is_right = |(words, reply): (&Vec<String>, &Value)| match words[0].as_str() {
            "SET" => *reply == Value::ok(),
            _ => *reply == Value::Integer(8),
        };
        assert!(commands.iter().zip(&replies).all(is_right), "{replies:?}");
    }
}

fn check(heard: &[Vec<(String, String)>], channel: &str, each: usize) {
    let of = |heard: &[(String, String)]| -> Vec<String> {
        heard.iter().filter(|message| message.0 == channel).map(|message| message.1.clone()).collect()
    };
    let first = of(&heard[0]);
    assert_eq!(first.len(), PUBLISHERS * each / 2);
    heard.iter().for_each(|heard| assert!(of(heard) == first, "two orders of {channel}"));
    let mut last: HashMap<&str, usize> = HashMap::new();
    for text in &first {
        let (publisher, number) = text.split_once(' ').expect("two words");
        let number = number.parse().expect("a number");
        let before = last.insert(publisher, number);
        assert!(before.is_none_or(|before| before < number), "{publisher} published {before:?} before {number}");
    }
}
