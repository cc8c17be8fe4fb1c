//! The writer of the log: one thread that has closed cuts of all rings written, one after the other.
//!
//! How long it waits is the mode's. `always`: a group is what a cut closes while the device is busy with the one before, and
//! replies leave when it is durable. `everysec` and `no`: a group is written when there is enough of it or a second is over, and
//! the one asks for a sync each second. Where rings do not outlive the process, groups are written at once in these modes, too,
//! and replies leave when they are.
//!
//! But with `always`, syncs are beside this thread: it goes on writing, and what a sync covers is durable when it is over. So are
//! the names of bases and the removal of files in every mode.
//!
//! Nothing waits for this thread but replies, and sessions that find no room in their ring. When a write or a sync fails, the log
//! goes on in another file, as long as all that was given back in the rings is known to be durable; if it is not, or if that fails
//! again and again, the log is broken: nothing is said to be durable, until a new base has what is missing ([`LogWriter::rotate`],
//! then [`LogWriter::sync`] and [`LogWriter::name_base`]). What waits for the log waits for that, too, for some seconds in which no
//! base is made ([`LogListener::heal_wait_s`]); then it is given up, though the log is healed whenever the disk allows it.
//!
//! That base begins with a segment that no manifest names before it names the base. What is in rings is written there, and stays
//! in them until then: whenever the process ends, a start finds the log as it broke with the rings, or the base.

mod orders;
mod progress;
mod work;

use std::io;
use std::sync::{Arc, PoisonError};

use almandine_io::sync::{Mutex, channel};
use almandine_io::thread;

use self::orders::{Order, Orders};
pub use self::progress::{LogFigures, LogProgress, LogState, SyncMode};
use self::work::Work;
use crate::append::{Appender, Place};
use crate::encryption::LogKeys;
use crate::fault::Fault;
use crate::manifest::BaseEntry;
use crate::source::UnitSource;

/// How a writer works.
#[derive(Clone, Copy, Debug)]
pub struct WriterOptions {
    /// When it syncs.
    pub mode: SyncMode,
    /// Whether the rings outlive the process.
    pub rings_survive: bool,
}

/// Is told what the writer has done, on its thread.
pub trait LogListener: Send {
    /// More is written or durable.
    fn advanced(&self);

    /// The state is another one.
    fn changed(&self, state: LogState);

    /// Whether no session does anything before it has woken the writer ([`LogProgress::waker`]).
    fn is_quiet(&self) -> bool {
        false
    }

    /// For how many seconds what waits for the log waits until a broken one is healed, those not counted in which a base is made
    /// for that.
    fn heal_wait_s(&self) -> u64 {
        0
    }

    /// A broken log is healed by a new base only, from now on.
    fn lacks_base(&self) {}

    /// A group was written, in this time; durably, or for the system to keep.
    fn wrote(&self, _elapsed_ns: u64, _durably: bool) {}
}

/// A place in the log that ends with a closed cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cut {
    /// Where.
    pub place: Place,
    /// The greatest epoch before it.
    pub epoch: u64,
}

/// See the module. Dropped, it ends the thread as a crash would.
#[derive(Debug)]
pub struct LogWriter {
    progress: Arc<LogProgress>,
    orders: Arc<Orders>,
    thread: Mutex<Option<thread::JoinHandle<()>>>,
}

impl LogWriter {
    /// Starts the thread. The progress may be that of a writer over the same rings that has ended.
    ///
    /// # Errors
    /// When the system gives none.
    pub fn start(
        log: Appender,
        source: Box<dyn UnitSource>,
        options: WriterOptions,
        listener: Box<dyn LogListener>,
        progress: Arc<LogProgress>,
    ) -> io::Result<Self> {
        let orders = Arc::new(Orders::default());
        progress.set_mode(options.mode);
        progress.set_state(LogState::Serving);
        let work = Work::new(log, source, options.rings_survive, listener, (Arc::clone(&progress), Arc::clone(&orders)));
        let thread = thread::spawn("log", move || work.run())?;
        Ok(Self { progress, orders, thread: Mutex::new(Some(thread)) })
    }

    /// What is written and durable.
    #[must_use]
    pub fn progress(&self) -> &Arc<LogProgress> {
        &self.progress
    }

    /// Writes all that was done before and makes it durable, in every mode.
    ///
    /// # Errors
    /// Of the system, or when the log is broken.
    pub fn sync(&self) -> Result<Cut, Fault> {
        self.order(Order::Sync)
    }

    /// Does that, and begins a new segment there: a base begins with one. Of a broken log nothing is written before: the base is to
    /// heal it.
    ///
    /// # Errors
    /// As of [`Self::sync`].
    pub fn rotate(&self) -> Result<Cut, Fault> {
        self.order(Order::Rotate)
    }

    /// Names a base that the log completes.
    ///
    /// # Errors
    /// Of the system.
    pub fn name_base(&self, base: BaseEntry) -> Result<Cut, Fault> {
        self.order(|reply| Order::NameBase(base, reply))
    }

    /// The base that was begun is not made.
    pub fn abandon_base(&self) {
        self.orders.push(Order::AbandonBase);
        self.progress.wake();
    }

    /// The size of the segments that are begun from now on.
    pub fn set_segment_bytes(&self, bytes: u64) {
        self.orders.push(Order::Resize(bytes));
        self.progress.wake();
    }

    /// What is written from the next group on is encrypted with the first of these keys, or plain.
    pub fn set_keys(&self, keys: Arc<LogKeys>) {
        self.orders.push(Order::Rekey(keys));
        self.progress.wake();
    }

    /// Tries to go on after a failure.
    ///
    /// # Errors
    /// When the log stays broken.
    pub fn resume(&self) -> Result<Cut, Fault> {
        self.order(Order::Resume)
    }

    /// Writes what is left, ends the log cleanly, and ends the thread. No unit may be done any more.
    ///
    /// # Errors
    /// Of the system; then the log has its end where recovery finds it.
    pub fn end(&self) -> Result<Cut, Fault> {
        let ended = self.order(Order::End);
        self.join();
        ended
    }

    fn join(&self) {
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread {
            let _ = thread.join();
        }
    }

    fn order(&self, order: impl FnOnce(orders::Reply) -> Order) -> Result<Cut, Fault> {
        let (reply, answer) = channel();
        self.orders.push(order(reply));
        self.progress.wake();
        answer.receive().unwrap_or(Err(Fault::Stopped))
    }
}

impl Drop for LogWriter {
    fn drop(&mut self) {
        self.orders.push(Order::Stop);
        self.progress.wake();
        self.join();
    }
}
