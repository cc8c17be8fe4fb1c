//! Scripts that have run for a slice and of which nothing can have been seen: each has its turn between the rounds of the worker.
//!
//! Such a script holds no latch between two slices and is outside of the epoch, so that no other waits for it and it may take for
//! ever.
//! It watches its keys as WATCH does. When its turn comes its keys are latched again; if one of them has changed, or is gone, the
//! script begins anew, as if it had not begun before. So what it has read is what is there when it ends, or writes for the first
//! time, under the latches of all of its keys. One that begins anew again and again has longer slices, and at last runs alone.

use std::sync::Arc;

use almandine_base::{sometimes, step};
use almandine_handler::{Anew, Client, PlannedKey, ScriptCall, ScriptTurn, WatchedKey, Watching};
use almandine_io::clock;
use almandine_keyspace::{Accessor, Watched};
use almandine_net::Control;
use almandine_resp::Args;
use almandine_script::{Footprint, Program, RunEnd, Running};

use crate::observe::{monitor, running};
use crate::run::runner::Runner;
use crate::run::script::TOLD;
use crate::run::transaction::is_broken;
use crate::state::connection::Connection;
use crate::state::script_run::{Rest, Restart, ScriptRun, Suspended};
use crate::state::worker::Worker;

/// What a script may take between two rounds of its worker.
const TURN_NS: u64 = 1_000_000;
/// Bytes of lines for MONITOR's listeners that a script keeps back: beyond that they see it before it has ended.
const LINES_MAX: usize = 64 << 10;
/// Connections with scripts that have not begun which get another chance in one round.
const RESUMED_MAX: usize = 64;
/// A script that begins anew so often runs alone.
const TIMES_ALONE: u32 = u32::MAX;

impl Runner {
    /// Suspends a planned script: what it may use is watched, and released.
    pub(crate) fn leave(
        &mut self,
        client: &Client,
        suspended: &mut Suspended,
        (args, call): (Args<'_>, &ScriptCall<'_>),
        lines: usize,
    ) {
        let mut rest = Rest {
            watching: Watching::default(),
            writes: false,
            is_lost: false,
            now_ms: self.now_ms,
            lines: self.monitor_lines.split_off(lines),
        };
        if let Some(Footprint::Declared { keys, constants, writes, .. }) = call.program.footprint().get() {
            rest.writes = *writes;
            let declared = if *keys { call.keys } else { call.keys.first(0) };
            for key in declared.iter().chain(constants.iter().map(|key| &**key)) {
                let watcher = Arc::clone(&rest.watching.watcher);
                let mut watching = self.accessor.watching();
                match step!(WatchScript, watching.watch_latched(client.db, key, &watcher), else Ok(Watched::Existing)) {
                    Ok(Watched::Before) => {}
                    Ok(watched) => {
                        let existed = watched == Watched::Existing;
                        rest.watching.keys.push(WatchedKey { db: client.db, key: key.into(), existed });
                    }
                    Err(_) => rest.is_lost = true,
                }
            }
        }
        debug_assert!(!suspended.run.seen && !suspended.run.wrote, "INV-SCRIPT-1: nothing of it was seen");
        self.accessor.unit().end();
        self.make_known(&mut suspended.run, &suspended.program, Some(args));
        suspended.engine.note_memory(&self.context.instance.scripts.machines);
        suspended.rest = Some(rest);
        self.rotation.spent_ns += suspended.run.end_slice(clock::monotonic_ns());
    }

    /// Others hear of a script from now on, and may end it.
    #[cold]
    pub(crate) fn make_known(&self, run: &mut ScriptRun, program: &Program, called: Option<Args<'_>>) -> Arc<Running> {
        let known = run.running.get_or_insert_with(|| {
            let command = called.map(|args| args.iter().map(<[u8]>::to_vec).collect());
            let running = Arc::new(Running::new(program.kind(), program.name(), command.unwrap_or_default(), run.start_ns));
            running.wrote.store(run.wrote, std::sync::atomic::Ordering::Relaxed);
            self.context.instance.scripts.running.enter(Arc::clone(&running));
            running
        });
        Arc::clone(known)
    }

    /// Ends a script whose client is gone, and of which nothing was seen. What it watched is the caller's to end.
    pub(crate) fn drop_script(&mut self, suspended: Box<Suspended>) -> Watching {
        let Suspended { mut engine, run, program, rest, .. } = *suspended;
        if let Some(running) = run.running {
            self.context.instance.scripts.running.leave(&running);
        }
        engine.abandon();
        self.keep_engine(engine, &program);
        rest.map(|rest| rest.watching).unwrap_or_default()
    }

    /// A client that is gone runs no script again.
    pub(crate) fn forget_script(&self, client: &mut Client) {
        if let Some(ScriptTurn::Anew(anew)) = client.script.take().map(|turn| *turn) {
            self.context.instance.scripts.running.leave(&anew.running);
        }
    }

