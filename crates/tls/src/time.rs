//! The clock by which certificates are valid.

use std::time::Duration;

use almandine_io::clock;
use rustls::pki_types::UnixTime;
use rustls::time_provider::TimeProvider;

/// The time by which certificates are valid.
#[derive(Debug)]
pub(crate) struct WallClock;

impl TimeProvider for WallClock {
    fn current_time(&self) -> Option<UnixTime> {
        let now_ms = u64::try_from(clock::unix_ms()).ok()?;
        Some(UnixTime::since_unix_epoch(Duration::from_millis(now_ms)))
    }
}
