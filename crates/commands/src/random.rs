//! Chance: which elements commands choose.

use std::cell::Cell;

use almandine_handler::{CommandError, Word, number};
use almandine_io::entropy;
use almandine_keyspace::Refusal;
use almandine_resp::{Args, Reply};

/// Bytes of the reply to a negative count at most: such a count may be beyond any bound.
const REPLY_BYTES_MAX: usize = 512 << 20;
/// Bytes that an empty element takes in it.
const ELEMENT_BYTES_MIN: usize = b"$0\r\n\r\n".len();

thread_local! {
    /// Seeds of generators to come: asking the kernel for each would cost more than most commands.
    static SEEDS: Cell<u64> = Cell::new(entropy::seed());
}

/// Splitmix64, from a secret seed.
pub(crate) struct Random(u64);

impl Random {
    /// A generator of its own.
    pub(crate) fn new() -> Self {
        let mut seeds = Self(SEEDS.get());
        let seed = seeds.next();
        SEEDS.set(seeds.0);
        Self(seed)
    }

    /// 64 random bits.
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ mixed >> 31
    }

    /// A number below `n`; 0 if there is none.
    pub(crate) fn below(&mut self, n: usize) -> usize {
        ((u128::from(self.next()) * n as u128) >> 64) as usize
    }
}

/// What HRANDFIELD and ZRANDMEMBER are asked for behind the key.
pub(crate) struct Sample {
    /// How many elements.
    pub(crate) size: usize,
    /// Each is drawn from all of them, so that one may come twice: the count was negative.
    pub(crate) independent: bool,
    /// Each with what belongs to it.
    pub(crate) with_values: bool,
}

impl Sample {
    /// Reads a count, and perhaps a word behind it.
    pub(crate) fn parse(args: Args<'_>, word: &str) -> Result<Self, CommandError> {
        let count = number::integer_within(args.at(2), -i64::MAX, i64::MAX)?;
        let with_values = match args.get(3) {
            None => false,
            Some(option) if args.len() == 4 && Word(option).is(word) => true,
            Some(_) => return Err(CommandError::Syntax),
        };
        if with_values && count.unsigned_abs() > i64::MAX.unsigned_abs() / 2 {
            return Err(CommandError::OutOfRange);
        }
        let size = usize::try_from(count.unsigned_abs()).unwrap_or(usize::MAX);
        Ok(Self { size, independent: count < 0, with_values })
    }
}

/// Whether `count` elements, each drawn from all, are too much for a reply however short they are.
pub(crate) fn are_too_many(count: usize) -> bool {
    count > REPLY_BYTES_MAX / ELEMENT_BYTES_MIN
}

/// Draws `count` elements: `draw` answers one and says whether there was any. False: they are too much for a reply.
pub(crate) fn draw_each(
    reply: &mut Reply<'_>,
    count: usize,
    mut draw: impl FnMut(&mut Reply<'_>) -> Result<bool, Refusal>,
) -> Result<bool, Refusal> {
    let begin = reply.out.len();
    for _ in 0..count {
        if !draw(reply)? {
            break;
        }
        if reply.out.len() - begin > REPLY_BYTES_MAX {
            return Ok(false);
        }
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_below_their_bound_and_about_as_likely() {
        let (mut random, mut drawn) = (Random(7), [0; 5]);
        (0..5000).for_each(|_| drawn[random.below(5)] += 1);
        assert!(drawn.iter().all(|times| (850..1150).contains(times)), "{drawn:?}");
        assert_eq!(random.below(0), 0);
    }
}
