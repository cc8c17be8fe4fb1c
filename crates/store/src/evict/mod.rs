//! Eviction: which records are evicted when the memory budget is used up, and which thread evicts them.
//!
//! A clock hand sweeps the index, not the log: a cache line holds the heat of seven records, and only victims are touched. A
//! session that allocates takes a few buckets from the hand when the budget is exceeded, and the background works ahead, so
//! memory stays at the budget without a lock and without a pause. The heat of an entry means, by policy:
//!
//! ```text
//! recency:    | proven 1 | age 2 |   3 when used, one less each time the hand passes, evicted at 0; proven: used since it came
//! frequency:  | rank 3 |             up by two when used, down by one at every tenth pass or so, evicted at 0
//! ```
//!
//! *Recency* is an adaptive clock in the manner of ARC. Keys that are new start at an age that adapts itself: what comes back
//! soon after it was evicted unproven says that newcomers got too little time, what comes back proven says that they took too
//! much. So a scan passes through without harm, and a new hot set is taken in quickly. Keys that came back are known from *ghosts*.
//! What the choice rests on is measured in ADR 21.

pub(crate) mod ghost;
pub(crate) mod heat;
pub(crate) mod idle;

use crate::expiry::feed::Notice;
use crossbeam_queue::SegQueue;
use crossbeam_utils::CachePadded;
use ghost::{Ghosts, Return};
use heat::HeatRule;
use idle::IdleClock;
use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU8, AtomicU64, Ordering};

/// By what records are evicted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum EvictionOrder {
    /// None does.
    #[default]
    Never = 0,
    /// What was not used for long.
    Recency = 1,
    /// What is not used often.
    Frequency = 2,
    /// Any.
    Random = 3,
    /// What expires soonest.
    Expiry = 4,
}

/// Which records are evicted when the budget is used up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EvictionPolicy {
    /// In which order.
    pub order: EvictionOrder,
    /// Only those with an expiry.
    pub volatile_only: bool,
}

impl EvictionPolicy {
    const VOLATILE: u8 = 8;

    fn to_bits(self) -> u8 {
        self.order as u8 | if self.volatile_only { Self::VOLATILE } else { 0 }
    }

    fn from_bits(bits: u8) -> Self {
        let order = match bits & !Self::VOLATILE {
            1 => EvictionOrder::Recency,
            2 => EvictionOrder::Frequency,
            3 => EvictionOrder::Random,
            4 => EvictionOrder::Expiry,
            _ => EvictionOrder::Never,
        };
        Self { order, volatile_only: bits & Self::VOLATILE != 0 }
    }

    /// What heat means while this policy is on.
    #[must_use]
    pub fn heat_rule(self) -> HeatRule {
        if self.order == EvictionOrder::Frequency { HeatRule::Frequency } else { HeatRule::Recency }
    }
}

/// Laps without a victim after which there is nothing to evict. All that is hot has cooled down by then.
const BARREN_LAPS: u64 = 10;
/// One step of age in the fixed-point numbers of [`Eviction::entry_age`].
const AGE_ONE: i64 = 1 << 20;
/// The largest age.
pub(crate) const AGE_MAX: u64 = 3;
/// The mark of a record that was used since it came; the rest of the heat is its age.
pub(crate) const PROVEN: u64 = 4;
/// The heat of a record by recency that was just used.
pub(crate) const JUST_USED: u64 = PROVEN | AGE_MAX;
/// Records that came back enter at this rank, by frequency.
const RETURNED_RANK: u64 = 1;

/// What sessions share for eviction.
pub(crate) struct Eviction {
    policy: AtomicU8,
    /// A [`HeatRule`].
    pub(crate) heat_rule: AtomicU8,
    /// The next bucket that the hand looks at.
    hand: CachePadded<AtomicU64>,
    /// Buckets passed since the last victim.
    barren: CachePadded<AtomicU64>,
    pub(crate) ghosts: Ghosts,
    pub(crate) idle: IdleClock,
    /// Age at which new records enter, in parts of [`AGE_ONE`].
    entry_age: AtomicI64,
    /// Ghosts of late: of records that left unproven, and proven.
    left: [AtomicU64; 2],
    /// Whether the hand has begun to evict, so that newcomers enter at the adaptive age.
    pressed: AtomicBool,
    /// Milliseconds in which frequencies go down by one step without need to evict; 0: they do not.
    decay_ms: AtomicI64,
    /// What expires soonest, for [`EvictionOrder::Expiry`]. Filled by the background.
    pub(crate) soonest: SegQueue<Notice>,
}

impl Eviction {
    /// State for a store of at most `memory_max` bytes.
    ///
    /// # Errors
    /// When the address space for the ghosts cannot be reserved.
    pub(crate) fn new(memory_max: u64) -> io::Result<Self> {
        Ok(Self {
            policy: AtomicU8::new(EvictionPolicy::default().to_bits()),
            heat_rule: AtomicU8::new(HeatRule::Off as u8),
            hand: CachePadded::default(),
            barren: CachePadded::default(),
            ghosts: Ghosts::new(memory_max)?,
            idle: IdleClock::new(),
            entry_age: AtomicI64::new(AGE_ONE),
            left: [AtomicU64::new(0), AtomicU64::new(0)],
            pressed: AtomicBool::new(false),
            decay_ms: AtomicI64::new(60_000),
            soonest: SegQueue::new(),
        })
    }

