//! Nanoseconds per verb of one session: `cargo bench -p almandine-store --bench verbs -- [keys…]`.
//!
//! Prefetches in groups of 64 keys as a session with a pipeline does. Prints medians of five runs.

use almandine_store::{GlanceId, Key, Options, Put, Session, Store};
use std::time::Instant;

const GROUP: usize = 64;
const OPERATIONS: usize = 4_000_000;

fn main() {
    let mut sizes: Vec<u64> = std::env::args().skip(1).filter_map(|argument| argument.parse().ok()).collect();
    if sizes.is_empty() {
        sizes = vec![1_000, 100_000, 1_000_000, 10_000_000];
    }
    println!("{:>12} {:>10} {:>10} {:>10} {:>12} {:>12}", "keys", "get ns", "set ns", "load ns", "log B/key", "index B/key");
    for keys in sizes {
        let store = Store::open(Options::default()).expect("a store");
        let namespace = store.allocate_namespace().expect("a namespace");
        let mut session = store.session().expect("a session");
        let start = Instant::now();
        run(&mut session, namespace, 0..keys, |session, key| session.upsert(key, b"01234567", Put::default()).expect("room"));
        let load = start.elapsed().as_nanos() as f64 / keys as f64;
        while store.figures().index_buckets() < keys / 6 {
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        let random = |seed: u64| (0..OPERATIONS as u64).map(move |step| mix(step + seed) % keys);
        let mut buffer = Vec::with_capacity(1 << 16);
        let get = median(|round| {
            run(&mut session, namespace, random(round), |session, key| {
                if buffer.len() > 60_000 {
                    buffer.clear();
                }
                assert!(session.read(key, |view| view.append_to(&mut buffer)).expect("in memory").is_some());
            });
        });
        let set = median(|round| {
            run(&mut session, namespace, random(round), |session, key| {
                session.upsert(key, b"76543210", Put::default()).expect("room");
            });
        });
        let memory = store.figures().memory();
        let per_key = |bytes: u64| bytes as f64 / keys as f64;
        println!(
            "{keys:>12} {get:>10.1} {set:>10.1} {load:>10.1} {:>12.1} {:>12.1}",
            per_key(memory.log_live_bytes),
            per_key(memory.index_bytes)
        );
    }
}

fn median(mut run: impl FnMut(u64)) -> f64 {
    let mut times: Vec<f64> = (0..5)
        .map(|round| {
            let start = Instant::now();
            run(round * 1_000_003);
            start.elapsed().as_nanos() as f64 / OPERATIONS as f64
        })
        .collect();
    times.sort_by(f64::total_cmp);
    times[2]
}

fn run(session: &mut Session, namespace: u16, numbers: impl Iterator<Item = u64>, mut verb: impl FnMut(&mut Session, Key<'_>)) {
    let mut numbers = numbers.peekable();
    let mut texts = [[0u8; 16]; GROUP];
    while numbers.peek().is_some() {
        session.enter(0);
        let mut count = 0;
        let mut expected = [(0u64, GlanceId::default()); GROUP];
        session.ahead().forget_glances();
        for number in numbers.by_ref().take(GROUP) {
            texts[count][..8].copy_from_slice(&number.to_le_bytes());
            texts[count][8..].copy_from_slice(b"key-----");
            let hash = session.key(namespace, &texts[count]).hash;
            expected[count] = (hash, session.ahead().expect(hash));
            count += 1;
        }
        session.ahead().glance();
        for (text, &(hash, glance)) in texts[..count].iter().zip(&expected) {
            verb(session, Key { namespace, glance, bytes: text, hash });
        }
        session.leave();
    }
}

fn mix(number: u64) -> u64 {
    let number = (number ^ (number >> 31)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    number ^ (number >> 29)
}
