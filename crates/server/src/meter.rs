//! How far a file is that is being written.

use almandine_instance::SaveMeter;
use almandine_recovery::save::SaveProgress;

/// How far a snapshot or a base is, for INFO, and its end before it is done.
#[derive(Default)]
pub(crate) struct Meter(pub(crate) SaveProgress);

impl SaveMeter for Meter {
    fn keys(&self) -> u64 {
        self.0.keys()
    }

    #[expect(clippy::cast_precision_loss, reason = "two decimals are shown")]
    fn share(&self) -> f64 {
        self.0.millionths() as f64 / 1e6
    }

    fn saved_bytes(&self) -> (u64, u64) {
        self.0.saved_bytes()
    }

    fn cancel(&self) {
        self.0.cancel();
    }
}
