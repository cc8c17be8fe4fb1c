//! Append-only files of Redis and Valkey: the commands of a file, and the manifest of those that lie in several.
//!
//! ```text
//! manifest    a line for each file: file <name> seq <number> type <b, h or i>
//! file        items, one behind the other; before the first, a snapshot may stand ([`crate::file`])
//! item        a command as clients send it (*2 $3 DEL $1 k), or a line of remarks: #TS:1628217470
//! ```

mod fault;
mod manifest;
mod reader;

pub use fault::{AofError, AofFault};
pub use manifest::{AofFile, AofKind, AofManifest, ManifestError, ManifestFault};
pub use reader::{AofCommand, AofReader};

/// Whether a file begins with a snapshot. `bytes` are its first five, or more.
#[must_use]
pub fn begins_with_snapshot(bytes: &[u8]) -> bool {
    bytes.starts_with(b"REDIS") || bytes.starts_with(b"VALKE")
}
