//! Integers of any width at any bit offset of a string, as `BITFIELD` reads and writes them. The highest bit comes first, and every
//! bit beyond the end of the string is zero.

use crate::number::parse_i64;

/// The type of a field: `u1` to `u63` or `i1` to `i64`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IntegerType {
    signed: bool,
    bits: u32,
}

/// What happens to a value that does not fit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Overflow {
    /// Its lowest bits are kept. The default.
    #[default]
    Wrap,
    /// The nearest value that fits is taken.
    Saturate,
    /// Nothing is written.
    Fail,
}

impl Overflow {
    /// The behaviour of this name (`WRAP`, `SAT`, `FAIL`), in any case.
    pub fn parse(name: &[u8]) -> Option<Self> {
        let all = [("wrap", Self::Wrap), ("sat", Self::Saturate), ("fail", Self::Fail)];
        all.into_iter().find(|(text, _)| name.eq_ignore_ascii_case(text.as_bytes())).map(|(_, overflow)| overflow)
    }
}

impl IntegerType {
    /// The type of this name; the letter is lower case.
    pub fn parse(name: &[u8]) -> Option<Self> {
        let (signed, bits) = match name {
            [b'i', bits @ ..] => (true, bits),
            [b'u', bits @ ..] => (false, bits),
            _ => return None,
        };
        let bits = u32::try_from(parse_i64(bits)?).ok()?;
        let bits_max = if signed { 64 } else { 63 };
        (1..=bits_max).contains(&bits).then_some(Self { signed, bits })
    }

    /// How wide it is.
    pub const fn bits(self) -> u32 {
        self.bits
    }

    /// The bit offset that `text` gives: bits, or with `#` in front multiples of this type's width.
    /// `None` unless it is less than `bytes_max` bytes.
    pub fn parse_offset(self, text: &[u8], bytes_max: u64) -> Option<u64> {
        let (unit, digits) = match text {
            [b'#', digits @ ..] => (i64::from(self.bits), digits),
            digits => (1, digits),
        };
        let offset = u64::try_from(parse_i64(digits)?.checked_mul(unit)?).ok()?;
        (offset / 8 < bytes_max).then_some(offset)
    }

    /// How many bytes a string must have so that this field at `offset` lies within it.
    pub const fn bytes_needed(self, offset: u64) -> u64 {
        (offset + self.bits as u64).div_ceil(8)
    }

    /// The value at `offset`.
    pub fn get(self, bytes: &[u8], offset: u64) -> i64 {
        let first = usize::try_from(offset / 8).unwrap_or(usize::MAX);
        let raw = window(bytes, first) >> self.window_shift(offset) & self.mask();
        self.extend(raw)
    }

    /// Writes the lowest bits of `value` at `offset`, which must lie within `bytes` (panics otherwise).
    pub fn put(self, bytes: &mut [u8], offset: u64, value: i64) {
        let (first, shift) = ((offset / 8) as usize, self.window_shift(offset));
        let field = u128::from(value as u64) & self.mask();
        let written = window(bytes, first) & !(self.mask() << shift) | field << shift;
        let after = self.bytes_needed(offset) as usize;
        let count = after - first;
        bytes[first..after].copy_from_slice(&written.to_be_bytes()[..count]);
    }

    /// What `SET` writes for `value`; `None` if it does not fit and must.
    ///
    /// For an unsigned type a negative value counts as the unsigned number of the same 64 bits, which is too large. For
    /// a signed one that is narrower than 64 bits, Redis takes a value for too large, not too small, when its distance
    /// from the largest exceeds 63 bits; that shows in saturation, and is kept so that replicas of either kind agree.
    pub fn fit(self, value: i64, overflow: Overflow) -> Option<i64> {
        if !self.signed {
            return self.limit(i128::from(value as u64), overflow);
        }
        let too_far = self.bits < 64 && i64::try_from(self.most() - i128::from(value)).is_err();
        if too_far && overflow == Overflow::Saturate { Some(self.most() as i64) } else { self.limit(i128::from(value), overflow) }
    }

    /// What `INCRBY` makes of `value`, a value of this type; `None` if it does not fit and must.
    pub fn increment(self, value: i64, increment: i64, overflow: Overflow) -> Option<i64> {
        self.limit(i128::from(value) + i128::from(increment), overflow)
    }

