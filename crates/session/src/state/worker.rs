//! The parts of one worker that its connections share. What is done with them is in the files of the steps.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::sync::Arc;

use almandine_config::config::View;
use almandine_handler::{Context, Table};
use almandine_instance::Instance;
use almandine_instance::fault::{self, Fault};
use almandine_io::clock;
use almandine_keyspace::Accessor;
use almandine_net::ConnectionId;

use crate::observe::after_command::AfterCommand;
use crate::observe::timing::Timing;
use crate::state::serving::Serving;
use crate::state::unit_memory::UnitMemory;
use crate::steps::plan::Planner;
use crate::steps::reads::Reads;

/// One worker's parts.
pub(crate) struct Worker {
    pub(crate) accessor: Accessor,
    pub(crate) context: Context,
    pub(crate) planner: Planner,
    pub(crate) timing: Timing,
    pub(crate) after_command: AfterCommand,
    /// Reads of the device.
    pub(crate) reads: Reads,
    /// Whose commands compute; each has its turn.
    pub(crate) computing: VecDeque<ConnectionId>,
    /// What transactions use one after the other.
    pub(crate) unit: UnitMemory,
    /// What serving those who wait uses.
    pub(crate) serving: Serving,
    /// The batch's time, Unix milliseconds.
    pub(crate) now_ms: i64,
    /// The step that is left out.
    pub(crate) fault: Option<Fault>,
    /// What MONITOR's listeners are to see of this batch.
    pub(crate) monitor_lines: String,
}

impl Worker {
    pub(crate) fn new(instance: Arc<Instance>, table: &'static Table, accessor: Accessor, worker: usize) -> Self {
        if let Some(fault) = fault::made() {
            tracing::warn!("A step is left out on purpose: {fault:?}");
        }
        let view = View::new(&instance.config);
        let reads = Reads::new(instance.keyspace.figures().budget_bytes(), instance.workers.active().max(1));
        let (timing, after_command) = (Timing::new(table.rows().len(), view.settings()), AfterCommand::new(view.settings()));
        Self {
            accessor,
            context: Context { instance, table, view, worker, subscribers: RefCell::default() },
            planner: Planner::new(table),
            timing,
            after_command,
            reads,
            computing: VecDeque::new(),
            unit: UnitMemory::default(),
            serving: Serving::default(),
            now_ms: clock::unix_ms(),
            fault: fault::made(),
            monitor_lines: String::new(),
        }
    }

    /// Looks for a change of the configuration. Whether there was one.
    #[inline]
    pub(crate) fn follow_configuration(&mut self) -> bool {
        let changed = self.context.view.refresh(&self.context.instance.config);
        if changed {
            self.reconfigure();
        }
        changed
    }

    #[cold]
    fn reconfigure(&mut self) {
        let settings = self.context.settings();
        self.timing.configure(settings);
        self.after_command.configure(settings);
    }
}
