//! The carrier's thread, and how a worker hears of the scripts that it has ended ([`crate::state::carrying`]).

use std::sync::Arc;

use almandine_base::{sometimes, step};
use almandine_handler::{CommandError, Context, ScriptTurn, Table, errors};
use almandine_instance::{Instance, Message};
use almandine_io::{clock, thread};
use almandine_net::Control;
use almandine_script::ProgramKind;

use crate::run::outcome::{BatchEnd, Executed};
use crate::run::runner::Runner;
use crate::service::receive::WorkerService;
use crate::state::carrying::Carrier;
use crate::state::connection::Connection;
use crate::state::worker::Worker;

impl Carrier {
    /// Starts the thread. Scripts stay with their workers until it is there, and for good if it cannot be.
    #[cold]
    pub(crate) fn start(self: &Arc<Self>) {
        let Some(instance) = self.instance.upgrade() else { return };
        let (own, table) = (Arc::clone(self), self.table);
        match thread::spawn("carrier", move || own.run(&instance, table)) {
            Ok(thread) => self.note_thread(thread),
            Err(error) => tracing::warn!("Scripts that have written stay with their workers: {error}"),
        }
    }

    fn run(&self, instance: &Arc<Instance>, table: &'static Table) {
        let Some(mut accessor) = instance.keyspace.accessor() else {
            return tracing::warn!("Scripts that have written stay with their workers: the store has no session left");
        };
        accessor.unit().follow_clock(true);
        while let Some(carried) = self.wait_for_next(accessor) {
            let worker = carried.worker;
            let mut runner =
                Runner::new(Context::new(Arc::clone(instance), table, instance.statistics.carrier()), carried.accessor);
            (runner.now_ms, runner.carrying.is_carrier) = (carried.now_ms, true);
            carried.held.put();
            if let Some(ended) = runner.carry(carried.suspended, worker) {
                self.note_ended(ended);
                // Others have connections that need a key of it.
                step!(TellAllOfEnd, instance.workers.broadcast(&Message::ScriptsEnded), else {
                    instance.workers.send(worker, Message::ScriptsEnded);
                });
            }
            accessor = runner.accessor;
        }
    }
}

impl Worker {
    /// A connection whose command needs a key of a script that the carrier has waits for the end of that.
    #[cold]
    pub(crate) fn await_carried(&mut self, connection: &Connection, done: usize) -> Executed {
        sometimes!("a client needs a key of a script that another thread goes on with");
        self.runner.carrying.waiting.push(connection.id);
        Executed { commands: done, end: BatchEnd::Awaits }
    }
}

impl Runner {
    /// What a client hears that needs a key of the script that the carrier has, if that has run for `busy-reply-threshold`.
    #[cold]
    pub(crate) fn busy_with_carried(&self) -> Option<CommandError> {
        let threshold_ms = self.context.settings().process.busy_reply_threshold_ms;
        let carrier = self.carrying.carrier.as_ref().filter(|_| threshold_ms != 0)?;
        Some(match carrier.busy(threshold_ms.saturating_mul(1_000_000), clock::monotonic_ns())? {
            ProgramKind::Script => errors::script::BUSY_SCRIPT,
            ProgramKind::Function => errors::script::BUSY_FUNCTION,
        })
    }
}

impl WorkerService {
    /// Has long scripts that have written go to a carrier.
    pub fn carry_by(&mut self, carrier: Arc<Carrier>) {
        self.worker.runner.carrying.carrier = Some(carrier);
    }

    /// The script that needs the same keys has run for long: the connections that wait for it hear so.
    #[inline]
    pub(crate) fn tell_busy(&mut self, control: &mut dyn Control<Connection>) {
        let runner = &mut self.worker.runner;
        if !runner.carrying.waiting.is_empty() && runner.busy_with_carried().is_some() {
            // Each runs its command again, and finds the same.
            runner.carrying.waiting.drain(..).for_each(|id| control.resume(id));
        }
    }

    /// A script has ended elsewhere: connections go on that needed a key of it, and its own if it was of this worker.
    #[cold]
    pub(crate) fn take_carried(&mut self, control: &mut dyn Control<Connection>) {
        let runner = &mut self.worker.runner;
        runner.carrying.waiting.drain(..).for_each(|id| control.resume(id));
        let Some(carrier) = runner.carrying.carrier.clone() else { return };
        for ended in carrier.take_ended(runner.context.worker) {
            runner.keep_engine(ended.engine, &ended.program);
            let scripts = &mut runner.carrying.scripts;
            if let Some(at) = scripts.iter().position(|script| *script == ended.connection) {
                scripts.swap_remove(at);
            }
            if let Some(id) = ended.connection
                && let Some((connection, _)) = control.connection(id)
            {
                connection.client.computing.spend(ended.spent_ns);
                connection.client.script = Some(Box::new(ScriptTurn::Ended(ended.out)));
                control.resume(id);
            }
        }
        self.count_breaks();
    }
}
