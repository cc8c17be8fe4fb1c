//! One command with the steps around it, and the end of a unit of work.
//!
//! A command comes here from a group, from the slow path, from a transaction, or from the queue of a key that its client waited
//! for. Each caller names its [`steps`] as constant bits: a missing step costs no instruction.

use almandine_base::Output;
use almandine_base::output::Mark;
use almandine_base::points::{Witness, witness};
use almandine_handler::{Client, CommandError, Context, Dispatch, Flags, redact, tracking};
use almandine_io::clock;
use almandine_keyspace::Accessor;
use almandine_resp::Args;
use almandine_script::Engine;

use crate::blocking::serve_waiters::{self, Serving};
use crate::observe::after_command::AfterCommand;
use crate::observe::timing::Timing;
use crate::observe::{hot_keys, monitor};
use crate::run::outcome::Pending;
use crate::run::seen::Seen;
use crate::state::carrying::Carrying;
use crate::state::rotation::Rotation;
use crate::state::script_run::{Restart, Suspended};
use crate::steps::plan::{Memo, Planned};
use crate::steps::reply;

/// Times that a command of a unit reads what it has missed before that counts as lost.
const READS_MAX: u32 = 1000;

/// Steps around a command that not every caller wants.
pub(crate) mod steps {
    /// The command follows another one: it is timed from the end of that, without a look at the clock.
    pub(crate) const FOLLOWS: u8 = 1;
    /// MONITOR's listeners see the command.
    pub(crate) const MONITOR: u8 = 1 << 1;
    /// CLIENT TRACKING remembers the keys that the command reads.
    pub(crate) const TRACK: u8 = 1 << 2;
    /// HOTKEYS counts the cost of the command.
    pub(crate) const HOT_KEYS: u8 = 1 << 3;
    /// Clients that track changed keys are notified behind the command, not behind the batch.
    pub(crate) const NOTIFY: u8 = 1 << 4;
    /// The command is a unit of work by itself, and ends it.
    pub(crate) const UNIT: u8 = 1 << 5;
    /// The command is part of a unit that may have changed something: it reads cold records at once, instead of running again.
    pub(crate) const READ_AT_ONCE: u8 = 1 << 6;
}

/// A command that is about to run.
#[derive(Clone, Copy)]
pub(crate) struct Called<'r> {
    pub(crate) dispatch: &'static Dispatch,
    pub(crate) planned: &'r Planned,
    /// Its number in its batch.
    pub(crate) number: usize,
    /// Whether it is timed together with other fast commands.
    pub(crate) together: bool,
    /// Bytes of a reply from which the command may be logged as large, see [`AfterCommand::watch`].
    pub(crate) watched_bytes: usize,
}

/// The parts of a worker that running commands takes.
pub(crate) struct Runner {
    pub(crate) accessor: Accessor,
    pub(crate) context: Context,
    pub(crate) timing: Timing,
    pub(crate) after_command: AfterCommand,
    /// Memory for serving waiters.
    pub(crate) serving: Serving,
    /// The batch's time, Unix milliseconds.
    pub(crate) now_ms: i64,
    /// Lines of this batch for MONITOR's listeners.
    pub(crate) monitor_lines: String,
    /// The machine for scripts, once one has run.
    pub(crate) engine: Option<Box<Engine>>,
    /// The one for functions of libraries that keep nothing.
    pub(crate) function_engine: Option<Box<Engine>>,
    /// The script that has run for long, alone.
    pub(crate) suspended: Option<Box<Suspended>>,
    /// The scripts that are suspended and hold nothing.
    pub(crate) rotation: Rotation,
    /// The scripts that another thread goes on with.
    pub(crate) carrying: Carrying,
    /// What the replies of the round depend on.
    pub(crate) seen: Seen,
    /// What follows when a command of a script uses a key outside of its unit.
    pub(crate) restart: Restart,
    /// What is executed happened long ago: no time passes meanwhile.
    pub(crate) is_past: bool,
    /// The commands that scripts call.
    pub(crate) names: Memo,
}

impl Runner {
    /// One that has run nothing.
    pub(crate) fn new(context: Context, mut accessor: Accessor) -> Self {
        accessor.unit().follow_clock(true);
        let rotation = Rotation::new(context.worker);
        Self {
            accessor,
            timing: Timing::new(context.table.rows().len(), context.settings()),
            after_command: AfterCommand::new(context.settings()),
            context,
            serving: Serving::default(),
            now_ms: clock::unix_ms(),
            monitor_lines: String::new(),
            engine: None,
            function_engine: None,
            suspended: None,
            rotation,
            carrying: Carrying::default(),
            seen: Seen::default(),
            restart: Restart::No,
            is_past: false,
            names: Memo::default(),
        }
    }

    /// See [`UnitOfWork::pass_time`](almandine_keyspace::UnitOfWork::pass_time).
    pub(crate) fn pass_time(&mut self) {
        self.now_ms = self.accessor.unit().pass_time();
    }

    /// See [`UnitOfWork::catch_up`](almandine_keyspace::UnitOfWork::catch_up).
    #[inline]
    pub(crate) fn catch_up(&mut self) {
        self.now_ms = self.accessor.unit().catch_up();
    }

