//! Passwords: their SHA-256 hashes.

use std::fmt;

use sha2::{Digest, Sha256};

use crate::error::RuleError;

/// The hash of a password.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Password([u8; 32]);

impl Password {
    /// The hash of `text`.
    #[must_use]
    pub fn hash(text: &[u8]) -> Self {
        Self(Sha256::digest(text).into())
    }

    /// The hash that 64 hexadecimal digits in lower case state.
    pub(crate) fn stated(digits: &[u8]) -> Result<Self, RuleError> {
        let (pairs, rest) = digits.as_chunks::<2>();
        if pairs.len() != 32 || !rest.is_empty() {
            return Err(RuleError::BadHash);
        }
        let mut hash = [0; 32];
        for (byte, [high, low]) in hash.iter_mut().zip(pairs) {
            *byte = digit(*high)? << 4 | digit(*low)?;
        }
        Ok(Self(hash))
    }

    /// 64 hexadecimal digits.
    #[must_use]
    pub fn hex(&self) -> String {
        self.0.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// Whether both are the same, in a time that does not depend on where they differ.
    pub(crate) fn equals(&self, other: &Self) -> bool {
        let difference = self.0.iter().zip(other.0).fold(0, |difference, (a, b)| difference | (a ^ b));
        std::hint::black_box(difference) == 0
    }
}

/// Even a hash does not belong into logs.
impl fmt::Debug for Password {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Password")
    }
}

fn digit(character: u8) -> Result<u8, RuleError> {
    match character {
        b'0'..=b'9' => Ok(character - b'0'),
        b'a'..=b'f' => Ok(character - b'a' + 10),
        _ => Err(RuleError::BadHash),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hash_is_that_of_sha_256() {
        // FIPS 180-2, appendix B.1.
        let hex = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        let hash = Password::hash(b"abc");
        assert_eq!(hash.hex(), hex);
        let stated = Password::stated(hex.as_bytes()).unwrap();
        assert!(stated.equals(&hash) && !stated.equals(&Password::hash(b"abd")));
        for bad in [&hex[1..], &hex.to_uppercase(), &hex.replace('a', "g"), ""] {
            assert_eq!(Password::stated(bad.as_bytes()).unwrap_err(), RuleError::BadHash);
        }
        assert_eq!(format!("{hash:?}"), "Password");
    }
}
