//! A script's way to the commands: what it may call, and when it is suspended between two of them.

use std::sync::atomic::Ordering::Relaxed;

use almandine_base::{Output, points, step};
use almandine_config::choices::BusyScope;
use almandine_handler::tracking::Tracked;
use almandine_handler::{Client, CommandError, Dispatch, Flags, PlannedKey, errors, follow, rights, tracking};
use almandine_instance::HeldOfUnit;
use almandine_io::clock;
use almandine_resp::{Args, ProtocolVersion, Reply};
use almandine_script::{Commands, LogLevel, Program, Verdict};

use crate::observe::withheld::Told;
use crate::run::runner::{Called, Runner, steps};
use crate::run::script::FIRST_SLICE_NS;
use crate::run::script::rotation::KEYS_MAX;
use crate::state::script_run::{Restart, Scope, ScriptRun};
use crate::steps::admit::unlogged;
use crate::steps::plan::{Planned, declared_keys};

/// Steps around a command that a script calls.
const IN_SCRIPT: u8 = steps::MONITOR | steps::HOT_KEYS | steps::NOTIFY | steps::READ_AT_ONCE;
/// Fast commands of a script between two looks at the clock.
const CALLS: u32 = 64;

/// The reply to a command of a script that runs again: no client reads it.
pub(crate) fn write_left_plan(out: &mut Output, version: ProtocolVersion) {
    Reply::new(out, version).error("ERR the script runs again");
}

/// A script's way to the commands.
pub(super) struct Caller<'r> {
    pub(super) runner: &'r mut Runner,
    pub(super) client: &'r mut Client,
    pub(super) run: &'r mut ScriptRun,
    pub(super) program: &'r Program,
    /// The call of the script, in its first slice, and its first key, as it was planned, when that is how it is used.
    pub(super) called: Option<(&'r Args<'r>, &'r PlannedKey)>,
    pub(super) watched_bytes: usize,
}

