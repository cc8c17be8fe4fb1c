//! What the sessions know of the operation log: whether it is on, and what replies have to wait for.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use almandine_base::step;
use almandine_oplog::writer::{LogFigures, LogProgress, LogState, SyncMode};
use almandine_oplog::{Order, Rings, epoch_of};

/// The log, once it takes writes.
#[derive(Default)]
pub struct OperationLog {
    /// Looked at once per batch.
    is_on: AtomicBool,
    /// It is there for a backup alone.
    serves_backup: AtomicBool,
    running: OnceLock<Running>,
    /// Bytes of the base's files.
    base_bytes: AtomicU64,
    /// Bytes of all when it was rewritten last.
    rewritten_bytes: AtomicU64,
}

/// What a log is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogPurpose {
    /// A start has what is in it; replies wait for it as the settings say.
    Durability,
    /// A backup of a server without a log has its files, and it ends with that. Nothing is promised by it.
    Backup,
}

struct Running {
    progress: Arc<LogProgress>,
    rings: Arc<Rings>,
    order: Arc<Order>,
}

/// What a reply has to wait for: an epoch of the log, in its files or durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogSeal {
    /// The epoch.
    pub epoch: u64,
    /// Whether it has to be durable.
    pub durable: bool,
}

/// When a message that tells of a unit of work may be heard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hearing {
    /// At once.
    Now,
    /// When all sessions have left the batches in which they are now, and what they have done in them is in the log as replies ask
    /// for it.
    Behind(LogSeal),
    /// Not at all: the log is broken and given up, and it is not known whether it will have the unit.
    Never,
}

impl std::fmt::Debug for OperationLog {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "OperationLog({})", self.is_on())
    }
}

impl OperationLog {
    /// The log takes writes from now on.
    pub fn begin(&self, purpose: LogPurpose, progress: Arc<LogProgress>, rings: Arc<Rings>, order: Arc<Order>) {
        self.serves_backup.store(purpose == LogPurpose::Backup, Ordering::Relaxed);
        let _ = self.running.set(Running { progress, rings, order });
        self.is_on.store(true, Ordering::Release);
    }

    /// It takes none from now on; it may [begin](Self::begin) again, with the same progress and rings.
    pub fn end(&self) {
        self.is_on.store(false, Ordering::Release);
    }

    /// What is written and durable, from the first time on that there was a log.
    #[must_use]
    pub fn progress(&self) -> Option<Arc<LogProgress>> {
        self.running.get().map(|running| Arc::clone(&running.progress))
    }

    /// Whether the log is broken, and only a new base heals it.
    #[must_use]
    pub fn lacks_base(&self) -> bool {
        self.running
            .get()
            .is_some_and(|Running { progress, .. }| self.is_on() && progress.state().is_broken() && progress.needs_base())
    }

    /// How often the log broke and was given up, and whether it is now.
    #[must_use]
    pub fn breaks(&self) -> (u64, bool) {
        let of = |Running { progress, .. }: &Running| (progress.breaks(), progress.state() == LogState::GivenUp);
        self.running.get().map_or((0, false), of)
    }

    /// Whether writes are logged.
    #[inline]
    #[must_use]
    pub fn is_on(&self) -> bool {
        self.is_on.load(Ordering::Relaxed)
    }

    /// Whether what is logged is promised to be there behind a restart.
    #[must_use]
    pub fn is_promised(&self) -> bool {
        self.is_on() && !self.serves_backup.load(Ordering::Relaxed)
    }

    /// The greatest number of a unit of work that a look at a key of this hash may have met, just now.
    #[must_use]
    pub fn seen(&self, hash: u64) -> u64 {
        self.running.get().map_or(0, |running| running.order.seen(hash))
    }

    /// What replies have to wait for; nothing, where they may leave. They answer all that was done and seen until now, or, where
    /// that is known, what has seen no unit of work with a greater number than `seen`.
    ///
    /// With `always` that is that it is durable; where rings end with the process, or a unit had no room in them, that it is in the
    /// files. While the log is broken that is waited for, too, until it is given up. Then nothing is to be waited for by a worker
    /// that has heard of it in an earlier round: what could not be logged was refused then. Until it hears, it may have executed
    /// what the log never gets.
    #[cold]
    #[must_use]
    pub fn seal(&self, seen: Option<u64>, heard_breaks: u64) -> Option<LogSeal> {
        step!(CloseUnlogged);
        if self.serves_backup.load(Ordering::Relaxed) {
            return None;
        }
        let Running { progress, rings, order } = self.running.get()?;
        let durable = progress.mode() == SyncMode::Always;
        let epoch = seen.map_or_else(|| order.epoch(), epoch_of);
        if !durable && !rings.is_void(epoch) || is_over(progress, heard_breaks) {
            return None;
        }
        let seal = LogSeal { epoch, durable };
        // What is not pending was released, and that is behind its end in the files; with `always` also behind the sync, but for
        // what another mode has written before.
        let is_settled = !rings.has_pending() && (!durable || progress.durable_epoch() == progress.written_epoch());
        if is_settled || self.has_reached(seal) {
            return None;
        }
        Some(seal)
    }

