//! The parts of one worker that its connections share. What is done with them is in the files of the steps.

use std::collections::VecDeque;
use std::sync::Arc;

use almandine_handler::{Context, Table};
use almandine_instance::Instance;
use almandine_keyspace::Accessor;
use almandine_net::ConnectionId;

use crate::run::runner::Runner;
use crate::state::unit_memory::UnitMemory;
use crate::steps::plan::Planner;
use crate::steps::reads::Reads;

/// One worker's parts.
pub(crate) struct Worker {
    /// The parts that run commands.
    pub(crate) runner: Runner,
    /// Beside the runner, so that the fast loop borrows its group.
    pub(crate) planner: Planner,
    /// Reads of the device.
    pub(crate) reads: Reads,
    /// Whose commands compute; each has its turn.
    pub(crate) computing: VecDeque<ConnectionId>,
    /// What transactions use one after the other.
    pub(crate) unit: UnitMemory,
}

impl Worker {
    pub(crate) fn new(instance: Arc<Instance>, table: &'static Table, accessor: Accessor, worker: usize) -> Self {
        let reads = Reads::new(instance.keyspace.figures().budget_bytes(), instance.workers.active().max(1));
        let runner = Runner::new(Context::new(instance, table, worker), accessor);
        Self { runner, planner: Planner::new(table), reads, computing: VecDeque::new(), unit: UnitMemory::default() }
    }

    /// Looks for a change of the configuration. Whether there was one.
    #[inline]
    pub(crate) fn follow_configuration(&mut self) -> bool {
        let context = &mut self.runner.context;
        let changed = context.view.refresh(&context.instance.config);
        if changed {
            let Runner { context, timing, after_command, .. } = &mut self.runner;
            timing.configure(context.settings());
            after_command.configure(context.settings());
        }
        changed
    }
}
