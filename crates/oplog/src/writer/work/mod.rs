//! The writer's rounds: close a cut, write it, sync, say so, and wait.

mod heal;
mod obey;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use almandine_base::step;
use almandine_io::clock;

use self::heal::Healing;
use super::LogListener;
use super::orders::{Orders, UnderWay};
use super::progress::{LogProgress, LogState, SyncMode};
use crate::append::{Appender, WritePath};
use crate::fault::Fault;
use crate::source::UnitSource;

/// How often the commit epoch is raised while there is work, and how long the log rests before a seal.
const TICK_NS: u64 = 10_000_000;
const SECOND_NS: u64 = 1_000_000_000;
/// Units that are written before their second is over.
const ENOUGH_BYTES: usize = 1 << 20;
/// Where syncs are beside the writer, the next one begins when so much is not durable: the last sync of a segment is short then.
const MUCH_UNSYNCED_BYTES: u64 = 8 << 20;
/// What heads and padding of a group may take beside its units.
const SLACK_BYTES: u64 = 64 << 10;
/// How long it waits while all sessions rest, when there is nothing to do, when there is, and for a cut that a reply waits for.
const REST: Duration = Duration::from_secs(10);
const IDLE: Duration = Duration::from_millis(100);
const TICK: Duration = Duration::from_nanos(TICK_NS);
const SOON: Duration = Duration::from_micros(100);

pub(super) struct Work {
    log: Option<Appender>,
    source: Box<dyn UnitSource>,
    rings_survive: bool,
    listener: Box<dyn LogListener>,
    progress: Arc<LogProgress>,
    orders: Arc<Orders>,
    /// The greatest epoch that is closed, written, durable.
    closed: u64,
    written: u64,
    durable: u64,
    /// The sync that is under way.
    syncing: Option<Syncing>,
    under_way: UnderWay,
    /// The commit epoch was raised, and what it closes is not closed.
    is_raised: bool,
    times: Times,
    /// The last group is a seal, or there is none.
    is_sealed: bool,
    healing: Healing,
}

/// A sync beside the writer.
#[derive(Clone, Copy)]
struct Syncing {
    through: u64,
    end_lsn: u64,
    begun_ns: u64,
}

/// When something was done last, by the clock without jumps.
struct Times {
    raised_ns: u64,
    written_ns: u64,
    synced_ns: u64,
    /// Since when something could be written; 0: nothing could.
    ready_ns: u64,
}

impl Work {
    pub(super) fn new(
        log: Appender,
        source: Box<dyn UnitSource>,
        rings_survive: bool,
        listener: Box<dyn LogListener>,
        (progress, orders): (Arc<LogProgress>, Arc<Orders>),
    ) -> Self {
        let now = clock::monotonic_ns();
        progress.count(|figures| figures.bytes = log.bytes());
        // Of the writer before, where there was one.
        let (written, durable) = progress.epochs();
        progress.set_place(log.ends().1.lsn, durable);
        Self {
            log: Some(log),
            source,
            rings_survive,
            listener,
            progress,
            orders,
            closed: written,
            written,
            durable,
            syncing: None,
            under_way: UnderWay::default(),
            is_raised: false,
            times: Times { raised_ns: 0, written_ns: now, synced_ns: now, ready_ns: 0 },
            is_sealed: true,
            healing: Healing::default(),
        }
    }

    pub(super) fn run(mut self) {
        loop {
            while let Some(order) = self.orders.pop() {
                if self.obey(order) {
                    return self.orders.close();
                }
            }
            self.end_naming();
            let now = clock::monotonic_ns();
            if self.progress.state().is_broken() {
                self.recover_soon(now);
            } else if let Err(fault) = self.round(now) {
                self.fail(&fault, now);
            }
            let pause = self.pause();
            self.progress.waker.wait(pause);
        }
    }

    /// Whether a group is written as soon as a cut is closed.
    fn is_greedy(&self) -> bool {
        self.progress.mode() == SyncMode::Always
            || !self.rings_survive
            || self.progress.is_pressed.load(Ordering::Acquire)
            || self.is_demanded()
    }

    /// Whether something is to be written before its time, because it is to be durable before the mode asks for it.
    fn is_demanded(&self) -> bool {
        self.progress.demanded() > self.written
    }

    /// Whether something that was written is to be durable before the mode asks for it, and no sync is under way that has it.
    fn wants_sync(&self) -> bool {
        let begun = self.syncing.map_or(self.durable, |syncing| syncing.through);
        begun < self.written && (self.progress.demanded() > begun || self.under_way.has_cuts())
    }

