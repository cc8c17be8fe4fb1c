//! Publish/subscribe: all listeners of a channel hear one order.

use std::collections::HashMap;

use super::{connect, message, subscribe};
use crate::runtime::Joiner;
use crate::{Client, Runtime, Value};

const PUBLISHERS: usize = 4;
const CHANNELS: [&str; 2] = ["one", "two"];

/// Four publishers, which send `each` messages, and eight listeners: each listener hears all messages of a channel, in the
/// order in which any other hears them, and those of one publisher in the order in which they were published.
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
            let hear = move || (0..PUBLISHERS * each).map(|_| message(&mut listener)).collect::<Vec<_>>();
            runtime.spawn(&format!("listener-{number}"), hear)
        })
        .collect();
    let heard: Vec<Vec<(String, String)>> = hearing.into_iter().map(Joiner::join).collect();
    publishing.into_iter().for_each(Joiner::join);
    CHANNELS.iter().for_each(|channel| check(&heard, channel, each));
}

fn publish<S: crate::runtime::Stream>(mut client: Client<S>, publisher: usize, each: usize) {
    for part in (0..each).collect::<Vec<_>>().chunks(32) {
        let command = |number: &usize| ["PUBLISH".to_owned(), CHANNELS[number % 2].to_owned(), format!("{publisher} {number}")];
        let replies = client.pipeline(&part.iter().map(command).collect::<Vec<_>>()).expect("replies");
        assert!(replies.iter().all(|reply| *reply == Value::Integer(8)), "{replies:?}");
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
