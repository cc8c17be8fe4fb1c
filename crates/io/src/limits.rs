//! Limits that the system sets for the process: how many files and sockets it may have open.

use std::io;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// The limit of open files and sockets, before and after it was raised.
#[derive(Debug)]
pub struct OpenFiles {
    /// The limit as it was.
    pub before: u64,
    /// The limit as it is.
    pub now: u64,
    /// Why it is not what was asked for.
    pub refused: Option<io::Error>,
}

/// Raises the limit of open files to `wanted`, or as far as the system allows. A limit that is high enough stays as it is.
#[must_use]
pub fn raise_open_files(wanted: u64) -> OpenFiles {
    let limit = getrlimit(Resource::Nofile);
    let (before, hard) = (limit.current.unwrap_or(u64::MAX), limit.maximum.unwrap_or(u64::MAX));
    if before >= wanted {
        return OpenFiles { before, now: before, refused: None };
    }
    let set = |current: u64, maximum: u64| {
        let maximum = (maximum != u64::MAX).then_some(maximum);
        setrlimit(Resource::Nofile, Rlimit { current: Some(current), maximum })
    };
    // Only a privileged process may raise the hard limit.
    let Err(error) = set(wanted, hard.max(wanted)) else { return OpenFiles { before, now: wanted, refused: None } };
    let fallback = hard.min(wanted);
    let now = if set(fallback, hard).is_ok() { fallback } else { before };
    OpenFiles { before, now, refused: (now < wanted).then(|| error.into()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_high_enough_stays_and_what_cannot_be_is_refused() {
        let enough = raise_open_files(1);
        assert!(enough.before == enough.now && enough.refused.is_none());
        // More than the kernel allows any process.
        let refused = raise_open_files(1 << 40);
        assert!(refused.now >= refused.before && refused.now < 1 << 40);
        assert!(refused.refused.is_some());
    }
}
