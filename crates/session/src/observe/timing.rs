//! How long commands take, without asking the clock for each.
//!
//! Fast commands that follow each other form a *segment*: the clock is read when it begins and when it ends, and each command
//! gets an even share. Other commands are timed alone. So a pipeline of GETs costs two readings, not two per command. Where the
//! true time of each command matters, because the operator wants to see microseconds in the slow log, all commands are timed
//! alone (see `slow_path`).

use std::sync::atomic::Ordering::Relaxed;

use almandine_config::Settings;
use almandine_instance::latency::event;
use almandine_instance::slowlog::Shortened;
use almandine_instance::{SlowEntry, WorkerStatistics, slowlog};

use almandine_handler::{Client, Context, Dispatch, Flags, Handler, redact};
use almandine_io::clock;
use almandine_resp::Args;

use crate::observe::withheld::{Told, Withheld};
use crate::run::outcome::Pending;
use crate::state::received::Received;

/// Below this threshold of the slow log in microseconds, every command is timed alone.
const EXACT_BELOW_US: i64 = 1_000;

/// The timing of one worker's commands.
#[derive(Debug)]
pub(crate) struct Timing {
    /// Calls of the segment so far, by dense index; all zero between segments.
    calls: Box<[u32]>,
    /// The indexes whose calls are not zero.
    touched: Vec<u16>,
    total: u32,
    /// Number, in its batch, of the segment's first command.
    first: usize,
    segment_start_ns: u64,
    /// When the segment within a command ended that is timed alone: its own end. Zero when there was none.
    inner_end_ns: u64,
    latency_tracking: bool,
    slow_ns: u64,
    spike_ms: u64,
    slowlog_len_max: usize,
    /// Whether every command must be timed alone.
    pub(crate) exact: bool,
    /// A script runs that may begin anew: what is counted is kept back.
    pub(crate) withholds: bool,
    pub(crate) withheld: Withheld,
}

impl Timing {
    pub(crate) fn new(commands: usize, settings: &Settings) -> Self {
        let mut timing = Self {
            calls: vec![0; commands].into(),
            touched: Vec::with_capacity(commands),
            total: 0,
            first: 0,
            segment_start_ns: 0,
            inner_end_ns: 0,
            latency_tracking: true,
            slow_ns: u64::MAX,
            spike_ms: 0,
            slowlog_len_max: 0,
            exact: false,
            withholds: false,
            withheld: Withheld::default(),
        };
        timing.configure(settings);
        timing
    }

    /// Follows a change of the settings.
    pub(crate) fn configure(&mut self, settings: &Settings) {
        let observe = &settings.observe;
        let threshold_us = observe.slowlog_slower_than_us;
        self.latency_tracking = observe.latency_tracking;
        self.slow_ns = u64::try_from(threshold_us).map_or(u64::MAX, |us| us.saturating_mul(1000));
        self.spike_ms = observe.latency_monitor_threshold_ms;
        self.slowlog_len_max = observe.slowlog_len_max;
        self.exact = (0..EXACT_BELOW_US).contains(&threshold_us);
    }

    /// Begins a segment.
    #[inline]
    pub(crate) fn begin(&mut self, now_ns: u64) {
        self.segment_start_ns = now_ns;
    }

    /// When the command began that runs, about: not after it did.
    #[inline]
    pub(crate) fn begun_ns(&self) -> u64 {
        self.segment_start_ns
    }

    /// Ends the segment of commands that a command has called which is timed alone, and ends next.
    pub(crate) fn end_inner(&mut self, statistics: &WorkerStatistics) {
        if self.total > 0 {
            self.inner_end_ns = clock::monotonic_ns();
            self.end(self.inner_end_ns, statistics);
        }
    }

    /// Counts a fast command, numbered `command` in its batch, into the segment.
    #[inline]
    pub(crate) fn count(&mut self, index: u16, command: usize) {
        let calls = &mut self.calls[usize::from(index)];
        if *calls == 0 {
            if self.touched.is_empty() {
                self.first = command;
            }
            self.touched.push(index);
        }
        *calls += 1;
        self.total += 1;
    }

