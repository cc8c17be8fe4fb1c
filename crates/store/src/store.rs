//! The store: the handle that owns what sessions share together with the background threads.

use crate::background::compact::compactor::Compactor;
use crate::background::flush::flusher::Flusher;
use crate::background::maintain::Maintenance;
use crate::changes::Changes;
use crate::changes::events::Event;
use crate::counters::Totals;
use crate::evict::EvictionPolicy;
use crate::evict::heat::HeatRule;
use crate::full::Full;
use crate::memory::MemoryUse;
use crate::options::Options;
use crate::progress::Work;
use crate::record::Kind;
use crate::record::heap::SharedValue;
use crate::record::key::Key;
use crate::session::Session;
use crate::session::check::check_whole;
use crate::shared::Shared;
use crate::shared::consumers::Consumer;
use crate::tier::statistics::TierStatistics;
use crate::tier::{CopyReads, Tier};
use almandine_io::thread;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

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

    /// Declares all records of a namespace garbage. No batch that begins after this may use the namespace.
    pub fn drop_namespace(&self, namespace: u16) {
        debug_assert_ne!(namespace, 0, "INV-NS-1: zero names no namespace");
        self.inner.namespaces.mark_dropped(namespace);
        self.inner.background.waker.wake();
    }

    /// Live records of a namespace, and those of them with an expiry. Exact.
    #[must_use]
    pub fn namespace_len(&self, namespace: u16) -> (u64, u64) {
        debug_assert_ne!(namespace, 0, "INV-NS-1: zero names no namespace");
        self.inner.counters.namespace_totals(namespace)
    }

    /// Sums of the sessions' counters.
    #[must_use]
    pub fn totals(&self) -> Totals {
        self.inner.counters.totals()
    }

    /// What the background has done so far.
    #[must_use]
    pub fn work(&self) -> Work {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let progress = &self.inner.background.progress;
        let (values_waiting, values_freed) = self.inner.background.garbage.values();
        // What waits is read first: it is counted as swept before it waits no more.
        let namespaces_waiting = self.inner.namespaces.waiting();
        Work {
            buckets_split: read(&progress.buckets_split),
            buckets_merged: read(&progress.buckets_merged),
            pages_evacuated: read(&progress.pages_evacuated),
            records_moved: read(&progress.records_moved),
            namespaces_swept: read(&progress.namespaces_swept),
            buckets_swept: read(&progress.buckets_swept),
            namespaces_waiting,
            values_freed,
            values_waiting,
        }
    }

    /// Drops a heap value that was shared. One without another holder that takes long to free is freed in the background.
    pub fn release(&self, value: SharedValue) {
        self.inner.discard(value);
    }

    /// Memory by use.
    #[must_use]
    pub fn memory(&self) -> MemoryUse {
        self.inner.memory()
    }

    /// Buckets of the index.
    #[must_use]
    pub fn index_buckets(&self) -> u64 {
        self.inner.index.len()
    }

    /// The memory budget in bytes; 0: none.
    #[must_use]
    pub fn budget_bytes(&self) -> u64 {
        self.inner.budget_bytes()
    }

    /// Sets the memory budget in bytes; 0 for none.
    pub fn set_budget(&self, bytes: u64) {
        self.inner.budget.bytes.store(bytes, Ordering::Relaxed);
        self.inner.refresh_over_limit();
        self.inner.background.waker.wake();
    }

    /// Sets the call that says how much memory outside of the store counts against its budget. Once per store; called often, by
    /// any thread.
    pub fn count_external_bytes(&self, bytes: impl Fn() -> u64 + Send + Sync + 'static) {
        let first = self.inner.budget.external_bytes.set(Box::new(bytes)).is_ok();
        debug_assert!(first, "set once");
    }

    /// What the tier below memory has done; nothing without a device.
    #[must_use]
    pub fn tier(&self) -> Option<TierStatistics> {
        self.inner.tier.as_ref().map(Tier::statistics)
    }

    /// Sets what becomes of records that were read from the device.
    pub fn set_copy_reads(&self, mode: CopyReads) {
        if let Some(tier) = &self.inner.tier {
            tier.set_copy_reads(mode);
        }
    }

    /// Sets the part of the device's space that may be dead, and how many bytes a second compaction may read.
    pub fn set_compaction(&self, garbage_max: f64, bytes_per_second: u64) {
        if let Some(tier) = &self.inner.tier {
            tier.set_limits(garbage_max, bytes_per_second);
        }
    }

    /// Lets everything that is in memory leave for the device, and waits for it; for tests of what is cold. False when that is not
    /// possible in time, or there is no device.
    #[must_use]
    pub fn empty_memory(&self, within: std::time::Duration) -> bool {
        self.inner.tier.as_ref().is_some_and(|tier| tier.empty_memory(&self.inner.log, within))
    }

    /// Whether writers should wait, because they write faster than the device takes, or, without one, than memory is compacted;
    /// [`Store::on_stall_end`] tells when not any more.
    #[inline]
    #[must_use]
    pub fn is_stalled(&self) -> bool {
        self.inner.is_stalled()
    }

    /// Sets what is called, by a background thread, when writers that found [`Store::is_stalled`] may go on.
    pub fn on_stall_end(&self, call: impl Fn() + Send + Sync + 'static) {
        match &self.inner.tier {
            Some(tier) => tier.on_stall_end(Box::new(call)),
            None => self.inner.budget.stall.on_end(Box::new(call)),
        }
    }

    /// Sets what is evicted when the budget is used up, and how use is turned into heat for that. With a device nothing is evicted:
    /// it takes what does not fit.
    pub fn set_eviction(&self, policy: EvictionPolicy) {
        if self.inner.eviction.policy() != policy {
            self.inner.eviction.set_policy(policy);
        }
        debug_assert_eq!(self.inner.eviction.policy(), policy, "a policy survives its bits");
        self.set_heat_rule(if self.inner.tier.is_some() { HeatRule::Uses } else { policy.heat_rule() });
        self.inner.refresh_over_limit();
        self.inner.background.waker.wake();
    }

    /// Sets the time in which frequencies go down by one step while nothing needs to be evicted; 0: they do not.
    pub fn set_frequency_decay_ms(&self, milliseconds: i64) {
        self.inner.eviction.set_decay_ms(milliseconds);
    }

    /// Sets how use is turned into heat.
    pub fn set_heat_rule(&self, rule: HeatRule) {
        debug_assert_eq!(HeatRule::from_bits(rule as u8), rule, "a rule survives its bits");
        self.inner.eviction.heat_rule.store(rule as u8, Ordering::Relaxed);
    }

    /// Whether more memory is used than the budget allows and nothing can be evicted. Kept up to date as the log grows and
    /// about ten times a second.
    #[inline]
    #[must_use]
    pub fn is_over_limit(&self) -> bool {
        self.inner.budget.over_limit.load(Ordering::Relaxed)
    }

    /// Whether all addresses of the log have been used, after 2 PiB of writes: then writes are refused until a restart.
    #[must_use]
    pub fn is_used_up(&self) -> bool {
        self.inner.log.is_used_up()
    }

    /// Compares with the budget at once.
    pub fn refresh_over_limit(&self) {
        self.inner.refresh_over_limit();
    }

    /// Whether the background removes expired records; it does unless told otherwise. For tests of what happens without it.
    pub fn set_reclaiming(&self, reclaiming: bool) {
        self.inner.expiry.reclaiming.store(reclaiming, Ordering::Relaxed);
    }

    /// Says whether what has expired stays for now, so that nothing changes; readers do not see it.
    ///
    /// A caller sees what others wrote before their earlier calls: of two that disagree the later one can look why.
    pub fn hold_expiry(&self, held: bool) {
        self.inner.expiry.held.swap(held, Ordering::AcqRel);
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        self.inner.background.stop.store(true, Ordering::Release);
        self.inner.background.waker.wake();
        if let Some(tier) = &self.inner.tier {
            tier.wakers.flusher.wake();
            tier.wakers.compactor.wake();
        }
        debug_assert!(self.background.is_empty() || self.manual.is_none(), "the background is a thread's or the caller's");
        for thread in self.background.drain(..) {
            // A listener that held the last reference drops the store on a thread of its own, which cannot wait for itself.
            if thread.thread().id() != std::thread::current().id() {
                let _ = thread.join();
            }
        }
        self.manual = None;
        if cfg!(debug_assertions) && !std::thread::panicking() {
            check_whole(&self.inner);
        }
    }
}

