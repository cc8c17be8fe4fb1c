//! What is written and what is durable, for all threads to see.
//!
//! The writer alone stores it; readers see an epoch here only after what it promises has happened.

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, PoisonError};

use almandine_io::sync::Mutex;
use almandine_io::thread::Waker;

use crate::fault::Fault;

/// When the log is synced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SyncMode {
    /// Before replies leave.
    Always,
    /// Each second.
    EverySecond,
    /// When the system likes to.
    Never,
}

/// Whether the log takes writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogState {
    /// It does.
    Serving,
    /// The disk is full: only what frees memory may be done, until there is room again.
    Full,
    /// Something could not be written or synced. It tries to go on, and what waits for the log waits for that.
    Broken,
    /// So it is, and nothing waits for that any longer.
    GivenUp,
    /// It was ended.
    Ended,
}

impl LogState {
    /// Whether something could not be written or synced.
    #[must_use]
    pub fn is_broken(self) -> bool {
        matches!(self, Self::Broken | Self::GivenUp)
    }
}

/// See the module.
#[derive(Debug, Default)]
pub struct LogProgress {
    written: AtomicU64,
    durable: AtomicU64,
    /// The greatest epoch that something waits for.
    wanted: AtomicU64,
    /// The greatest epoch that is to be durable before the mode asks for it.
    demanded: AtomicU64,
    mode: AtomicU8,
    state: AtomicU8,
    breaks: AtomicU64,
    needs_base: AtomicBool,
    /// How long what could be written waits, for proofs.
    delay_ns: AtomicU64,
    figures: Mutex<LogFigures>,
    /// Behind the last durable group, and its epoch.
    place: Mutex<(u64, u64)>,
    /// What is durable counts when the archive has it, too; the epoch through which it has.
    awaits_archive: AtomicBool,
    archived: AtomicU64,
    pub(super) waker: Arc<Waker>,
    /// What is there is to be written before its time.
    pub(super) is_pressed: AtomicBool,
}

/// Figures of a log, for INFO.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogFigures {
    /// Bytes of the log behind its base.
    pub bytes: u64,
    /// Bytes of units that are not written.
    pub pending_bytes: u64,
    /// Groups that were written by this run, and the units in them.
    pub groups: u64,
    /// Units in them.
    pub units: u64,
    /// Bytes of them without heads and padding.
    pub payload_bytes: u64,
    /// Syncs.
    pub syncs: u64,
    /// Those of them that took longer than a second.
    pub slow_syncs: u64,
    /// Whether the last write was without an error.
    pub last_write_failed: bool,
    /// What went wrong last.
    pub last_failure: Option<String>,
}

impl LogProgress {
    /// All units of epochs up to this one are in the files.
    #[must_use]
    pub fn written_epoch(&self) -> u64 {
        self.written.load(Ordering::Acquire)
    }

    /// All units of epochs up to this one outlive a crash of the machine; or its loss, where the archive is awaited.
    #[must_use]
    pub fn durable_epoch(&self) -> u64 {
        let durable = self.durable.load(Ordering::Acquire);
        match self.awaits_archive.load(Ordering::Acquire) {
            true => durable.min(self.archived.load(Ordering::Acquire)),
            false => durable,
        }
    }

    /// The LSN behind the last group that is durable on the disk here, and the epoch through which all units are before it.
    #[must_use]
    pub fn durable_place(&self) -> (u64, u64) {
        *self.place.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether something that was written is not durable on the disk here.
    #[must_use]
    pub fn is_behind_disk(&self) -> bool {
        let (written, durable) = self.epochs();
        durable < written
    }

    /// Whether what is durable counts only when the archive has it, too.
    pub fn await_archive(&self, awaits: bool) {
        self.awaits_archive.store(awaits, Ordering::Release);
    }

    /// The archive has all units of epochs up to this one.
    pub fn set_archived(&self, epoch: u64) {
        self.archived.fetch_max(epoch, Ordering::AcqRel);
    }

    /// Bytes of the log behind its base.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.figures.lock().unwrap_or_else(PoisonError::into_inner).bytes
    }

    /// Something waits until this epoch is durable, or written.
    pub fn want(&self, epoch: u64) {
        if self.wanted.fetch_max(epoch, Ordering::AcqRel) < epoch {
            self.wake();
        }
    }

    /// This epoch is to be durable now, whatever the mode.
    pub fn demand(&self, epoch: u64) {
        if self.demanded.fetch_max(epoch, Ordering::AcqRel) < epoch {
            self.want(epoch);
            self.wake();
        }
    }

    /// A thread has little room left in its ring, or what it has done waits to be written.
    pub fn press(&self) {
        self.is_pressed.store(true, Ordering::Release);
        self.wake();
    }

