//! Ships the log to its archive in object storage, by a thread of its own.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use almandine_instance::{ArchiveFigures, ArchiveState, Instance, Message};
use almandine_io::clock;
use almandine_io::thread::{self, JoinHandle, Waker};
use almandine_oplog::archive::{ArchiveFault, ArchiveKeep, Kept, ShipFigures, Shipper};
use almandine_oplog::writer::SyncMode;

use super::objects::object_folder;
use super::running::{LogSlot, is_awaited};
use crate::storage::ShippedPages;

/// What is durable is shipped together for so long, where no reply waits for it.
const GATHER: Duration = Duration::from_millis(100);
/// How long the thread sleeps at most while it waits for a word.
const REST: Duration = Duration::from_secs(10);
/// How long it waits behind a failure.
const RETRY: Duration = Duration::from_secs(1);
/// How long the end of the server waits for the last of the log to be shipped.
const LAST: Duration = Duration::from_secs(10);

/// The thread that ships.
pub(crate) struct Archiver {
    thread: JoinHandle<()>,
    waker: Arc<Waker>,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    ends: AtomicBool,
    /// When it gives up then, by the clock without jumps.
    until_ns: OnceLock<u64>,
}

impl Archiver {
    /// Starts it, where the settings name an archive.
    pub(crate) fn start(instance: Arc<Instance>, slot: Arc<LogSlot>) -> io::Result<Option<Self>> {
        if instance.config.snapshot().settings.persistence.log_object_url.is_empty() {
            return Ok(None);
        }
        let (waker, shared) = (Arc::new(Waker::new()), Arc::<Shared>::default());
        instance.persistence.archive.install_waker(Arc::clone(&waker));
        instance.persistence.archive.set_state(ArchiveState::Begun);
        let work = Work { instance, slot, waker: Arc::clone(&waker), shared: Arc::clone(&shared), shipper: None };
        let thread = thread::spawn("archiver", move || work.run())?;
        Ok(Some(Self { thread, waker, shared }))
    }

    /// Ships what there is, if that is done soon, and ends. The log has its end.
    pub(crate) fn join(self) {
        let until = clock::monotonic_ns() + u64::try_from(LAST.as_nanos()).unwrap_or(u64::MAX);
        let _ = self.shared.until_ns.set(until);
        self.shared.ends.store(true, Ordering::Release);
        self.waker.wake();
        // A thread that panics ends the process.
        let _ = self.thread.join();
    }
}

struct Work {
    instance: Arc<Instance>,
    slot: Arc<LogSlot>,
    waker: Arc<Waker>,
    shared: Arc<Shared>,
    shipper: Option<Shipper>,
}

impl Work {
    fn run(mut self) {
        let is_awaited = is_awaited(&self.instance.config.snapshot().settings);
        if !is_awaited {
            // Where that is not allowed, it competes with the workers on equal terms.
            let _ = thread::rank_behind_workers(thread::Rank::Copies);
        }
        loop {
            let ends = self.shared.ends.load(Ordering::Acquire);
            let (is_done, pause) = match self.turn() {
                Ok(more) => (!more, if more { Duration::ZERO } else { REST }),
                Err(fault) => {
                    self.fail(&fault, is_awaited);
                    if matches!(fault, ArchiveFault::Owned(_)) {
                        return self.await_end();
                    }
                    (false, if ends { GATHER } else { RETRY })
                }
            };
            if ends && (is_done || self.is_late()) {
                return self.end(is_done);
            }
            if !pause.is_zero() {
                self.waker.wait(pause);
                if !is_awaited || pause == RETRY {
                    // Others wake it each time that something is durable.
                    thread::sleep(if pause == RETRY { RETRY } else { GATHER });
                }
            }
        }
    }

    fn is_late(&self) -> bool {
        self.shared.until_ns.get().is_some_and(|until| clock::monotonic_ns() >= *until)
    }

