//! A client's transaction, from MULTI or WATCH to its end.

use std::sync::atomic::Ordering::Relaxed;

use almandine_keyspace::{Accessor, Missing, Watched};
use almandine_resp::Args;

use crate::client::Client;
use crate::errors::{self, CommandError};
use crate::queue::{Queue, Transaction, WatchedKey};
use crate::table::Dispatch;

/// Begins a transaction.
///
/// # Errors
/// Within one.
pub fn begin(client: &mut Client) -> Result<(), CommandError> {
    if client.transaction.is_some() {
        return Err(errors::transaction::NESTED);
    }
    client.transaction = Some(Transaction::default());
    show(client);
    Ok(())
}

/// Adds a command to the client's transaction; see [`Transaction::queue`]. One that will not be executed is not kept. What waits
/// is input that was not executed: more of it than `bytes_max`, and the client is to be closed.
pub fn queue(client: &mut Client, dispatch: &Dispatch, args: Args<'_>, bytes_max: usize, spare: &mut Option<Box<Queue>>) {
    let Some(transaction) = client.transaction.as_mut().filter(|transaction| !transaction.refused) else { return };
    transaction.queue((dispatch.index, dispatch.flags), args, bytes_max, spare);
    client.closing |= transaction.is_too_large();
    show(client);
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
    let watched = accessor.watching().watch(db, key, &watching.watcher)?;
    if watched != Watched::Before {
        watching.key_bytes += key.len();
        watching.keys.push(WatchedKey { db, key: key.into(), existed: watched == Watched::Existing });
    }
    show(client);
    Ok(())
}

/// Ends watching, within a batch.
pub fn unwatch(client: &mut Client, accessor: &mut Accessor) {
    if let Some(watching) = client.watching.take() {
        accessor.watching().unwatch(watching.keys.iter().map(|watched| (watched.db, &*watched.key)), &watching.watcher);
    }
    show(client);
}

/// Shows others how the client's transaction stands.
fn show(client: &mut Client) {
    client.weigh();
    let shown = &client.shared.transaction;
    let queued = client.transaction.as_ref().map_or(-1, |transaction| i64::try_from(transaction.len()).unwrap_or(i64::MAX));
    shown.queued.store(queued, Relaxed);
    shown.bytes.store(client.transaction.as_ref().map_or(0, |transaction| transaction.memory_bytes()), Relaxed);
    shown.watched.store(client.watching.as_ref().map_or(0, |watching| watching.keys.len()), Relaxed);
}
