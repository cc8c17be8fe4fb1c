//! What became of a command, and of a batch.
//!
//! A handler says why it has no reply ([`Stop`](almandine_handler::Stop)). The runner replies errors, so that its caller has a
//! reply or a [`Pending`]. What a connection does next follows from the [`BatchEnd`], in one place ([`crate::service::receive`]).

/// Why a command has no reply yet. It has changed nothing, and no counter shows that it ran: it runs again from its start. What a
/// script that is suspended has done stands; when its command runs again, that takes the reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pending {
    /// The command needs records from the device. They are noted.
    Records,
    /// The command's result is computed in slices.
    Computation,
    /// The command has found nothing: its client is in the queues of its keys.
    Key,
    /// The command's script has run for long, and goes on between the rounds of the worker.
    Script,
    /// The command needs a key of a script that another thread goes on with.
    Held,
}

/// Why a batch ended where it did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BatchEnd {
    /// All commands have replies, or the network takes the replies so far first.
    Answered,
    /// A command has no reply yet. One that waits for a key counts as executed, others run again.
    Pending(Pending),
    /// The connection is resumed when the device or a computation has what the next command needs.
    Awaits,
    /// The next command waits for the end of CLIENT PAUSE.
    Paused,
    /// The connection closes behind the replies so far.
    CloseAfterReplies,
    /// The connection closes at once.
    Close,
    /// The peer does not speak this protocol: the connection closes without a reply.
    OtherProtocol,
}

/// How far a batch came.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Executed {
    /// Commands that need not run again.
    pub(crate) commands: usize,
    /// What stopped it there.
    pub(crate) end: BatchEnd,
}

impl Executed {
    /// What became of one command.
    pub(crate) fn one(end: BatchEnd) -> Self {
        let runs_again = matches!(
            end,
            BatchEnd::Pending(Pending::Records | Pending::Computation | Pending::Script | Pending::Held) | BatchEnd::Paused
        );
        Self { commands: usize::from(!runs_again), end }
    }
}