    fn is_active(&self) -> bool {
        self.source.pending_bytes() > 0 || self.progress.wanted() > self.durable
    }

    /// How groups get to the disk.
    fn write_path(&self) -> WritePath {
        match self.progress.mode() {
            SyncMode::Always => WritePath::Synced,
            _ if !self.rings_survive => WritePath::Cached,
            _ => WritePath::Direct,
        }
    }

    fn round(&mut self, now: u64) -> Result<(), Fault> {
        self.end_sync(now)?;
        self.end_cuts();
        if self.progress.state().is_broken() {
            return Ok(());
        }
        // Orders take their time.
        let now = clock::monotonic_ns();
        let pending = self.source.pending_bytes();
        self.progress.count(|figures| figures.pending_bytes = pending as u64);
        let (mode, is_second) = (self.progress.mode(), now - self.times.synced_ns >= SECOND_NS);
        let is_much = pending >= ENOUGH_BYTES;
        if self.is_active() && !self.is_raised && (self.is_greedy() || is_much || now - self.times.raised_ns >= TICK_NS) {
            self.raise(now);
        }
        self.look();
        let has_room = self.has_room(pending);
        if self.under_way.has_cuts() {
            self.begin_sync(now)?;
        }
        if self.is_delayed(now) {
            return Ok(());
        }
        if self.closed > self.written && has_room && (self.is_greedy() || is_second || is_much) {
            self.write(mode == SyncMode::Always)?;
        } else if mode == SyncMode::Always && (is_second || self.wants_sync()) && self.durable < self.written {
            self.sync()?;
        }
        let is_due = mode == SyncMode::EverySecond && (is_second || self.unsynced_bytes() >= MUCH_UNSYNCED_BYTES);
        if is_due || self.wants_sync() {
            self.begin_sync(now)?;
        }
        // What is not closed yet is written as soon as it is.
        if is_second
            && (self.durable == self.written || mode == SyncMode::Never || self.is_syncing_all())
            && (self.closed == self.written || !self.is_active())
        {
            self.times.synced_ns = now;
        }
        let is_resting = !self.is_sealed && clock::monotonic_ns() - self.times.written_ns >= TICK_NS;
        if is_resting && self.durable == self.written && has_room {
            // Replies may wait for what comes meanwhile, but where it is of no use to write that.
            self.log()?.seal(mode == SyncMode::Always)?;
            if mode == SyncMode::EverySecond {
                let _ = self.log()?.begin_sync()?;
            }
            self.is_sealed = true;
        }
        Ok(())
    }

    /// Bytes that no sync that was begun has made durable or will.
    fn unsynced_bytes(&self) -> u64 {
        self.log.as_ref().map_or(0, Appender::unsynced_bytes)
    }

    /// Begins to make durable what was written, unless a sync is under way.
    fn begin_sync(&mut self, now: u64) -> Result<(), Fault> {
        let Some(log) = &mut self.log else { return Ok(()) };
        if self.durable < self.written && log.begin_sync()? {
            self.syncing = Some(Syncing { through: self.written, end_lsn: log.ends().0.lsn, begun_ns: now });
        }
        Ok(())
    }

    /// Looks whether the sync that was begun is done.
    fn end_sync(&mut self, now: u64) -> Result<(), Fault> {
        let Some(log) = &mut self.log else { return Ok(()) };
        let is_over = log.has_synced()?;
        if self.durable == self.written {
            self.syncing = None;
            return Ok(());
        }
        let (end, durable_end) = log.ends();
        let through = match self.syncing {
            Some(Syncing { through, end_lsn, .. }) if step!(AwaitSync, is_over && end_lsn <= durable_end.lsn, else true) => through,
            // Nothing was written since.
            _ if is_over && end == durable_end => self.written,
            _ => return Ok(()),
        };
        if let Some(Syncing { begun_ns, .. }) = self.syncing.take() {
            self.progress.count(|figures| {
                figures.syncs += 1;
                figures.slow_syncs += u64::from(now.saturating_sub(begun_ns) > SECOND_NS);
            });
        }
        self.durable = self.durable.max(through);
        self.tell();
        Ok(())
    }

    /// Whether all that was written will be durable when the sync that is under way is done.
    fn is_syncing_all(&self) -> bool {
        self.syncing.is_some_and(|syncing| syncing.through == self.written)
    }

