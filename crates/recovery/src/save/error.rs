//! Why a snapshot is not written.

use std::fmt;
use std::io;

use almandine_rdb::value::footer;

/// Why a snapshot is not written. Whatever had its name has it still.
#[derive(Debug)]
pub enum SaveError {
    /// The file cannot be written.
    Io(io::Error),
    /// A record on the device cannot be read, now or ever.
    Unreadable,
    /// This many records on the device were found damaged and given up meanwhile.
    Lost(u64),
    /// It was cancelled.
    Cancelled,
    /// A value needs a newer version of the format, and was not to be written in any other.
    Version {
        /// The value's key.
        key: Vec<u8>,
        /// The oldest version whose readers know the value.
        version: u16,
    },
}

impl From<io::Error> for SaveError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl fmt::Display for SaveError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(error) => write!(f, "the file cannot be written: {error}"),
            Self::Unreadable => write!(f, "a record on the storage device cannot be read"),
            Self::Lost(count) => write!(f, "{count} records on the storage device were damaged and are lost"),
            Self::Cancelled => write!(f, "it was cancelled"),
            Self::Version { key, version } => {
                let needed = if *version == footer::VERSION_VALKEY_9 { "VALKEY" } else { "REDIS" };
                write!(f, "the key '{}' needs version {needed} {version} of the format", key.escape_ascii())
            }
        }
    }
}

impl std::error::Error for SaveError {}
