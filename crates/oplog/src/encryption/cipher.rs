//! The key of one file, and what is encrypted with it.

use std::fmt;
use std::io;

use almandine_base::step;
use almandine_io::entropy;
use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use aws_lc_rs::hkdf::{HKDF_SHA256, Salt};

use super::keys::KeyMark;

/// Bytes of a salt.
pub const SALT_BYTES: usize = 16;
/// Bytes of what authenticates a body and its head.
pub const TAG_BYTES: usize = 16;
/// The count of the end of a file, where that is found without what is before it.
pub const COUNT_LAST: u64 = u64::MAX;

/// What a file is, by which its key differs from those of others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileKind {
    /// A segment of the log.
    Segment,
    /// A file of a base.
    Base,
    /// The file of a base that names what lies on a device.
    Device,
}

/// A body, or the head before it, is not what was encrypted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unauthentic;

/// See the module.
pub struct FileCipher {
    key: LessSafeKey,
    mark: KeyMark,
    salt: [u8; SALT_BYTES],
    /// The count of the next body.
    next: u64,
}

impl fmt::Debug for FileCipher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FileCipher").field("mark", &self.mark).finish_non_exhaustive()
    }
}

impl FileCipher {
    /// That of a new file.
    pub(super) fn fresh(kind: FileKind, (mark, secret): (KeyMark, &[u8])) -> io::Result<Self> {
        let mut salt = [0; SALT_BYTES];
        step!(FreshSalt, entropy::fill(&mut salt)?);
        Self::of(kind, (mark, secret), salt)
    }

    /// That of a file with this salt.
    pub(super) fn of(kind: FileKind, (mark, secret): (KeyMark, &[u8]), salt: [u8; SALT_BYTES]) -> io::Result<Self> {
        let info: &[u8] = match kind {
            FileKind::Segment => b"almandine log segment",
            FileKind::Base => b"almandine log base",
            FileKind::Device => b"almandine log device",
        };
        let failed = |_| io::Error::other("no key could be derived");
        let derived = Salt::new(HKDF_SHA256, &salt).extract(secret);
        let key = LessSafeKey::new(UnboundKey::from(derived.expand(&[info], &AES_256_GCM).map_err(failed)?));
        Ok(Self { key, mark, salt, next: 0 })
    }

    /// Which key it was derived from.
    #[must_use]
    pub fn mark(&self) -> KeyMark {
        self.mark
    }

    /// What it was derived with.
    #[must_use]
    pub fn salt(&self) -> [u8; SALT_BYTES] {
        self.salt
    }

    /// Encrypts a body in its place, and authenticates it with the head before it. Its count, and what it is known by.
    ///
    /// # Errors
    /// Of the library, which refuses only what is longer than any body.
    pub fn encrypt(&mut self, head: &[u8], body: &mut [u8]) -> io::Result<(u64, [u8; TAG_BYTES])> {
        let count = self.next;
        debug_assert!(count < COUNT_LAST, "INV-ENCRYPTION-1: each count comes once");
        self.next += 1;
        Ok((count, self.encrypt_as(count, head, body)?))
    }

    /// Encrypts the end of the file, behind which nothing comes.
    ///
    /// # Errors
    /// As of [`Self::encrypt`].
    pub fn encrypt_last(self, head: &[u8], body: &mut [u8]) -> io::Result<[u8; TAG_BYTES]> {
        self.encrypt_as(COUNT_LAST, head, body)
    }

    fn encrypt_as(&self, count: u64, head: &[u8], body: &mut [u8]) -> io::Result<[u8; TAG_BYTES]> {
        let tag = self.key.seal_in_place_separate_tag(nonce(count), Aad::from(head), body);
        let tag = tag.map_err(|_| io::Error::other("it cannot be encrypted"))?;
        tag.as_ref().try_into().map_err(io::Error::other)
    }

