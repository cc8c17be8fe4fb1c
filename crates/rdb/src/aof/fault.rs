//! Why the items of a file are not read on.

use std::{fmt, io};

/// Why a file is not read on, and where it stands.
#[derive(Debug)]
pub struct AofError {
    /// Where the item begins that is refused; what is before it was given.
    pub offset: u64,
    /// Why.
    pub fault: AofFault,
}

/// Why a file is not read on.
#[derive(Debug)]
pub enum AofFault {
    /// The file ends within an item.
    Truncated,
    /// The bytes are no item.
    Malformed(&'static str),
    /// The file cannot be read.
    Io(io::Error),
}

impl std::error::Error for AofError {}

impl fmt::Display for AofError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let offset = self.offset;
        match &self.fault {
            AofFault::Truncated => write!(f, "the file ends within the command at offset {offset}"),
            AofFault::Malformed(what) => write!(f, "{what}, at offset {offset}"),
            AofFault::Io(error) => write!(f, "{error}, at offset {offset}"),
        }
    }
}
