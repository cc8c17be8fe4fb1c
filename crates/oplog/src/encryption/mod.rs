//! Encryption of the log's files: AES-256-GCM, with keys from a file of the operator's; and of what lies below memory, see
//! [`StorageCipher`].
//!
//! Each file that is written has a key of its own, derived by HKDF-SHA256 from the first key of the key file and a *salt* of 128
//! random bits, and counts what it encrypts: the count is the nonce. So no pair of key and nonce comes twice (INV-ENCRYPTION-1),
//! though runs, segments and bases of a copied or restored directory have the numbers of the original, and though a place that
//! could not be written is written again elsewhere.
//!
//! Heads stay readable, and are authenticated with the body behind them. Checksums are those of what lies in the file, so that it
//! is known without a key what is whole.
//!
//! ```text
//! mark     | name of the key, 16 bytes, zeroes behind it | check value of the key, 8 |
//! nonce    | zeroes, 4 bytes | count, 8 |                         least significant byte first
//! ```

mod cipher;
mod keys;
mod storage;

pub use self::cipher::{COUNT_LAST, FileCipher, FileKind, SALT_BYTES, TAG_BYTES, Unauthentic};
pub use self::keys::{KEY_NAME_BYTES, KeyMark, LogKeys, MARK_BYTES, NoKey};
pub use self::storage::{StorageCipher, StoragePart};
