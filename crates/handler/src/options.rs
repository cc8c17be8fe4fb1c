//! Reading a command's options: a cursor over the arguments.
//!
//! The idiom, the same in every family:
//!
//! ```ignore
//! let mut options = Options::after(call.args, 2);
//! while let Some(option) = options.next() {
//!     match option {
//!         o if o.is("NX") => condition = Condition::Absent,
//!         o if o.is("COUNT") => count = options.integer()?,
//!         _ => return Err(CommandError::Syntax),
//!     }
//! }
//! ```

use almandine_resp::Args;

use crate::errors::CommandError;
use crate::number;

/// A cursor over the arguments behind the fixed ones.
#[derive(Clone, Copy)]
pub struct Options<'c> {
    args: Args<'c>,
    at: usize,
}

/// One argument, compared with option names regardless of case.
#[derive(Clone, Copy, Debug)]
pub struct Word<'c>(pub &'c [u8]);

impl Word<'_> {
    /// Whether this is the option `name`.
    #[inline]
    #[must_use]
    pub fn is(self, name: &str) -> bool {
        self.0.eq_ignore_ascii_case(name.as_bytes())
    }
}

impl<'c> Iterator for Options<'c> {
    type Item = Word<'c>;

    /// The next option name.
    fn next(&mut self) -> Option<Word<'c>> {
        self.argument().map(Word)
    }
}

impl<'c> Options<'c> {
    /// Starts at argument `at`; argument 0 is the command's name.
    #[must_use]
    pub fn after(args: Args<'c>, at: usize) -> Self {
        Self { args, at }
    }

    /// The index of the argument that comes next.
    #[must_use]
    pub fn position(&self) -> usize {
        self.at
    }

    /// The argument that comes next, which stays.
    #[must_use]
    pub fn peek(&self) -> Option<&'c [u8]> {
        self.args.get(self.at)
    }

    /// Arguments left.
    #[must_use]
    pub fn remaining(&self) -> usize {
        self.args.len().saturating_sub(self.at)
    }

    /// The argument of the option just read.
    ///
    /// # Errors
    /// A syntax error when there is none.
    pub fn value(&mut self) -> Result<&'c [u8], CommandError> {
        self.argument().ok_or(CommandError::Syntax)
    }

    /// The integer argument of the option just read.
    ///
    /// # Errors
    /// A syntax error when there is none, otherwise when it is no 64-bit integer.
    pub fn integer(&mut self) -> Result<i64, CommandError> {
        number::integer(self.value()?)
    }

    fn argument(&mut self) -> Option<&'c [u8]> {
        let argument = self.args.get(self.at)?;
        self.at += 1;
        Some(argument)
    }
}
