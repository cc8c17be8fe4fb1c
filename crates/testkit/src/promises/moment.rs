//! A snapshot beside writers is of one moment: what it has adds up as what is there between two transactions does, and nothing is
//! gone from it that went later.
//!
//! Each client does transactions that leave a number in several keys, count it up for all clients, and move a token; one more
//! exchanges two databases of which one has a key. Keys that may be evicted are written once, and a client looks beside the common
//! count which of them are there: those that were there behind the snapshot are in it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::figure_of;
use crate::runtime::{LEFT_OUT, Stream};
use crate::{Client, Random, Runtime, Value};

const LISTS: usize = 16;
const SLOTS: usize = 16;
/// Keys that may be evicted, and the bytes of each.
const VOLATILE: usize = 48;
const VOLATILE_BYTES: usize = 400;
/// What they have to live: longer than any proof.
const FAR_MS: &str = "1000000000";
/// Between two exchanges of databases, and two looks.
const PAUSE: Duration = Duration::from_millis(2);

/// Which of the keys that may be evicted were there when this much was counted.
#[derive(Clone, Debug)]
pub struct Look {
    count: usize,
    there: Vec<bool>,
}

/// What a snapshot had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found {
    /// The number that was given to [`prepare`].
    pub life: u64,
    /// What all clients had counted.
    pub count: usize,
}

/// Empties the server and writes what the clients go on from.
///
/// # Errors
/// When the server does not answer.
pub fn prepare<S: Stream>(client: &mut Client<S>, clients: usize, life: u64) -> std::io::Result<()> {
    let mut lines = vec!["FLUSHALL SYNC".to_owned(), "SELECT 2".to_owned(), "SET either here".to_owned(), "SELECT 0".to_owned()];
    for number in 0..clients {
        lines.extend([format!("SET {number}:slot:0 token"), format!("SET {number}:even 0")]);
    }
    let value = "v".repeat(VOLATILE_BYTES);
    lines.extend((0..VOLATILE).map(|key| format!("SET volatile:{key} {value} PX {FAR_MS}")));
    lines.extend([format!("SET life {life}"), "SET shared 0".to_owned()]);
    let replies = client.pipeline(&lines.iter().map(|line| line.split(' ').collect()).collect::<Vec<Vec<&str>>>())?;
    assert!(replies.iter().all(|reply| [Value::ok(), Value::Closed].contains(reply)), "{replies:?}");
    Ok(())
}

/// One client's transactions until the end is asked for or the connection ends. How many were answered.
///
/// # Panics
/// When one is answered with an error, but for one that finds no memory.
pub fn transact<R: Runtime>(runtime: &R, number: usize, seed: u64, stop: &AtomicBool) -> usize {
    let Ok(mut client) = Client::of(runtime) else { return 0 };
    let mut random = Random::new(seed.wrapping_mul(1000) + number as u64);
    let (mut slot, mut done, mut acts) = (0, 0, 0);
    while !stop.load(Ordering::Relaxed) {
        acts += 1;
        if !runtime.includes(number, acts) {
            runtime.pause(LEFT_OUT);
            continue;
        }
        let (next, to) = (done + 1, random.below(SLOTS));
        let (set, gone) = if next % 2 == 0 { ("even", "odd") } else { ("odd", "even") };
        let mut commands = vec![
            "MULTI".to_owned(),
            "INCR shared".to_owned(),
            format!("RPUSH {number}:list:{} {next}", random.below(LISTS)),
            format!("HSET {number}:hash f{next} {next}"),
            format!("SET {number}:{set} {next}"),
            format!("DEL {number}:{gone}"),
        ];
        if to != slot {
            commands.push(format!("RENAME {number}:slot:{slot} {number}:slot:{to}"));
        }
        commands.push("EXEC".to_owned());
        let words: Vec<Vec<&str>> = commands.iter().map(|command| command.split(' ').collect()).collect();
        match client.pipeline(&words).ok().and_then(|mut replies| replies.pop()) {
            Some(Value::Array(_)) => (done, slot) = (next, to),
            Some(Value::Error(error)) if error.starts_with(b"EXECABORT") || error.starts_with(b"OOM") => {
                runtime.sleep(PAUSE);
            }
            None | Some(Value::Closed) => break,
            Some(reply) => panic!("a transaction is answered {reply}"),
        }
    }
    done
}

/// Exchanges two databases, one of which has a key, until the end is asked for or the connection ends.
pub fn exchange<R: Runtime>(runtime: &R, stop: &AtomicBool) {
    let Ok(mut client) = Client::of(runtime) else { return };
    while !stop.load(Ordering::Relaxed) {
        match client.call(&["SWAPDB", "2", "3"]) {
            Ok(reply) if reply == Value::ok() => runtime.sleep(PAUSE),
            _ => return,
        }
    }
}

/// Looks at the keys that may be evicted until the end is asked for or the connection ends.
pub fn look<R: Runtime>(runtime: &R, stop: &AtomicBool) -> Vec<Look> {
    let mut looks: Vec<Look> = Vec::new();
    let Ok(mut client) = Client::of(runtime) else { return looks };
    let mget: Vec<String> = volatile_words();
    let words = |line: &str| line.split(' ').map(str::to_owned).collect::<Vec<_>>();
    while !stop.load(Ordering::Relaxed) {
        let unit = [words("MULTI"), words("GET shared"), mget.clone(), words("EXEC")];
        let reply = client.pipeline(&unit).ok().and_then(|mut replies| replies.pop());
        let Some([count, there]) = reply.as_ref().and_then(Value::elements) else { break };
        let there = there.elements().unwrap_or_default().iter().map(|value| !value.is_null()).collect();
        looks.push(Look { count: number(count), there });
        runtime.sleep(PAUSE);
    }
    looks
}

