//! A string that was read from a payload: where it lies, or what an integer or compressed bytes stand for.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::fmt;
use std::ops::Deref;

use almandine_datatypes::packed::Element;

/// Of the decimal form of an `i64`.
const DIGITS_MAX: usize = 20;

/// Reads as the bytes of the string. Only decompressed ones have memory of their own.
#[derive(Clone)]
pub struct Text<'i>(Source<'i>);

#[derive(Clone)]
enum Source<'i> {
    Part(&'i [u8]),
    Decimal { digits: [u8; DIGITS_MAX], len: u8 },
    Owned(Vec<u8>),
}

impl Text<'_> {
    /// The string with memory of its own.
    #[must_use]
    pub fn into_vec(self) -> Vec<u8> {
        match self.0 {
            Source::Owned(bytes) => bytes,
            _ => self.to_vec(),
        }
    }
}

impl<'i> Text<'i> {
    /// The string where it lies, or else with memory of its own.
    pub(super) fn into_bytes(self) -> Cow<'i, [u8]> {
        match self.0 {
            Source::Part(bytes) => Cow::Borrowed(bytes),
            _ => Cow::Owned(self.into_vec()),
        }
    }
}

impl<'i> From<&'i [u8]> for Text<'i> {
    fn from(bytes: &'i [u8]) -> Self {
        Self(Source::Part(bytes))
    }
}

impl<'i> From<Element<'i>> for Text<'i> {
    fn from(element: Element<'i>) -> Self {
        match element {
            Element::Bytes(bytes) => bytes.into(),
            Element::Integer(number) => number.into(),
        }
    }
}

impl From<Vec<u8>> for Text<'_> {
    fn from(bytes: Vec<u8>) -> Self {
        Self(Source::Owned(bytes))
    }
}

/// The decimal form of the number.
impl From<i64> for Text<'_> {
    fn from(number: i64) -> Self {
        let mut buffer = itoa::Buffer::new();
        let text = buffer.format(number).as_bytes();
        let mut digits = [0; DIGITS_MAX];
        for (digit, &byte) in digits.iter_mut().zip(text) {
            *digit = byte;
        }
        Self(Source::Decimal { digits, len: text.len() as u8 })
    }
}

impl Deref for Text<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match &self.0 {
            Source::Part(bytes) => bytes,
            Source::Decimal { digits, len } => digits.get(..usize::from(*len)).unwrap_or(digits),
            Source::Owned(bytes) => bytes,
        }
    }
}

impl fmt::Debug for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\"", self.escape_ascii())
    }
}

impl PartialEq for Text<'_> {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl Eq for Text<'_> {}

impl PartialOrd for Text<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Text<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        (**self).cmp(&**other)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_its_bytes_whatever_it_came_from() {
        assert_eq!(&*Text::from(i64::MIN), i64::MIN.to_string().as_bytes());
        assert_eq!(Text::from(-7), Text::from(&b"-7"[..]));
        assert_eq!(Text::from(b"x".to_vec()).into_vec(), b"x");
        assert!(Text::from(10) < Text::from(9));
    }
}
