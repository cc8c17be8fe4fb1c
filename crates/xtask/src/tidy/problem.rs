//! What a rule has found.

use std::fmt;

/// Something to mend.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Problem {
    pub(super) path: String,
    line: usize,
    pub(super) text: String,
}

impl Problem {
    pub(super) fn new(path: impl Into<String>, line: usize, text: impl Into<String>) -> Self {
        Self { path: path.into(), line, text: text.into() }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.path)?;
        if self.line > 0 {
            write!(f, ":{}", self.line)?;
        }
        write!(f, ": {}", self.text)
    }
}
