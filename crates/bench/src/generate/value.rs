//! Value lengths and contents.
//!
//! The content of a value is a prefix of one fixed incompressible text, so that a reply can be checked byte for byte
//! without remembering which value was stored, and no server gains from compression.

use std::fmt;

use super::random::Random;

/// How long values are.
#[derive(Debug, Clone, PartialEq)]
pub struct Lengths {
    /// Ranges `min..=max` with a weight each.
    ranges: Vec<(u32, usize, usize)>,
}

impl Lengths {
    /// Every value of one length.
    pub fn fixed(len: usize) -> Self {
        Self { ranges: vec![(1, len, len)] }
    }

    /// Parses `64`, `1-2000`, or a weighted list such as `8:50,100:30,1-2000:20`.
    pub fn parse(text: &str) -> Result<Self, String> {
        let wrong = || format!("{text:?} is not a value length: give 64, 1-2000, or weights as in 8:50,100:30,1-2000:20");
        let mut ranges = Vec::new();
        for part in text.split(',') {
            let (range, weight) = part.split_once(':').unwrap_or((part, "1"));
            let (min, max) = range.split_once('-').unwrap_or((range, range));
            let min: usize = min.trim().parse().map_err(|_| wrong())?;
            let max: usize = max.trim().parse().map_err(|_| wrong())?;
            let weight: u32 = weight.trim().parse().map_err(|_| wrong())?;
            if min > max || max > 512 << 20 {
                return Err(wrong());
            }
            ranges.push((weight, min, max));
        }
        if ranges.iter().all(|r| r.0 == 0) {
            return Err(wrong());
        }
        Ok(Self { ranges })
    }

    /// Draws one length.
    pub fn draw(&self, random: &mut Random) -> usize {
        let total: u64 = self.ranges.iter().map(|r| u64::from(r.0)).sum();
        let mut at = if self.ranges.len() == 1 { 0 } else { random.below(total) };
        for &(weight, min, max) in &self.ranges {
            if at < u64::from(weight) {
                return min + random.below((max - min) as u64 + 1) as usize;
            }
            at -= u64::from(weight);
        }
        self.max()
    }

    /// The longest length that can be drawn.
    pub fn max(&self) -> usize {
        self.ranges.iter().map(|r| r.2).max().unwrap_or(0)
    }

    /// The shortest length that can be drawn.
    pub fn min(&self) -> usize {
        self.ranges.iter().map(|r| r.1).min().unwrap_or(0)
    }

    /// The expected length.
    pub fn mean(&self) -> f64 {
        let total: f64 = self.ranges.iter().map(|r| f64::from(r.0)).sum();
        self.ranges.iter().map(|r| f64::from(r.0) * (r.1 + r.2) as f64 / 2.0).sum::<f64>() / total
    }
}

impl fmt::Display for Lengths {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let weighted = self.ranges.len() > 1;
        for (i, (weight, min, max)) in self.ranges.iter().enumerate() {
            let comma = if i > 0 { "," } else { "" };
            if min == max {
                write!(f, "{comma}{min}")?
            } else {
                write!(f, "{comma}{min}-{max}")?
            }
            if weighted {
                write!(f, ":{weight}")?;
            }
        }
        Ok(())
    }
}

/// The text that every value is a prefix of.
#[derive(Debug, Clone)]
pub struct Text(Vec<u8>);

impl Text {
    /// A text for values of up to `len_max` bytes.
    pub fn new(len_max: usize) -> Self {
        const ALPHABET: &[u8; 64] = b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-_";
        let mut random = Random::new(0x616c_6d61, 0);
        Self((0..len_max).map(|_| ALPHABET[(random.bits() >> 58) as usize]).collect())
    }

    /// The value of `len` bytes (shorter if the text is).
    pub fn value(&self, len: usize) -> &[u8] {
        &self.0[..len.min(self.0.len())]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_and_prints() {
        for text in ["64", "1-2000", "8:50,100:30,1-2000:20"] {
            assert_eq!(Lengths::parse(text).unwrap().to_string(), text);
        }
        for text in ["", "x", "9-3", "8:0", "1:2:3"] {
            assert!(Lengths::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn draws_follow_the_weights() {
        let lengths = Lengths::parse("8:3,100-200:1").unwrap();
        let mut random = Random::new(1, 1);
        let draws: Vec<_> = (0..10_000).map(|_| lengths.draw(&mut random)).collect();
        let short = draws.iter().filter(|&&n| n == 8).count();
        assert!((7_200..7_800).contains(&short));
        assert!(draws.iter().all(|&n| n == 8 || (100..=200).contains(&n)));
        let mean = draws.iter().sum::<usize>() as f64 / draws.len() as f64;
        assert!((mean / lengths.mean() - 1.0).abs() < 0.05);
    }
}
