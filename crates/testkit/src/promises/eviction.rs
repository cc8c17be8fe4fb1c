//! Eviction: keys may go when memory is full, as the policy says, and nothing else changes.

use std::collections::HashMap;
use std::time::Duration;

use super::{connect, figure};
use crate::runtime::Joiner;
use crate::{Client, Random, Runtime, Value};

/// How to load a server that has less memory than is written.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Concurrent clients, each with keys of its own.
    pub clients: usize,
    /// Keys of each client.
    pub keys: usize,
    /// When to stop.
    pub duration: Duration,
    /// Whether only keys with an expiry may go: those of even numbers have one.
    pub is_volatile: bool,
    /// For the choice of commands.
    pub seed: u64,
}

/// A client finds in each of its keys what it has written last, or nothing; a key that may not go is there; and the budget holds.
/// Returns how many commands were answered and how many keys had gone.
///
/// # Panics
/// When it is otherwise.
pub fn keeps_its_word<R: Runtime>(runtime: &R, settings: Settings) -> (usize, usize) {
    let end_ns = runtime.now_ns() + settings.duration.as_nanos() as u64;
    let owners: Vec<Joiner<(usize, usize)>> = (0..settings.clients)
        .map(|number| {
            let mut owner = Owner::new(runtime, number, settings);
            runtime.spawn(&format!("owner-{number}"), move || {
                while owner.runtime.now_ns() < end_ns {
                    owner.act();
                }
                owner.look_at_all();
                (owner.answered, owner.gone)
            })
        })
        .collect();
    let mut control = connect(runtime);
    while runtime.now_ns() < end_ns {
        let (used, most) = (figure(&mut control, "memory", "used_memory"), figure(&mut control, "memory", "maxmemory"));
        // What workers take before they look at the budget again.
        let margin = most / 8 + (1 << 20);
        assert!(used <= most + margin, "{used} bytes are used of {most}");
        runtime.sleep(Duration::from_millis(5));
    }
    owners.into_iter().map(Joiner::join).fold((0, 0), |all, own| (all.0 + own.0, all.1 + own.1))
}

struct Owner<R: Runtime> {
    runtime: R,
    client: Client<R::Stream>,
    number: usize,
    settings: Settings,
    random: Random,
    /// By key: the number of the last write, and its length.
    written: HashMap<usize, (usize, usize)>,
    answered: usize,
    gone: usize,
}

impl<R: Runtime> Owner<R> {
    fn new(runtime: &R, number: usize, settings: Settings) -> Self {
        let random = Random::new(settings.seed.wrapping_mul(1000) + number as u64);
        let (client, written) = (connect(runtime), HashMap::new());
        Self { runtime: runtime.clone(), client, number, settings, random, written, answered: 0, gone: 0 }
    }

    fn name(&self, key: usize) -> String {
        format!("owned:{}:{key}", self.number)
    }

    /// Whether the policy may remove a key.
    fn may_go(&self, key: usize) -> bool {
        !self.settings.is_volatile || key.is_multiple_of(2)
    }

    fn value(&self, key: usize, (write, len): (usize, usize)) -> Vec<u8> {
        [format!("{}:{key}:{write}:", self.number).as_bytes(), &vec![b'v'; len]].concat()
    }

    fn act(&mut self) {
        // Keys that may not go are few, so that they fit.
        let key = self.random.below(self.settings.keys);
        let key = if self.may_go(key) { key } else { (key % 16) | 1 };
        match self.random.below(10) {
            0..5 => self.write(key),
            5 => {
                let name = self.name(key);
                let reply = self.client.call(&["DEL", &name]).expect("a reply");
                let was_there = reply == Value::Integer(1);
                self.expect(key, was_there);
                self.written.remove(&key);
            }
            _ => self.look(key),
        }
        self.answered += 1;
    }

    fn write(&mut self, key: usize) {
        let write = (self.answered + 1, self.random.below(if self.may_go(key) { 6_000 } else { 60 }));
        let (name, value) = (self.name(key), self.value(key, write));
        let expiry: &[&[u8]] = if key.is_multiple_of(2) { &[b"EX", b"100000"] } else { &[] };
        let reply = self.client.call(&[&[b"SET", name.as_bytes(), &value][..], expiry].concat()).expect("a reply");
        match reply {
            Value::Error(text) if text.starts_with(b"OOM") => {}
            reply => {
                assert_eq!(reply, Value::ok(), "SET {name}");
                self.written.insert(key, write);
            }
        }
    }

    /// A key was found, or was not.
    fn expect(&mut self, key: usize, is_there: bool) {
        let name = self.name(key);
        match (self.written.contains_key(&key), is_there) {
            (false, true) => panic!("{name} is there, and its only client has not written it or has removed it"),
            (true, false) => {
                assert!(self.may_go(key), "{name} is gone, and may not go");
                self.gone += 1;
                self.written.remove(&key);
            }
            _ => {}
        }
    }

    fn look(&mut self, key: usize) {
        let name = self.name(key);
        let reply = self.client.call(&["GET", &name]).expect("a reply");
        self.expect(key, !reply.is_null());
        if let Some(write) = self.written.get(&key) {
            let expected = self.value(key, *write);
            assert!(reply.bytes() == Some(&expected[..]), "{name} is not what was written last ({write:?}): {reply}");
        }
    }

    fn look_at_all(&mut self) {
        (0..self.settings.keys).for_each(|key| self.look(key));
    }
}
