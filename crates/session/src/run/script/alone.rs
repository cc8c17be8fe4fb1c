//! Scripts that are suspended with their unit of work and the batch of their worker open, while clients hear that the server is
//! busy; and what becomes of a script whose connection waits for it or is gone.

use almandine_base::points::{Witness, witness};
use std::sync::Arc;

use almandine_handler::{Client, ScriptTurn, Watching};
use almandine_io::clock;
use almandine_net::Control;
use almandine_script::RunEnd;

use crate::observe::{monitor, running};
use crate::run::outcome::{BatchEnd, Executed};
use crate::state::connection::Connection;
use crate::state::script_run::Suspended;
use crate::state::worker::Worker;

impl Worker {
    /// The connection waits for the end of its script; `done` commands of the batch have run.
    #[cold]
    pub(crate) fn await_script(&mut self, connection: &Connection, done: usize) -> Executed {
        let rotation = &mut self.runner.rotation;
        if let Some(mut suspended) = rotation.left.take() {
            suspended.connection = Some(connection.id);
            rotation.enter(suspended);
        } else if let Some(suspended) = &mut self.runner.suspended {
            suspended.connection = Some(connection.id);
            monitor::publish(&mut self.runner.monitor_lines, &self.runner.context.instance);
            running::end();
        } else if !self.runner.carrying.is_outside {
            rotation.waiting.push_back(connection.id);
        }
        Executed { commands: done, end: BatchEnd::Awaits }
    }

    /// The connection is gone: its script runs to its end. One that only reads, or has not begun, does not: then the keys that it
    /// watched are returned.
    pub(crate) fn keep_script(&mut self, connection: &mut Connection) -> Option<Watching> {
        self.runner.forget_script(&mut connection.client);
        let client = &connection.client;
        let orphan = || {
            let mut orphan = Client::new(Arc::clone(&client.shared), client.access.clone());
            (orphan.db, orphan.in_script) = (client.db, true);
            Some(Box::new(orphan))
        };
        // The connections of all others do not look for one.
        let own = if client.in_script { self.runner.rotation.take(connection.id) } else { None };
        if let Some(mut suspended) = own {
            if suspended.rest.as_ref().is_none_or(|rest| !rest.writes) {
                return Some(self.runner.drop_script(suspended));
            }
            suspended.orphan = orphan();
            self.runner.rotation.enter(suspended);
        } else if let Some(suspended) = &mut self.runner.suspended
            && suspended.connection == Some(connection.id)
        {
            suspended.orphan = orphan();
        }
        None
    }

    /// Runs the script that is suspended, alone, for a slice.
    #[cold]
    pub(crate) fn go_on_with_script(&mut self, control: &mut dyn Control<Connection>) {
        let Some(mut suspended) = self.runner.suspended.take() else { return };
        let mut orphan = suspended.orphan.take();
        let id = suspended.connection;
        let client = match (&mut orphan, id) {
            (Some(orphan), _) => &mut **orphan,
            (None, Some(id)) => match control.connection(id) {
                Some((connection, _)) => &mut connection.client,
                None => {
                    // It is being closed.
                    self.runner.suspended = Some(suspended);
                    return;
                }
            },
            (None, None) => return,
        };
        let runner = &mut self.runner;
        let Suspended { engine, run, program, out, exec, .. } = &mut *suspended;
        run.slice.begun_ns = clock::monotonic_ns();
        runner.timing.begin(run.slice.begun_ns);
        if runner.go_on((engine, program), run, client, out, None) == RunEnd::Suspended {
            suspended.orphan = orphan;
            runner.suspended = Some(suspended);
        } else {
            runner.end_script(run, client);
            client.computing.spend(clock::monotonic_ns().saturating_sub(run.start_ns));
            client.script = Some(Box::new(ScriptTurn::Ended(std::mem::take(out))));
            let exec = exec.take();
            runner.keep_engine(suspended.engine, &suspended.program);
            if exec.is_some_and(|rest| !self.go_on_with_exec(client, rest)) {
                if let Some(next) = &mut self.runner.suspended {
                    (next.connection, next.orphan) = (id, orphan);
                }
            } else {
                let runner = &mut self.runner;
                runner.notify_changes(client);
                runner.end_unit();
                witness(Witness::Ran, client.shared.id);
                runner.notify_changes(client);
                runner.accessor.end_batch();
                runner.after_command.finish_without_client(&runner.context);
                if let Some(id) = id.filter(|_| orphan.is_none()) {
                    control.resume(id);
                }
            }
        }
        running::end();
        monitor::publish(&mut self.runner.monitor_lines, &self.runner.context.instance);
    }
}
