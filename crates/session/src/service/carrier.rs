//! The carrier's thread, and how a worker hears of the scripts that it has ended ([`crate::state::carrying`]).

use std::sync::Arc;

use almandine_handler::{Context, ScriptTurn, Table};
use almandine_instance::{Instance, Message};
use almandine_io::thread;
use almandine_net::Control;

use crate::run::runner::Runner;
use crate::service::receive::WorkerService;
use crate::state::carrying::Carrier;
use crate::state::connection::Connection;

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
                instance.workers.send(worker, Message::ScriptsEnded);
            }
            accessor = runner.accessor;
        }
    }
}

impl WorkerService {
    /// Has long scripts that have written go to a carrier.
    pub fn carry_by(&mut self, carrier: Arc<Carrier>) {
        self.worker.runner.carrying.carrier = Some(carrier);
    }

    /// Scripts of this worker have ended elsewhere: their connections go on.
    #[cold]
    pub(crate) fn take_carried(&mut self, control: &mut dyn Control<Connection>) {
        let runner = &mut self.worker.runner;
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
