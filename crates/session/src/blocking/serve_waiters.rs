//! Serving those who wait for keys that a unit of work has made ready.
//!
//! It is done by the worker that has made them ready, before it releases their latches: so nobody takes what the first of the
//! queue was promised (INV-BLOCK-1). The command of the one that waits runs as any other, a unit of work of its own; what it
//! answers goes to the worker of its connection.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use almandine_base::Output;
use almandine_handler::{Client, Context, follow};
use almandine_instance::fault::{self, Fault};
use almandine_instance::{Message, Unblock, UnblockAnswer};
use almandine_io::thread;
use almandine_keyspace::{Accessor, Missing, ReadyKey, Secured, Waiter};
use bytes::Bytes;

use crate::blocking::begin_wait::{Request, served_in_vain};
use crate::observe::after_command::AfterCommand;
use crate::observe::timing::Timing;
use crate::run::execute::answer;
use crate::run::execution::Execution;
use crate::state::serving::{Answers, Serving};
use crate::steps::plan::Planned;
use crate::steps::reply;

/// What serving takes of a worker.
pub(crate) struct Server<'a> {
    pub(crate) accessor: &'a mut Accessor,
    pub(crate) context: &'a Context,
    pub(crate) timing: &'a mut Timing,
    pub(crate) after_command: &'a mut AfterCommand,
    pub(crate) memory: &'a mut Serving,
    /// The batch's time, Unix milliseconds.
    pub(crate) now_ms: i64,
}

/// An answer above this size is handed on where it was written.
const COPIED_BYTES_MAX: usize = 4 * 1024;
/// Keys and answers for which memory is kept.
const KEPT: usize = 256;

/// Serves all whom the unit of work that has just ended has something for: its keys in the order in which they became ready,
/// those who wait for a key in the order of their arrival, then those for whom these have made keys ready, and so on. The unit
/// is still to be ended.
#[cold]
pub(crate) fn serve(server: &mut Server<'_>) {
    let (mut keys, mut answers) = (std::mem::take(&mut server.memory.keys), std::mem::take(&mut server.memory.answers));
    serve_all(server, &mut keys, &mut answers);
    for (worker, unblock) in answers.drain(..) {
        server.context.instance.workers.send(worker, Message::Unblock(Box::new(unblock)));
    }
    // Another session may have taken what was left.
    keys.clear();
    keys.shrink_to(KEPT);
    answers.shrink_to(KEPT);
    server.memory.out.clear();
    server.memory.out.bytes.shrink_to(COPIED_BYTES_MAX);
    (server.memory.keys, server.memory.answers) = (keys, answers);
}

fn serve_all(server: &mut Server<'_>, keys: &mut VecDeque<ReadyKey>, answers: &mut Answers) {
    let fault = fault::made();
    if fault == Some(Fault::ReleasedBeforeServing) {
        server.accessor.serving().release_early();
    }
    server.accessor.serving().begin(keys);
    loop {
        while let Some(key) = keys.pop_front() {
            let served = if fault == Some(Fault::WakeDropped) && server.now_ms % 16 == 0 {
                Secured::Yes
            } else {
                server.serve_key(&key, keys, answers, fault)
            };
            match served {
                Secured::Yes => {
                    server.accessor.serving().take_turn(&key);
                    server.accessor.serving().take_ready(keys);
                }
                Secured::Again => keys.push_front(key),
                Secured::Elsewhere => return,
            }
        }
        if !server.accessor.serving().take_over(keys) {
            return;
        }
    }
}

