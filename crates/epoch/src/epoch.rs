//! The epoch counter, the participants' reservations, and the actions that wait for an epoch to become safe.
//!
//! A global counter says which epoch it is. A participant (one worker thread) writes the epoch it saw into its own reservation
//! before it touches shared data and clears the reservation after. A thread that unlinks a thing from the shared structure
//! *tags* it with an epoch; the thing may be reused as soon as no reservation holds that epoch or an earlier one.
//!
//! ```text
//! participant R (enter)          retirer U (bump or current)        scanner S (safe)
//!  r1  e = current (acquire)      u1  unlink x                       s1  c = current (acquire)
//!  r2  mine = e    (release)      u2  bump: fetch_add (acq_rel)      s2  fence (seq_cst)
//!  r3  fence       (seq_cst)          or: fence (seq_cst); load      s3  m = least of all reservations (acquire)
//!  r4  reads shared data          u3  x is tagged with the epoch     s4  safe = min(c, m) - 1
//!  r5  mine = 0    (release)          of u2 (before the increment)
//! ```
//!
//! # Why x, tagged t, is unreachable when S computes safe ≥ t
//!
//! First, *tags order*: a thread that reads the counter as `t + 1` or more, by r1 or s1, is ordered after u1. If U bumped, the
//! value read comes from the release sequence headed by u2, so u1 happens before the read. If U fenced and loaded `t`, its load
//! is coherence-ordered before the other's read of `t + 1`; so U's fence precedes the other's fence (r3 or s2) in the single
//! order of seq_cst fences, and u1 is visible to every access after that fence.
//!
//! S saw `c > t`, so S is ordered after u1 in this sense. Take any participant R and the reservation that s3 read.
//!
//! 1. *s3 did not see r2.* Then R's fence does not precede S's fence, for else s3 would have seen the store; so s2 precedes r3, and
//!    r4 sees all that is ordered before s2, u1 included. R cannot reach x.
//! 2. *s3 saw r2, with `e > t`.* R read the counter beyond `t` at r1 and is ordered after u1. R cannot reach x.
//! 3. *s3 saw r2, with `e ≤ t`.* Then `safe < t`, and x is not reused.
//! 4. *s3 saw r5, or the reservation of a later visit.* Both are release stores and s3 acquires: every read of the earlier visit
//!    happens before S returns, hence before the reuse. The next visit is case 1, 2 or 3.
//!
//! The fence at r3 is a store-load fence, the one order that even x86 does not give for free: without it the store of the
//! reservation may still sit in the store buffer when r4 reads the old link, and S sees an empty one. A participant may store
//! an epoch that is already old (a bump between r1 and r2); that delays reclamation and endangers nothing, so `enter` needs no
//! retry loop. For the same reason the largest value that a scan ever returned stays true, and is kept for
//! [`Epoch::safe_cached`].

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

use almandine_base::points::point;
use almandine_base::step;
use crossbeam_utils::CachePadded;

use crate::gate::Gate;
use crate::participant::Participant;
use crate::sync::{AtomicBool, AtomicU64, Mutex, MutexGuard, Ordering, fence};

/// The reservation of a participant that is inside no epoch.
pub(crate) const OUTSIDE: u64 = 0;
/// Above `OUTSIDE`, and such that `safe` can lie below it.
const FIRST: u64 = 1;

const _: () = assert!(FIRST > OUTSIDE, "a reservation of the first epoch differs from none");

/// What [`Epoch::bump_with`] defers.
type Action = Box<dyn FnOnce() + Send>;

/// One participant's line: written by its owner only (`taken` by the thread that registers), read by scans.
pub(crate) struct Reservation {
    /// The epoch the owner is inside of, or [`OUTSIDE`].
    pub(crate) epoch: AtomicU64,
    pub(crate) taken: AtomicBool,
    /// Whether its owner enters through the gate.
    pub(crate) gated: AtomicBool,
}

impl Reservation {
    /// Whether its owner is inside an epoch. Exact for the owner only.
    #[inline]
    pub(crate) fn is_inside(&self) -> bool {
        self.epoch.load(Ordering::Relaxed) != OUTSIDE
    }
}

/// The shared epoch: a counter, a reservation for each participant, and deferred actions.
pub struct Epoch {
    current: CachePadded<AtomicU64>,
    /// The largest result of any scan.
    safe: CachePadded<AtomicU64>,
    reservations: Box<[CachePadded<Reservation>]>,
    pub(crate) gate: Gate,
    /// In the order of their epochs. Control plane only; no worker takes this lock.
    actions: Mutex<VecDeque<(u64, Action)>>,
}

impl Epoch {
    /// An epoch that at most `participants_max` participants can be registered with at a time.
    pub fn new(participants_max: usize) -> Self {
        let reservation = || {
            let (taken, gated) = (AtomicBool::new(false), AtomicBool::new(false));
            CachePadded::new(Reservation { epoch: AtomicU64::new(OUTSIDE), taken, gated })
        };
        Self {
            current: CachePadded::new(AtomicU64::new(FIRST)),
            safe: CachePadded::new(AtomicU64::new(FIRST - 1)),
            reservations: (0..participants_max).map(|_| reservation()).collect(),
            gate: Gate::default(),
            actions: Mutex::new(VecDeque::new()),
        }
    }

    /// Claims a reservation; `None` when all are taken.
    pub fn register(self: &Arc<Self>) -> Option<Participant> {
        self.claim(false)
    }

    /// As [`Self::register`], for a participant that enters through the gate ([`Participant::enter_gated`]).
    pub fn register_gated(self: &Arc<Self>) -> Option<Participant> {
        self.claim(true)
    }

