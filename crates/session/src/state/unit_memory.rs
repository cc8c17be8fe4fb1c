//! Memory that the units of a worker use one after the other, so that a transaction allocates nothing.

use almandine_handler::Queue;

use crate::steps::plan::Planned;

/// Commands for whose plans a worker keeps the memory.
const PLANS_KEPT: usize = 1024;

/// Memory that the units of a worker use one after the other.
#[derive(Default)]
pub(crate) struct UnitMemory {
    /// Memory of plans; nothing is planned.
    pub(crate) plans: Vec<Planned>,
    /// The queue of a transaction that has ended.
    pub(crate) spare_queue: Option<Box<Queue>>,
}

impl UnitMemory {
    /// Keeps the memory of plans for the next unit, within reason.
    pub(crate) fn keep_plans(&mut self, mut plans: Vec<Planned>) {
        plans.clear();
        plans.shrink_to(PLANS_KEPT);
        self.plans = plans;
    }
}
