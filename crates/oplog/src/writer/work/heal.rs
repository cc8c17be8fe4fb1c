//! A broken log: tries to go on in another file, a base that heals it, and how long what waits for the log waits for that.

use almandine_base::step;

use super::{SECOND_NS, Work};
use crate::append::Appender;
use crate::fault::Fault;
use crate::writer::Cut;
use crate::writer::progress::LogState;

/// How often it tries to go on in another file, once a second.
const TRIES: u32 = 10;

/// What is known of a log that is broken.
#[derive(Default)]
pub(super) struct Healing {
    /// How often it has tried to go on in another file.
    pub(super) tries: u32,
    /// A base is to heal it: the epoch through which units are in its new segment. They stay in the rings until the base is named.
    pub(super) through: Option<u64>,
    /// That base is being made.
    pub(super) is_base_made: bool,
    /// Seconds for which it was broken while no base was made.
    waited_s: u64,
}

impl Healing {
    /// Something is written.
    pub(super) fn begin_anew(&mut self) {
        (self.tries, self.waited_s) = (0, 0);
    }
}

impl Work {
    pub(super) fn fail(&mut self, fault: &Fault, now: u64) {
        self.progress.fail(fault);
        self.times.synced_ns = now;
        // What it has made durable is not to be lost for that; when it fails, too, nothing more is known than before.
        if self.log.as_mut().is_some_and(|log| log.settle().is_ok()) {
            let _ = self.end_sync(now);
        }
        self.syncing = None;
        self.progress.set_needs_base(self.needs_base());
        if self.progress.state() != LogState::GivenUp {
            self.set_state(if self.is_waited_for() { LogState::Broken } else { LogState::GivenUp });
        }
        while let Some((_, order)) = self.under_way.pop(u64::MAX) {
            self.obey(order);
        }
    }

    /// Whether a segment behind what is durable would not do.
    fn needs_base(&self) -> bool {
        let is_unnamed = self.log.as_ref().is_some_and(Appender::is_unnamed);
        is_unnamed || self.durable < self.written || self.healing.through.is_some() || self.healing.tries >= TRIES
    }

    /// Tries once a second to go on, if nothing is lost by that.
    pub(super) fn recover_soon(&mut self, now: u64) {
        if now - self.times.synced_ns >= SECOND_NS {
            self.times.synced_ns = now;
            self.healing.waited_s += u64::from(!step!(AwaitBase, self.healing.is_base_made, else false));
            if self.healing.through.is_none() && self.healing.tries < TRIES {
                self.healing.tries += 1;
                if let Err(fault) = self.recover() {
                    self.progress.fail(&fault);
                }
            }
        }
        if self.progress.set_needs_base(self.needs_base()) {
            self.listener.lacks_base();
        }
        if self.progress.state() == LogState::Broken && !self.is_waited_for() {
            self.set_state(LogState::GivenUp);
        }
    }

    /// Whether what waits for the log waits for its being healed.
    fn is_waited_for(&self) -> bool {
        self.healing.waited_s < self.listener.heal_wait_s()
    }

    /// Goes on in a new segment behind what is durable: what was not is in the rings still, or the log stays broken.
    pub(super) fn recover(&mut self) -> Result<(), Fault> {
        if self.durable < self.written || self.log()?.is_unnamed() {
            let text = "what was written last, or which files there are, may not be durable: only a new base or a restart helps";
            return Err(Fault::io("go on in", self.log()?.directory(), std::io::Error::other(text)));
        }
        self.log()?.heal()?;
        (self.is_sealed, self.healing.through) = (true, None);
        self.set_state(LogState::Serving);
        Ok(())
    }

    /// Begins a segment for what follows what was written. The base that is made from now on has all that was.
    pub(super) fn begin_healing(&mut self) -> Result<Cut, Fault> {
        self.log()?.heal_with_base()?;
        (self.healing.through, self.healing.is_base_made) = (Some(self.written), true);
        self.here()
    }

    /// Writes what the base may have beside that, durably. Nothing is said of it, and nothing released, before the base is named:
    /// without it the segment does not count.
    pub(super) fn heal_through(&mut self, through: u64) -> Result<Cut, Fault> {
        let source = &mut self.source;
        let Some(log) = &mut self.log else { return Err(Fault::Stopped) };
        log.append(through, true, &mut |group| source.units(through, group))?;
        self.healing.through = Some(through);
        Ok(Cut { epoch: through, ..self.here()? })
    }

    /// The base is named: what was written and what the new segment has is durable.
    pub(super) fn end_healing(&mut self) {
        let Some(through) = self.healing.through.take() else { return };
        debug_assert!(self.written <= through, "INV-OPLOG-1: a base that heals the log has what was given back in the rings");
        (self.written, self.durable) = (through, through);
        (self.is_sealed, self.healing.is_base_made) = (false, false);
        self.healing.begin_anew();
        self.progress.count(|figures| figures.last_write_failed = false);
        self.tell();
        self.source.release(through);
        self.set_state(LogState::Serving);
    }
}