fn volatile_words() -> Vec<String> {
    std::iter::once("MGET".to_owned()).chain((0..VOLATILE).map(|key| format!("volatile:{key}"))).collect()
}

/// Begins a snapshot and waits for its end. False when the connection ends meanwhile, or the snapshot fails.
pub fn save<R: Runtime>(runtime: &R, client: &mut Client<R::Stream>) -> bool {
    match client.call(&["BGSAVE"]) {
        Ok(Value::Simple(text)) if text.starts_with(b"Background saving started") => {}
        Ok(Value::Closed) | Err(_) => return false,
        Ok(reply) => panic!("BGSAVE is answered {reply}"),
    }
    loop {
        let Ok(Value::Bulk(info)) = client.call(&["INFO", "persistence"]) else { return false };
        let text = String::from_utf8_lossy(&info);
        if text.contains("rdb_bgsave_in_progress:0") {
            return text.contains("rdb_last_bgsave_status:ok");
        }
        runtime.sleep(Duration::from_millis(1));
    }
}

/// Has the server evict keys until it takes up this much less, for some time.
pub fn evict<R: Runtime>(runtime: &R, client: &mut Client<R::Stream>, bytes: u64, time: Duration) {
    let Ok(info @ Value::Bulk(_)) = client.call(&["INFO", "memory"]) else { return };
    let used = figure_of(&info, "used_memory");
    for limit in [used.saturating_sub(bytes), 0] {
        let policy = ["CONFIG", "SET", "maxmemory-policy", "volatile-random", "maxmemory", &limit.to_string()];
        if client.call(&policy).is_err() {
            return;
        }
        runtime.sleep(time);
    }
}

fn number(value: &Value) -> usize {
    let text = match value {
        Value::Integer(number) => number.to_string(),
        value => String::from_utf8_lossy(value.bytes().unwrap_or(b"0")).into_owned(),
    };
    text.parse().unwrap_or_else(|_| panic!("a number: {value}"))
}

/// What a transaction of a client leaves behind is there as a whole, or it is not.
fn check_client(ask: &mut impl FnMut(String) -> Value, client: usize) -> Result<usize, String> {
    let mut pushed = Vec::new();
    for list in 0..LISTS {
        let elements = ask(format!("LRANGE {client}:list:{list} 0 -1"));
        pushed.extend(elements.elements().unwrap_or_default().iter().map(number));
    }
    pushed.sort_unstable();
    let count = pushed.len();
    let (set, gone) = if count % 2 == 0 { ("even", "odd") } else { ("odd", "even") };
    let slots: usize = (0..SLOTS).map(|slot| number(&ask(format!("EXISTS {client}:slot:{slot}")))).sum();
    for (what, is_right) in [
        ("each number is pushed once, up to the last", pushed == (1..=count).collect::<Vec<_>>()),
        ("a field is there for each", number(&ask(format!("HLEN {client}:hash"))) == count),
        ("the last one is set", number(&ask(format!("GET {client}:{set}"))) == count),
        ("the other key is gone", number(&ask(format!("EXISTS {client}:{gone}"))) == 0),
        ("the token is in one place", slots == 1),
    ] {
        if !is_right {
            return Err(format!("of client {client}, which has pushed {pushed:?} and has {slots} tokens, does not hold: {what}"));
        }
    }
    Ok(count)
}

/// Compares what was loaded with what was there at one moment; none when there was no snapshot. `looks` are those of the life of
/// this number.
///
/// # Errors
/// What is of another moment.
pub fn check<S: Stream>(client: &mut Client<S>, clients: usize, (life, looks): (u64, &[Look])) -> Result<Option<Found>, String> {
    let mut ask = |line: String| client.call(&line.split(' ').collect::<Vec<_>>()).expect("the server answers");
    if ask("EXISTS shared".to_owned()) == Value::Integer(0) {
        return Ok(None);
    }
    let found = Found { life: number(&ask("GET life".to_owned())) as u64, count: number(&ask("GET shared".to_owned())) };
    let counts = (0..clients).map(|client| check_client(&mut ask, client)).collect::<Result<Vec<usize>, String>>()?;
    if counts.iter().sum::<usize>() != found.count {
        return Err(format!("all clients have counted {}, and each {counts:?}", found.count));
    }
    let homes: Vec<usize> = [2, 3]
        .map(|db| {
            ask(format!("SELECT {db}"));
            number(&ask("EXISTS either".to_owned()))
        })
        .to_vec();
    ask("SELECT 0".to_owned());
    if homes.iter().sum::<usize>() != 1 {
        return Err(format!("the key of one of two databases is there {homes:?} times"));
    }
    let there = ask(volatile_words().join(" "));
    let there: Vec<bool> = there.elements().unwrap_or_default().iter().map(|value| !value.is_null()).collect();
    for look in looks.iter().filter(|look| life == found.life && look.count > found.count) {
        if let Some(key) = (0..VOLATILE).find(|key| look.there[*key] && !there[*key]) {
            let (count, later) = (found.count, look.count);
            return Err(format!("volatile:{key} was there at count {later}, and is not in the snapshot of count {count}"));
        }
    }
    Ok(Some(found))
}
