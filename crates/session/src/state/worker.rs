//! The parts of one worker that its connections share. What is done with them is in the files of the steps.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::sync::Arc;

use almandine_config::config::View;
use almandine_handler::{Context, Table};
use almandine_instance::Instance;
use almandine_io::clock;
use almandine_keyspace::Accessor;
use almandine_net::ConnectionId;

use crate::blocking::serve_waiters::Serving;
use crate::observe::after_command::AfterCommand;
use crate::observe::timing::Timing;
use crate::run::runner::Runner;
use crate::run::seen::Seen;
use crate::state::rotation::Rotation;
use crate::state::script_run::Restart;
use crate::state::unit_memory::UnitMemory;
use crate::steps::plan::{Memo, Planner};
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
    pub(crate) fn new(instance: Arc<Instance>, table: &'static Table, mut accessor: Accessor, worker: usize) -> Self {
        let view = View::new(&instance.config);
        let reads = Reads::new(instance.keyspace.figures().budget_bytes(), instance.workers.active().max(1));
        accessor.unit().follow_clock(true);
        let runner = Runner {
            accessor,
            timing: Timing::new(table.rows().len(), view.settings()),
            after_command: AfterCommand::new(view.settings()),
            context: Context { instance, table, view, worker, subscribers: RefCell::default(), recent_scripts: RefCell::default() },
            serving: Serving::default(),
            now_ms: clock::unix_ms(),
            monitor_lines: String::new(),
            engine: None,
            function_engine: None,
            suspended: None,
            rotation: Rotation::default(),
            seen: Seen::default(),
            restart: Restart::No,
            is_past: false,
            names: Memo::default(),
        };
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