    pub(crate) fn policy(&self) -> EvictionPolicy {
        EvictionPolicy::from_bits(self.policy.load(Ordering::Relaxed))
    }

    pub(crate) fn set_policy(&self, policy: EvictionPolicy) {
        debug_assert_eq!(EvictionPolicy::from_bits(policy.to_bits()), policy, "a policy survives its bits");
        self.policy.store(policy.to_bits(), Ordering::Relaxed);
        self.barren.store(0, Ordering::Relaxed);
        self.pressed.store(false, Ordering::Relaxed);
    }

    /// Whether anything was evicted under this policy.
    pub(crate) fn is_pressed(&self) -> bool {
        self.pressed.load(Ordering::Relaxed)
    }

    pub(crate) fn decay_ms(&self) -> i64 {
        self.decay_ms.load(Ordering::Relaxed)
    }

    pub(crate) fn set_decay_ms(&self, decay_ms: i64) {
        self.decay_ms.store(decay_ms.max(0), Ordering::Relaxed);
    }

    /// Whether eviction may still find something: there is what may go, and the hand has not looked in vain for long.
    pub(crate) fn is_hopeful(&self, live: i64, volatile: i64, buckets: u64) -> bool {
        let policy = self.policy();
        let candidates = if policy.volatile_only { volatile } else { live };
        debug_assert_ne!(buckets, 0, "there is always a bucket");
        policy.order != EvictionOrder::Never && candidates > 0 && self.barren.load(Ordering::Relaxed) < BARREN_LAPS * buckets
    }

    /// Takes up to `most` buckets from the hand.
    pub(crate) fn take_range(&self, buckets: u64, most: u64) -> Range<u64> {
        let mut from = self.hand.load(Ordering::Relaxed);
        loop {
            let start = if from < buckets { from } else { 0 };
            let end = (start + most).min(buckets);
            let next = if end == buckets { 0 } else { end };
            match self.hand.compare_exchange_weak(from, next, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => {
                    if next == 0 {
                        self.idle.lap_ended(&[true; idle::LEVELS]);
                    }
                    debug_assert!(start < end && end <= buckets, "the hand moves on within the buckets");
                    return start..end;
                }
                Err(current) => from = current,
            }
        }
    }

    pub(crate) fn passed_in_vain(&self, buckets: u64) {
        debug_assert_ne!(buckets, 0, "the hand has moved");
        self.barren.fetch_add(buckets, Ordering::Relaxed);
    }

    /// A record with this hash and heat is evicted.
    pub(crate) fn evicted(&self, hash: u64, heat: u64, order: EvictionOrder) {
        debug_assert_ne!(order, EvictionOrder::Never, "without a policy nothing is evicted");
        debug_assert!(heat <= JUST_USED, "heat stays in its bits");
        if self.barren.load(Ordering::Relaxed) != 0 {
            self.barren.store(0, Ordering::Relaxed);
        }
        if !self.pressed.load(Ordering::Relaxed) {
            self.pressed.store(true, Ordering::Relaxed);
        }
        if matches!(order, EvictionOrder::Recency | EvictionOrder::Frequency) {
            let proven = order == EvictionOrder::Recency && heat & PROVEN != 0;
            self.ghosts.note(hash, proven);
            self.left[usize::from(proven)].fetch_add(1, Ordering::Relaxed);
        }
    }

    /// The heat of a record that is new. `chance` is any random number.
    #[inline]
    pub(crate) fn first_heat(&self, rule: HeatRule, hash: u64, chance: u64) -> u64 {
        match rule {
            HeatRule::Off | HeatRule::Uses => 0,
            _ if self.ghosts.is_empty() || !self.is_pressed() => {
                if rule == HeatRule::Recency {
                    AGE_MAX
                } else {
                    0
                }
            }
            HeatRule::Recency => self.first_age(hash, chance),
            HeatRule::Frequency => self.ghosts.take(hash).map_or(0, |_| RETURNED_RANK),
        }
    }

    fn first_age(&self, hash: u64, chance: u64) -> u64 {
        match self.ghosts.take(hash) {
            Some(came_back) => {
                self.adapt(came_back);
                JUST_USED
            }
            None => {
                let age = self.entry_age.load(Ordering::Relaxed) + (chance % AGE_ONE as u64) as i64;
                debug_assert!(age >= 0, "an age is a fraction of the oldest");
                (age / AGE_ONE).clamp(0, AGE_MAX as i64) as u64
            }
        }
    }

    /// Moves the age of newcomers by one part in as many as there are ghosts; more, as in ARC, if the other kind is commoner.
    fn adapt(&self, came_back: Return) {
        let [unproven, proven] = [&self.left[0], &self.left[1]].map(|count| count.load(Ordering::Relaxed).max(1));
        debug_assert!(unproven != 0 && proven != 0, "a share of nothing is none");
        let step = AGE_ONE / (self.ghosts.capacity().max(1) as i64).min(AGE_ONE);
        let change = match came_back {
            Return::Unproven => step * (proven / unproven).clamp(1, 1000) as i64,
            Return::Proven => -step * (unproven / proven).clamp(1, 1000) as i64,
        };
        let age = self.entry_age.load(Ordering::Relaxed) + change;
        self.entry_age.store(age.clamp(0, AGE_MAX as i64 * AGE_ONE), Ordering::Relaxed);
        if unproven + proven > self.ghosts.capacity() {
            self.left.iter().for_each(|count| count.store(count.load(Ordering::Relaxed) / 2, Ordering::Relaxed));
        }
    }
}
