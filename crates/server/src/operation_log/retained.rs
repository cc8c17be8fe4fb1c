//! Space of `storage-dir` that only the last base or a backup needs: how much of it is too much.

use almandine_device::watched::DeviceState;
use almandine_instance::Instance;
use almandine_io::clock;

/// As much of the device may be kept for a base, however little that holds.
const RETAINED_BYTES_MIN: u64 = 16 << 20;
/// One part in this number of what lives on the device may be kept for longer.
const LIVE_SHARE: u64 = 16;
/// Bases for less than a quarter of the device take one part in this number of the time at most.
const TIME_SHARE: u64 = 20;

/// What decides whether a base is begun for the space that comes back with it.
#[derive(Clone, Copy, Debug)]
struct Kept {
    /// Bytes that a base gives back that begins now.
    freed: u64,
    /// Bytes that the device may hold, or holds where that has no bound.
    may_hold: u64,
    /// Bytes of live records on it.
    live: u64,
    /// Bytes of the last base: the next one writes about as many.
    base: u64,
    /// All workers rest.
    rests: bool,
    /// What the last base took, and the time since it has ended.
    took_ns: u64,
    since_ns: u64,
}

impl Kept {
    fn is_too_much(self) -> bool {
        if self.freed <= RETAINED_BYTES_MIN {
            return false;
        }
        // A base beside clients that work is to give back more than it writes.
        let pays = self.rests || self.freed > self.base;
        let is_rare = self.since_ns / TIME_SHARE >= self.took_ns;
        self.freed > self.may_hold / 4 || pays && is_rare && self.freed > self.live / LIVE_SHARE
    }
}

/// Bytes on the device that only the last base needs, and no backup, if a base is to be begun for them: where the device is full,
/// where they are much of what it may hold, and, less often, where they are much beside what lives.
pub(crate) fn retained_too_much(instance: &Instance) -> Option<u64> {
    let tier = instance.keyspace.figures().tier()?;
    let freed = tier.retained_bytes.saturating_sub(tier.leased_bytes);
    if freed > 0 && instance.gauges.storage.state() == DeviceState::Full {
        return Some(freed);
    }
    let may_hold = match instance.config.snapshot().settings.storage.directory_bytes {
        0 => tier.device_bytes,
        most => most,
    };
    let rewrites = instance.persistence.rewrites.figures();
    let kept = Kept {
        freed,
        may_hold,
        live: tier.device_live_bytes,
        base: instance.persistence.log.base_bytes(),
        rests: instance.workers.rest.is_whole(),
        took_ns: rewrites.took_ns,
        since_ns: clock::monotonic_ns().saturating_sub(rewrites.ended_ns),
    };
    kept.is_too_much().then_some(freed)
}

/// Whether `storage-dir` is full, has room again when a backup is given up, and none by a base.
pub(crate) fn fills_storage(instance: &Instance) -> bool {
    let leased = instance.keyspace.figures().tier().map_or(0, |tier| tier.leased_bytes);
    leased > 0 && instance.gauges.storage.state() == DeviceState::Full && retained_too_much(instance).is_none()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_base_is_begun_for_space_that_is_much_or_worth_it() {
        const MIB: u64 = 1 << 20;
        let kept = Kept {
            freed: 100 * MIB,
            may_hold: 4096 * MIB,
            live: 1024 * MIB,
            base: 50 * MIB,
            rests: false,
            took_ns: 1_000_000,
            since_ns: 20_000_000,
        };
        assert!(kept.is_too_much(), "more than it writes");
        assert!(!Kept { base: 100 * MIB, ..kept }.is_too_much(), "it writes as much");
        let rests = Kept { base: 1000 * MIB, rests: true, ..kept };
        assert!(rests.is_too_much(), "no client needs the device");
        for begun in [kept, rests] {
            assert!(!Kept { since_ns: 19_999_999, ..begun }.is_too_much(), "not one behind the other");
            assert!(!Kept { live: 1600 * MIB, ..begun }.is_too_much(), "little beside what lives");
            assert!(!Kept { freed: 0, live: 0, ..begun }.is_too_much(), "nothing comes back");
            assert!(!Kept { freed: 16 * MIB, live: 0, ..begun }.is_too_much(), "it is not worth a base");
            assert!(Kept { freed: 17 * MIB, base: 0, live: 0, ..begun }.is_too_much(), "all is dead");
        }
        let busy = Kept { may_hold: 399 * MIB, base: 1000 * MIB, since_ns: 0, ..kept };
        assert!(busy.is_too_much(), "more than a quarter");
        assert!(!Kept { may_hold: 400 * MIB, ..busy }.is_too_much());
    }
}
