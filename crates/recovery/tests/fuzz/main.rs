//! What the fuzz targets `base` and `log` do, with inputs that chance makes of good ones. A fuzzer finds more; CI runs none.

mod base;
mod log;

struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % sides
    }

    /// A good input with some bytes changed, left out, doubled, or another's behind it.
    fn spoil(&mut self, good: &[&[u8]]) -> Vec<u8> {
        let mut input = good[self.roll(good.len())].to_vec();
        for _ in 0..self.roll(4) {
            let at = self.roll(input.len().max(1));
            match self.roll(5) {
                0 if at < input.len() => input[at] = self.roll(256) as u8,
                1 if at < input.len() => input[at] ^= 1 << self.roll(8),
                2 => input.truncate(at),
                3 if at < input.len() => input.insert(at, input[at]),
                _ => input.extend_from_slice(good[self.roll(good.len())]),
            }
        }
        input
    }
}

/// Runs a target with some inputs; how many it took.
fn all(seed: u64, good: &[&[u8]], run: fn(&[u8]) -> bool) -> usize {
    assert!(good.iter().all(|input| run(input)), "what is to be spoilt is good");
    let mut dice = Dice(seed);
    (0..3_000).filter(|_| run(&dice.spoil(good))).count()
}

#[test]
fn spoilt_entries_of_a_base_are_refused_or_loaded() {
    // A string, and one with an expiry and a tag.
    let good: [&[u8]; 2] = [
        b"\x00\x00\x01\x05\x03key\x05value",
        b"\x00\x30\x01\x05\x01k\x40\x42\x0f\x00\x00\x00\x00\x00\x07\x00\x00\x00\x00\x00\x00\x00\x01v",
    ];
    let taken = all(1, &good, base::run);
    assert!((100..2_900).contains(&taken), "{taken}");
}

#[test]
fn spoilt_units_of_the_log_are_refused_or_done() {
    // docs/FORMATS.md: a key is set, written to, expired; a database has other contents.
    let good: [&[u8]; _] = [b"\x11\x01\x03key\x00\x00\x05value", b"\x02\x01\x03key\x01\x02xy", b"\x14\x01\x03key", b"\x07\x03\x01"];
    let taken = all(2, &good, log::run);
    assert!((100..2_900).contains(&taken), "{taken}");
}