    /// Whether what could be written or synced waits, see [`LogProgress::set_delay_ns`].
    fn is_delayed(&mut self, now: u64) -> bool {
        let delay_ns = self.progress.delay_ns();
        if delay_ns == 0 || self.durable == self.closed {
            self.times.ready_ns = 0;
            return false;
        }
        if self.times.ready_ns == 0 {
            self.times.ready_ns = now;
        }
        let is_over = now - self.times.ready_ns >= delay_ns;
        if is_over {
            self.times.ready_ns = 0;
        }
        !is_over
    }

    /// Begins a commit epoch; the one that has ended.
    fn raise(&mut self, now: u64) -> u64 {
        (self.is_raised, self.times.raised_ns) = (true, now);
        self.source.raise_epoch()
    }

    /// Looks which cut is closed.
    fn look(&mut self) {
        let closed = self.source.closed_epoch();
        if closed > self.closed {
            (self.closed, self.is_raised) = (closed, false);
        }
    }

    /// Whether what is pending can be written; when it cannot, or little more can, clients are told that the disk is full.
    fn has_room(&mut self, pending: usize) -> bool {
        let Some(log) = &self.log else { return false };
        let has_room = !log.is_short_of(pending as u64 * 2 + SLACK_BYTES);
        let is_full = log.is_short_of(log.segment_bytes() / 2) || step!(TellPending, !has_room, else false);
        self.set_state(if is_full { LogState::Full } else { LogState::Serving });
        has_room
    }

    fn write(&mut self, durable: bool) -> Result<(), Fault> {
        let through = self.closed;
        let begun = clock::monotonic_ns();
        if step!(WriteFirst, false, else true) {
            self.source.release(through);
        }
        if step!(SyncFirst, false, else true) {
            self.progress.advance(through, through);
            self.listener.advanced();
        }
        let write_path = self.write_path();
        let Some(log) = &mut self.log else { return Err(Fault::Stopped) };
        log.set_write_path(write_path)?;
        let source = &mut self.source;
        let appended = log.append(through, durable, &mut |group| source.units(through, group))?;
        let (end, durable_end) = log.ends();
        let bytes = log.bytes();
        self.progress.is_pressed.store(false, Ordering::Release);
        self.written = through;
        // Also a cut without units, once those before are durable.
        if end == durable_end {
            self.durable = through;
        }
        let now = clock::monotonic_ns();
        self.progress.count(|figures| {
            figures.bytes = bytes;
            figures.groups += u64::from(appended.units > 0);
            figures.units += appended.units;
            figures.payload_bytes += appended.payload_bytes;
            figures.syncs += u64::from(durable);
            figures.slow_syncs += u64::from(durable && now - begun > SECOND_NS);
            figures.last_write_failed = false;
        });
        self.listener.wrote(now - begun, durable);
        if appended.units > 0 {
            (self.is_sealed, self.times.written_ns) = (false, now);
        }
        self.healing.begin_anew();
        // What finds nothing pending finds said what was written and what is durable; those that are told so find nothing pending.
        let has_advanced = self.advance();
        self.source.release(through);
        if has_advanced {
            self.listener.advanced();
        }
        Ok(())
    }

    fn sync(&mut self) -> Result<(), Fault> {
        let begun = clock::monotonic_ns();
        self.log()?.sync()?;
        self.durable = self.written;
        let took = clock::monotonic_ns() - begun;
        self.progress.count(|figures| {
            figures.syncs += 1;
            figures.slow_syncs += u64::from(took > SECOND_NS);
        });
        self.tell();
        Ok(())
    }

    fn tell(&mut self) {
        if self.advance() {
            self.listener.advanced();
        }
    }

    /// True when more is written or durable than before.
    fn advance(&self) -> bool {
        if let Some(log) = &self.log {
            self.progress.set_place(log.ends().1.lsn, self.durable);
        }
        self.progress.advance(self.written, self.durable)
    }

    fn set_state(&mut self, state: LogState) {
        if self.progress.set_state(state) {
            self.listener.changed(state);
        }
    }

    fn log(&mut self) -> Result<&mut Appender, Fault> {
        self.log.as_mut().ok_or(Fault::Stopped)
    }

    fn pause(&self) -> Duration {
        match self.progress.state() {
            LogState::Broken | LogState::GivenUp => IDLE,
            _ if self.is_raised && (self.is_greedy() || self.source.pending_bytes() >= ENOUGH_BYTES) => SOON,
            _ if self.is_active() || !self.is_sealed => TICK,
            _ if self.durable == self.closed && self.listener.is_quiet() => REST,
            _ => IDLE,
        }
    }
}
