//! The commands that wait for EXEC, and the keys that a client watches.

use std::sync::Arc;

use almandine_keyspace::Watcher;
use almandine_resp::{Args, Batch};

use crate::errors::CommandError;
use crate::flags::Flags;

/// Bytes of the commands that may wait for EXEC; `client-query-buffer-limit` has this default.
const QUEUED_BYTES_MAX: usize = 1 << 30;

/// The commands behind MULTI.
#[derive(Debug, Default)]
pub struct Transaction {
    commands: Batch,
    /// The dense index of what runs for each of them.
    indexes: Vec<u16>,
    /// The flags of all of them together.
    flags: Flags,
    /// One was refused when it came: EXEC will run none.
    pub(crate) refused: bool,
}

impl Transaction {
    /// Adds a command.
    ///
    /// # Errors
    /// When too much waits.
    pub fn queue(&mut self, index: u16, flags: Flags, args: Args<'_>) -> Result<(), CommandError> {
        let bytes: usize = args.iter().map(<[u8]>::len).sum();
        if self.memory_bytes() + bytes > QUEUED_BYTES_MAX {
            return Err(CommandError::TransactionTooLarge);
        }
        self.commands.push(args);
        self.indexes.push(index);
        self.flags = self.flags.with(flags);
        Ok(())
    }

    /// Number of commands.
    #[must_use]
    pub fn len(&self) -> usize {
        self.indexes.len()
    }

    /// Whether no command waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.indexes.is_empty()
    }

    /// The commands in their order, each with its dense index.
    pub fn commands(&self) -> impl Iterator<Item = (u16, Args<'_>)> {
        self.indexes.iter().enumerate().map(|(command, index)| (*index, self.commands.args(command, &[])))
    }

    /// The flags of all commands together.
    #[must_use]
    pub fn flags(&self) -> Flags {
        self.flags
    }

    /// Whether a command was refused when it came.
    #[must_use]
    pub fn is_refused(&self) -> bool {
        self.refused
    }

    /// Bytes of memory that the commands take.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        self.commands.memory_bytes() + self.indexes.capacity() * size_of::<u16>()
    }
}

/// A key that a client watches.
#[derive(Debug)]
pub struct WatchedKey {
    /// Its database.
    pub db: u16,
    /// The key.
    pub key: Box<[u8]>,
    /// Whether it was there when the client began to watch it.
    pub existed: bool,
}

/// What a client watches.
#[derive(Debug, Default)]
pub struct Watching {
    /// Hears of changes.
    pub watcher: Arc<Watcher>,
    /// The keys.
    pub keys: Vec<WatchedKey>,
}