impl Caller<'_> {
    /// Why a command may not run.
    fn refusal(&mut self, dispatch: &Dispatch, args: Args<'_>) -> Option<CommandError> {
        let flags = dispatch.flags;
        if !dispatch.accepts(args.len()) {
            return Some(errors::script::ARITY);
        }
        let context = &self.runner.context;
        let may_call_any = || context.instance.scripts.call_any.load(Relaxed) && !flags.any(Flags::RUNS_SCRIPT);
        if flags.any(Flags::NO_SCRIPT) && !may_call_any() {
            return Some(errors::script::NOT_ALLOWED);
        }
        if let Some(refused) = follow::refused(self.client, context.table, dispatch, args) {
            let (denied, error) = follow::deny_silently(context, self.client, refused, self.runner.now_ms);
            self.runner.timing.tell(context, Told::Denied(denied));
            return Some(errors::script::denied(&error));
        }
        if self.run.read_only && flags.any(Flags::MAY_WRITE) {
            return Some(errors::script::READS_ONLY);
        }
        let persistence = &context.settings().persistence;
        let stops = || persistence.stop_writes_unsaved && !persistence.save_points.is_empty();
        if !self.run.wrote && flags.any(Flags::WRITES) && context.instance.persistence.is_unsaved() && stops() {
            return Some(CommandError::Unsaved);
        }
        if !self.run.wrote && flags.any(Flags::NOT_UNSAVED) {
            // Also what it writes when the log has healed meanwhile, or a part of it would be done.
            self.run.unlogged |= context.instance.persistence.is_unlogged();
            if self.run.unlogged {
                return Some(unlogged(&context.instance));
            }
        }
        let may_fill = self.run.wrote || !self.run.over_limit || !self.run.checks_memory;
        if !may_fill && flags.any(Flags::DENY_OOM) {
            return Some(CommandError::OutOfMemory);
        }
        None
    }

    /// The key of a command, if it is the one that was planned.
    #[inline]
    fn planned_key(&self, dispatch: &Dispatch, args: Args<'_>) -> PlannedKey {
        match self.called {
            Some((called, key)) if key.position != 0 && dispatch.key != 0 => {
                let is_it = args.get(usize::from(dispatch.key)) == called.get(usize::from(key.position));
                if is_it { PlannedKey { position: dispatch.key, ..*key } } else { PlannedKey::default() }
            }
            _ => PlannedKey::default(),
        }
    }

    /// Remembers what a command is about to read for a client that tracks, and with the first one all keys that the call declares:
    /// what the script answers may be kept for them. A script that may begin anew keeps back what it has read.
    #[cold]
    fn track(&mut self, dispatch: &Dispatch, args: Args<'_>) -> Option<Tracked> {
        let Self { runner: Runner { context, timing, .. }, client, run, .. } = self;
        if dispatch.flags.any(Flags::MAY_WRITE) {
            timing.withheld.remember_read(client, context);
        }
        if !tracking::is_remembered(client, dispatch, context) {
            return None;
        }
        let words: Vec<&[u8]> = match (std::mem::replace(&mut run.remembered, true), &self.called, &run.running) {
            (false, Some((called, _)), _) => called.iter().collect(),
            (false, None, Some(running)) => running.command.iter().map(Vec::as_slice).collect(),
            _ => Vec::new(),
        };
        let called = words.first().and_then(|name| context.table.lookup(name));
        let shape = |dispatch: &Dispatch| &context.table.row(dispatch.index).shape;
        let declared = called.into_iter().flat_map(|called| shape(called).keys(words.len(), |argument| words[argument]));
        let declared = declared.map(|(position, _)| words[position]);
        if timing.withholds && !run.seen {
            let read = shape(dispatch).keys(args.len(), |argument| args.at(argument)).map(|(position, _)| args.at(position));
            let keys = declared.chain(read);
            step!(KeepRead, {
                keys.for_each(|key| timing.withheld.keep_read(key));
            }, else {
                tracking::remember_latched(client, keys, context);
            });
            return None;
        }
        tracking::remember_latched(client, declared, context);
        tracking::before_read(client, dispatch, args, context)
    }

    /// Others hear of the script from now on, and may end it.
    #[cold]
    fn show(&mut self) {
        let running = self.runner.make_known(self.run, self.program, self.called.map(|(args, _)| *args));
        if self.is_alone() {
            self.runner.context.instance.scripts.running.hold_all(&running);
        }
    }

    /// Whether no other worker does anything meanwhile.
    fn is_alone(&mut self) -> bool {
        self.runner.accessor.unit().is_alone()
    }

    /// Whether the script may be suspended without anything that it holds: nothing of it was seen.
    fn may_rest(&self) -> bool {
        let run = &*self.run;
        let is_watchable = !run.keeps_latches() || run.growth.as_ref().is_some_and(|growth| growth.known.len() <= KEYS_MAX);
        run.scope == Scope::Planned && !run.seen && !self.runner.is_past && is_watchable
    }

    /// Whether the unit of the script has all keys of a command. Those that it has not are latched, or wanted.
    fn has_keys(&mut self, dispatch: &Dispatch, args: Args<'_>) -> bool {
        let ScriptRun { growth: Some(growth), seen, .. } = &mut *self.run else { return true };
        let Runner { context, accessor, .. } = &mut *self.runner;
        let mut use_key = |key| {
            if growth.keeps && growth.learn(key) {
                accessor.unit().grow(self.client.db, key);
                if !*seen {
                    growth.added.push(key.into());
                }
            } else if !growth.keeps {
                growth.use_key(key);
            }
        };
        if dispatch.key != 0 {
            use_key(args.at(usize::from(dispatch.key)));
        } else {
            declared_keys(context, dispatch, args).for_each(use_key);
        }
        growth.wanted.is_empty()
    }

    /// Whether the script has run for `busy-reply-threshold`.
    fn is_long(&self, now_ns: u64) -> bool {
        let threshold_ms = self.runner.context.settings().process.busy_reply_threshold_ms;
        threshold_ms != 0 && now_ns.saturating_sub(self.run.start_ns) / 1_000_000 >= threshold_ms
    }

    /// Whether the script may be suspended with its unit, which is alone, while all clients hear that the server is busy.
    fn may_hold_all(&mut self, now_ns: u64) -> bool {
        self.is_alone() && !self.runner.is_past && self.is_long(now_ns)
    }

    /// Whether the script is to be suspended, or to end, before its next command.
    fn is_due(&mut self, dispatch: &Dispatch) -> bool {
        let run = &mut *self.run;
        run.slice.calls += if dispatch.flags.any(Flags::FAST) { 1 } else { CALLS / 4 };
        if run.slice.calls <= CALLS {
            return false;
        }
        run.slice.calls = 0;
        let now_ns = clock::monotonic_ns();
        run.is_killed() || run.slice.is_over(now_ns) && (self.may_hold_all(now_ns) || self.may_rest() || self.may_leave())
    }

    /// Whether another thread may go on with the script, which has done what others see.
    fn may_leave(&self) -> bool {
        let (run, Runner { accessor, is_past, carrying, .. }) = (&*self.run, &*self.runner);
        // What a client's own changes invalidate is told to the client itself.
        let is_plain = self.client.tracking.is_none() && !*is_past && !accessor.cold().is_possible();
        carrying.carrier.as_ref().is_some_and(|carrier| carrier.may_take()) && run.scope == Scope::Planned && run.seen && is_plain
    }

    /// Whether another thread goes on with the script.
    #[cold]
    fn leaves(&mut self) -> bool {
        let Some(carrier) = self.runner.carrying.carrier.clone() else { return false };
        if carrier.is_to_start() {
            carrier.start();
        }
        self.runner.carrying.spare = step!(CarryScript, carrier.reserve(), else None);
        self.runner.carrying.spare.is_some()
    }
}