    /// Runs a command with the steps around it. Returns where the reply begins.
    ///
    /// Call `args` where the arguments are needed: kept ones are copied for the call, which then waits for its own stores.
    ///
    /// # Errors
    /// When the command has to run again. Nothing has happened then.
    #[inline(always)]
    pub(crate) fn run<'c, const STEPS: u8>(
        &mut self,
        client: &mut Client,
        out: &mut Output,
        called: Called<'_>,
        args: impl Fn() -> Args<'c>,
    ) -> Result<Mark, Pending> {
        let Called { dispatch, number, together, watched_bytes, .. } = called;
        let lines_before = self.monitor_lines.len();
        // A script that was suspended has been shown.
        if STEPS & steps::MONITOR != 0 && client.script.is_none() {
            self.show(client, dispatch, args());
        }
        let mut start_ns = 0;
        if !together && STEPS & steps::FOLLOWS != 0 {
            start_ns = self.timing.begin_next(&self.context, client, dispatch, self.now_ms);
        } else if !together {
            start_ns = self.timing.begin_alone(&self.context, client, dispatch, self.now_ms);
        }
        let mut tracked = None;
        if STEPS & steps::TRACK != 0 {
            tracked = tracking::before_read(client, dispatch, args(), &self.context);
        }
        if STEPS & (steps::TRACK | steps::UNIT) == steps::TRACK | steps::UNIT {
            // Not within the array of EXEC.
            client.write_invalidations(out);
        }
        let (mark, before) = (out.mark(), out.len());
        let answered = if STEPS & steps::READ_AT_ONCE != 0 {
            self.answer_reading(client, out, called, args())
        } else {
            self.answer(client, out, called, args())
        };
        if let Err(pending) = answered {
            if !together {
                self.timing.suspend(client, start_ns, pending);
            }
            if STEPS & steps::MONITOR != 0 && !matches!(pending, Pending::Key | Pending::Script) {
                // It runs again, and is shown then.
                self.monitor_lines.truncate(lines_before);
            }
            return Err(pending);
        }
        let mut elapsed_ns = 0;
        if together {
            self.timing.count(dispatch.index, number);
        } else {
            elapsed_ns = self.timing.end_alone(&self.context, client, dispatch, args(), start_ns);
        }
        if let Some(tracked) = tracked {
            tracking::after_read(tracked, client, dispatch, args(), &self.context);
        }
        let written = out.len() - before;
        if STEPS & steps::HOT_KEYS != 0 && !together {
            hot_keys::record(&self.context, dispatch, args(), elapsed_ns, written);
        }
        if written >= watched_bytes {
            self.after_command.log_large((&self.context, &mut self.timing), client, dispatch, args(), written);
        }
        if STEPS & steps::NOTIFY != 0 {
            self.notify_changes(client);
        }
        if STEPS & steps::UNIT != 0 && self.accessor.serving().has_ready() {
            self.notify_changes(client);
            self.end_unit();
        }
        if STEPS & steps::UNIT != 0 {
            // Behind what its waiters were served: that is a part of it.
            witness(Witness::Ran, client.shared.id);
        }
        Ok(mark)
    }

    /// Runs a command of a unit that has begun. What it misses is read while other workers wait.
    ///
    /// # Errors
    /// When it is a script that is suspended.
    fn answer_reading(&mut self, client: &mut Client, out: &mut Output, called: Called<'_>, args: Args<'_>) -> Result<(), Pending> {
        let mut reads = 0;
        while let Err(pending) = self.answer(client, out, called, args) {
            if pending == Pending::Script {
                return Err(pending);
            }
            reads += 1;
            if reads > READS_MAX || !self.accessor.unit().read_missing() {
                self.accessor.cold().forget_wanted();
                reply::error(&self.context, client, out, &CommandError::StorageUnreadable);
                break;
            }
        }
        Ok(())
    }

    /// Ends a unit that still holds latches: the waiters of its ready keys are served, then the latches are released.
    ///
    /// The log will number the unit and seal its reply here, behind its changes and before its first waiter is served. A command
    /// that makes no key ready has released its latches when its call ended.
    pub(crate) fn end_unit(&mut self) {
        if self.accessor.serving().has_ready() {
            serve_waiters::serve(self);
        }
        self.accessor.unit().end();
    }

    /// Notifies the clients that track the keys that were changed since the last call; the client itself at the next end of a
    /// command or batch.
    #[inline]
    pub(crate) fn notify_changes(&mut self, client: &mut Client) {
        if self.accessor.changes().any() {
            tracking::tell_changes(client, &mut self.accessor, &self.context.instance, &mut self.after_command.broadcasts);
        }
    }

    /// Shows a command to MONITOR's listeners.
    #[inline]
    pub(crate) fn show(&mut self, client: &Client, dispatch: &Dispatch, args: Args<'_>) {
        if self.context.instance.monitors.active() {
            self.write_line(client, dispatch, args);
        }
    }

    #[cold]
    fn write_line(&mut self, client: &Client, dispatch: &Dispatch, args: Args<'_>) {
        // A script is shown before what it calls.
        if !dispatch.flags.any(Flags::SKIP_MONITOR) || dispatch.flags.any(Flags::RUNS_SCRIPT) {
            let spec = &self.context.table.row(dispatch.index).command.spec;
            monitor::write_line(&mut self.monitor_lines, client, redact::shown(spec, args));
        }
    }
}