    /// Ends the segment and begins the next one. Returns the segment when it took long enough to be logged.
    #[inline]
    pub(crate) fn end(&mut self, now_ns: u64, statistics: &WorkerStatistics) -> Option<Segment> {
        let elapsed_ns = now_ns.saturating_sub(self.segment_start_ns);
        self.segment_start_ns = now_ns;
        if self.total == 0 {
            return None;
        }
        let share_ns = elapsed_ns / u64::from(self.total);
        for index in self.touched.drain(..) {
            let calls = u64::from(std::mem::take(&mut self.calls[usize::from(index)]));
            if self.withholds {
                self.withheld.command(index).add(calls, calls * share_ns);
            } else {
                statistics.command(usize::from(index)).record(calls, calls * share_ns, self.latency_tracking);
            }
        }
        let commands = std::mem::take(&mut self.total);
        self.is_noteworthy(elapsed_ns).then_some(Segment { elapsed_ns, commands, first: self.first })
    }

    /// Ends the segment before a command that is timed alone; returns the time.
    pub(crate) fn begin_alone(&mut self, context: &Context, client: &Client, dispatch: &Dispatch, now_ms: i64) -> u64 {
        let start_ns = clock::monotonic_ns();
        self.inner_end_ns = 0;
        self.end(start_ns, context.statistics());
        show(client, dispatch, now_ms);
        start_ns
    }

    /// As [`Timing::begin_alone`], of a command of a batch. What it is timed from is what the one before it was timed to, if
    /// that was timed alone, or the begin of the batch: the clock is not read again. Its planning counts, as that of fast
    /// commands does.
    pub(crate) fn begin_next(&mut self, context: &Context, client: &Client, dispatch: &Dispatch, now_ms: i64) -> u64 {
        if self.total > 0 {
            return self.begin_alone(context, client, dispatch, now_ms);
        }
        self.inner_end_ns = 0;
        show(client, dispatch, now_ms);
        self.segment_start_ns
    }

    /// Whether fast commands have been counted that are not recorded yet.
    #[inline]
    pub(crate) fn has_segment(&self) -> bool {
        self.total > 0
    }

    /// Records a command that was timed alone and begins the next segment. Returns how long it took, in nanoseconds.
    pub(crate) fn end_alone(
        &mut self,
        context: &Context,
        client: &Client,
        dispatch: &Dispatch,
        args: Args<'_>,
        start_ns: u64,
    ) -> u64 {
        let end_ns = match std::mem::take(&mut self.inner_end_ns) {
            0 => clock::monotonic_ns(),
            inner_end_ns => inner_end_ns,
        };
        // What was computed in slices has taken time before.
        let elapsed_ns = end_ns.saturating_sub(start_ns) + client.computing.take_spent_ns();
        if matches!(dispatch.run, Handler::Admin(_)) && !context.view.is_current(&context.instance.config) {
            // CONFIG SET of the log's threshold is measured by the new one.
            self.configure(&context.instance.config.snapshot().settings);
        }
        self.record(context, client, dispatch, args, elapsed_ns);
        self.begin(end_ns);
        elapsed_ns
    }

    /// A script has ended that could have begun anew.
    #[inline]
    pub(crate) fn count_withheld(&mut self, client: &mut Client, context: &Context) {
        self.withholds = false;
        if !self.withheld.is_empty() {
            self.withheld.count(client, context, self.latency_tracking);
        }
    }

    /// Tells a log something, unless a script runs that may begin anew: then it is told when that has ended.
    pub(crate) fn tell(&mut self, context: &Context, told: Told) {
        match self.withholds {
            true => self.withheld.keep(context, told),
            false => told.tell(context),
        }
    }

    /// A command has failed.
    pub(crate) fn count_failed(&mut self, statistics: &WorkerStatistics, index: u16) {
        match self.withholds {
            true => self.withheld.command(index).failed += 1,
            false => statistics.command(usize::from(index)).failed.add(1),
        }
    }

    /// A command was refused.
    pub(crate) fn count_rejected(&mut self, statistics: &WorkerStatistics, index: u16) {
        match self.withholds {
            true => self.withheld.command(index).rejected += 1,
            false => statistics.command(usize::from(index)).rejected.add(1),
        }
    }

    /// An error was replied.
    pub(crate) fn count_error(&mut self, statistics: &WorkerStatistics, text: &str) {
        match self.withholds {
            true => self.withheld.error_replied(text),
            false => statistics.error_replied(text),
        }
    }

    /// A command that was timed alone is pending, and will run again.
    #[cold]
    pub(crate) fn suspend(&mut self, client: &Client, start_ns: u64, pending: Pending) {
        let end_ns = clock::monotonic_ns();
        if pending == Pending::Computation {
            client.computing.spend(end_ns.saturating_sub(start_ns));
        }
        self.begin(end_ns);
    }

