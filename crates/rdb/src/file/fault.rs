//! What is wrong with a file, and where.

use std::fmt;
use std::io;

use crate::value::hash::Dialect;

/// Why a file cannot be read on.
#[derive(Debug)]
pub struct FileError {
    /// Bytes before what is wrong.
    pub offset: u64,
    /// What is wrong.
    pub fault: Fault,
}

/// What is wrong with a file.
#[derive(Debug)]
pub enum Fault {
    /// It could not be read.
    Io(io::Error),
    /// It ends here.
    Truncated,
    /// Its first bytes are not those of a snapshot.
    NoSnapshot,
    /// Its version is not known.
    Version {
        /// Whose numbering it follows.
        dialect: Dialect,
        /// Its number.
        number: u16,
    },
    /// No opcode and no type of this number is known.
    Type(u8),
    /// Bytes that do not mean what stands here.
    Malformed(&'static str),
    /// A value of a module.
    ModuleValue(String),
    /// Metadata that a module keeps of a key.
    KeyMetadata,
    /// A library of functions as candidates of Redis 7.0 wrote it.
    FunctionCandidate,
    /// The checksum is not that of the bytes.
    Checksum {
        /// What the file says.
        expected: u64,
        /// Of the bytes before.
        found: u64,
    },
}

impl fmt::Display for FileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at offset {}", self.fault, self.offset)
    }
}

impl std::error::Error for FileError {}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(error) => write!(f, "the file cannot be read: {error},"),
            Self::Truncated => write!(f, "the file ends too early,"),
            Self::NoSnapshot => write!(f, "Wrong signature: this is no RDB file,"),
            Self::Version { dialect, number } => {
                let whose = if *dialect == Dialect::Valkey { "VALKEY" } else { "REDIS" };
                write!(f, "Can't handle RDB format version {whose} {number}")
            }
            Self::Type(number) => write!(f, "unknown type or opcode {number}"),
            Self::Malformed(what) => write!(f, "malformed {what}"),
            Self::ModuleValue(name) => write!(f, "a value of the module type '{name}', which does not exist here,"),
            Self::KeyMetadata => write!(f, "metadata that a module keeps of a key (opcode 243), which does not exist here,"),
            Self::FunctionCandidate => write!(f, "Pre-release function format not supported (opcode 246)"),
            Self::Checksum { expected, found } => {
                write!(f, "Wrong RDB checksum expected: ({expected:x}) but got ({found:x}), an RDB CRC error")
            }
        }
    }
}
