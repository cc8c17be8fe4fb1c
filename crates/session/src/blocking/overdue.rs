//! Serving waiters though no command has changed their keys: the store removed a key, or an entry has been pending long enough
//! to be claimed (XREADGROUP with CLAIM).
//!
//! The keys are latched and declared ready, and their waiters served as behind a change, in the order of arrival. Each run of a
//! waiter's command notes when there may be something for it ([`Request::look_again`]): a thousand waiters of one stream do not
//! all run.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use almandine_base::step;
use almandine_io::clock;
use almandine_keyspace::{Accessor, ReadyKey};
use almandine_net::{ConnectionId, Control};

use crate::blocking::begin_wait::{NEVER, Request};
use crate::observe::running;
use crate::service::busy::HeldUp;
use crate::service::receive::WorkerService;
use crate::state::connection::Connection;

/// Milliseconds between two looks for a waiter whose time has come while another worker serves it, or clients are paused.
const RETRY_MS: u64 = 10;

impl WorkerService {
    /// A connection begins to wait, or its time has changed: it is noted when it has to look again.
    pub(crate) fn await_time(&mut self, connection: &mut Connection) {
        let Some(waiting) = &connection.client.blocking.waiting else { return };
        let Some(request) = waiting.waiter.request().downcast_ref::<Request>() else { return };
        let again_ms = self.monotonic_ms(request.again_ms.load(Relaxed));
        self.looks.move_to(&mut connection.again_ms, again_ms, connection.id);
    }

    /// A time in Unix milliseconds as a monotonic one, rounded up; [`NEVER`] is none.
    fn monotonic_ms(&self, unix_ms: i64) -> Option<u64> {
        let since = unix_ms.saturating_sub(self.unix_ahead_ns / 1_000_000).saturating_add(1);
        (unix_ms != NEVER).then(|| u64::try_from(since).unwrap_or(0))
    }

    /// Another worker has found out that there may be something for a connection sooner.
    #[cold]
    pub(crate) fn look_sooner(&mut self, id: ConnectionId, control: &mut dyn Control<Connection>) {
        if let Some((connection, _)) = control.connection(id) {
            self.await_time(connection);
        }
    }

    /// Looks for those whose time has come.
    pub(crate) fn look_again(&mut self, now_ms: u64, control: &mut dyn Control<Connection>) {
        while let Some(id) = self.looks.take_due(now_ms) {
            let Some((connection, _)) = control.connection(id) else { continue };
            connection.again_ms = None;
            let Some(waiting) = &connection.client.blocking.waiting else { continue };
            let waiter = Arc::clone(&waiting.waiter);
            let Some(request) = waiter.request().downcast_ref::<Request>() else { continue };
            let is_due = |time: Option<u64>| time.is_some_and(|time| time <= now_ms);
            let is_paused = self.worker.runner.context.instance.pause.active(clock::unix_ms()).is_some();
            if !is_paused && is_due(self.monotonic_ms(request.again_ms.load(Relaxed))) {
                self.serve_unchanged(|accessor| accessor.waiters().keys_of(&waiter));
            }
            if !waiter.has_ended() {
                let again_ms = self.monotonic_ms(request.again_ms.load(Relaxed)).map(|again_ms| again_ms.max(now_ms + RETRY_MS));
                self.looks.move_to(&mut connection.again_ms, again_ms, id);
            }
        }
    }

    /// The store has removed a key: the waiters that ask for that are served.
    #[cold]
    pub(crate) fn serve_lost(&mut self, key: ReadyKey) {
        if self.worker.is_held() {
            self.held.push(HeldUp::Lost(key));
            return;
        }
        step!(ServeLost, self.serve_unchanged(|_| vec![key]));
    }

    /// Serves the waiters of some keys, in a batch of its own.
    fn serve_unchanged(&mut self, keys: impl FnOnce(&mut Accessor) -> Vec<ReadyKey>) {
        let start_ns = clock::monotonic_ns();
        self.follow_configuration();
        let now_ms = (self.unix_ahead_ns + start_ns.cast_signed()) / 1_000_000;
        if !self.worker.enter(now_ms) {
            // Those that wait for them look again, or hear of the next change.
            return;
        }
        let runner = &mut self.worker.runner;
        runner.accessor.set_quiet(false);
        runner.timing.begin(start_ns);
        let keys = keys(&mut runner.accessor);
        runner.accessor.serving().make_ready(keys);
        runner.end_unit();
        drop(runner.accessor.detach());
        runner.accessor.cold().forget_wanted();
        runner.accessor.end_batch();
        running::end();
        runner.after_command.finish_without_client(&runner.context);
    }
}
