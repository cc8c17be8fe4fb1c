//! A planned script that has written and runs for long leaves its worker: the carrier goes on with it ([`crate::state::carrying`]).
//!
//! Its unit of work stays as it is, in its batch and with its latches, and only changes its thread. So it is for all others what
//! it would be on its worker: a unit that takes long. Its worker and the client wait for nothing but its reply.

use std::sync::Arc;

use almandine_base::points::{Witness, witness};
use almandine_base::sometimes;
use almandine_handler::Client;
use almandine_instance::HeldOfUnit;
use almandine_io::clock;
use almandine_resp::Args;
use almandine_script::RunEnd;

use crate::observe::{monitor, running};
use crate::run::runner::Runner;
use crate::state::carrying::{Carried, Ended};
use crate::state::script_run::Suspended;

impl Runner {
    /// Gives the script that runs, and is suspended now, to the carrier, which has kept a place for it. `called`: its call, in its
    /// first slice; `is_there`: its client waits for the reply.
    pub(crate) fn hand_over(
        &mut self,
        mut suspended: Box<Suspended>,
        client: &mut Client,
        called: Option<Args<'_>>,
        is_there: bool,
    ) {
        let (Some(spare), Some(carrier)) = (self.carrying.spare.take(), self.carrying.carrier.clone()) else { return };
        sometimes!("another thread goes on with a script");
        // What it did is held until its end, and what came before it is told.
        self.notify_changes(client);
        self.after_command.finish_without_client(&self.context);
        let Suspended { run, program, rest, connection, orphan, .. } = &mut *suspended;
        self.make_known(run, program, called);
        run.slice.end(clock::monotonic_ns());
        if let Some(rest) = rest {
            // It does not begin anew: what it did is told.
            self.monitor_lines.insert_str(0, &std::mem::take(&mut rest.lines));
        }
        let mut stand_in = Client::new(Arc::clone(&client.shared), client.access.clone());
        (stand_in.db, stand_in.version, stand_in.in_script) = (client.db, client.version, true);
        client.in_script = false;
        client.transaction = run.before.transaction.take();
        *connection = is_there.then_some(client.shared.id);
        self.carrying.scripts.push(*connection);
        *orphan = Some(Box::new(stand_in));
        self.accessor.unit().long_units().pass(false);
        self.accessor.unit().long_units().tell();
        let accessor = std::mem::replace(&mut self.accessor, spare);
        self.carrying.is_outside = true;
        let held = HeldOfUnit::take();
        carrier.give(Carried { suspended, accessor, held, worker: self.context.worker, now_ms: self.now_ms });
    }

    /// Goes on with a script to its end, as the carrier.
    pub(crate) fn carry(&mut self, suspended: Box<Suspended>, worker: usize) -> Option<Ended> {
        let Suspended { mut engine, mut run, program, connection, orphan, mut out, rest, .. } = *suspended;
        let mut client = orphan?;
        run.slice.begun_ns = clock::monotonic_ns();
        self.timing.begin(run.slice.begun_ns);
        let end = self.go_on((&mut engine, &program), &mut run, &mut client, &mut out, None);
        debug_assert_ne!(end, RunEnd::Suspended, "the carrier has no other script");
        self.end_script(&mut run, &mut client);
        run.slice.end(clock::monotonic_ns());
        let id = client.shared.id;
        let ended = Some(Ended { worker, connection, out, spent_ns: run.slice.spent_ns, engine, program });
        self.notify_changes(&mut client);
        self.end_unit();
        witness(Witness::Ran, id);
        self.notify_changes(&mut client);
        self.unwatch(rest.as_ref());
        self.accessor.end_batch();
        self.after_command.finish_without_client(&self.context);
        monitor::publish(&mut self.monitor_lines, &self.context.instance);
        running::end();
        // Behind the end of its unit, which has its number then: the reply waits for that in the log.
        ended
    }
}
