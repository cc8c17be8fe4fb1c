//! Why an archive cannot be used.

use std::fmt;
use std::io;

use crate::fault::Fault;

/// Why an archive cannot be used.
#[derive(Debug)]
pub enum ArchiveFault {
    /// The object storage, which may do later what it refuses now.
    Store(io::Error),
    /// The files of the log here.
    Log(Fault),
    /// The pages here that a base names: it cannot be shipped, and the log is all the same.
    Pages(String),
    /// Another server owns it, or has taken it over: this one must not go on with it.
    Owned(String),
    /// What is there is not what was written.
    Damaged(String),
}

impl fmt::Display for ArchiveFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Store(error) => write!(f, "the object storage does not do it: {error}"),
            Self::Log(fault) => fault.fmt(f),
            Self::Pages(why) => write!(f, "the last base stays out of the archive until there is a new one: {why}"),
            Self::Owned(why) => f.write_str(why),
            Self::Damaged(why) => write!(f, "the archive is damaged: {why}"),
        }
    }
}

impl std::error::Error for ArchiveFault {}

impl From<Fault> for ArchiveFault {
    fn from(fault: Fault) -> Self {
        Self::Log(fault)
    }
}

impl From<io::Error> for ArchiveFault {
    fn from(error: io::Error) -> Self {
        Self::Store(error)
    }
}
