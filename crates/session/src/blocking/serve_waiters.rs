//! Serving the waiters of keys that a unit of work has made ready.
//!
//! The worker that made the keys ready serves before it releases their latches: no other client takes what the first waiter was
//! promised (INV-BLOCK-1). The command of a waiter runs as any other, a unit of work of its own; its reply goes to the worker of
//! its connection.

use std::collections::VecDeque;
use std::sync::Arc;

use almandine_base::{Output, sometimes, step};
use almandine_handler::{Client, follow};
use almandine_instance::{Message, Unblock, UnblockAnswer};
use almandine_keyspace::{Missing, ReadyKey, Secured, Waiter};
use bytes::Bytes;

use crate::blocking::begin_wait::{Request, served_in_vain};
use crate::run::runner::{Called, Runner, steps};
use crate::steps::plan::Planned;

/// Steps around the command of a waiter. MONITOR showed it, and CLIENT TRACKING remembered its keys, when its client began to
/// wait; the unit that made its key ready goes on.
const SERVED: u8 = steps::HOT_KEYS | steps::NOTIFY;
/// Waiters that were served, and their replies by the worker of their connection. They are sent when all waiters are served, by
/// another session too: a client that has its reply sees what the others got. CLIENT UNBLOCK says of none of them that it waits
/// no more before that.
type Answers = Vec<(Arc<Waiter>, usize, Unblock)>;

/// Memory for serving waiters, empty between two times.
#[derive(Default)]
pub(crate) struct Serving {
    /// Where a command writes.
    out: Output,
    /// Keys that are ready.
    keys: VecDeque<ReadyKey>,
    answers: Answers,
}

/// An answer above this size is handed on where it was written.
const COPIED_BYTES_MAX: usize = 4 * 1024;
/// Keys and answers for which memory is kept.
const KEPT: usize = 256;

/// Serves the waiters for which the unit of work that has just ended has something: its keys in the order in which they became
/// ready, the waiters of a key in the order of arrival, then those of keys that these have made ready, and so on. The unit is
/// still to be ended.
#[cold]
pub(crate) fn serve(runner: &mut Runner) {
    let passes = runner.accessor.unit().long_units().pass(false);
    let (mut keys, mut answers) = (std::mem::take(&mut runner.serving.keys), std::mem::take(&mut runner.serving.answers));
    serve_all(runner, &mut keys, &mut answers);
    for (waiter, worker, unblock) in answers.drain(..) {
        step!(ShowServed, waiter.show_served());
        runner.context.instance.workers.send(worker, Message::Unblock(Box::new(unblock)));
    }
    // Another session may have taken what was left.
    keys.clear();
    keys.shrink_to(KEPT);
    answers.shrink_to(KEPT);
    runner.serving.out.clear();
    runner.serving.out.bytes.shrink_to(COPIED_BYTES_MAX);
    (runner.serving.keys, runner.serving.answers) = (keys, answers);
    runner.accessor.unit().long_units().pass(passes);
}

fn serve_all(runner: &mut Runner, keys: &mut VecDeque<ReadyKey>, answers: &mut Answers) {
    step!(KeepLatches, (), else runner.accessor.serving().release_early());
    runner.accessor.serving().begin(keys);
    loop {
        while let Some(key) = keys.pop_front() {
            let served = step!(ServeEveryKey, runner.serve_key(&key, keys, answers),
                else if runner.now_ms % 16 == 0 { Secured::Yes } else { runner.serve_key(&key, keys, answers) });
            match served {
                Secured::Yes => {
                    runner.accessor.serving().take_turn(&key);
                    runner.accessor.serving().take_ready(keys);
                }
                Secured::Again => keys.push_front(key),
                Secured::Elsewhere => {
                    sometimes!("another session serves the waiters");
                    return;
                }
            }
        }
        if !runner.accessor.serving().take_over(keys) {
            return;
        }
    }
}

