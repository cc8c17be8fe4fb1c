//! How the unit of work of a script begins: with the keys that its code shows, or alone.

use almandine_base::events::Classes;
use almandine_base::{sometimes, step};
use almandine_handler::{Client, CommandError, Outcome, ScriptCall, Stop, footprint};
use almandine_io::clock;
use almandine_keyspace::{Filled, Missing, Need};
use almandine_script::{Footprint, Program};

use crate::run::runner::Runner;
use crate::state::script_run::{Growth, Scope};
use crate::steps::residency::is_too_much;

/// Events that reads tell.
pub(crate) const TOLD: Classes = Classes::EXPIRED.union(Classes::MISS);

impl Runner {
    /// Begins the unit of work of a script, unless it is part of one.
    ///
    /// # Errors
    /// When records have to be read first, or another thread goes on with a script of its keys. The unit has not begun then.
    pub(super) fn begin_unit(&mut self, client: &Client, call: &ScriptCall<'_>, alone: bool) -> Result<Scope, Stop> {
        if self.accessor.reader(client.db).plan().in_unit() {
            return Ok(Scope::OfTransaction);
        }
        if !alone
            && let footprint = footprint::of(&call.program, self.context.table)
            && let Footprint::Declared { keys, constants, built, writes, reads_once, leaves, endless, grows, .. } = footprint
            && let keeps = *leaves & grows.is_some()
            && !((*endless || grows.is_some() && !leaves) && self.accessor.changes().publishes(TOLD))
            && !(grows.is_some() && self.is_past)
            && !(keeps && self.accessor.cold().is_possible())
        {
            if keeps {
                let known = planned_keys(call);
                self.begin_growing(client.db, known.iter().map(|key| &**key))?;
                self.catch_up();
                return Ok(Scope::Planned);
            }
            // One that reads by itself cannot begin anew: beside a long unit it has its key before it begins.
            let is_plain = !self.accessor.unit().long_units().is_any() && !self.accessor.changes().publishes(TOLD);
            if *reads_once && !self.accessor.cold().is_possible() && is_plain {
                return Ok(Scope::Single);
            }
            let declared = if *keys { call.keys } else { call.keys.first(0) };
            let known = || declared.iter().chain(constants.iter().map(|key| &**key));
            if built.is_empty() {
                self.begin_planned(client.db, known, *writes)?;
            } else {
                let built = footprint.built_keys(call.keys, call.args);
                self.begin_planned(client.db, || known().chain(built.iter().map(|key| &**key)), *writes)?;
            }
            self.catch_up();
            return Ok(Scope::Planned);
        }
        self.accessor.unit().begin_alone();
        self.context.statistics().counters.units_alone.add(1);
        self.pass_time();
        Ok(Scope::Alone)
    }

    /// Begins a unit of these keys, which latches further ones when they show.
    ///
    /// # Errors
    /// When another unit does. Nothing has begun then.
    pub(crate) fn begin_growing<'k>(&mut self, db: u16, keys: impl Iterator<Item = &'k [u8]>) -> Outcome {
        let Self { accessor, context, rotation, .. } = self;
        let turns = &context.instance.scripts.turns;
        if !turns.admit(&mut rotation.turn_wait, clock::monotonic_ns) || !accessor.unit().try_begin_growing() {
            sometimes!("a script waits for another one whose keys show while it runs");
            turns.refuse(&mut rotation.turn_wait, clock::monotonic_ns());
            return Err(Stop::Suspended);
        }
        if turns.begin(&mut rotation.turn_wait) {
            sometimes!("a worker has its turn among scripts whose keys show while they run");
        }
        keys.for_each(|key| self.accessor.unit().grow(db, key));
        Ok(())
    }

    /// Begins a unit of these keys, with all that a script may need of them at hand.
    pub(crate) fn begin_planned<'k, K: Iterator<Item = &'k [u8]>>(
        &mut self,
        db: u16,
        keys: impl Fn() -> K,
        writes: bool,
    ) -> Outcome {
        let accessor = &mut self.accessor;
        // What has expired is removed where it is met, while that is told.
        let may_write = writes || accessor.changes().publishes(TOLD);
        accessor.unit().plan();
        for key in keys() {
            step!(PlanKeys, { accessor.unit().add(db, key, may_write); }, else {});
        }
        accessor.unit().begin();
        let mut required = Ok(());
        if writes && accessor.keyspace().has_waiters() {
            let filled: Vec<Filled<'_>> = keys().map(|key| Filled { db, key, elements: usize::MAX }).collect();
            accessor.waiters().hold_for(&filled);
            if accessor.waiters().are_secured() {
                required = accessor.waiters().secure_for_unit(&filled);
            }
        }
        if accessor.unit().long_units().has_refused() {
            accessor.unit().end();
            return Err(Stop::Held);
        }
        if !accessor.cold().is_possible() {
            return Ok(());
        }
        for key in keys() {
            // All of them, so that all are read together. What has to be read first comes before what cannot be.
            required = match (required, accessor.unit().require(db, key, Need::Read)) {
                (Err(Missing::Cold), _) | (_, Err(Missing::Cold)) => Err(Missing::Cold),
                (one, other) => one.and(other),
            };
        }
        // A record that cannot be read is the error of the command that needs it.
        if required != Err(Missing::Cold) {
            return Ok(());
        }
        accessor.unit().end();
        if is_too_much(accessor) {
            accessor.cold().forget_wanted();
            return Err(CommandError::TooManyCold.into());
        }
        Err(Stop::Cold)
    }
}

/// The keys of a planned script that are known before it runs.
pub(crate) fn planned_keys(call: &ScriptCall<'_>) -> Vec<Box<[u8]>> {
    let Some(footprint) = call.program.footprint().get() else { return Vec::new() };
    let Footprint::Declared { keys, constants, .. } = footprint else { return Vec::new() };
    let mut all = footprint.built_keys(call.keys, call.args);
    let declared = if *keys { call.keys } else { call.keys.first(0) };
    all.extend(declared.iter().chain(constants.iter().map(|key| &**key)).map(Box::from));
    all
}

/// The keys that a script knows when it begins, if it may use others.
pub(super) fn growth_of(call: &ScriptCall<'_>) -> Option<Box<Growth>> {
    match call.program.footprint().get() {
        Some(Footprint::Declared { grows: Some(_), leaves, .. }) => Some(Growth::new(planned_keys(call).into_iter(), *leaves)),
        _ => None,
    }
}

pub(super) fn is_endless(program: &Program) -> bool {
    matches!(program.footprint().get(), Some(Footprint::Declared { endless: true, .. }))
}