    fn claim(self: &Arc<Self>, gated: bool) -> Option<Participant> {
        let claim = |reservation: &CachePadded<Reservation>| {
            reservation.taken.compare_exchange(false, true, Ordering::AcqRel, Ordering::Relaxed).is_ok()
        };
        let index = self.reservations.iter().position(claim)?;
        debug_assert!(!self.reservation(index).is_inside(), "a reservation is given back empty");
        // Before it enters for the first time: a participant that closes the gate then sees it.
        self.reservation(index).gated.store(gated, Ordering::Release);
        Some(Participant::new(Arc::clone(self), index))
    }

    /// Whether no participant but number `index` is inside, of those that enter through the gate. The caller has closed it.
    pub(crate) fn others_are_outside(&self, index: usize) -> bool {
        // Acquire: what they did happens before what the one that is alone does.
        self.reservations.iter().enumerate().all(|(other, reservation)| {
            other == index || !reservation.gated.load(Ordering::Acquire) || reservation.epoch.load(Ordering::Acquire) == OUTSIDE
        })
    }

    /// The epoch in which whatever the caller has unlinked so far counts as retired: it can be reclaimed once [`Self::safe`]
    /// has reached it.
    ///
    /// Costs a fence; one call tags any number of things. Nothing becomes safe before a bump.
    #[inline]
    pub fn current(&self) -> u64 {
        step!(TagFence, fence(Ordering::SeqCst));
        let tag = self.current.load(Ordering::Acquire);
        debug_assert!(tag >= FIRST, "a tag is an epoch");
        tag
    }

    /// What a participant stores on entering. No fence: that comes after the store.
    #[inline]
    pub(crate) fn observed(&self) -> u64 {
        let observed = self.current.load(Ordering::Acquire);
        debug_assert_ne!(observed, OUTSIDE, "who enters is seen to be inside");
        observed
    }

    /// Whether another epoch has begun since. Before that, nothing that is tagged with `epoch` becomes safe.
    #[inline]
    pub fn is_over(&self, epoch: u64) -> bool {
        self.current.load(Ordering::Relaxed) > epoch
    }

    /// Starts the next epoch and returns the one that ends: a tag for whatever the caller unlinked before.
    pub fn bump(&self) -> u64 {
        point("bumps the epoch");
        let ended = self.current.fetch_add(1, Ordering::AcqRel);
        debug_assert!((FIRST..u64::MAX).contains(&ended), "epochs only grow");
        ended
    }

    /// Bumps, and runs `action` in a later [`Self::drain`], once every participant has left the epoch that ends.
    ///
    /// Actions that are still waiting when the epoch itself is dropped are dropped with it, without being run.
    pub fn bump_with(&self, action: Box<dyn FnOnce() + Send>) {
        // Bumping under the lock keeps the list sorted.
        let mut actions = self.actions();
        let epoch = self.bump();
        debug_assert!(actions.back().is_none_or(|&(last, _)| last < epoch), "E2: the oldest action is first");
        actions.push_back((epoch, action));
    }

    /// Scans the reservations: whatever was retired in the returned epoch or before is reachable by no participant.
    ///
    /// This is the largest epoch that is over and that no participant is inside of, nor inside of an earlier one.
    pub fn safe(&self) -> u64 {
        let current = self.current.load(Ordering::Acquire);
        step!(ScanFence, fence(Ordering::SeqCst));
        let inside =
            self.reservations.iter().map(|reservation| reservation.epoch.load(Ordering::Acquire)).filter(|&epoch| epoch != OUTSIDE);
        let safe = inside.fold(current, u64::min) - 1;
        // Release: a reader of the cached value inherits what the scan acquired.
        let known = self.safe.fetch_max(safe, Ordering::AcqRel).max(safe);
        debug_assert!(known < self.current.load(Ordering::Acquire), "E1: an epoch that goes on is not safe");
        known
    }

    /// The largest result of [`Self::safe`] so far, for one load.
    #[inline]
    pub fn safe_cached(&self) -> u64 {
        let safe = self.safe.load(Ordering::Acquire);
        debug_assert!(safe < self.current.load(Ordering::Acquire), "E1: an epoch that goes on is not safe");
        safe
    }

    /// Runs the actions whose epoch is safe, oldest first, and returns how many ran. Called by background threads only.
    ///
    /// An action may bump and defer again; what it defers waits for a later call. Two threads that drain at once share
    /// the actions between them, in no order.
    pub fn drain(&self) -> usize {
        if self.actions().is_empty() {
            return 0;
        }
        let safe = self.safe();
        let mut ran = 0;
        while let Some(action) = self.pop_due(safe) {
            action();
            ran += 1;
        }
        ran
    }

    /// How many actions wait for their epoch.
    pub fn pending(&self) -> usize {
        self.actions().len()
    }

    /// Takes the oldest action off the list if its epoch is safe. The lock is not held while it runs.
    fn pop_due(&self, safe: u64) -> Option<Action> {
        let actions = self.actions();
        if actions.front().is_none_or(|&(epoch, _)| epoch > safe) {
            return None;
        }
        let mut actions = step!(OneLock, actions, else { drop(actions); self.actions() });
        let (epoch, action) = actions.pop_front()?;
        debug_assert!(epoch <= safe, "E2: an action runs when its epoch is safe");
        Some(action)
    }

    fn actions(&self) -> MutexGuard<'_, VecDeque<(u64, Action)>> {
        // No caller's code runs under the lock, so poison means nothing here.
        self.actions.lock().unwrap_or_else(|poison| poison.into_inner())
    }

    #[inline]
    pub(crate) fn reservation(&self, index: usize) -> &Reservation {
        debug_assert!(index < self.reservations.len(), "an index from `register`");
        &self.reservations[index]
    }
}

impl fmt::Debug for Epoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Epoch").field("participants_max", &self.reservations.len()).finish_non_exhaustive()
    }
}
