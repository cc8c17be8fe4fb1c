//! Why a file is not loaded, and where in it.

use std::fmt;

use almandine_rdb::file::FileError;

/// Why a file is not loaded, and where in it.
#[derive(Debug)]
pub struct LoadError {
    /// The offset of the item that is refused; behind it in the file nothing was read.
    pub offset: u64,
    /// Why.
    pub fault: LoadFault,
}

/// Why a file is not loaded.
#[derive(Debug)]
pub enum LoadFault {
    /// The file is malformed, ends too early, cannot be read, or its checksum is wrong.
    File(FileError),
    /// It has a database that is not configured.
    Database {
        /// Its number.
        number: u64,
        /// How many are configured.
        databases: usize,
    },
    /// A key is there already: of the file, or of those that are to stay.
    Duplicate(Vec<u8>),
    /// A library of functions has no first line that names it.
    Function,
    /// There is no memory for a key.
    Full(Vec<u8>),
    /// The device of `storage-dir` takes no more.
    StorageFull,
    /// The device of `storage-dir` cannot give what it was given.
    Unreadable,
    /// The caller asked for the end.
    Stopped,
}

impl From<FileError> for LoadError {
    fn from(error: FileError) -> Self {
        Self { offset: error.offset, fault: LoadFault::File(error) }
    }
}

impl std::error::Error for LoadError {}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let offset = self.offset;
        match &self.fault {
            LoadFault::File(error) => error.fmt(f),
            LoadFault::Database { number, databases } => write!(
                f,
                "it has keys in database {number}, and 'databases' says that there are {databases}, at offset {offset}: raise it \
                 to {} or more",
                number.saturating_add(1)
            ),
            LoadFault::Duplicate(key) => write!(f, "the key '{}' is there twice, at offset {offset}", shown(key)),
            LoadFault::Function => {
                write!(f, "a library of functions does not begin with '#!<engine> name=<name>', at offset {offset}")
            }
            LoadFault::Full(key) => write!(f, "there is no memory for the key '{}' at offset {offset}", shown(key)),
            LoadFault::StorageFull => write!(f, "the device of storage-dir takes no more, at offset {offset}"),
            LoadFault::Unreadable => write!(f, "the device of storage-dir cannot be read, at offset {offset}"),
            LoadFault::Stopped => write!(f, "loading was ended at offset {offset}"),
        }
    }
}

/// Bytes of a key that are shown.
const SHOWN_BYTES: usize = 64;

fn shown(key: &[u8]) -> String {
    let more = if key.len() > SHOWN_BYTES { "…" } else { "" };
    format!("{}{more}", key[..key.len().min(SHOWN_BYTES)].escape_ascii())
}
