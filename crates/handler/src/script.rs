//! What a command that runs a script gives to the session, which runs it.

use almandine_resp::Args;
use almandine_script::{Program, ScriptFlags};

use crate::call::Context;
use crate::errors::CommandError;

/// Finds what a call runs.
pub type Prepare = for<'c> fn(&Context, Args<'c>) -> Result<ScriptCall<'c>, CommandError>;

/// A script that is about to run.
#[derive(Clone, Debug)]
pub struct ScriptCall<'c> {
    /// The script, or the function.
    pub program: Program,
    /// The keys that the call declares.
    pub keys: Args<'c>,
    /// What follows them.
    pub args: Args<'c>,
    /// Whether it is called by a command that only reads.
    pub read_only: bool,
}

impl ScriptCall<'_> {
    /// Whether it may not write: by its own word, or by that of its caller.
    #[must_use]
    pub fn writes_nothing(&self) -> bool {
        self.read_only || self.program.flags().any(ScriptFlags::NO_WRITES)
    }
}
