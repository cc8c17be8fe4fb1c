//! Space of `storage-dir` that only the last base or a backup needs: how much of it is too much.

use almandine_device::watched::DeviceState;
use almandine_instance::Instance;

/// As much of the device may be kept for a base, however little that holds.
const RETAINED_BYTES_MIN: u64 = 16 << 20;

/// Bytes on the device that only the last base needs, and no backup, if they are more than a quarter of what it may hold, or holds,
/// or it is full.
pub(crate) fn retained_too_much(instance: &Instance) -> Option<u64> {
    let tier = instance.keyspace.figures().tier()?;
    let retained_bytes = tier.retained_bytes.saturating_sub(tier.leased_bytes);
    if retained_bytes > 0 && instance.gauges.storage.state() == DeviceState::Full {
        return Some(retained_bytes);
    }
    let may_hold = match instance.config.snapshot().settings.storage.directory_bytes {
        0 => tier.device_bytes,
        most => most,
    };
    (retained_bytes > RETAINED_BYTES_MIN && retained_bytes > may_hold / 4).then_some(retained_bytes)
}

/// Whether `storage-dir` is full, has room again when a backup is given up, and none by a base.
pub(crate) fn fills_storage(instance: &Instance) -> bool {
    let leased = instance.keyspace.figures().tier().map_or(0, |tier| tier.leased_bytes);
    leased > 0 && instance.gauges.storage.state() == DeviceState::Full && retained_too_much(instance).is_none()
}
