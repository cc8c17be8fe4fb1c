//! The limits that an operator sets, changeable while the workers run.

use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};

use crate::service::OutputClass;

/// Read by the workers without synchronization; a change takes effect within a second.
#[derive(Debug)]
pub struct Limits {
    /// `maxclients`.
    pub connections_max: AtomicUsize,
    /// `timeout` in seconds; zero never.
    pub idle_timeout_s: AtomicU64,
    /// `tcp-keepalive` in seconds, for new connections; zero never.
    pub keepalive_s: AtomicU64,
    /// `max-new-tls-connections-per-cycle`: steps of handshakes that a worker does in one round.
    pub handshakes_per_round: AtomicU32,
    /// `client-query-buffer-limit`.
    pub input_bytes_max: AtomicUsize,
    /// Pending output beyond which a connection's input is not executed.
    pub output_pause_bytes: AtomicUsize,
    /// Seconds after which a peer is closed that has filled [`Self::unread_bytes_max`] in both directions and reads nothing.
    /// Redis keeps all that comes, which bounds nothing; a peer that writes before it reads would wait for ever otherwise, and
    /// hold what is kept of it.
    pub unread_s_max: AtomicU64,
    /// `client-output-buffer-limit normal`.
    pub output_normal: OutputLimit,
    /// `client-output-buffer-limit replica`.
    pub output_replica: OutputLimit,
    /// `client-output-buffer-limit pubsub`.
    pub output_subscriber: OutputLimit,
}

/// Output beyond which a connection is closed. Zero is no limit.
#[derive(Debug)]
pub struct OutputLimit {
    /// Closes at once.
    pub hard_bytes: AtomicUsize,
    /// Closes when exceeded for `soft_s` seconds.
    pub soft_bytes: AtomicUsize,
    /// See `soft_bytes`.
    pub soft_s: AtomicU64,
}

const MIB: usize = 1024 * 1024;
/// How much more input than output is kept of a peer that does not read.
const UNREAD_RATIO: usize = 64;
/// See [`Limits::unread_s_max`].
const UNREAD_S_MAX: u64 = 60;

/// As in Redis, the same for all servers: an error or two.
static UNAUTHENTICATED: OutputLimit = OutputLimit::new(1024, 0, 0);

impl Default for Limits {
    /// Redis' defaults.
    fn default() -> Self {
        Self {
            connections_max: AtomicUsize::new(10_000),
            idle_timeout_s: AtomicU64::new(0),
            keepalive_s: AtomicU64::new(300),
            handshakes_per_round: AtomicU32::new(1),
            input_bytes_max: AtomicUsize::new(1024 * MIB),
            output_pause_bytes: AtomicUsize::new(MIB),
            unread_s_max: AtomicU64::new(UNREAD_S_MAX),
            output_normal: OutputLimit::new(0, 0, 0),
            output_replica: OutputLimit::new(256 * MIB, 64 * MIB, 60),
            output_subscriber: OutputLimit::new(32 * MIB, 8 * MIB, 60),
        }
    }
}

impl Limits {
    /// Most input that is kept of a connection with more output than [`Self::output_pause_bytes`], and most output beside that
    /// much input. Beyond half of what closes it, it would be closed for what was on its way.
    pub(crate) fn unread_bytes_max(&self) -> usize {
        let share = self.output_pause_bytes.load(Ordering::Relaxed).saturating_mul(UNREAD_RATIO);
        share.min(self.input_bytes_max.load(Ordering::Relaxed) / 2)
    }

    /// The limit of a class, and the bytes that it is about, of a connection with `pending` bytes of output of which at most
    /// `pushed` were not asked for.
    ///
    /// Ordinary clients have no limit unless the operator sets one, for back-pressure bounds what their commands write. What is
    /// pushed to one, as the lines of MONITOR and the invalidations of tracked keys, has that of subscribers then.
    pub(crate) fn output(&self, class: OutputClass, pending: usize, pushed: usize) -> (&OutputLimit, usize) {
        match class {
            OutputClass::Normal if self.output_normal.is_none() => (&self.output_subscriber, pending.min(pushed)),
            OutputClass::Normal => (&self.output_normal, pending),
            OutputClass::Replica => (&self.output_replica, pending),
            OutputClass::Subscriber => (&self.output_subscriber, pending),
            OutputClass::Unauthenticated => (&UNAUTHENTICATED, pending),
        }
    }

    /// Whether this many bytes of output break the limit that an operator has set for some class.
    pub(crate) fn may_forbid(&self, bytes: usize) -> bool {
        [&self.output_normal, &self.output_replica, &self.output_subscriber].iter().any(|limit| limit.forbids(bytes))
    }
}

impl OutputLimit {
    /// A limit.
    #[must_use]
    pub const fn new(hard_bytes: usize, soft_bytes: usize, soft_s: u64) -> Self {
        Self { hard_bytes: AtomicUsize::new(hard_bytes), soft_bytes: AtomicUsize::new(soft_bytes), soft_s: AtomicU64::new(soft_s) }
    }

    /// Changes all three numbers.
    pub fn set(&self, hard_bytes: usize, soft_bytes: usize, soft_s: u64) {
        self.hard_bytes.store(hard_bytes, Ordering::Relaxed);
        self.soft_bytes.store(soft_bytes, Ordering::Relaxed);
        self.soft_s.store(soft_s, Ordering::Relaxed);
    }

    /// Whether there is no limit.
    fn is_none(&self) -> bool {
        self.hard_bytes.load(Ordering::Relaxed) == 0 && self.soft_bytes.load(Ordering::Relaxed) == 0
    }

    /// Whether this many bytes are never allowed.
    fn forbids(&self, bytes: usize) -> bool {
        let hard = self.hard_bytes.load(Ordering::Relaxed);
        hard > 0 && bytes > hard
    }

    /// Whether `pending` bytes break the limit. `over_since_s` remembers since when the soft limit is exceeded.
    pub(crate) fn is_broken(&self, pending: usize, over_since_s: &mut Option<u64>, now_s: u64) -> bool {
        let soft = self.soft_bytes.load(Ordering::Relaxed);
        if self.forbids(pending) {
            return true;
        }
        if soft == 0 || pending <= soft {
            *over_since_s = None;
            return false;
        }
        let since = *over_since_s.get_or_insert(now_s);
        now_s - since > self.soft_s.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_soft_limit_needs_time_and_forgives() {
        let limit = OutputLimit::new(100, 10, 5);
        let mut since = None;
        assert!(!limit.is_broken(11, &mut since, 50));
        assert!(!limit.is_broken(11, &mut since, 55));
        assert!(!limit.is_broken(9, &mut since, 56));
        assert!(!limit.is_broken(11, &mut since, 57));
        assert!(limit.is_broken(11, &mut since, 63));
        assert!(limit.is_broken(101, &mut None, 0));
    }
}
