//! Why a handler stops without a reply.
//!
//! A handler that returns `Ok` has replied. Else the session cuts off what was written and looks at the [`Stop`], in one place:
//! an error is replied, and for each other reason the same command runs again from its start when the reason is gone. Until then
//! neither a client nor a counter can see that it ran.

use almandine_datatypes::hyperloglog::Corrupted;
use almandine_keyspace::{Full, Missing, Refusal, WrongKind};

use crate::blocking::Block;
use crate::errors::{self, CommandError};

/// Why a handler has not replied.
#[derive(Debug)]
pub enum Stop {
    /// The command failed. The client reads this.
    Error(CommandError),
    /// The command needs a record that must be read from the device first.
    Cold,
    /// The command needs a record that is damaged, or that the device cannot give.
    Unreadable,
    /// The command needs a key that its unit of work has not latched.
    Unplanned,
    /// The command needs a key that a unit of work has latched which takes long.
    Held,
    /// The command's result is computed in slices first; see [`crate::computation`].
    Computing,
    /// The command's script has run for long: it goes on later.
    Suspended,
    /// The command has found nothing, and its client waits for this.
    Waiting(Box<Block>),
}

/// What a handler returns.
pub type Outcome = Result<(), Stop>;

// One pointer and a tag: an outcome is returned in two registers.
const _: () = assert!(size_of::<Outcome>() == 16);

impl From<CommandError> for Stop {
    #[inline]
    fn from(error: CommandError) -> Self {
        Self::Error(error)
    }
}

impl From<Missing> for Stop {
    fn from(missing: Missing) -> Self {
        match missing {
            Missing::Cold => Self::Cold,
            Missing::Unreadable => Self::Unreadable,
            Missing::Unplanned => Self::Unplanned,
            Missing::Held => Self::Held,
        }
    }
}

impl From<Refusal> for Stop {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::WrongKind => CommandError::WrongType.into(),
            Refusal::Missing(missing) => missing.into(),
            Refusal::Full => CommandError::OutOfMemory.into(),
        }
    }
}

impl From<WrongKind> for Stop {
    fn from(_: WrongKind) -> Self {
        CommandError::WrongType.into()
    }
}

impl From<Full> for Stop {
    fn from(_: Full) -> Self {
        CommandError::OutOfMemory.into()
    }
}

impl From<Corrupted> for Stop {
    fn from(_: Corrupted) -> Self {
        errors::hyperloglog::CORRUPTED.into()
    }
}
