//! Removals: notifications of the keys that the store removes by itself, because they have expired or to make room.
//!
//! A session notes a removal while it holds the latch of the key's bucket (`Inner::note_expired`, `Inner::note_evicted`), so that the removals of one key are
//! notified in their order, and none before a look-up of the key could miss it (INV-REMOVED-1). The background takes them out between its
//! bursts and gives them to the one who listens, outside of every latch and epoch. While nobody listens, a removal costs one load more, and
//! everything else nothing.
//!
//! What waits to be told is bounded: if the listener is too slow, single keys are given up, and it is told that it has missed some.
//!
//! Not told: what a user of the store removes or overwrites, which it knows; the records of emptied namespaces; records that move to a
//! device, between its pages, or back, because their keys stay.

use almandine_base::limits::REMOVALS_BYTES_MAX;
use crossbeam_queue::SegQueue;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering, fence};

/// Removals that are told together.
const GROUP: usize = 256;

/// Why a key was removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RemovalReason {
    /// It was past its time.
    Expired,
    /// To make room.
    Evicted,
}

/// A key that the store has removed by itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Removal {
    /// The namespace that the key was in. It may have been dropped since.
    pub namespace: u16,
    /// The key.
    pub key: Box<[u8]>,
    /// Why it was removed.
    pub reason: RemovalReason,
}

impl Removal {
    fn memory_bytes(&self) -> usize {
        size_of::<Self>() + self.key.len()
    }
}

/// What the listener is told.
#[derive(Debug)]
pub enum Removals {
    /// These, those of one key in their order.
    These(Vec<Removal>),
    /// Too many to be told one by one: any key may have been removed.
    Missed,
}

type Listener = Box<dyn Fn(Removals) + Send + Sync>;

/// The removals that wait to be told.
#[derive(Default)]
pub(crate) struct Outbox {
    pub(crate) watched: AtomicBool,
    queue: SegQueue<Removal>,
    /// Bytes that the queue takes.
    bytes: AtomicUsize,
    missed: AtomicBool,
    pub(crate) listener: OnceLock<Listener>,
}

impl Outbox {
    /// Whether somebody listens. The caller has just latched a bucket exclusively: a client that began to listen before it found the bucket
    /// without a latch is seen here. On x86 the latch's locked instruction keeps this load behind it, elsewhere a fence does.
    #[inline]
    pub(crate) fn is_watched(&self) -> bool {
        if cfg!(not(target_arch = "x86_64")) {
            fence(Ordering::SeqCst);
        }
        self.watched.load(Ordering::Relaxed)
    }

    pub(crate) fn push(&self, removal: Removal) {
        let bytes = removal.memory_bytes();
        debug_assert_ne!(removal.namespace, 0, "INV-NS-1: zero names no namespace");
        if self.bytes.fetch_add(bytes, Ordering::Relaxed) + bytes > REMOVALS_BYTES_MAX {
            self.bytes.fetch_sub(bytes, Ordering::Relaxed);
            self.missed.store(true, Ordering::Release);
        } else {
            self.queue.push(removal);
        }
    }

    fn pop(&self) -> Option<Removal> {
        let removal = self.queue.pop()?;
        debug_assert!(self.bytes.load(Ordering::Relaxed) >= removal.memory_bytes(), "INV-REMOVED-1: what waits is counted");
        self.bytes.fetch_sub(removal.memory_bytes(), Ordering::Relaxed);
        Some(removal)
    }

    /// Tells what waits. By the background only, outside of every latch and epoch.
    #[inline]
    pub(crate) fn notify(&self) {
        if !self.queue.is_empty() || self.missed.load(Ordering::Relaxed) {
            self.notify_waiting();
        }
    }

    #[cold]
    fn notify_waiting(&self) {
        let Some(listener) = self.listener.get() else { return };
        if self.missed.swap(false, Ordering::Acquire) {
            // It covers all that was removed before.
            for _ in 0..self.queue.len() {
                drop(self.pop());
            }
            listener(Removals::Missed);
        }
        loop {
            let group: Vec<Removal> = std::iter::from_fn(|| self.pop()).take(GROUP).collect();
            if group.is_empty() {
                return;
            }
            listener(Removals::These(group));
        }
    }
}