    /// Has the writer look for work now.
    pub fn wake(&self) {
        self.waker.wake();
    }

    /// Has the writer look for work, for threads that know nothing of the log.
    #[must_use]
    pub fn waker(&self) -> Arc<Waker> {
        Arc::clone(&self.waker)
    }

    /// Changes when it syncs.
    pub fn set_mode(&self, mode: SyncMode) {
        self.mode.store(mode as u8, Ordering::Release);
        self.wake();
    }

    /// Has what could be written, but for what is ordered, wait for so long: for proofs of what is heard meanwhile.
    pub fn set_delay_ns(&self, delay_ns: u64) {
        self.delay_ns.store(delay_ns, Ordering::Release);
        self.wake();
    }

    pub(super) fn delay_ns(&self) -> u64 {
        self.delay_ns.load(Ordering::Acquire)
    }

    /// When it syncs.
    #[must_use]
    pub fn mode(&self) -> SyncMode {
        match self.mode.load(Ordering::Acquire) {
            0 => SyncMode::Always,
            1 => SyncMode::EverySecond,
            _ => SyncMode::Never,
        }
    }

    /// Whether it takes writes.
    #[must_use]
    pub fn state(&self) -> LogState {
        match self.state.load(Ordering::Acquire) {
            0 => LogState::Serving,
            1 => LogState::Full,
            2 => LogState::Broken,
            3 => LogState::GivenUp,
            _ => LogState::Ended,
        }
    }

    /// Figures of now.
    #[must_use]
    pub fn figures(&self) -> LogFigures {
        self.figures.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// What is written, and what is durable on the disk.
    pub(super) fn epochs(&self) -> (u64, u64) {
        (self.written.load(Ordering::Acquire), self.durable.load(Ordering::Acquire))
    }

    pub(super) fn wanted(&self) -> u64 {
        self.wanted.load(Ordering::Acquire)
    }

    pub(super) fn demanded(&self) -> u64 {
        self.demanded.load(Ordering::Acquire)
    }

    pub(super) fn count(&self, count: impl FnOnce(&mut LogFigures)) {
        count(&mut self.figures.lock().unwrap_or_else(PoisonError::into_inner));
    }

    pub(super) fn fail(&self, fault: &Fault) {
        self.count(|figures| {
            figures.last_write_failed = true;
            figures.last_failure = Some(fault.to_string());
        });
    }

    pub(super) fn set_place(&self, lsn: u64, epoch: u64) {
        *self.place.lock().unwrap_or_else(PoisonError::into_inner) = (lsn, epoch);
    }

    /// True when one of them is greater than before.
    pub(super) fn advance(&self, written: u64, durable: u64) -> bool {
        debug_assert!(durable <= written, "what is durable is written");
        let before = (self.written.swap(written, Ordering::AcqRel), self.durable.swap(durable, Ordering::AcqRel));
        debug_assert!(before.0 <= written && before.1 <= durable, "INV-OPLOG-4: what was promised is not taken back");
        before != (written, durable)
    }

    /// Whether only a new base makes a broken log whole.
    #[must_use]
    pub fn needs_base(&self) -> bool {
        self.needs_base.load(Ordering::Acquire)
    }

    /// True when it did not before.
    pub(super) fn set_needs_base(&self, needs_base: bool) -> bool {
        !self.needs_base.swap(needs_base, Ordering::AcqRel) && needs_base
    }

    /// How often it broke and was [given up](LogState::GivenUp).
    #[must_use]
    pub fn breaks(&self) -> u64 {
        self.breaks.load(Ordering::Acquire)
    }

    /// True when it is another one.
    pub(super) fn set_state(&self, state: LogState) -> bool {
        if state == LogState::GivenUp && self.state() != state {
            self.breaks.fetch_add(1, Ordering::AcqRel);
        }
        self.state.swap(state as u8, Ordering::AcqRel) != state as u8
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_disk_has_counts_when_an_awaited_archive_has_it() {
        let progress = LogProgress::default();
        progress.advance(9, 7);
        progress.set_place(4096, 7);
        assert_eq!((progress.durable_epoch(), progress.durable_place(), progress.is_behind_disk()), (7, (4096, 7), true));
        progress.await_archive(true);
        assert_eq!((progress.written_epoch(), progress.durable_epoch()), (9, 0));
        progress.set_archived(5);
        progress.set_archived(4);
        assert_eq!(progress.durable_epoch(), 5, "INV-OPLOG-4: what was promised is not taken back");
        progress.set_archived(8);
        assert_eq!((progress.durable_epoch(), progress.epochs()), (7, (9, 7)), "the disk has less than the archive then");
    }
}
