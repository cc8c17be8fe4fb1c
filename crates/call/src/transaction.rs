//! A client's transaction: the commands that wait for EXEC, and the keys that it watches.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use almandine_keyspace::{Accessor, Missing, Watcher};
use almandine_resp::{Args, Batch};

use crate::client::Client;
use crate::errors::CommandError;
use crate::table::{Dispatch, Flags};

/// Bytes of the commands that may wait for EXEC; `client-query-buffer-limit` has this default.
const QUEUED_BYTES_MAX: usize = 1 << 30;

/// The commands behind MULTI.
#[derive(Debug, Default)]
pub struct Transaction {
    commands: Batch,
    /// What runs for each of them.
    dispatches: Vec<&'static Dispatch>,
    /// The flags of all of them together.
    flags: Flags,
    /// One was refused when it came: EXEC will run none.
    refused: bool,
}

impl Transaction {
    /// Adds a command.
    ///
    /// # Errors
    /// When too much waits.
    pub fn queue(&mut self, dispatch: &'static Dispatch, args: Args<'_>) -> Result<(), CommandError> {
        let bytes: usize = args.iter().map(<[u8]>::len).sum();
        if self.memory_bytes() + bytes > QUEUED_BYTES_MAX {
            return Err(CommandError::TransactionTooLarge);
        }
        self.commands.push(args);
        self.dispatches.push(dispatch);
        self.flags = self.flags.with(dispatch.flags);
        Ok(())
    }

    /// Number of commands.
    #[must_use]
    pub fn len(&self) -> usize {
        self.dispatches.len()
    }

    /// Whether no command waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.dispatches.is_empty()
    }

    /// The commands in their order.
    pub fn commands(&self) -> impl Iterator<Item = (&'static Dispatch, Args<'_>)> {
        self.dispatches.iter().enumerate().map(|(command, dispatch)| (*dispatch, self.commands.args(command, &[])))
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

    fn memory_bytes(&self) -> usize {
        self.commands.memory_bytes() + self.dispatches.capacity() * size_of::<&Dispatch>()
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

/// Begins a transaction.
///
/// # Errors
/// Within one.
pub fn begin(client: &mut Client) -> Result<(), CommandError> {
    if client.transaction.is_some() {
        return Err(CommandError::MultiNested);
    }
    client.transaction = Some(Box::default());
    show(client);
    Ok(())
}

/// Adds a command to the client's transaction.
///
/// # Errors
/// When too much waits; the transaction cannot be executed any more then.
pub fn queue(client: &mut Client, dispatch: &'static Dispatch, args: Args<'_>) -> Result<(), CommandError> {
    let Some(transaction) = &mut client.transaction else { return Ok(()) };
    let queued = transaction.queue(dispatch, args);
    transaction.refused |= queued.is_err();
    show(client);
    queued
}

/// A command was refused: if the client is in a transaction, that will not be executed.
pub fn refuse(client: &mut Client) {
    if let Some(transaction) = &mut client.transaction {
        transaction.refused = true;
    }
}

/// Ends the client's transaction, and what it watches, within a batch.
pub fn end(client: &mut Client, accessor: &mut Accessor) {
    client.transaction = None;
    unwatch(client, accessor);
}

/// Begins to watch a key of the client's database.
///
/// # Errors
/// When a record must be read first, or cannot be.
pub fn watch(client: &mut Client, accessor: &mut Accessor, key: &[u8]) -> Result<(), Missing> {
    let db = client.db;
    let watching = client.watching.get_or_insert_default();
    if !watching.keys.iter().any(|watched| watched.db == db && *watched.key == *key) {
        let existed = accessor.watch(db, key, &watching.watcher)?;
        watching.keys.push(WatchedKey { db, key: key.into(), existed });
    }
    show(client);
    Ok(())
}

/// Ends watching, within a batch.
pub fn unwatch(client: &mut Client, accessor: &mut Accessor) {
    if let Some(watching) = client.watching.take() {
        for watched in &watching.keys {
            accessor.unwatch(watched.db, &watched.key, &watching.watcher);
        }
    }
    show(client);
}

/// Shows others how the client's transaction stands.
fn show(client: &Client) {
    let shown = &client.shared.transaction;
    let queued = client.transaction.as_ref().map_or(-1, |transaction| i64::try_from(transaction.len()).unwrap_or(i64::MAX));
    shown.queued.store(queued, Relaxed);
    shown.bytes.store(client.transaction.as_ref().map_or(0, |transaction| transaction.memory_bytes()), Relaxed);
    shown.watched.store(client.watching.as_ref().map_or(0, |watching| watching.keys.len()), Relaxed);
}
