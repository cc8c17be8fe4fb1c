//! How the devices fare: a line in the log when errors begin, and one when they have ended.

use std::sync::Arc;
use std::time::Duration;

use almandine_device::watched::{DeviceState, Health};
use almandine_instance::Instance;
use almandine_io::clock;

use super::streak::{News, QUIET, Streak};

/// Writes are tried again several times a second, so that none has failed for this long means that they succeed.
const WRITES_QUIET: Duration = Duration::from_secs(3);

/// What was told of the devices.
pub(crate) struct Watch {
    health: Arc<Health>,
    writes: Streak,
    reads: Streak,
    corrupt: Streak,
}

impl Watch {
    /// Watches the devices whose writes `health` knows.
    pub(super) fn new(health: Arc<Health>) -> Self {
        Self { health, writes: Streak::new(WRITES_QUIET), reads: Streak::default(), corrupt: Streak::default() }
    }

    /// Looks at the counters, and tells.
    pub(super) fn turn(&mut self, instance: &Instance) {
        let Some(tier) = instance.keyspace.figures().tier() else { return };
        let now_ns = clock::monotonic_ns();
        let refused = self.health.state() != DeviceState::Sound;
        match self.writes.next(self.health.write_errors(), refused, now_ns) {
            Some(News::Begins) => tracing::warn!(
                "Writes to the storage fail: {}. They are tried again; meanwhile data stays in memory, and when that is full, \
                 commands that write get -OOM",
                self.health.last_error()
            ),
            Some(News::Ends(errors)) => tracing::warn!("Writes to the storage succeed again, after {errors} errors"),
            Some(News::GoesOn) | None => {}
        }
        match self.reads.next(tier.read_errors, false, now_ns) {
            Some(News::Begins) => tracing::warn!(
                "Reads of the storage fail: commands that need what they would give get an error. Look at the device and at the \
                 system's log (dmesg)"
            ),
            Some(News::Ends(errors)) => tracing::warn!("No read of the storage has failed for {QUIET:?}, after {errors} errors"),
            Some(News::GoesOn) | None => {}
        }
        match self.corrupt.next(tier.corrupt_blocks, false, now_ns) {
            Some(News::Begins) => tracing::warn!(
                "The storage gave corrupt blocks: they are not what was written, and the keys in them are lost. Commands that \
                 need them get an error; overwriting and deleting them works. Check the device"
            ),
            Some(News::Ends(blocks)) => tracing::warn!("The storage gave no corrupt block for {QUIET:?}, after {blocks}"),
            Some(News::GoesOn) | None => {}
        }
    }
}