impl Runner {
    /// Serves the waiters of a key: all, or until a record has to be read for one of them, or another session serves in its place.
    fn serve_key(&mut self, key: &ReadyKey, keys: &mut VecDeque<ReadyKey>, answers: &mut Answers) -> Secured {
        let mut last: Option<Arc<Waiter>> = None;
        loop {
            if last.is_some() && !self.accessor.serving().is_waited_for(key) {
                return Secured::Yes;
            }
            let kind = match self.accessor.serving().kind_of(key) {
                Ok(kind) => kind,
                Err(Missing::Cold) => return self.accessor.serving().read_between(key, keys),
                Err(Missing::Unreadable | Missing::Unplanned | Missing::Held) => return Secured::Yes,
            };
            let mut next = |last: Option<&Waiter>| self.accessor.serving().next(key, kind, last);
            let first = next(last.as_deref());
            let first = step!(OldestFirst, first, else std::iter::successors(first, |waiter| next(Some(waiter))).last());
            let Some(waiter) = first else { return Secured::Yes };
            if let Some(other) = waiter.other() {
                let secured = self.accessor.serving().secure(waiter.db(), other, key, keys);
                if secured != Secured::Yes {
                    return secured;
                }
                step!(MoveAtOnce);
            }
            step!(ClaimWaiter);
            // One whose wait ends at this moment is passed over.
            let is_claimed = waiter.begin_to_serve();
            if !is_claimed {
                sometimes!("the wait of a client ends as it is served");
            }
            step!(ClaimWaiter, (), else if !is_claimed { self.serve_one(key, &waiter, answers); });
            if is_claimed {
                if self.serve_one(key, &waiter, answers) {
                    waiter.served();
                    step!(ShowServed, (), else waiter.show_served());
                    self.accessor.waiters().leave_served(&waiter);
                } else {
                    waiter.go_on_waiting();
                    if self.accessor.cold().wanted() > 0 {
                        sometimes!("a waiter needs a record from the device");
                        return self.accessor.serving().read_between(key, keys);
                    }
                }
            }
            last = Some(waiter);
        }
    }

    /// Runs the command of one that waits. False if there is nothing for it.
    fn serve_one(&mut self, key: &ReadyKey, waiter: &Arc<Waiter>, answers: &mut Answers) -> bool {
        let Some(request) = waiter.request().downcast_ref::<Request>() else { return false };
        let mut client = Client::new(Arc::clone(&request.shared), request.access.clone());
        (client.db, client.version) = (waiter.db(), request.version);
        client.blocking.serving = Some(Arc::clone(&key.key));
        let (dispatch, args) = (self.context.table.dispatch(request.index), request.args.as_args());
        client.follow_users(&self.context.instance.acl);
        if client.closing {
            // Its user is gone, so it is about to be closed.
            return false;
        }
        let mut out = std::mem::take(&mut self.serving.out);
        out.clear();
        out.set_whole(true);
        let mut is_served = true;
        // What its user may do may have changed since it began to wait.
        if let Some(refused) = follow::refused(&client, self.context.table, dispatch, args) {
            self.deny(&mut client, &mut out, refused);
        } else {
            let planned = Planned { dispatch: Some(dispatch), ..Planned::default() };
            let called = Called { dispatch, planned: &planned, number: 0, together: false, watched_bytes: 0 };
            is_served = self.run::<SERVED>(&mut client, &mut out, called, || args).is_ok();
        }
        if is_served {
            self.accessor.serving().end_command();
            let mut messages = Output::new();
            client.write_invalidations(&mut messages);
            let answer = UnblockAnswer::Served(in_one_piece(&mut out), in_one_piece(&mut messages));
            answers.push((Arc::clone(waiter), request.shared.worker, Unblock { client: request.shared.id, answer }));
        } else {
            served_in_vain(&mut self.accessor, &self.context, &client, waiter);
        }
        self.serving.out = out;
        is_served
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