impl Commands for Caller<'_> {
    fn call(&mut self, args: Args<'_>, version: ProtocolVersion, out: &mut Output) -> bool {
        self.client.version = version;
        out.set_whole(true);
        if self.runner.restart == Restart::Due {
            // The script catches what is not for it.
            write_left_plan(out, version);
            return true;
        }
        let table = self.runner.context.table;
        let resolved = match self.runner.names.lookup(table, args.at(0)) {
            Some(dispatch) if !dispatch.flags.any(Flags::CONTAINER) => Some(dispatch),
            _ => table.resolve(args.at(0), args.get(1)),
        };
        let Some(dispatch) = resolved else {
            let known = table.resolve_known(args.at(0), args.get(1)).filter(|known| known.flags.any(Flags::NO_SCRIPT));
            let error = if known.is_some() { &errors::script::NOT_ALLOWED } else { &errors::script::UNKNOWN_COMMAND };
            self.runner.reply_error(self.client, out, error);
            return true;
        };
        // One that was killed while it was suspended holds nothing when it goes on.
        let is_killed = self.run.running.is_some() && step!(EndKilled, self.run.is_killed(), else false);
        if is_killed || self.is_due(dispatch) {
            return false;
        }
        if let Some(refusal) = self.refusal(dispatch, args) {
            self.run.seen |= !self.run.endless && self.run.growth.is_none();
            let Runner { timing, context, .. } = &mut *self.runner;
            timing.count_rejected(context.statistics(), dispatch.index);
            self.runner.reply_error(self.client, out, &refusal);
            return true;
        }
        if self.run.growth.is_some() && !self.has_keys(dispatch, args) {
            return false;
        }
        if dispatch.flags.any(Flags::WRITES) && !self.run.wrote {
            if let Some(running) = &self.run.running
                && !step!(RefuseKilled, self.runner.context.instance.scripts.running.may_write(running), else true)
            {
                return false;
            }
            self.run.wrote = true;
        }
        let tracked = if self.client.tracking.is_some() { self.track(dispatch, args) } else { None };
        let planned = Planned { dispatch: Some(dispatch), key: self.planned_key(dispatch, args) };
        let together = !self.runner.timing.exact && dispatch.flags.any(Flags::FAST);
        let called = Called { dispatch, planned: &planned, number: 0, together, watched_bytes: self.watched_bytes };
        self.runner.restart = if self.run.seen { Restart::No } else { Restart::Possible };
        step!(NoteSeen, self.run.seen |= dispatch.flags.any(Flags::MAY_WRITE));
        let ran = self.runner.run::<IN_SCRIPT>(self.client, out, called, || args);
        debug_assert!(ran.is_ok(), "a command of a unit has a reply, if only an error");
        if let Some(tracked) = tracked {
            tracking::after_read(tracked, self.client, dispatch, args, &self.runner.context);
        }
        true
    }

    fn permits(&mut self, args: Args<'_>) -> Option<bool> {
        let table = self.runner.context.table;
        let dispatch = table.resolve(args.at(0), args.get(1)).filter(|dispatch| dispatch.accepts(args.len()))?;
        let access = &self.client.access;
        Some(!access.is_restricted() || rights::permits(access, table, dispatch, args, self.client.db))
    }

    fn replied_error(&mut self, text: &[u8]) {
        if self.runner.restart == Restart::Due {
            return;
        }
        let Runner { timing, context, .. } = &mut *self.runner;
        timing.count_error(context.statistics(), &String::from_utf8_lossy(text));
    }

    fn log(&mut self, level: LogLevel, line: String) {
        self.runner.timing.tell(&self.runner.context, Told::Line(level, line));
    }

    fn verdict(&mut self) -> Verdict {
        if self.runner.restart == Restart::Due {
            return Verdict::End;
        }
        let now_ns = clock::monotonic_ns();
        self.run.slice.calls = 0;
        if self.run.is_killed() {
            return Verdict::End;
        }
        if self.run.wants_keys() {
            return Verdict::Suspend;
        }
        points::works(FIRST_SLICE_NS / 2);
        if self.runner.carrying.is_carrier {
            // What it has told waits for the epoch in which it was told.
            if !HeldOfUnit::is_told_early() {
                step!(RenewEpoch, self.runner.accessor.unit().long_units().renew(), else ());
            }
            let ends = self.runner.context.instance.shutdown.requested();
            return if ends { Verdict::End } else { Verdict::GoOn };
        }
        let (is_over, is_long) = (self.run.slice.is_over(now_ns), self.is_long(now_ns));
        if is_over || is_long {
            self.runner.context.instance.scripts.running.go_on();
        }
        let is_told = self.runner.context.settings().process.busy_reply_scope == BusyScope::Node;
        if !(is_long && is_told) && (is_over || is_long) && self.may_rest() {
            return if is_over { Verdict::Suspend } else { Verdict::GoOn };
        }
        if is_over && self.may_leave() && self.leaves() {
            return Verdict::Suspend;
        }
        if is_long && self.run.endless && !self.run.seen {
            // It is suspended then, and may be killed, while all others hear of it.
            self.runner.restart = Restart::Due;
            return Verdict::End;
        }
        if is_long && self.run.running.as_ref().is_none_or(|running| self.runner.accessor.unit().is_alone() && !running.holds_all())
        {
            self.show();
            self.run.slice.begun_ns = 0;
        }
        if self.may_hold_all(now_ns) && self.run.slice.is_over(now_ns) { Verdict::Suspend } else { Verdict::GoOn }
    }
}
