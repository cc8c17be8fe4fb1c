//! How far a look is, on a terminal.

use std::io::{self, IsTerminal, Write};

/// Shows it on the standard error, where that is a terminal. What was shown goes with it.
pub(crate) struct Progress {
    total: u64,
    percent: u64,
    /// Whether the total is of bytes.
    is_of_bytes: bool,
    is_shown: bool,
}

impl Progress {
    /// Of something of this many bytes, at most.
    pub(crate) fn new(total: u64) -> Self {
        Self { total, percent: 0, is_of_bytes: true, is_shown: io::stderr().is_terminal() }
    }

    /// Of something that is told in this many parts.
    pub(crate) fn of_shares(total: u64) -> Self {
        Self { is_of_bytes: false, ..Self::new(total) }
    }

    /// This many bytes are done.
    pub(crate) fn reached(&mut self, bytes: u64) {
        let percent = bytes.saturating_mul(100).checked_div(self.total).unwrap_or(100).min(100);
        if self.is_shown && percent > self.percent {
            self.percent = percent;
            let of = if self.is_of_bytes { format!(" of at most {} MiB", self.total >> 20) } else { String::new() };
            let _ = write!(io::stderr(), "\r{percent:3} %{of}");
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.percent > 0 {
            let _ = write!(io::stderr(), "\r\x1b[K");
        }
    }
}
