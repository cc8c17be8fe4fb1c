//! The parts that edits of values are written in, as effects have them: one edit behind the other, each a number and what it needs.

/// An edit of a type as bytes.
pub trait EditBytes<'e>: Sized {
    /// Appends it to others.
    fn push(self, out: &mut Vec<u8>);

    /// The first of the edits, which is taken off. None at the end, and where bytes are no edit.
    fn take(edits: &mut &'e [u8]) -> Option<Self>;
}

/// Appends bytes and how many they are.
pub(in crate::types) fn push_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    push_number(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// Appends a number: seven bits to a byte, the lowest first.
pub(in crate::types) fn push_number(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// Takes bytes off. None where there are none.
pub(in crate::types) fn take_bytes<'e>(edits: &mut &'e [u8]) -> Option<&'e [u8]> {
    let len = usize::try_from(take_number(edits)?).ok()?;
    let (bytes, rest) = edits.split_at_checked(len)?;
    *edits = rest;
    Some(bytes)
}

/// Takes a number off.
pub(in crate::types) fn take_number(edits: &mut &[u8]) -> Option<u64> {
    let mut number = 0_u64;
    for shift in (0..64).step_by(7) {
        let byte = take_byte(edits)?;
        let bits = u64::from(byte & 0x7f);
        if bits << shift >> shift != bits {
            return None;
        }
        number |= bits << shift;
        if byte < 0x80 {
            return Some(number);
        }
    }
    None
}

/// Takes a byte off.
pub(in crate::types) fn take_byte(edits: &mut &[u8]) -> Option<u8> {
    let (&byte, rest) = edits.split_first()?;
    *edits = rest;
    Some(byte)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_bytes_come_back_and_cut_ones_are_none() {
        for number in [0, 1, 127, 128, 300, u64::from(u32::MAX), u64::MAX - 1, u64::MAX] {
            let mut out = Vec::new();
            push_number(&mut out, number);
            assert_eq!(take_number(&mut &out[..]), Some(number));
            assert_eq!(take_number(&mut &out[..out.len() - 1]), None, "cut {number}");
        }
        assert_eq!(take_number(&mut &[0xff; 10][..]), None, "more than 64 bits");
        let mut out = Vec::new();
        push_bytes(&mut out, b"member");
        assert_eq!(take_bytes(&mut &out[..]), Some(&b"member"[..]));
        assert_eq!(take_bytes(&mut &out[..3]), None);
    }
}
