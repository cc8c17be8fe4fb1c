//! A worker hears that the operation log is broken and given up. Until then what waits for a broken log waits on.
//!
//! What became of what waits for the log is not known: connections are closed whose replies acknowledge it, and those that it
//! would be told to. From then on the worker refuses writes in each round, so its replies need not wait until the log goes on. A
//! script that is suspended may have written before: its reply does not leave, and until it has ended the worker does not count as
//! one that has heard ([`Breaks`]). The same holds of scripts that the carrier goes on with.

use almandine_base::step;
use almandine_handler::ScriptTurn;
use almandine_instance::{Breaks, Hearing, Message};
use almandine_net::{ConnectionId, Control};

use crate::service::receive::WorkerService;
use crate::state::connection::Connection;
use crate::state::script_run::Suspended;

/// Breaks of the log that were given up and that a worker has heard of.
#[derive(Debug)]
pub(crate) struct Heard {
    pub(crate) breaks: u64,
    /// Whether all others know that.
    is_counted: bool,
}

impl Heard {
    /// Of a worker that begins.
    pub(crate) fn join(breaks: &Breaks, worker: usize) -> Self {
        breaks.join(worker);
        // It has nothing that would have to wait.
        Self { breaks: breaks.announced(), is_counted: false }
    }
}

impl WorkerService {
    /// See the module.
    #[cold]
    pub(crate) fn hear_of_break(&mut self, control: &mut dyn Control<Connection>) {
        let breaks = self.worker.runner.context.instance.workers.breaks.announced();
        self.heard = Heard { breaks, is_counted: false };
        self.parked.close(control);
        let told: Vec<Message> = self.deferred.drain().collect();
        told.iter().for_each(|message| self.close_those_told(message, control));
        self.deny_commits(control);
        // Where replies wait.
        let waits = self.worker.runner.context.instance.persistence.log.hearing(0, 0) != Hearing::Now;
        if step!(CloseUnlogged, waits, else false) {
            self.close_scripts(control);
        }
        self.count_breaks();
    }

    /// Closes the connections of scripts that may have written and are not answered yet.
    fn close_scripts(&mut self, control: &mut dyn Control<Connection>) {
        let wrote = |suspended: &&Suspended| suspended.run.wrote || suspended.exec.is_some();
        let suspended = self.worker.runner.suspended.as_deref();
        let mut unanswered: Vec<ConnectionId> =
            suspended.filter(wrote).and_then(|suspended| suspended.connection).into_iter().collect();
        control.each(&mut |id, connection| {
            if matches!(connection.client.script.as_deref(), Some(ScriptTurn::Ended(_))) {
                unanswered.push(id);
            }
        });
        unanswered.extend(self.worker.runner.carrying.scripts.iter().flatten());
        for id in unanswered {
            control.kill(id, false);
        }
    }

    /// All others learn that this worker has heard, once it has no unit of work open that began before.
    #[inline]
    pub(crate) fn count_breaks(&mut self) {
        let runner = &self.worker.runner;
        if !self.heard.is_counted && runner.suspended.is_none() && runner.carrying.scripts.is_empty() {
            let context = &self.worker.runner.context;
            context.instance.workers.breaks.hear(context.worker, self.heard.breaks);
            self.heard.is_counted = true;
        }
    }
}
