//! Scripts that have run for a slice and of which nothing can have been seen: each has its turn between the rounds of the worker.
//!
//! Such a script holds no latch between two slices and is outside of the epoch, so that no other waits for it, however long it
//! takes. It watches its keys as WATCH does. When its turn comes its keys are latched again; if one of them has changed, or is
//! gone, the script begins anew, as if it had not begun before. So what it has read is what is there when it ends, or writes for
//! the first time, under the latches of all of its keys. One that begins anew again and again has longer slices, and at last runs
//! alone.

use std::sync::Arc;

use almandine_base::points::{Witness, witness};
use almandine_base::{sometimes, step};
use almandine_handler::{Anew, Client, ScriptCall, ScriptTurn, Stop, WatchedKey, Watching};
use almandine_io::clock;
use almandine_keyspace::Watched;
use almandine_net::Control;
use almandine_resp::Args;
use almandine_script::{Engine, Footprint, Program, RunEnd, Running};

use crate::observe::{monitor, running};
use crate::run::runner::Runner;
use crate::run::script::begin::{TOLD, planned_keys};
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
/// Keys of a script that reads keys which are not known before, beyond which it runs alone; of one that may write them, beyond
/// which it is not suspended.
pub(crate) const KEYS_MAX: usize = 200;
/// A script that begins anew so often runs alone.
const TIMES_ALONE: u32 = u32::MAX;

/// Why a suspended script does not go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lost {
    /// A key has changed, or may have: it begins anew.
    Changed,
    /// A key has to be read from the device: it begins anew when that has been.
    Cold,
    /// It begins anew, alone.
    Alone,
    /// Another unit latches keys that show while it runs: it goes on when that has ended.
    Waits,
}

impl Runner {
    /// What a planned script leaves behind when it is suspended for the first time.
    pub(crate) fn rest_of(&self, call: &ScriptCall<'_>) -> Rest {
        let writes = matches!(call.program.footprint().get(), Some(Footprint::Declared { writes: true, .. }));
        let (watching, more) = (Watching::default(), planned_keys(call));
        Rest { watching, more, writes, is_lost: false, now_ms: self.now_ms, lines: String::new() }
    }

    /// Releases what a planned script may use, which is watched from now on.
    pub(crate) fn release(&mut self, run: &mut ScriptRun, rest: &mut Rest) {
        let db = run.before.db;
        if let Some(growth) = &mut run.growth {
            rest.more.append(&mut growth.added);
        }
        for key in rest.more.drain(..) {
            let watcher = Arc::clone(&rest.watching.watcher);
            let mut watching = self.accessor.watching();
            match step!(WatchScript, watching.watch_latched(db, &key, &watcher), else Ok(Watched::Existing)) {
                Ok(Watched::Before) => {}
                Ok(watched) => rest.watching.keys.push(WatchedKey { db, key, existed: watched == Watched::Existing }),
                Err(_) => rest.is_lost = true,
            }
        }
        self.end_unit();
    }

    /// Latches the keys of a script again, and those that it wants.
    ///
    /// # Errors
    /// Why it does not go on. Then nothing is held.
    pub(crate) fn grow(&mut self, run: &mut ScriptRun, rest: &mut Rest) -> Result<(), Lost> {
        rest.more = run.growth.as_mut().map(|growth| std::mem::take(&mut growth.wanted)).unwrap_or_default();
        if rest.watching.keys.len() + rest.more.len() > KEYS_MAX {
            return Err(Lost::Alone);
        }
        self.latch_again(run, rest)
    }

    /// Suspends a planned script that has released what it may use.
    pub(crate) fn leave(&mut self, mut suspended: Box<Suspended>, args: Args<'_>, lines: usize) {
        let Suspended { engine, run, program, rest, .. } = &mut *suspended;
        debug_assert!(!run.seen && !run.wrote, "INV-SCRIPT-1: nothing of it was seen");
        if let Some(rest) = rest {
            rest.lines = self.monitor_lines.split_off(lines);
        }
        self.make_known(run, program, Some(args));
        engine.note_memory(&self.context.instance.scripts.machines);
        self.rotation.spent_ns += run.slice.end(clock::monotonic_ns());
        self.rotation.left = Some(suspended);
    }