    /// Records a command that was timed alone and in which commands of `received` were timed together.
    pub(crate) fn end_around(
        &mut self,
        context: &Context,
        client: &Client,
        (dispatch, args): (&Dispatch, Args<'_>),
        start_ns: u64,
        received: Received<'_>,
    ) {
        let end_ns = clock::monotonic_ns();
        if let Some(segment) = self.end(end_ns, context.statistics()) {
            self.note_segment(context, client, received, &segment);
        }
        self.record(context, client, dispatch, args, end_ns.saturating_sub(start_ns));
    }

    /// Records a command that was timed alone.
    fn record(&mut self, context: &Context, client: &Client, dispatch: &Dispatch, args: Args<'_>, elapsed_ns: u64) {
        if self.withholds {
            self.withheld.command(dispatch.index).add(1, elapsed_ns);
        } else {
            context.statistics().command(usize::from(dispatch.index)).record(1, elapsed_ns, self.latency_tracking);
        }
        if self.is_noteworthy(elapsed_ns) {
            let event = if dispatch.flags.any(Flags::FAST) { event::FAST_COMMAND } else { event::COMMAND };
            self.note(
                context,
                client,
                &Noted { args, together: 1, event, elapsed_ns, secret: dispatch.flags.any(Flags::SKIP_SLOWLOG) },
            );
        }
    }

    /// Logs a segment of commands of `received` that took long: under its first command, with the number of commands that were
    /// timed together.
    #[cold]
    pub(crate) fn note_segment(&mut self, context: &Context, client: &Client, received: Received<'_>, segment: &Segment) {
        let &Segment { elapsed_ns, commands, first } = segment;
        let args = received.args(first);
        self.note(context, client, &Noted { args, together: commands, event: event::FAST_COMMAND, elapsed_ns, secret: false });
    }

    #[inline]
    fn is_noteworthy(&self, elapsed_ns: u64) -> bool {
        elapsed_ns >= self.slow_ns || (self.spike_ms > 0 && elapsed_ns / 1_000_000 >= self.spike_ms)
    }

    #[cold]
    fn note(&mut self, context: &Context, client: &Client, noted: &Noted<'_>) {
        let &Noted { args, together, event, elapsed_ns, secret } = noted;
        let time_s = clock::unix_ms() / 1000;
        let elapsed_ms = elapsed_ns / 1_000_000;
        if self.spike_ms > 0 && elapsed_ms >= self.spike_ms {
            self.tell(context, Told::Spike(event, time_s, elapsed_ms));
        }
        if elapsed_ns < self.slow_ns || secret {
            return;
        }
        let mut arguments = shown(context, args);
        if together > 1 {
            arguments.words.push(format!("... ({together} commands timed together)").into_bytes());
        }
        let entry = log_entry(client, arguments, elapsed_ns / 1000);
        self.tell(context, Told::Entry(|context| &context.instance.logs.slow, entry, self.slowlog_len_max));
    }
}

/// CLIENT LIST shows the command that is about to run and may itself be CLIENT LIST.
fn show(client: &Client, dispatch: &Dispatch, now_ms: i64) {
    client.shared.activity.last_command.store(u32::from(dispatch.index), Relaxed);
    client.shared.activity.at_ms.store(now_ms, Relaxed);
}

/// Fast commands that were timed together.
#[derive(Debug)]
pub(crate) struct Segment {
    elapsed_ns: u64,
    commands: u32,
    /// Number of the first of them in its batch. Refused commands are not timed, so those of the segment need not lie side by side.
    first: usize,
}

/// What took long.
struct Noted<'a> {
    args: Args<'a>,
    /// How many commands were timed together, the first of them this one.
    together: u32,
    event: &'static str,
    elapsed_ns: u64,
    secret: bool,
}

/// A command as the log may show it.
fn shown(context: &Context, args: Args<'_>) -> Shortened {
    let words_max = context.settings().observe.slowlog_words_max;
    match context.table.resolve(args.at(0), args.get(1)) {
        Some(dispatch) => slowlog::shorten(redact::shown(&context.table.row(dispatch.index).command.spec, args), words_max),
        None => slowlog::shorten(args.iter(), words_max),
    }
}

/// An entry of a command log, about a command that ran just now.
pub(crate) fn log_entry(client: &Client, arguments: Shortened, value: u64) -> SlowEntry {
    let (address, name) = (client.shared.address.clone(), client.shared.identity().name.clone());
    SlowEntry { id: 0, time_s: clock::unix_ms() / 1000, value, arguments, address, name }
}
