//! The clients of one worker by what they hold of memory, and `maxmemory-clients`: the largest are closed when all together hold
//! too much.
//!
//! A client is looked at when what it holds has changed, and moves in the order only when it comes into another bucket; so the
//! cost does not grow with the number of clients. Those under CLIENT NO-EVICT count, and are in no bucket.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering::Relaxed;

use almandine_config::Settings;
use almandine_handler::Context;
use almandine_instance::client::bucket;
use almandine_instance::{ClientShared, Message};
use almandine_net::{Buffers, ConnectionId, Control};

use crate::state::connection::Connection;

/// By so much all clients of a worker grow before room is made for them.
const GROWTH_BYTES: usize = 16 * 1024;

/// What is counted of one client.
#[derive(Debug, Default)]
pub(crate) struct Size {
    /// All that it holds.
    bytes: usize,
    /// Of that, what its session keeps.
    held: usize,
    /// Where it is in the order.
    bucket: Option<u8>,
}

/// One worker's clients.
#[derive(Debug, Default)]
pub(crate) struct Sizes {
    /// By bucket, and in it by age.
    order: BTreeSet<(u8, ConnectionId)>,
    /// `maxmemory-clients` in bytes; 0 for no limit.
    limit: u64,
    /// By how much all of them have grown since room was made for that.
    grown: usize,
}

impl Sizes {
    /// Follows a change of the settings.
    pub(crate) fn configure(&mut self, settings: &Settings) {
        self.limit = settings.connections.clients_memory_max.bytes(settings.memory.maxmemory);
    }

    /// Counts what a client holds now.
    pub(crate) fn note(&mut self, connection: &mut Connection, buffers: Buffers, context: &Context) {
        let shared = &connection.client.shared;
        let bytes = if buffers.fixed == 0 { 0 } else { buffers.total() + own_bytes(shared) };
        shared.activity.output_pending_bytes.store(buffers.pending, Relaxed);
        let understood = connection.parser.understood().min(buffers.input_used);
        shared.activity.query_bytes.store(buffers.input_used - understood, Relaxed);
        shared.memory.understood_bytes.store(understood, Relaxed);
        shared.memory.input_bytes.store(buffers.input, Relaxed);
        shared.memory.outputs.store(buffers.outputs, Relaxed);
        shared.memory.output_bytes.store(buffers.output + buffers.attached, Relaxed);
        shared.memory.total_bytes.store(bytes, Relaxed);
        let place = (bytes > 0 && !buffers.held.protected).then(|| bucket(bytes));
        self.count(connection, (bytes, buffers.held.bytes), place, context);
    }

    /// Forgets a client: it is gone, or is about to be closed.
    pub(crate) fn forget(&mut self, connection: &mut Connection, context: &Context) {
        self.count(connection, (0, 0), None, context);
    }

    fn count(&mut self, connection: &mut Connection, (bytes, held): (usize, usize), bucket: Option<u8>, context: &Context) {
        let memory = &context.instance.clients.memory;
        let size = &mut connection.size;
        self.grown = (self.grown + bytes).saturating_sub(size.bytes);
        memory.change(context.worker, (size.bytes, size.held), (bytes, held));
        (size.bytes, size.held) = (bytes, held);
        if size.bucket != bucket {
            if let Some(before) = size.bucket {
                self.order.remove(&(before, connection.id));
            }
            if let Some(bucket) = bucket {
                self.order.insert((bucket, connection.id));
            }
            size.bucket = bucket;
            memory.set_top(context.worker, self.top());
        }
    }

    /// By how much the clients have grown, if it is much: what they hold counts against `maxmemory`.
    #[inline]
    pub(crate) fn take_growth(&mut self) -> Option<usize> {
        (self.grown >= GROWTH_BYTES).then(|| std::mem::take(&mut self.grown))
    }

    fn top(&self) -> Option<u8> {
        self.order.last().map(|(bucket, _)| *bucket)
    }

    /// Whether this worker has to close clients.
    #[inline]
    pub(crate) fn is_due(&self, context: &Context) -> bool {
        self.limit > 0 && context.instance.clients.memory.is_turn_of(context.worker, self.limit)
    }

    /// Tells another worker if it is its turn to close clients.
    #[inline]
    pub(crate) fn tell_others(&self, context: &Context) {
        if self.limit > 0
            && let Some(worker) = context.instance.clients.memory.to_be_told(context.worker, self.limit)
        {
            context.instance.workers.send(worker, Message::EvictClients);
        }
    }

    /// Closes the largest clients, as long as that is this worker's turn. Of one bucket the oldest goes first.
    #[cold]
    pub(crate) fn evict(&mut self, context: &Context, control: &mut dyn Control<Connection>) {
        let instance = &context.instance;
        let _closing = instance.clients.memory.begin_closing();
        let mut closed = 0;
        while self.is_due(context)
            && let Some(top) = self.top()
            && let Some(&(_, id)) = self.order.range((top, 0)..).next()
        {
            if let Some((connection, _)) = control.connection(id) {
                self.forget(connection, context);
                connection.client.shared.killed.store(true, Relaxed);
                tracing::debug!("Evicting client {} {}", connection.client.shared.id, connection.client.shared.address);
            } else {
                // It is being closed already, and counts until it is gone.
                self.order.remove(&(top, id));
                instance.clients.memory.set_top(context.worker, self.top());
                continue;
            }
            control.kill(id, false);
            closed += 1;
        }
        if closed > 0 {
            context.statistics().counters.clients_evicted.add(closed);
            tracing::info!("Closed {closed} clients, because all together held more than maxmemory-clients");
        }
    }
}

/// What a client takes that its connection does not know of: what others see of it.
fn own_bytes(shared: &ClientShared) -> usize {
    size_of::<ClientShared>() + shared.address.len() + shared.local_address.len()
}