    /// Decrypts a body of this count to a place of its length.
    ///
    /// # Errors
    /// When it, or the head, is not what was encrypted.
    pub fn decrypt(&self, count: u64, head: &[u8], (body, tag): (&[u8], &[u8]), to: &mut [u8]) -> Result<(), Unauthentic> {
        self.key.open_separate_gather(nonce(count), Aad::from(head), body, tag, to).map_err(|_| Unauthentic)
    }
}

fn nonce(count: u64) -> Nonce {
    let mut bytes = [0; NONCE_LEN];
    bytes[NONCE_LEN - 8..].copy_from_slice(&count.to_le_bytes());
    Nonce::assume_unique_for_key(bytes)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::encryption::LogKeys;

    const FILE: &str = "one 000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f\n";

    #[test]
    fn what_was_encrypted_is_read_and_no_flipped_bit_passes() {
        let keys = LogKeys::parse(FILE.as_bytes()).unwrap();
        let mut cipher = keys.begin(FileKind::Base).unwrap().unwrap();
        let mut body = *b"a body of some bytes";
        let (count, tag) = cipher.encrypt(b"head", &mut body).unwrap();
        assert_ne!(&body, b"a body of some bytes");
        let mut plain = [0; 20];
        let reader = keys.open(FileKind::Base, &cipher.mark(), cipher.salt()).unwrap();
        reader.decrypt(count, b"head", (&body, &tag), &mut plain).unwrap();
        assert_eq!(&plain, b"a body of some bytes");
        for bit in 0..body.len() * 8 {
            let mut other = body;
            other[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(reader.decrypt(count, b"head", (&other, &tag), &mut plain), Err(Unauthentic), "{bit}");
        }
        for bit in 0..TAG_BYTES * 8 {
            let mut other = tag;
            other[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(reader.decrypt(count, b"head", (&body, &other), &mut plain), Err(Unauthentic), "{bit}");
        }
        assert_eq!(reader.decrypt(count, b"hEad", (&body, &tag), &mut plain), Err(Unauthentic));
        assert_eq!(reader.decrypt(count + 1, b"head", (&body, &tag), &mut plain), Err(Unauthentic));
        let segment = keys.open(FileKind::Segment, &cipher.mark(), cipher.salt()).unwrap();
        assert_eq!(segment.decrypt(count, b"head", (&body, &tag), &mut plain), Err(Unauthentic));
    }

    /// INV-ENCRYPTION-1: files of one kind and number have other keys, and the bodies of a file other counts.
    #[test]
    fn no_key_and_nonce_come_twice() {
        let keys = LogKeys::parse(FILE.as_bytes()).unwrap();
        let mut seen = BTreeSet::new();
        for _ in 0..50 {
            let mut cipher = keys.begin(FileKind::Segment).unwrap().unwrap();
            for _ in 0..3 {
                let (count, _) = cipher.encrypt(b"", &mut [0; 4]).unwrap();
                assert!(seen.insert((cipher.salt(), count)));
            }
            let salt = cipher.salt();
            cipher.encrypt_last(b"", &mut [0; 4]).unwrap();
            assert!(seen.insert((salt, COUNT_LAST)));
        }
    }

    /// The derivation is fixed: files outlive the program.
    #[test]
    fn bytes_are_pinned() {
        let keys = LogKeys::parse(FILE.as_bytes()).unwrap();
        let mark = keys.current().unwrap();
        let mut cipher = keys.open(FileKind::Segment, &mark, [7; SALT_BYTES]).unwrap();
        let mut body = *b"body";
        let (_, tag) = cipher.encrypt(b"head", &mut body).unwrap();
        let hex: String = body.iter().chain(&tag).map(|byte| format!("{byte:02x}")).collect();
        assert_eq!((mark.to_string().as_str(), hex.as_str()), ("one 82370209ee94a09f", "c60b73142e47af07fe941219471164f38a27ddb4"));
    }
}