    /// Ships what is durable. Whether there is more at once.
    fn turn(&mut self) -> Result<bool, ArchiveFault> {
        let Some(log) = self.slot.last() else { return Ok(false) };
        let progress = log.writer.progress();
        let (base, (lsn, epoch)) = (log.named_base(), progress.durable_place());
        if progress.mode() == SyncMode::Never && progress.is_behind_disk() {
            // Only what is durable is shipped.
            progress.demand(progress.written_epoch());
        }
        let mut shipper = match self.shipper.take() {
            Some(shipper) => shipper,
            None => {
                let settings = &self.instance.config.snapshot().settings;
                let device = self.instance.keyspace.log().device();
                let pages = device.map(|device| Box::new(ShippedPages::new(device.storage())) as _);
                Shipper::begin(object_folder("log-object-url", &settings.persistence.log_object_url)?, &log.directory)?
                    .with_pages(pages)
            }
        };
        // Behind the look at what is durable: all of that was done before now.
        let now_ms = u64::try_from(clock::unix_ms()).unwrap_or(0);
        let keep_s = self.instance.config.snapshot().settings.persistence.log_object_keep_s;
        let shipped = shipper.advance(log.id, lsn, base, ArchiveKeep { ms: keep_s.saturating_mul(1000), now_ms });
        self.instance.persistence.archive.set_shipped(figures(&shipper));
        self.shipper = Some(shipper);
        let shipped = shipped?;
        if let Some(through) = shipped.through {
            self.instance.persistence.archive.set_archived_lsn(through);
            progress.set_archived(epoch);
            if is_awaited(&self.instance.config.snapshot().settings) {
                self.instance.workers.broadcast(&Message::LogAdvanced);
            }
            if shipped.left_out.is_none() && self.instance.persistence.archive.set_state(ArchiveState::Shipping) {
                tracing::info!("The archive of the log has it through LSN {through}");
            }
        }
        if let Some(why) = shipped.left_out {
            self.leave_out(why);
        }
        Ok(shipped.more || progress.durable_place().0 > lsn)
    }

    /// The log is shipped, and the last base is not.
    fn leave_out(&self, why: String) {
        let archive = &self.instance.persistence.archive;
        if archive.set_state(ArchiveState::Failing) {
            let fault = ArchiveFault::Pages(why);
            tracing::error!("The archive has the log, but: {fault}");
            archive.fail(fault.to_string());
        }
    }

    fn fail(&mut self, fault: &ArchiveFault, is_awaited: bool) {
        let archive = &self.instance.persistence.archive;
        archive.fail(fault.to_string());
        let state = if matches!(fault, ArchiveFault::Owned(_)) { ArchiveState::TakenOver } else { ArchiveState::Failing };
        if archive.set_state(state) {
            tracing::error!("The log is not shipped to its archive: {fault}");
        }
        if state == ArchiveState::TakenOver && is_awaited {
            self.instance.persistence.set_unlogged(true);
        }
    }

    /// The archive is another server's for good: nothing is asked of it any more.
    fn await_end(&self) {
        while !self.shared.ends.load(Ordering::Acquire) {
            self.waker.wait(REST);
        }
    }

    fn end(&self, is_done: bool) {
        if !is_done {
            let persistence = &self.instance.persistence;
            let durable = persistence.log.progress().map_or(0, |progress| progress.durable_place().0);
            let bytes = durable.saturating_sub(persistence.archive.archived_lsn());
            tracing::error!("The archive of the log lacks its last {bytes} bytes: they are shipped behind the next start");
        }
    }
}

fn figures(shipper: &Shipper) -> ArchiveFigures {
    let ShipFigures { objects, bytes, pages, pages_left } = shipper.figures();
    let Kept { bases, since_ms } = shipper.kept();
    ArchiveFigures { objects, bytes, pages, pages_left, bases, since_s: since_ms.map_or(0, |since| since.div_ceil(1000)) }
}
