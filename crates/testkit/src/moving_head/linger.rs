//! A command that takes its worker a while and touches no key of the race: what runs in the same batch, behind it, still sees
//! the log's head as it was before.

use std::time::{Duration, Instant};

use crate::{Client, Random, Value};

/// How long the first side's batches last, at least.
pub(super) const LINGER: Duration = Duration::from_micros(1500);
/// Answers a number after a while.
pub(super) const COMMAND: &[&[u8]] = &[b"LCS", b"linger:a", b"linger:b", b"LEN"];
const TEXT_BYTES_MAX: usize = 6000;

/// How slow the server is.
pub(super) struct Linger {
    texts: [Vec<u8>; 2],
    /// How often a batch runs the command.
    pub(super) repeats: usize,
}

impl Linger {
    /// Finds out how much the server has to do to take about as long as [`LINGER`].
    pub(super) fn measure(client: &mut Client) -> Self {
        let mut linger = Self { texts: [Vec::new(), Vec::new()], repeats: 1 };
        let mut random = Random::new(1);
        loop {
            linger.texts.iter_mut().for_each(|text| text.extend((0..500).map(|_| *random.pick(b"abcdefgh"))));
            linger.write(client);
            // The shortest of some, because the machine may be busy.
            let shortest = (0..10).map(|_| Self::time(client)).min().unwrap_or_default();
            if shortest >= LINGER || linger.texts[0].len() >= TEXT_BYTES_MAX {
                linger.repeats = (LINGER.as_micros() / shortest.as_micros().max(1)).max(1) as usize;
                return linger;
            }
        }
    }

    fn time(client: &mut Client) -> Duration {
        let started = Instant::now();
        let reply = client.call(COMMAND).expect("LCS");
        assert!(reply.integer().is_some(), "LCS: {reply}");
        started.elapsed()
    }

    /// Writes the command's keys, so that they are in memory.
    pub(super) fn write(&self, client: &mut Client) {
        for (key, text) in ["linger:a", "linger:b"].iter().zip(&self.texts) {
            assert_eq!(client.call(&[b"SET", key.as_bytes(), text]).expect("SET"), Value::ok());
        }
    }

    /// Removes them.
    pub(super) fn remove(client: &mut Client) {
        let removed = client.line("DEL linger:a linger:b");
        assert!(removed.integer().is_some(), "DEL: {removed}");
    }
}