impl Store {
    /// Installs the call for each change that a session is asked for, under the latch of the key's bucket; a second call
    /// changes nothing. It is not called before [`Store::tell_changes`] says so for [`Consumer::Watch`].
    pub fn on_change(&self, listener: impl Fn(&Key<'_>) + Send + Sync + 'static) {
        let _ = self.inner.consumers.under_latch.set(Box::new(listener));
    }

    /// Installs the call that gets the changes that a session has noted and its owner has not taken, when its batch ends: what
    /// the background removes, above all. A second call changes nothing. It is called outside of latches and epochs, and the
    /// session waits for it.
    pub fn on_changes(&self, listener: impl Fn(&Changes) + Send + Sync + 'static) {
        let _ = self.inner.consumers.afterwards.set(Box::new(listener));
    }

    /// Installs the call that says whether a changed key has waiters: it is of a type now, or gone. The session notes it then
    /// ([`crate::ReadyKeys`]). It is asked under the latch of the key's bucket, for [`Consumer::Wait`]; a second call
    /// changes nothing.
    pub fn on_awaited(&self, awaited: impl Fn(&Key<'_>, Option<Kind>) -> bool + Send + Sync + 'static) {
        let _ = self.inner.consumers.awaited.set(Box::new(awaited));
    }

    /// Installs the call for keys that the store removes by itself, on any thread, for [`Consumer::Wait`]: under the latch of
    /// the key's bucket. It must not come back to the store. A second call changes nothing.
    pub fn on_lost(&self, lost: impl Fn(&Key<'_>) + Send + Sync + 'static) {
        let _ = self.inner.consumers.lost.set(Box::new(lost));
    }

    /// Installs the call for events, with the namespace and the key, under the latch of the key's bucket; a second call changes
    /// nothing. It must not come back to the store.
    pub fn on_events(&self, listener: impl Fn(u16, &[u8], Event<'_>) + Send + Sync + 'static) {
        let _ = self.inner.consumers.events.set(Box::new(listener));
    }

    /// Whether a consumer wants to know of changes from now on; at first none does. Of a key that a thread finds after it has
    /// turned this on, every later change is told.
    pub fn tell_changes(&self, consumer: Consumer, tell: bool) {
        self.inner.consumers.want(consumer, tell);
    }
}
