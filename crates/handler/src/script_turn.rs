//! What a client keeps of a script between two runs of its command.

use std::sync::Arc;

use almandine_base::Output;
use almandine_script::Running;

/// What a command finds that runs again because its script was suspended, or had to wait.
#[derive(Debug)]
pub enum ScriptTurn {
    /// The script has ended, with this reply.
    Ended(Output),
    /// It begins anew, since a key that it may have read has changed.
    Anew(Anew),
    /// It has not begun.
    Waits,
}

/// A script that begins anew. Nothing of it was seen.
#[derive(Debug)]
pub struct Anew {
    /// How others know it.
    pub running: Arc<Running>,
    /// How often it has begun anew.
    pub times: u32,
}