    fn limit(self, value: i128, overflow: Overflow) -> Option<i64> {
        let most = self.most();
        let least = if self.signed { -most - 1 } else { 0 };
        match overflow {
            _ if (least..=most).contains(&value) => Some(value as i64),
            Overflow::Wrap => Some(self.extend(value as u128 & self.mask())),
            Overflow::Saturate => Some(value.clamp(least, most) as i64),
            Overflow::Fail => None,
        }
    }

    fn most(self) -> i128 {
        (1 << (self.bits - u32::from(self.signed))) - 1
    }

    /// The value of these bits.
    fn extend(self, raw: u128) -> i64 {
        let unused = 64 - self.bits;
        let top = (raw as u64) << unused;
        if self.signed { top as i64 >> unused } else { (top >> unused) as i64 }
    }

    fn mask(self) -> u128 {
        (1 << self.bits) - 1
    }

    /// How far the field lies from the low end of the window that starts at its first byte.
    fn window_shift(self, offset: u64) -> u32 {
        u128::BITS - (offset % 8) as u32 - self.bits
    }
}

/// Sixteen bytes from `first` on, of which any field takes at most nine.
fn window(bytes: &[u8], first: usize) -> u128 {
    let rest = bytes.get(first..).unwrap_or_default();
    let mut window = [0; 16];
    let count = rest.len().min(window.len());
    window[..count].copy_from_slice(&rest[..count]);
    u128::from_be_bytes(window)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encoding(name: &str) -> IntegerType {
        IntegerType::parse(name.as_bytes()).unwrap()
    }

    #[test]
    fn names() {
        for name in ["", "u", "i", "u0", "u64", "i65", "U8", "i08", "i-1", "x8"] {
            assert_eq!(IntegerType::parse(name.as_bytes()), None, "{name}");
        }
        assert_eq!(encoding("i64").bits(), 64);
        assert_eq!(Overflow::parse(b"Sat"), Some(Overflow::Saturate));
        assert_eq!(Overflow::parse(b""), None);
    }

    #[test]
    fn offsets() {
        let of = |text: &str| encoding("u5").parse_offset(text.as_bytes(), 100);
        assert_eq!([of("0"), of("799"), of("#3")], [Some(0), Some(799), Some(15)]);
        assert_eq!([of("800"), of("-1"), of("#-1"), of("#160"), of("#9223372036854775807"), of("")], [None; 6]);
        assert_eq!(encoding("i64").bytes_needed(1), 9);
    }

    #[test]
    fn reads_and_writes_across_bytes() {
        let mut bytes = [0; 10];
        encoding("i64").put(&mut bytes, 7, -2);
        assert_eq!(encoding("i64").get(&bytes, 7), -2);
        assert_eq!(bytes, [1, 255, 255, 255, 255, 255, 255, 255, 0xfc, 0]);
        assert_eq!(encoding("u4").get(&bytes, 69), 0b1000);
        assert_eq!(encoding("u8").get(&bytes, 1_000_000), 0);
        encoding("u1").put(&mut bytes, 79, 1);
        assert_eq!(encoding("u3").get(&bytes, 77), 1);
        assert_eq!(encoding("u3").get(&bytes, 79), 0b100);
    }

    #[test]
    fn overflows() {
        use Overflow::{Fail, Saturate, Wrap};
        let (u2, i2, wide) = (encoding("u2"), encoding("i2"), encoding("i64"));
        assert_eq!([Wrap, Saturate, Fail].map(|overflow| u2.increment(3, 1, overflow)), [Some(0), Some(3), None]);
        assert_eq!([Wrap, Saturate, Fail].map(|overflow| u2.increment(0, -1, overflow)), [Some(3), Some(0), None]);
        assert_eq!([Wrap, Saturate, Fail].map(|overflow| u2.fit(-1, overflow)), [Some(3), Some(3), None]);
        assert_eq!([Wrap, Saturate, Fail].map(|overflow| i2.fit(2, overflow)), [Some(-2), Some(1), None]);
        assert_eq!([Wrap, Saturate, Fail].map(|overflow| i2.fit(-3, overflow)), [Some(1), Some(-2), None]);
        assert_eq!([i64::MIN, -1 << 62].map(|value| i2.fit(value, Saturate)), [Some(1), Some(-2)]);
        assert_eq!(wide.increment(i64::MAX, 1, Wrap), Some(i64::MIN));
        assert_eq!(wide.increment(i64::MIN, -1, Saturate), Some(i64::MIN));
        assert_eq!(wide.increment(i64::MAX, 1, Fail), None);
    }
}