    /// When a message that tells of a unit of work may be heard, by a worker that has heard of `heard` breaks. `sent`: those that
    /// all workers had heard of when it was sent.
    #[must_use]
    pub fn hearing(&self, heard: u64, sent: u64) -> Hearing {
        let Some(Running { progress, rings, order }) = self.running.get() else { return Hearing::Now };
        let (epoch, durable) = (order.epoch(), progress.mode() == SyncMode::Always);
        if self.serves_backup.load(Ordering::Relaxed) || !durable && !rings.is_void(epoch) {
            return Hearing::Now;
        }
        match progress.state() {
            LogState::Ended => Hearing::Now,
            // Its unit of work may have written before its worker heard.
            LogState::GivenUp if progress.breaks() == heard && step!(CompareBreaks, sent < heard, else false) => Hearing::Never,
            LogState::GivenUp if step!(CloseUnlogged, progress.breaks() == heard, else true) => Hearing::Now,
            _ => Hearing::Behind(LogSeal { epoch, durable }),
        }
    }

    /// What has to be reached until all that was done is durable, whatever the mode; nothing where it is.
    #[must_use]
    pub fn unconfirmed(&self) -> Option<LogSeal> {
        let Running { progress, rings, order } = self.running.get()?;
        let seal = LogSeal { epoch: order.epoch(), durable: true };
        let is_settled = !rings.has_pending() && progress.durable_epoch() == progress.written_epoch();
        (!is_settled && !self.has_reached(seal)).then_some(seal)
    }

    /// A client asks for a seal to be reached: now, or when the mode syncs. Where nothing is synced it is not sooner for that.
    pub fn ask(&self, seal: LogSeal, now: bool) {
        match self.running.get() {
            Some(Running { progress, .. }) if now => progress.demand(seal.epoch),
            Some(Running { progress, .. }) if progress.mode() != SyncMode::Never => progress.want(seal.epoch),
            _ => {}
        }
    }

    /// Something waits for a seal.
    pub fn urge(&self, seal: LogSeal) {
        let Some(Running { progress, .. }) = self.running.get() else { return };
        progress.want(seal.epoch);
        if !seal.durable {
            // Modes that sync later write later, too.
            progress.press();
        }
    }

    /// Whether what a seal says has happened.
    #[must_use]
    pub fn has_reached(&self, seal: LogSeal) -> bool {
        self.running.get().is_none_or(|Running { progress, .. }| {
            // What was done before its end is durable then.
            progress.state() == LogState::Ended
                || seal.epoch <= if seal.durable { progress.durable_epoch() } else { progress.written_epoch() }
        })
    }

    /// Changes when the log is made durable.
    pub fn set_mode(&self, mode: SyncMode) {
        if let Some(Running { progress, .. }) = self.running.get() {
            progress.set_mode(mode);
        }
    }

    /// The log's figures; none while there is no log.
    #[must_use]
    pub fn figures(&self) -> Option<LogFigures> {
        self.running.get().filter(|_| self.is_on()).map(|Running { progress, .. }| progress.figures())
    }

    /// Whether something that was written is not durable yet.
    #[must_use]
    pub fn is_behind(&self) -> bool {
        self.running.get().is_some_and(|Running { progress, .. }| progress.durable_epoch() < progress.written_epoch())
    }

    /// A base of this many bytes counts from now on, and the log behind it. Growth is measured from here.
    pub fn set_base_bytes(&self, bytes: u64) {
        self.base_bytes.store(bytes, Ordering::Relaxed);
        let behind = self.figures().map_or(0, |figures| figures.bytes);
        self.rewritten_bytes.store(bytes + behind, Ordering::Relaxed);
    }

    /// Bytes of the log with its base when that was new; at the start, of the base alone.
    #[must_use]
    pub fn rewritten_bytes(&self) -> u64 {
        self.rewritten_bytes.load(Ordering::Relaxed)
    }

    /// Bytes of the base's files.
    #[must_use]
    pub fn base_bytes(&self) -> u64 {
        self.base_bytes.load(Ordering::Relaxed)
    }
}

/// Whether nothing of the log is to be waited for, by a worker that has heard of this number of breaks.
fn is_over(progress: &LogProgress, heard_breaks: u64) -> bool {
    match progress.state() {
        LogState::GivenUp => step!(CloseUnlogged, progress.breaks() == heard_breaks, else true),
        LogState::Broken => step!(AwaitHealing, false, else true),
        LogState::Ended => true,
        LogState::Serving | LogState::Full => false,
    }
}