    /// Gives up a planned script in its first slice, which has released what it may use.
    pub(crate) fn give_up(
        &mut self,
        mut engine: Box<Engine>,
        (mut run, rest): (ScriptRun, &Rest),
        client: &mut Client,
        (args, program, lost): (Args<'_>, &Program, Lost),
    ) -> Result<Restart, Stop> {
        engine.abandon();
        self.keep_engine(engine, program);
        self.unwatch(Some(rest));
        self.rotation.spent_ns += run.slice.end(clock::monotonic_ns());
        self.restart = Restart::No;
        if lost == Lost::Changed {
            let (running, times) = (self.make_known(&mut run, program, Some(args)), run.times + 1);
            // Others know it further on.
            run.running = None;
            client.script = Some(Box::new(ScriptTurn::Anew(Anew { running, times })));
        }
        self.end_script(&mut run, client);
        match lost {
            Lost::Cold => Err(Stop::Cold),
            Lost::Changed | Lost::Waits => Err(Stop::Suspended),
            Lost::Alone => Ok(Restart::Due),
        }
    }

    /// Ends watching what a script may have read.
    pub(crate) fn unwatch(&mut self, rest: Option<&Rest>) {
        if let Some(Rest { watching, .. }) = rest {
            let keys = watching.keys.iter().map(|watched| (watched.db, &*watched.key));
            self.accessor.watching().unwatch(keys, &watching.watcher);
        }
    }

    /// Others hear of a script from now on, and may end it.
    #[cold]
    pub(crate) fn make_known(&self, run: &mut ScriptRun, program: &Program, called: Option<Args<'_>>) -> Arc<Running> {
        let known = run.running.get_or_insert_with(|| {
            let command = called.map(|args| args.iter().map(<[u8]>::to_vec).collect());
            let of = (program.kind(), program.name(), command.unwrap_or_default());
            self.context.instance.scripts.running.enter(of, run.start_ns, run.wrote)
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

    /// Latches the keys of a script again.
    ///
    /// # Errors
    /// When it does not go on. Then nothing is held.
    fn latch_again(&mut self, run: &ScriptRun, rest: &Rest) -> Result<(), Lost> {
        if run.is_killed() {
            // It calls no command any more.
            self.accessor.unit().plan();
            self.accessor.unit().begin();
            return Ok(());
        }
        // What is told of keys that are read is seen.
        if rest.is_lost || self.accessor.changes().publishes(TOLD) {
            return Err(Lost::Changed);
        }
        let watched = || rest.watching.keys.iter().map(|watched| &*watched.key);
        let keys = || watched().chain(rest.more.iter().map(|key| &**key));
        let begun = match run.keeps_latches() {
            true if self.accessor.cold().is_possible() => return Err(Lost::Alone),
            true => self.begin_growing(run.before.db, keys()),
            false => self.begin_planned(run.before.db, keys, rest.writes),
        };
        match begun {
            Ok(()) => {}
            Err(Stop::Suspended) => return Err(Lost::Waits),
            Err(Stop::Cold) => return Err(Lost::Cold),
            // The one that has its keys may change them, and nothing is to be gained by trying meanwhile.
            Err(Stop::Held) => return Err(Lost::Changed),
            Err(_) => return Err(Lost::Alone),
        }
        if step!(CompareScript, is_broken(&mut self.accessor, &rest.watching), else false) {
            sometimes!("a key of a suspended script has changed");
            self.end_unit();
            return Err(Lost::Changed);
        }
        Ok(())
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
        let running = &self.runner.context.instance.scripts.running;
        if running.kills() != rotation.kills {
            let (kills, killed) = running.killed_since(rotation.kills);
            rotation.note_killed(kills, killed);
        }
        if let Some(suspended) = rotation.next() {
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
        let (id, is_there) = (suspended.connection, orphan.is_none());
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
        let mut left = Some(suspended);
        if runner.carrying.spare.is_some()
            && let Some(suspended) = left.take()
        {
            runner.hand_over(suspended, client, None, is_there);
            runner.carrying.is_outside = false;
        }
        monitor::publish(&mut runner.monitor_lines, &runner.context.instance);
        running::end();
        let Some(mut suspended) = left else { return };
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
    /// Runs a script for a slice, within a batch that ends with it, unless the script is about to go to the carrier. True when its
    /// client's command runs again.
    fn take_turn(&mut self, client: &mut Client, suspended: &mut Box<Suspended>) -> bool {
        let Suspended { engine, run, program, out, rest, .. } = &mut **suspended;
        let Some(rest) = rest else { return true };
        (run.slice.begun_ns, run.slice.max_ns) = (clock::monotonic_ns(), TURN_NS);
        self.timing.begin(run.slice.begun_ns);
        let mut end = RunEnd::Failed;
        let mut latched = self.latch_again(run, rest);
        while latched.is_ok() {
            end = self.go_on((engine, program), run, client, out, None);
            if self.carrying.spare.is_some() {
                return false;
            }
            if end != RunEnd::Suspended {
                break;
            }
            self.release(run, rest);
            if !run.wants_keys() {
                break;
            }
            latched = self.grow(run, rest);
        }
        if std::mem::take(&mut self.restart) == Restart::Due && latched.is_ok() {
            self.end_unit();
            latched = Err(Lost::Alone);
        }
        run.slice.end(clock::monotonic_ns());
        if latched == Err(Lost::Waits) {
            self.accessor.end_batch();
            return false;
        }
        if latched.is_ok() && end == RunEnd::Suspended {
            self.accessor.end_batch();
            rest.lines.push_str(&std::mem::take(&mut self.monitor_lines));
            if rest.lines.len() > LINES_MAX {
                self.monitor_lines = std::mem::take(&mut rest.lines);
            }
            return false;
        }
        let known = run.running.clone();
        match latched {
            Ok(()) => {
                self.monitor_lines.insert_str(0, &rest.lines);
                self.end_script(run, client);
                client.computing.spend(run.slice.spent_ns);
                self.notify_changes(client);
                self.end_unit();
                witness(Witness::Ran, client.shared.id);
                self.notify_changes(client);
                client.script = Some(Box::new(ScriptTurn::Ended(std::mem::take(out))));
            }
            Err(lost) => {
                self.accessor.cold().forget_wanted();
                self.monitor_lines.clear();
                let times = if lost == Lost::Alone { TIMES_ALONE } else { run.times + 1 };
                client.in_script = false;
                client.transaction = run.before.transaction.take();
                client.script = known.map(|running| Box::new(ScriptTurn::Anew(Anew { running, times })));
            }
        }
        self.unwatch(Some(rest));
        self.accessor.end_batch();
        self.after_command.finish_without_client(&self.context);
        true
    }
}
