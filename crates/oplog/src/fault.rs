//! What is wrong with a log: of its files, never of a client.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use crate::encryption::NoKey;

/// The tool that looks at logs.
const TOOL: &str = "almandine-check";

/// Why a log cannot be used. Nothing was changed.
#[derive(Debug)]
pub enum Fault {
    /// The system refused something.
    Io {
        /// What was tried, as a verb.
        what: &'static str,
        /// With which file.
        path: PathBuf,
        /// Its answer.
        error: io::Error,
    },
    /// It was ended, or is broken, and takes nothing.
    Stopped,
    /// Another process uses it.
    Locked(PathBuf),
    /// There is a part of a log without its manifest, or a manifest that names what is not there.
    Missing {
        /// What is not there.
        path: PathBuf,
        /// Why it should be.
        why: String,
    },
    /// What is there is not what was written.
    Damaged {
        /// The file.
        path: PathBuf,
        /// Where in it.
        offset: u64,
        /// How that is known.
        why: String,
    },
    /// The base is not what was written.
    BaseDamaged {
        /// The file.
        path: PathBuf,
        /// Where in it.
        offset: u64,
        /// How that is known.
        why: String,
    },
    /// It is encrypted, and its key is not there.
    Key {
        /// The file.
        path: PathBuf,
        /// Which key it is.
        why: NoKey,
    },
    /// A later version of the program wrote it.
    Unknown {
        /// The file.
        path: PathBuf,
        /// Where in it.
        offset: u64,
        /// What is not known.
        what: String,
    },
}

impl Fault {
    pub(crate) fn io(what: &'static str, path: &Path, error: io::Error) -> Self {
        Self::Io { what, path: path.to_owned(), error }
    }

    pub(crate) fn damaged(path: &Path, offset: u64, why: impl Into<String>) -> Self {
        Self::Damaged { path: path.to_owned(), offset, why: why.into() }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io { what, path, error } => write!(f, "cannot {what} {}: {error}", path.display()),
            Self::Stopped => f.write_str("the log takes nothing: it was ended, or something could not be written or synced"),
            Self::Locked(path) => write!(f, "another process uses the log: it has the lock {}", path.display()),
            Self::Missing { path, why } => {
                write!(f, "{} is missing: {why}. Nothing was changed; `{TOOL} verify` says more", path.display())
            }
            Self::Damaged { path, offset, why } => {
                let path = path.display();
                write!(
                    f,
                    "{path} is damaged at byte {offset}: {why}. Nothing was changed; `{TOOL} verify` says more, \
                     `{TOOL} cut` drops what follows"
                )
            }
            Self::BaseDamaged { path, offset, why } => {
                let path = path.display();
                write!(
                    f,
                    "{path} is damaged in the block at byte {offset}: {why}. Nothing was changed; the log has no other copy of \
                     what the base holds, which a backup may have"
                )
            }
            Self::Key { path, why } => {
                write!(
                    f,
                    "{} cannot be read: {why}. Nothing was changed; 'log-key-file' names the file of keys, and '--key-file' that \
                     of `{TOOL}`",
                    path.display()
                )
            }
            Self::Unknown { path, offset, what } => {
                write!(f, "{} has {what} at byte {offset}: a later version of the program wrote it", path.display())
            }
        }
    }
}

impl std::error::Error for Fault {}
