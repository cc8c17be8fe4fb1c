//! A member of a set, or an element of a list: bytes where they lie, or what an integer's decimal form is.

use std::fmt;
use std::ops::Deref;

use super::Element;

/// Of the decimal form of an `i64`.
const DIGITS_MAX: usize = 20;

/// Reads as its bytes.
#[derive(Clone, Copy)]
pub struct Member<'a>(Source<'a>);

#[derive(Clone, Copy)]
enum Source<'a> {
    Bytes(&'a [u8]),
    Decimal { digits: [u8; DIGITS_MAX], len: u8 },
}

impl<'a> From<&'a [u8]> for Member<'a> {
    fn from(bytes: &'a [u8]) -> Self {
        Self(Source::Bytes(bytes))
    }
}

/// The decimal form of the number.
impl From<i64> for Member<'_> {
    fn from(number: i64) -> Self {
        let mut buffer = itoa::Buffer::new();
        let text = buffer.format(number).as_bytes();
        let mut digits = [0; DIGITS_MAX];
        digits[..text.len()].copy_from_slice(text);
        Self(Source::Decimal { digits, len: text.len() as u8 })
    }
}

impl<'a> From<Element<'a>> for Member<'a> {
    #[inline]
    fn from(element: Element<'a>) -> Self {
        match element {
            Element::Bytes(bytes) => bytes.into(),
            Element::Integer(number) => number.into(),
        }
    }
}

impl Deref for Member<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match &self.0 {
            Source::Bytes(bytes) => bytes,
            Source::Decimal { digits, len } => &digits[..usize::from(*len)],
        }
    }
}

impl fmt::Debug for Member<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\"", self.escape_ascii())
    }
}

impl PartialEq for Member<'_> {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl Eq for Member<'_> {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_member_is_its_bytes() {
        assert_eq!(&*Member::from(i64::MIN), i64::MIN.to_string().as_bytes());
        assert_eq!(Member::from(-7), Member::from(&b"-7"[..]));
    }
}
