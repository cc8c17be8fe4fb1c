//! The store: the handle that owns what sessions share together with the background threads.

use crate::background::compact::compactor::Compactor;
use crate::background::flush::flusher::Flusher;
use crate::background::maintain::Maintenance;
use crate::full::Full;
use crate::options::Options;
use crate::record::heap::SharedValue;
use crate::session::Session;
use crate::session::check::check_whole;
use crate::shared::Shared;
use almandine_io::sync::Mutex;
use almandine_io::thread::{self, JoinHandle};
use std::io;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

/// What the background would run, for a store without one.
type Manual = (Maintenance, Option<(Flusher, Compactor)>);

/// A store of records, in memory and, with a device, beyond, used through [`Session`]s.
pub struct Store {
    pub(crate) inner: Arc<Shared>,
    background: Vec<JoinHandle<()>>,
    manual: Option<Mutex<Manual>>,
}

impl Store {
    /// Opens an empty store.
    ///
    /// # Errors
    /// When address space cannot be reserved or the background thread cannot be started.
    pub fn open(options: Options) -> io::Result<Self> {
        let inner = Shared::new(options)?;
        let maintenance = Maintenance::new(&inner).ok_or_else(|| io::Error::other("no epoch slot for the background"))?;
        let tier = (|| Some((Flusher::new(&inner)?, Compactor::new(&inner)?)))();
        // The first pages are ready before the first session is.
        while let Some(page) = inner.log.vacant_ahead(inner.pages_ahead()) {
            inner.log.prefault_page(page);
            inner.log.pages.open(page);
        }
        let (mut background, mut manual) = (Vec::new(), None);
        if inner.options.background {
            background.push(thread::spawn("store", move || maintenance.run())?);
            if let Some((flusher, compactor)) = tier {
                background.push(thread::spawn("flusher", move || flusher.run())?);
                background.push(thread::spawn("compactor", move || compactor.run())?);
            }
        } else {
            manual = Some(Mutex::new((maintenance, tier)));
        }
        debug_assert!(inner.log.pages.resident() != 0, "INV-TIER-1: the tail has a page before anybody writes");
        debug_assert_ne!(background.is_empty(), manual.is_none(), "the background is a thread's or the caller's");
        Ok(Self { inner, background, manual })
    }

    /// A session for the calling thread, or none when all are taken.
    #[must_use]
    pub fn session(&self) -> Option<Session> {
        Session::open_gated(&self.inner)
    }

    /// Does what the background thread would do at `now_ms`. Only without one ([`Options::background`]).
    pub fn maintain(&self, now_ms: i64) {
        if let Some(maintenance) = &self.manual {
            let mut manual = maintenance.lock().unwrap_or_else(PoisonError::into_inner);
            manual.0.step(now_ms);
            if let Some((flusher, compactor)) = &mut manual.1 {
                flusher.step();
                compactor.step(now_ms);
            }
        }
    }

    /// A namespace without records.
    ///
    /// # Errors
    /// While all others wait for their sweep.
    pub fn allocate_namespace(&self) -> Result<u16, Full> {
        self.inner.namespaces.allocate().ok_or(Full)
    }

    /// Takes the namespaces that an earlier store on the same device had; all others are free. While there are no records.
    pub fn take_namespaces(&self, namespaces: &[u16]) {
        self.inner.namespaces.take(namespaces);
    }

    /// Declares all records of a namespace garbage, those that are being copied when the copy has ended. No batch that begins
    /// after this may use the namespace.
    pub fn drop_namespace(&self, namespace: u16) {
        debug_assert_ne!(namespace, 0, "INV-NS-1: zero names no namespace");
        if !self.inner.consumers.copying.retain(namespace) {
            self.inner.namespaces.mark_dropped(namespace);
            self.inner.background.waker.wake();
        }
    }

    /// Ends the copy of one moment that is under way ([`crate::Plan::begin_copy`]), whether its walk has ended or not.
    pub fn end_copy(&self) {
        debug_assert!(self.inner.consumers.wanted() & crate::copying::COPY != 0, "INV-COPY-1: a copy ends once");
        self.inner.end_copy();
    }

    /// Drops a heap value that was shared. One without another holder that takes long to free is freed in the background.
    pub fn release(&self, value: SharedValue) {
        self.inner.discard(value);
    }

    /// Lets everything that is in memory leave for the device, and waits for it; for tests of what is cold. False when that is not
    /// possible in time, or there is no device.
    #[must_use]
    pub fn empty_memory(&self, within: std::time::Duration) -> bool {
        self.inner.tier.as_ref().is_some_and(|tier| tier.empty_memory(&self.inner.log, within))
    }

    /// Whether writers should wait, because they write faster than the device takes, or, without one, than memory is compacted;
    /// [`crate::Listeners::on_stall_end`] tells when not any more.
    #[inline]
    #[must_use]
    pub fn is_stalled(&self) -> bool {
        self.inner.is_stalled()
    }

    /// Whether more memory is used than the budget allows and nothing can be evicted. Kept up to date as the log grows and
    /// about ten times a second.
    #[inline]
    #[must_use]
    pub fn is_over_limit(&self) -> bool {
        self.inner.budget.over_limit.load(Ordering::Relaxed)
    }

    /// Compares with the budget at once.
    pub fn refresh_over_limit(&self) {
        self.inner.refresh_over_limit();
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        self.inner.background.stop.store(true, Ordering::Release);
        self.inner.background.waker.wake();
        if let Some(tier) = &self.inner.tier {
            tier.wake_all();
        }
        debug_assert!(self.background.is_empty() || self.manual.is_none(), "the background is a thread's or the caller's");
        for thread in self.background.drain(..) {
            // A listener that held the last reference drops the store on a thread of its own, which cannot wait for itself.
            if !thread.is_current() {
                let _ = thread.join();
            }
        }
        self.manual = None;
        if std::thread::panicking() {
            // The thread may have left a record half written.
            return;
        }
        if cfg!(debug_assertions) {
            check_whole(&self.inner);
        }
        if let Some(inner) = Arc::get_mut(&mut self.inner) {
            inner.drop_heavy();
        }
    }
}
