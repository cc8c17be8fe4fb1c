//! Numbers of one to ten bytes: seven bits in each, the lowest first, the high bit in all but the last.

/// Bytes of the longest one.
pub(in crate::stream) const BYTES_MAX: usize = 10;

/// Bytes that a number takes.
#[inline]
pub(in crate::stream) fn len(number: u64) -> usize {
    (70 - (number | 1).leading_zeros() as usize) / 7
}

/// Writes a number at `at`, and moves it behind. There is room.
#[inline]
pub(in crate::stream) fn write(bytes: &mut [u8], at: &mut usize, mut number: u64) {
    while number >= 0x80 {
        bytes[*at] = number as u8 | 0x80;
        *at += 1;
        number >>= 7;
    }
    bytes[*at] = number as u8;
    *at += 1;
}

/// The number at the front, which is taken off. None where there is no whole one.
#[inline]
pub(in crate::stream) fn take(bytes: &mut &[u8]) -> Option<u64> {
    let (&first, rest) = bytes.split_first()?;
    if first < 0x80 {
        *bytes = rest;
        return Some(u64::from(first));
    }
    take_long(bytes)
}

fn take_long(bytes: &mut &[u8]) -> Option<u64> {
    let mut number = 0;
    for (index, byte) in bytes.iter().take(BYTES_MAX).enumerate() {
        let bits = u64::from(byte & 0x7F);
        let shift = 7 * index as u32;
        if shift == 63 && bits > 1 {
            return None;
        }
        number |= bits << shift;
        if byte & 0x80 == 0 {
            *bytes = &bytes[index + 1..];
            return Some(number);
        }
    }
    None
}

/// A length and as many bytes, which are taken off.
#[inline]
pub(in crate::stream) fn take_bytes<'b>(bytes: &mut &'b [u8]) -> Option<&'b [u8]> {
    let len = usize::try_from(take(bytes)?).ok()?;
    let (taken, rest) = bytes.split_at_checked(len)?;
    *bytes = rest;
    Some(taken)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn push(out: &mut Vec<u8>, number: u64) {
        let mut bytes = [0; BYTES_MAX];
        let mut len = 0;
        write(&mut bytes, &mut len, number);
        out.extend_from_slice(&bytes[..len]);
    }

    #[test]
    fn numbers_come_back() {
        for number in (0..64).flat_map(|bit| [1u64 << bit, (1 << bit) - 1, !(1 << bit)]) {
            let mut out = Vec::new();
            push(&mut out, number);
            assert_eq!(out.len(), len(number), "{number}");
            let mut bytes = &out[..];
            assert_eq!((take(&mut bytes), bytes.len()), (Some(number), 0));
            assert_eq!(take(&mut &out[..out.len() - 1]), None);
        }
        assert_eq!(take(&mut &[0xFF; 9].iter().chain(&[2]).copied().collect::<Vec<u8>>()[..]), None);
    }
}
