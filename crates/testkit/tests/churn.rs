//! Memory while everything is overwritten as fast as it goes: the most that was ever resident, against what is live.

use std::io::{Read, Write};
use std::thread;
use std::time::{Duration, Instant};

use almandine_testkit::client::encode;
use almandine_testkit::hostile::MIB;
use almandine_testkit::{Program, Random, Server, full, seed};

const KEYS: usize = 200_000;
const VALUE_BYTES_MAX: usize = 2000;
/// Bytes of a reply: `+OK`.
const REPLY_BYTES: u64 = 5;

/// Writes random values over random keys, without waiting for replies, until the deadline. Returns how many.
fn write_over(socket: &mut impl Write, random: &mut Random, lengths: &mut [usize], deadline: Instant) -> u64 {
    let value = vec![b'v'; VALUE_BYTES_MAX];
    let (mut wire, mut commands) = (Vec::new(), 0);
    while Instant::now() < deadline {
        wire.clear();
        for _ in 0..256 {
            let (key, length) = (random.below(KEYS), 1 + random.below(VALUE_BYTES_MAX));
            encode(&[&b"SET"[..], format!("key:{key:08}").as_bytes(), &value[..length]], &mut wire);
            lengths[key] = length;
        }
        socket.write_all(&wire).expect("the server reads on");
        commands += 256;
    }
    commands
}

/// One client that never waits overwrites all keys again and again, on the core that the background has, too.
#[test]
fn the_peak_under_full_speed_churn_is_bounded() {
    let server = Server::start(&Program::Almandine, &["--workers", "1"]);
    server.share_one_core();
    let empty = server.resident_bytes();
    let client = server.client();
    let mut random = Random::new(seed());
    let mut lengths = vec![0; KEYS];
    let deadline = Instant::now() + Duration::from_secs(if full() { 60 } else { 12 });
    let (mut written, mut read) = (client.stream(), client.stream());
    let (mut answered, mut replies) = (0, vec![0; 1 << 16]);
    let commands = thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let commands = write_over(&mut written, &mut random, &mut lengths, deadline);
            written.shutdown(std::net::Shutdown::Write).expect("the last command was sent");
            commands
        });
        loop {
            let bytes = read.read(&mut replies).expect("replies");
            if bytes == 0 {
                return writer.join().expect("a writer");
            }
            answered += bytes as u64;
        }
    });
    assert_eq!(answered, commands * REPLY_BYTES, "every SET is answered with OK");
    let live: u64 = lengths.iter().filter(|length| **length != 0).map(|length| (length + "key:00000000".len()) as u64).sum();
    let (peak, bound) = (server.resident_bytes_most(), live + live / 4 + 64 * MIB);
    println!(
        "churn: {commands} SETs; {} MiB live, {} MiB resident while empty, {} MiB at most, {} allowed",
        live / MIB,
        empty / MIB,
        peak / MIB,
        bound / MIB
    );
    assert!(peak <= bound, "{} MiB resident at most, {} allowed for {} live", peak / MIB, bound / MIB, live / MIB);
}
