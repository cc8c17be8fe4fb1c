//! CLIENT TRACKING around each command: what a tracking client reads is remembered, and readers of a key are notified of its
//! changes.
//!
//! The session calls [`before_read`] and [`after_read`] around the commands of a tracking client, and [`tell_changes`] when the
//! waist has noted changes, whatever command made them. Which clients are notified, and how, is the instance's business
//! ([`almandine_instance::tracking`]).

use almandine_base::step;
use almandine_instance::Instance;
use almandine_keyspace::Accessor;
use almandine_resp::Args;

use crate::call::Context;
use crate::client::Client;
use crate::table::Dispatch;

/// Ends tracking for a client: CLIENT TRACKING OFF, RESET, the end of the connection.
pub fn stop(client: &mut Client, instance: &Instance) {
    if client.tracking.take().is_some() {
        client.weigh();
        instance.tracking.disable(&client.shared);
    }
}

/// All keys of a database are gone.
pub fn emptied(client: &mut Client, instance: &Instance) {
    instance.tracking.invalidate_all(Some(client.shared.id), &mut client.invalidations);
}

/// A read of a tracking client, between [`before_read`] and [`after_read`].
#[derive(Clone, Copy, Debug)]
#[must_use = "keys that are read must be looked at again"]
pub struct Tracked {
    stamp: u64,
}

/// Whether what a command of a client reads is remembered.
#[must_use]
pub fn is_remembered(client: &Client, dispatch: &Dispatch, context: &Context) -> bool {
    let Some(tracking) = client.tracking.as_ref() else { return false };
    let traits = context.table.row(dispatch.index).command.spec.traits;
    // What a script reads is remembered where it is read.
    traits.readonly && !traits.runs_script && tracking.remembers()
}

/// Remembers the keys that a command of a client is about to read, if it is one to remember. Keys beyond
/// `tracking-table-max-keys` are taken out first; what the client hears of that is in its invalidations.
pub fn before_read(client: &mut Client, dispatch: &Dispatch, args: Args<'_>, context: &Context) -> Option<Tracked> {
    if !is_remembered(client, dispatch, context) {
        return None;
    }
    let instance = &context.instance;
    instance.tracking.limit(keys_max(context), Some(client.shared.id), &mut client.invalidations);
    let tracked = Tracked { stamp: instance.tracking.stamp() };
    step!(RememberFirst, remember(client, dispatch, args, context));
    Some(tracked)
}

/// Remembers keys of a client's script, which holds their latches or has not read them yet.
pub fn remember_latched<'k>(client: &mut Client, keys: impl Iterator<Item = &'k [u8]>, context: &Context) {
    before_queued(client, context);
    if client.tracking.is_some() {
        keys.for_each(|key| context.instance.tracking.remember(client.shared.id, key));
    }
}

/// Holds the table of tracked keys to its limit before a command that is only queued, as before each that reads.
pub fn before_queued(client: &mut Client, context: &Context) {
    if client.tracking.is_some() {
        context.instance.tracking.limit(keys_max(context), Some(client.shared.id), &mut client.invalidations);
    }
}

/// Makes sure that the keys that were read are still remembered.
pub fn after_read(tracked: Tracked, client: &Client, dispatch: &Dispatch, args: Args<'_>, context: &Context) {
    let instance = &context.instance;
    step!(RememberFirst);
    if step!(RememberFirst, instance.tracking.stamp() != tracked.stamp, else true) {
        remember(client, dispatch, args, context);
    }
}

fn remember(client: &Client, dispatch: &Dispatch, args: Args<'_>, context: &Context) {
    let shape = &context.table.row(dispatch.index).shape;
    for (position, _) in shape.keys(args.len(), |argument| args.at(argument)) {
        context.instance.tracking.remember(client.shared.id, args.at(position));
    }
}

/// Ends a command of a tracking client: CLIENT CACHING was about it, unless it was one about the client. A transaction is one
/// command.
pub fn finish(client: &mut Client, dispatch: &Dispatch, context: &Context) {
    if client.transaction.is_none()
        && let Some(tracking) = &mut client.tracking
        && !context.table.row(dispatch.index).name.starts_with("client|")
    {
        tracking.caching_said = false;
    }
}

/// Keys that a batch has changed and clients track by prefix; these clients hear of them together, at the end of the batch.
#[derive(Debug, Default)]
pub struct Broadcasts {
    /// What the client has changed.
    own: Vec<Vec<u8>>,
    /// What the store has removed meanwhile.
    removed: Vec<Vec<u8>>,
}

/// Notifies the clients that have read the keys that were changed since the last call.
#[cold]
#[inline(never)]
pub fn tell_changes(client: &mut Client, accessor: &mut Accessor, instance: &Instance, broadcasts: &mut Broadcasts) {
    accessor.changes().drain(|changed| {
        let (by, together) = match changed.removal {
            None => (Some(client.shared.id), &mut broadcasts.own),
            Some(_) => (None, &mut broadcasts.removed),
        };
        // Prefixes first, as where no worker reports the change.
        if instance.tracking.is_broadcast(changed.key) {
            together.push(changed.key.to_vec());
        }
        instance.tracking.invalidate(changed.key, by, &mut client.invalidations);
    });
}

impl Broadcasts {
    /// Whether there are none.
    #[inline]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.own.is_empty() && self.removed.is_empty()
    }

    /// As [`Broadcasts::send`], where no client is known to have changed the keys.
    pub fn send_without_client(&mut self, instance: &Instance) {
        for keys in [&mut self.own, &mut self.removed] {
            instance.tracking.broadcast_changes(keys.iter().map(Vec::as_slice), None, &mut Vec::new());
            keys.clear();
        }
    }

    /// Notifies the clients that track a prefix of the keys.
    pub fn send(&mut self, client: &mut Client, instance: &Instance) {
        for (keys, by) in [(&mut self.own, Some(client.shared.id)), (&mut self.removed, None)] {
            instance.tracking.broadcast_changes(keys.iter().map(Vec::as_slice), by, &mut client.invalidations);
            keys.clear();
        }
    }
}

/// `tracking-table-max-keys`.
fn keys_max(context: &Context) -> usize {
    context.settings().connections.tracking_keys_max
}