    /// Latches the keys of a script again. False when it has to begin anew; then nothing is held.
    fn latch_again(&mut self, run: &ScriptRun, rest: &Rest) -> bool {
        if run.is_killed() {
            // It calls no command any more.
            self.accessor.unit().plan();
            self.accessor.unit().begin();
            return true;
        }
        // What is told of keys that are read is seen.
        if rest.is_lost || self.accessor.changes().publishes(TOLD) {
            return false;
        }
        let keys = || rest.watching.keys.iter().map(|watched| &*watched.key);
        if self.begin_planned(run.before.db, keys, rest.writes).is_err() {
            self.accessor.cold().forget_wanted();
            return false;
        }
        if step!(CompareScript, is_broken(&mut self.accessor, &rest.watching), else false) {
            sometimes!("a key of a suspended script has changed");
            self.accessor.unit().end();
            return false;
        }
        true
    }
}

impl Worker {
    /// Whether a script is suspended that can go on.
    #[inline]
    pub(crate) fn has_turn(&self) -> bool {
        !self.runner.rotation.is_empty() && !self.runner.context.instance.scripts.running.is_busy()
    }

    /// Lets the script whose turn it is run for a slice, and connections begin that wait for that.
    #[cold]
    pub(crate) fn rotate(&mut self, control: &mut dyn Control<Connection>) {
        let rotation = &mut self.runner.rotation;
        rotation.spent_ns = 0;
        for id in rotation.waiting.drain(..rotation.waiting.len().min(RESUMED_MAX)) {
            control.resume(id);
        }
        if let Some(suspended) = rotation.next(self.runner.context.instance.scripts.running.kills()) {
            self.give_turn(suspended, control);
        }
    }

    fn give_turn(&mut self, mut suspended: Box<Suspended>, control: &mut dyn Control<Connection>) {
        let runner = &mut self.runner;
        let now_ms = suspended.rest.as_ref().map_or(runner.now_ms, |rest| rest.now_ms);
        if !runner.accessor.unit().try_begin_batch(now_ms) {
            runner.accessor.unit().await_others(crate::service::busy::LOOK);
            return runner.rotation.enter(suspended);
        }
        let mut orphan = suspended.orphan.take();
        let id = suspended.connection;
        let client = match (&mut orphan, id.and_then(|id| control.connection(id))) {
            (Some(orphan), _) => &mut **orphan,
            (None, Some((connection, _))) => &mut connection.client,
            (None, None) => {
                // It is being closed.
                runner.accessor.end_batch();
                return runner.rotation.enter(suspended);
            }
        };
        runner.now_ms = now_ms;
        runner.accessor.set_quiet(client.no_touch);
        let is_over = runner.take_turn(client, &mut suspended);
        monitor::publish(&mut runner.monitor_lines, &runner.context.instance);
        running::end();
        if !is_over {
            suspended.orphan = orphan;
            return runner.rotation.enter(suspended);
        }
        let Suspended { mut engine, program, .. } = *suspended;
        engine.abandon();
        runner.keep_engine(engine, &program);
        match (orphan, id) {
            (Some(mut orphan), _) => runner.forget_script(&mut orphan),
            (None, Some(id)) => control.resume(id),
            (None, None) => {}
        }
    }
}

impl Runner {
    /// Runs a script for a slice, within a batch that ends with it. True when its client's command runs again.
    fn take_turn(&mut self, client: &mut Client, suspended: &mut Box<Suspended>) -> bool {
        let Suspended { engine, run, program, out, rest, .. } = &mut **suspended;
        let Some(rest) = rest else { return true };
        (run.slice_ns, run.slice_max_ns) = (clock::monotonic_ns(), TURN_NS);
        self.timing.begin(run.slice_ns);
        let mut anew = (!self.latch_again(run, rest)).then_some(run.times + 1);
        let mut end = RunEnd::Failed;
        if anew.is_none() {
            end = self.go_on((engine, program), run, client, out, (None, PlannedKey::default()));
            if std::mem::take(&mut self.restart) == Restart::Due {
                self.accessor.unit().end();
                anew = Some(TIMES_ALONE);
            }
        }
        let now_ns = clock::monotonic_ns();
        run.end_slice(now_ns);
        if anew.is_none() && end == RunEnd::Suspended {
            self.accessor.unit().end();
            self.accessor.end_batch();
            rest.lines.push_str(&std::mem::take(&mut self.monitor_lines));
            if rest.lines.len() > LINES_MAX {
                self.monitor_lines = std::mem::take(&mut rest.lines);
            }
            return false;
        }
        let known = run.running.clone();
        match anew {
            None => {
                self.monitor_lines.insert_str(0, &rest.lines);
                self.end_script(run, client);
                client.computing.spend(run.spent_ns);
                self.notify_changes(client);
                self.end_unit();
                self.notify_changes(client);
                client.script = Some(Box::new(ScriptTurn::Ended(std::mem::take(out))));
            }
            Some(times) => {
                self.monitor_lines.clear();
                client.in_script = false;
                client.transaction = run.before.transaction.take();
                client.script = known.map(|running| Box::new(ScriptTurn::Anew(Anew { running, times })));
            }
        }
        unwatch(&mut self.accessor, &rest.watching);
        self.accessor.end_batch();
        self.after_command.finish_of_nobody(&self.context);
        true
    }
}

fn unwatch(accessor: &mut Accessor, watching: &Watching) {
    accessor.watching().unwatch(watching.keys.iter().map(|watched| (watched.db, &*watched.key)), &watching.watcher);
}
