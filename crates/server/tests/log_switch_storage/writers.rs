//! Clients that know what is to be there.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};

use super::*;

const WRITERS: usize = 2;
/// Milliseconds after which what expires has expired.
const SHORT_MS: u64 = 3_000;
const LONG_MS: u64 = 7_200_000;

/// What a key has in its generations.
#[derive(Clone, Copy)]
pub(super) struct Key(usize);

impl Key {
    fn db(self) -> usize {
        [0, 0, 0, 3, 9][self.0 % 5]
    }

    fn is_hash(self) -> bool {
        self.0 % 23 == 7
    }

    fn px(self) -> Option<u64> {
        match self.0 % 19 {
            _ if self.is_hash() => None,
            4 => Some(SHORT_MS),
            6 | 7 => Some(LONG_MS),
            _ => None,
        }
    }

    fn name(self) -> String {
        format!("key:{}", self.0)
    }

    fn value(self, generation: u32) -> String {
        let len = match self.0 % 600 {
            0 => 300_000,
            1..4 => 20_000,
            _ => 100 + self.0 * 37 % 7_000,
        };
        format!("{generation}={};", self.0).chars().cycle().take(len).collect()
    }

    fn write(self, generation: u32) -> Vec<String> {
        let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
        let (name, value) = (self.name(), self.value(generation));
        match self.px() {
            _ if self.is_hash() => {
                let field = format!("field:{generation}");
                words(&["HSET", &name, "value", &value, &field, "1"])
            }
            Some(px) => words(&["SET", &name, &value, "PX", &px.to_string()]),
            None => words(&["SET", &name, &value]),
        }
    }

    fn read(self) -> Vec<String> {
        if self.is_hash() { vec!["HGET".to_owned(), self.name(), "value".to_owned()] } else { vec!["GET".to_owned(), self.name()] }
    }
}

/// The last generations of keys that were written and that were acknowledged; of each second key.
pub(super) struct Writer {
    pub(super) keys: Vec<(Key, u32, u32)>,
    dice: u64,
}

impl Writer {
    pub(super) fn all(keys: usize) -> Vec<Self> {
        let of = |number: usize| (0..keys).filter(|key| key % WRITERS == number).map(|key| (Key(key), 0, 0)).collect();
        (0..WRITERS).map(|number| Self { keys: of(number), dice: 77 + number as u64 }).collect()
    }

    fn draw(&mut self, below: usize) -> usize {
        self.dice = self.dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.dice >> 33) as usize % below
    }

    /// Writes a further generation of these keys; false: the server is gone.
    fn step(&mut self, client: &mut Client, places: &[usize]) -> bool {
        let (mut commands, mut db) = (Vec::new(), usize::MAX);
        for place in places {
            let (key, sent, _) = &mut self.keys[*place];
            if key.db() != db {
                db = key.db();
                commands.push(vec!["SELECT".to_owned(), db.to_string()]);
            }
            *sent += 1;
            commands.push(key.write(*sent));
        }
        if client.send(&commands).is_err() {
            return false;
        }
        let mut written = places.iter();
        for command in commands {
            match client.receive() {
                Ok(reply) if reply != Value::Closed => {
                    assert!(!reply.is_error(), "{reply}");
                    if command[0] != "SELECT" {
                        let (_, sent, acknowledged) = &mut self.keys[*written.next().unwrap()];
                        *acknowledged = *sent;
                    }
                }
                _ => return false,
            }
        }
        true
    }

    pub(super) fn load(&mut self, client: &mut Client) {
        let places: Vec<usize> = (0..self.keys.len()).collect();
        for part in places.chunks(32) {
            assert!(self.step(client, part));
        }
    }

    /// Writes until it is told to end, or the server is gone.
    fn go_on(&mut self, address: SocketAddr, ends: &AtomicBool) {
        let Ok(mut client) = Client::connect(address) else { return };
        while !ends.load(Ordering::Relaxed) {
            let mut places: Vec<usize> = (0..8).map(|_| self.draw(self.keys.len())).collect();
            places.sort_unstable();
            places.dedup();
            if !self.step(&mut client, &places) {
                return;
            }
        }
    }

    /// All keys are as they were acknowledged, or were being written.
    fn check(&mut self, client: &mut Client, when: &str) {
        for part in self.keys.chunks_mut(100) {
            let commands = part.iter().flat_map(|(key, _, _)| [vec!["SELECT".to_owned(), key.db().to_string()], key.read()]);
            let replies = client.pipeline(&commands.collect::<Vec<_>>()).unwrap();
            for ((key, sent, acknowledged), reply) in part.iter_mut().zip(replies.iter().skip(1).step_by(2)) {
                let found = match reply {
                    Value::Bulk(value) => (*acknowledged..=*sent).find(|generation| key.value(*generation).as_bytes() == value),
                    _ => (key.px() == Some(SHORT_MS) || *acknowledged == 0).then_some(*acknowledged),
                };
                let is = reply.to_string().chars().take(30).collect::<String>();
                let found = found.unwrap_or_else(|| panic!("{when}: {} of {acknowledged}..={sent} is {is}", key.name()));
                (*sent, *acknowledged) = (found, found);
            }
        }
    }
}

/// Ends writers, also where their test has failed.
struct Ends<'e>(&'e AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Has all write while this is done; then the server is killed.
pub(super) fn beside_writers(server: &mut Server, writers: &mut [Writer], work: impl FnOnce(&mut Client)) {
    let (address, ends) = (server.address(), AtomicBool::new(false));
    thread::scope(|scope| {
        for writer in writers.iter_mut() {
            scope.spawn(|| writer.go_on(address, &ends));
        }
        let _ends = Ends(&ends);
        work(&mut server.client());
        server.kill();
    });
}

pub(super) fn check(server: &Server, writers: &mut [Writer], when: &str) {
    let mut client = server.client();
    writers.iter_mut().for_each(|writer| writer.check(&mut client, when));
    let expires = Instant::now() + Duration::from_millis(SHORT_MS);
    let keys =
        writers.iter().flat_map(|writer| &writer.keys).filter(|(key, _, written)| *written != 0 && key.px() != Some(SHORT_MS));
    let mut expected = [0; 16];
    keys.for_each(|(key, ..)| expected[key.db()] += 1);
    for (db, expected) in expected.into_iter().enumerate() {
        client.line(&format!("SELECT {db}"));
        while client.line("DBSIZE") != Value::Integer(expected) {
            assert!(expires.elapsed() < PATIENCE, "{when}: {db} has {} of {expected} keys", client.line("DBSIZE"));
            thread::sleep(Duration::from_millis(20));
        }
    }
}
