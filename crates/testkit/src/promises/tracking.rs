//! Client-side caching: a client that has read an old value is told of its change.

use std::collections::BTreeSet;
use std::time::Duration;

use super::{PATIENCE, connect};
use crate::{Client, Runtime, Value};

/// One read and one change at the same time, in each round: a client that has read the old value is told, even if nothing
/// changes the key after that. How many reads came before the change.
///
/// # Panics
/// When it is not told.
pub fn is_told<R: Runtime>(runtime: &R, rounds: u64) -> usize {
    let (mut reader, mut writer) = (connect(runtime), connect(runtime));
    reader.line("HELLO 3");
    assert_eq!(reader.line("CLIENT TRACKING on"), Value::ok());
    reader.set_read_timeout(PATIENCE).expect("a timeout");
    let mut raced = 0;
    for round in 0..rounds {
        // A key of its own, which no client has read before.
        let key = format!("k{round}");
        assert_eq!(writer.call(&["SET", &key, "old"]).expect("a reply"), Value::ok());
        // The server gets both at about the same time; which is first changes from round to round.
        let delay = Duration::from_nanos(round * 7919 % 40_000);
        let read = |reader: &mut Client<R::Stream>| reader.send(&[["GET", &key]]).expect("sent");
        let write = |writer: &mut Client<R::Stream>| writer.send(&[["SET", &key, "new"]]).expect("sent");
        if round % 2 == 0 {
            read(&mut reader);
            runtime.pause(delay);
            write(&mut writer);
        } else {
            write(&mut writer);
            runtime.pause(delay);
            read(&mut reader);
        }
        assert_eq!(writer.receive().expect("a reply"), Value::ok());
        let mut is_told = false;
        let mut hear = |message: &Value| {
            let keys = changed_keys(message);
            is_told |= keys.as_ref().is_some_and(|keys| keys.contains(&key));
            keys.is_some()
        };
        let reply = loop {
            let value = reader.receive().expect("a reply");
            if !hear(&value) {
                break value;
            }
        };
        if reply.bytes() == Some(b"new") {
            continue;
        }
        raced += 1;
        while !is_told {
            let message =
                reader.receive().unwrap_or_else(|_| panic!("round {round}: {reply} was read, and its change is not told"));
            is_told = changed_keys(&message).is_some_and(|keys| keys.contains(&key));
        }
    }
    raced
}

/// What a script reads that looks at a second key only where the first one says so, and computes for so long that it is suspended.
const SCRIPT: &str = "local first = redis.call('GET', KEYS[1])
    if first ~= 'old' then return first end
    redis.call('GET', string.lower(ARGV[1])) for i = 1, 70000 do end return first";

/// A script that may begin anew, for its key is changed while it runs, in each round: its client is told of changes of what the run
/// has read that has ended, and of nothing that only a run has read that was given up. How many had read the old value.
///
/// # Panics
/// When it is otherwise.
pub fn is_told_of_what_scripts_have_read<R: Runtime>(runtime: &R, rounds: u64) -> usize {
    let (mut reader, mut writer) = (connect(runtime), connect(runtime));
    reader.line("HELLO 3");
    assert_eq!(reader.line("CLIENT TRACKING on"), Value::ok());
    let mut old = 0;
    for round in 0..rounds {
        let [first, second, last] = ["first", "second", "last"].map(|name| format!("{name}{round}"));
        let set = |writer: &mut Client<R::Stream>, key: &str, value: &str| {
            assert_eq!(writer.call(&["SET", key, value]).expect("a reply"), Value::ok());
        };
        set(&mut writer, &first, "old");
        reader.send(&[["EVAL", SCRIPT, "1", &first, &second]]).expect("sent");
        runtime.pause(Duration::from_micros(round * 317 % 4000));
        set(&mut writer, &first, "new");
        let mut told = BTreeSet::new();
        let reply = loop {
            let value = reader.receive().expect("a reply");
            match changed_keys(&value) {
                Some(keys) => told.extend(keys),
                None => break value,
            }
        };
        let has_read = reply.bytes() == Some(b"old");
        old += usize::from(has_read);
        // What changes now is told in its order.
        reader.send(&[["GET", &last]]).expect("sent");
        let mut is_read = false;
        while !is_read || has_read && !told.contains(&first) {
            let value = reader.receive().unwrap_or_else(|_| panic!("round {round}: {reply} was read, and its change is not told"));
            match changed_keys(&value) {
                Some(keys) => told.extend(keys),
                None => is_read = true,
            }
        }
        set(&mut writer, &second, "new");
        set(&mut writer, &last, "new");
        while !told.contains(&last) {
            told.extend(changed_keys(&reader.receive().expect("a message")).expect("a message"));
        }
        assert_eq!(told.contains(&second), has_read, "round {round}: {reply} was read, and changes are told of {told:?}");
    }
    old
}

/// What an invalidation says.
#[derive(Debug)]
pub enum Changed {
    /// All keys.
    All,
    /// These.
    Keys(BTreeSet<String>),
}

/// What an invalidation says; none for a reply.
#[must_use]
pub fn changed(value: &Value) -> Option<Changed> {
    let text = value.to_string();
    let keys = text.strip_prefix(r#">[$"invalidate", "#)?;
    let Some(keys) = keys.strip_prefix("*[") else { return Some(Changed::All) };
    Some(Changed::Keys(keys.split('"').skip(1).step_by(2).map(str::to_owned).collect()))
}

/// As [`changed`], of an invalidation that names keys.
fn changed_keys(value: &Value) -> Option<BTreeSet<String>> {
    match changed(value)? {
        Changed::All => panic!("no client has emptied anything"),
        Changed::Keys(keys) => Some(keys),
    }
}
