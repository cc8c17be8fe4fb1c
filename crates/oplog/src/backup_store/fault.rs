//! Why a backup is not shipped, or not restored.

use std::fmt;
use std::io;

use crate::fault::Fault;

/// Why a backup is not shipped, or not restored.
#[derive(Debug)]
pub enum StoreFault {
    /// The object storage, which may do later what it refuses now.
    Store(io::Error),
    /// The files here.
    Files(Fault),
    /// It cannot be what is asked for.
    Refused(String),
    /// What is there is not what was written.
    Damaged(String),
    /// It was ended on purpose.
    Stopped,
}

impl StoreFault {
    /// The system has refused something.
    pub(super) fn file(what: &'static str, path: impl AsRef<std::path::Path>, error: io::Error) -> Self {
        Self::Files(Fault::io(what, path.as_ref(), error))
    }
}

impl fmt::Display for StoreFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Store(error) => write!(f, "the object storage does not do it: {error}"),
            Self::Files(fault) => fault.fmt(f),
            Self::Refused(why) => f.write_str(why),
            Self::Damaged(why) => write!(f, "the backup is damaged: {why}"),
            Self::Stopped => f.write_str("it was given up"),
        }
    }
}

impl std::error::Error for StoreFault {}

impl From<Fault> for StoreFault {
    fn from(fault: Fault) -> Self {
        Self::Files(fault)
    }
}

impl From<io::Error> for StoreFault {
    fn from(error: io::Error) -> Self {
        Self::Store(error)
    }
}