impl Server<'_> {
    /// Serves those who wait for a key; all of them, or until something has to be read for one of them, or another session does so.
    fn serve_key(&mut self, key: &ReadyKey, keys: &mut VecDeque<ReadyKey>, answers: &mut Answers, fault: Option<Fault>) -> Secured {
        let mut last: Option<Arc<Waiter>> = None;
        loop {
            if last.is_some() && !self.accessor.serving().is_waited_for(key) {
                return Secured::Yes;
            }
            let kind = match self.accessor.serving().kind_of(key) {
                Ok(kind) => kind,
                Err(Missing::Cold) => return self.accessor.serving().read_between(key, keys),
                Err(Missing::Unreadable | Missing::Unplanned) => return Secured::Yes,
            };
            let Some(mut waiter) = self.accessor.serving().next(key, kind, last.as_deref()) else { return Secured::Yes };
            if fault == Some(Fault::LastFirst) {
                while let Some(behind) = self.accessor.serving().next(key, kind, Some(&waiter)) {
                    waiter = behind;
                }
            }
            if let Some(other) = waiter.other() {
                let secured = self.accessor.serving().secure(waiter.db(), other, key, keys);
                if secured != Secured::Yes {
                    return secured;
                }
                if fault == Some(Fault::SlowHandOver) {
                    thread::sleep(Duration::from_millis(2));
                }
            }
            if fault == Some(Fault::NoClaim) {
                thread::sleep(Duration::from_micros(300));
                let is_claimed = waiter.begin_to_serve();
                self.serve_one(key, &waiter, answers);
                self.accessor.waiters().leave(&waiter);
                if is_claimed {
                    waiter.served();
                }
            } else if waiter.begin_to_serve() {
                // One whose wait ends at this moment is passed over.
                if self.serve_one(key, &waiter, answers) {
                    waiter.served();
                    self.accessor.waiters().leave_served(&waiter);
                } else {
                    waiter.go_on_waiting();
                    if self.accessor.wanted() > 0 {
                        return self.accessor.serving().read_between(key, keys);
                    }
                }
            }
            last = Some(waiter);
        }
    }

    /// Runs the command of one that waits. False if there is nothing for it.
    fn serve_one(&mut self, key: &ReadyKey, waiter: &Waiter, answers: &mut Answers) -> bool {
        let Some(request) = waiter.request().downcast_ref::<Request>() else { return false };
        let Self { accessor, context, timing, after_command, memory: Serving { out, .. }, now_ms } = self;
        let mut client = Client::new(Arc::clone(&request.shared), request.access.clone());
        (client.db, client.version) = (waiter.db(), request.version);
        client.blocking.serving = Some(Arc::clone(&key.key));
        let (dispatch, args) = (context.table.dispatch(request.index), request.args.as_args());
        client.follow_users(&context.instance.acl);
        if client.closing {
            // Its user is gone, so it is about to be closed.
            return false;
        }
        let start_ns = timing.begin_alone(context, &client, dispatch, *now_ms);
        let planned = Planned { dispatch: Some(dispatch), ..Planned::default() };
        out.clear();
        out.set_whole(true);
        // What its user may do may have changed since it began to wait.
        if let Some(refused) = follow::refused(&client, context.table, dispatch, args) {
            let error = follow::deny(context, &client, refused, *now_ms);
            reply::error(context, &client, out, &error);
        } else {
            let mut execution = Execution { client: &mut client, accessor, context, out, now_ms: *now_ms };
            if let Err(pending) = answer(&mut execution, dispatch, &planned, args) {
                timing.suspend(&client, start_ns, pending);
                served_in_vain(accessor, context, &client, waiter);
                return false;
            }
        }
        accessor.serving().end_command();
        timing.end_alone(context, &client, dispatch, args, start_ns);
        after_command.tell_changes(&mut client, accessor, context);
        let mut messages = Output::new();
        client.write_invalidations(&mut messages);
        let answer = UnblockAnswer::Served(in_one_piece(out), in_one_piece(&mut messages));
        answers.push((request.shared.worker, Unblock { client: request.shared.id, answer }));
        true
    }
}

/// What is in an output, as bytes that follow each other.
fn in_one_piece(out: &mut Output) -> Bytes {
    if out.attachments.is_empty() && out.bytes.len() <= COPIED_BYTES_MAX {
        return Bytes::copy_from_slice(&out.bytes);
    }
    let Output { bytes, attachments, .. } = std::mem::take(out);
    if attachments.is_empty() {
        return bytes.into();
    }
    let mut whole = Vec::with_capacity(bytes.len() + attachments.iter().map(|(_, value)| value.len()).sum::<usize>());
    let mut from = 0;
    for (at, value) in attachments {
        whole.extend_from_slice(&bytes[from..at]);
        whole.extend_from_slice(&value);
        from = at;
    }
    whole.extend_from_slice(&bytes[from..]);
    whole.into()
}
