//! What one run of a server puts to the devices below memory is encrypted with keys of its own.
//!
//! AES-256 in counter mode: records are read by the blocks that have them, and decrypted by themselves, so there is no tag, and
//! no room for one. Both keys, of pages and of large values, are derived from a key of the key file and a salt that is drawn when
//! the run first writes. The counter block is the count of the image and the place in it; each image that is made of a page has a
//! count of its own, also where it is made again because a device has failed (INV-ENCRYPTION-3).
//!
//! ```text
//! counter block    count of the image 8 | number of the sixteen bytes in the page, or of large values on their device 8 |
//!                  both with the most significant byte first
//! ```

use std::fmt;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};

use almandine_base::step;
use almandine_io::entropy;
use aws_lc_rs::cipher::{AES_256, EncryptingKey, EncryptionContext, UnboundCipherKey};
use aws_lc_rs::hkdf::{HKDF_SHA256, KeyType, Salt};
use aws_lc_rs::iv::FixedLength;
use zeroize::Zeroizing;

use super::cipher::SALT_BYTES;
use super::keys::KeyMark;

const KEY_BYTES: usize = 32;
/// What a counter block counts.
const UNIT: u64 = 16;
/// Counts are smaller.
const COUNTS: u64 = 1 << 48;

/// What lies on one of both devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoragePart {
    /// A page; places count from its beginning.
    Page,
    /// Large values; places count from the beginning of their device.
    Values,
}

/// See the module.
pub struct StorageCipher {
    pages: EncryptingKey,
    values: EncryptingKey,
    mark: KeyMark,
    salt: [u8; SALT_BYTES],
    /// The count of the next image.
    next: AtomicU64,
}

impl fmt::Debug for StorageCipher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StorageCipher").field("mark", &self.mark).finish_non_exhaustive()
    }
}

#[derive(Clone, Copy)]
struct KeyBytes;

impl KeyType for KeyBytes {
    fn len(&self) -> usize {
        KEY_BYTES
    }
}

fn failed<E>(_: E) -> io::Error {
    io::Error::other("no key could be derived")
}

impl StorageCipher {
    /// That of a run that begins to write.
    pub(super) fn fresh(of: (KeyMark, &[u8])) -> io::Result<Self> {
        let mut salt = [0; SALT_BYTES];
        step!(FreshStorageSalt, entropy::fill(&mut salt)?);
        Self::of(of, salt)
    }

    /// That of a run that has drawn this salt: for reading.
    pub(super) fn of((mark, secret): (KeyMark, &[u8]), salt: [u8; SALT_BYTES]) -> io::Result<Self> {
        let derived = Salt::new(HKDF_SHA256, &salt).extract(secret);
        let key = |info: &[u8]| {
            let mut bytes = Zeroizing::new([0; KEY_BYTES]);
            derived.expand(&[info], KeyBytes).and_then(|key| key.fill(&mut *bytes)).map_err(failed)?;
            EncryptingKey::ctr(UnboundCipherKey::new(&AES_256, &*bytes).map_err(failed)?).map_err(failed)
        };
        let (pages, values) = (key(b"almandine storage pages")?, key(b"almandine storage values")?);
        Ok(Self { pages, values, mark, salt, next: AtomicU64::new(0) })
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

    /// The count of an image that is to be encrypted; none comes twice. Only by the run that has begun this cipher.
    ///
    /// # Errors
    /// When there is no further one.
    pub fn draw(&self) -> io::Result<u64> {
        let count = step!(FreshCount, self.next.fetch_add(1, Ordering::Relaxed), else 0);
        if count < COUNTS { Ok(count) } else { Err(io::Error::other("all counts of a key are used")) }
    }

    /// Encrypts or decrypts, which is the same, bytes that lie at this place.
    ///
    /// # Errors
    /// Of the library; then the bytes are anything.
    pub fn apply(&self, part: StoragePart, count: u64, at: u64, bytes: &mut [u8]) -> io::Result<()> {
        let key = match part {
            StoragePart::Page => &self.pages,
            StoragePart::Values => &self.values,
        };
        let stream = |unit: u64, bytes: &mut [u8]| {
            let mut block = [0; 16];
            block[..8].copy_from_slice(&count.to_be_bytes());
            block[8..].copy_from_slice(&unit.to_be_bytes());
            let context = EncryptionContext::Iv128(FixedLength::from(block));
            let done = key.less_safe_encrypt(bytes, context);
            done.map(|_| ()).map_err(|_| io::Error::other("it cannot be encrypted or decrypted"))
        };
        let (first, skipped) = (at / UNIT, (at % UNIT) as usize);
        if skipped == 0 {
            return stream(first, bytes);
        }
        // It begins within a unit.
        let (begun, rest) = bytes.split_at_mut(bytes.len().min(UNIT as usize - skipped));
        let mut unit = [0; UNIT as usize];
        stream(first, &mut unit)?;
        begun.iter_mut().zip(&unit[skipped..]).for_each(|(byte, stream)| *byte ^= stream);
        if rest.is_empty() { Ok(()) } else { stream(first + 1, rest) }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::encryption::LogKeys;

    const FILE: &str = "one 000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f\n";

    fn keys() -> LogKeys {
        LogKeys::parse(FILE.as_bytes()).unwrap()
    }

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    #[test]
    fn each_part_of_an_image_is_read_by_itself() {
        let cipher = keys().begin_storage().unwrap().unwrap();
        let plain: Vec<u8> = (0..400_u32).map(|at| (at * 7) as u8).collect();
        for part in [StoragePart::Page, StoragePart::Values] {
            let mut image = plain.clone();
            cipher.apply(part, 5, 4096, &mut image).unwrap();
            assert!(image.iter().zip(&plain).filter(|(left, right)| left == right).count() < 20);
            for (from, to) in [(0, 400), (8, 16), (8, 17), (16, 32), (24, 399), (3, 5), (31, 33), (40, 40), (393, 400)] {
                let mut read = image[from..to].to_vec();
                cipher.apply(part, 5, 4096 + from as u64, &mut read).unwrap();
                assert_eq!(read, plain[from..to], "{from} to {to}");
            }
        }
    }

    /// INV-ENCRYPTION-3.
    #[test]
    fn no_stream_comes_twice() {
        let mut seen = BTreeSet::new();
        for _ in 0..20 {
            let cipher = keys().begin_storage().unwrap().unwrap();
            for count in (0..3).map(|_| cipher.draw().unwrap()) {
                for part in [StoragePart::Page, StoragePart::Values] {
                    for at in [0, 16, 1 << 36, 1 << 50] {
                        let mut stream = [0; 16];
                        cipher.apply(part, count, at, &mut stream).unwrap();
                        assert!(seen.insert(stream), "INV-ENCRYPTION-3: {part:?}, count {count}, place {at}");
                    }
                }
            }
        }
    }

    /// The derivation is fixed: pages outlive the program.
    #[test]
    fn bytes_are_pinned() {
        let mark = keys().current().unwrap();
        let cipher = keys().open_storage(&mark, [7; SALT_BYTES]).unwrap();
        let stream = |part, count, at| {
            let mut bytes = [0; 12];
            cipher.apply(part, count, at, &mut bytes).unwrap();
            hex(&bytes)
        };
        let streams = [stream(StoragePart::Page, 3, 4104), stream(StoragePart::Values, 3, 1 << 40)];
        assert_eq!(streams, ["3e9e1722b5aad5019db04ef8", "d8fc48390904dacdbaff8e4e"]);
    }
}
