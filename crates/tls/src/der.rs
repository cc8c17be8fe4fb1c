//! Reads DER, as far as certificates and encrypted keys need it.

pub(crate) const INTEGER: u8 = 0x02;
pub(crate) const OCTETS: u8 = 0x04;
pub(crate) const OBJECT: u8 = 0x06;
pub(crate) const SEQUENCE: u8 = 0x30;
pub(crate) const SET: u8 = 0x31;

/// Values that follow one another.
#[derive(Clone, Copy)]
pub(crate) struct Der<'a>(pub(crate) &'a [u8]);

impl<'a> Der<'a> {
    /// The next value: its tag and its content.
    pub(crate) fn next(&mut self) -> Option<(u8, &'a [u8])> {
        let (&[tag, first], rest) = self.0.split_first_chunk::<2>()?;
        let (len, rest) = match usize::from(first) {
            len @ 0..0x80 => (len, rest),
            // Four bytes of length are more than any file has.
            form => {
                let (bytes, rest) = rest.split_at_checked(form - 0x80).filter(|(bytes, _)| (1..=4).contains(&bytes.len()))?;
                (bytes.iter().fold(0, |len, &byte| len << 8 | usize::from(byte)), rest)
            }
        };
        let (content, rest) = rest.split_at_checked(len)?;
        self.0 = rest;
        Some((tag, content))
    }

    /// The content of the next value, which must have this tag.
    pub(crate) fn take(&mut self, tag: u8) -> Option<&'a [u8]> {
        self.next().filter(|(found, _)| *found == tag).map(|(_, content)| content)
    }

    /// What is within the next value, which must have this tag.
    pub(crate) fn enter(&mut self, tag: u8) -> Option<Self> {
        self.take(tag).map(Self)
    }

    /// The content of the next value if it has this tag.
    pub(crate) fn take_optional(&mut self, tag: u8) -> Option<&'a [u8]> {
        let before = *self;
        let taken = self.take(tag);
        if taken.is_none() {
            *self = before;
        }
        taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_within_their_bytes() {
        let mut values = Der(&[0x02, 1, 7, 0x30, 0x81, 2, 0x04, 0, 0x05]);
        assert_eq!(values.take_optional(OCTETS), None);
        assert_eq!(values.take(INTEGER), Some(&[7][..]));
        assert_eq!(values.enter(SEQUENCE).and_then(|mut inner| inner.take(OCTETS)), Some(&[][..]));
        assert_eq!(values.next(), None);
        for wrong in [&[0x30, 2, 0][..], &[0x30, 0x80], &[0x30, 0x85, 0, 0, 0, 0, 0], &[0x30, 0x84, 0xFF, 0xFF, 0xFF, 0xFF]] {
            assert_eq!(Der(wrong).next(), None, "{wrong:?}");
        }
    }
}
