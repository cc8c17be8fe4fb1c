//! Object storage below the directories, or instead of them: how it is put together, and how it fares.
//!
//! What is on its way to the objects is in memory beside `maxmemory`, and bounded: a sixteenth of it for pages, as much for large
//! values, and one object of large values that is being filled. Errors are told once for as long as they go on, not once each.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use almandine_config::Settings;
use almandine_config::choices::CommitTier;
use almandine_device::{Device, ObjectDevice, ObjectOptions, ObjectReport, Tier, TierOptions, TieredDevice};
use almandine_instance::Instance;
use almandine_io::clock;

use super::streak::{News, QUIET, Streak};
use super::{PAGE_BYTES, Part};

/// Large values are gathered to objects of this size: one upload for many of them, and few for a very large one.
const VALUES_OBJECT_BYTES: u64 = 8 << 20;
/// Bytes on their way from a directory to objects: a share of `maxmemory`, within bounds.
const BACKLOG_SHARE: u64 = 16;
const BACKLOG_BYTES_MIN: u64 = 4 << 20;
const BACKLOG_BYTES_MAX: u64 = 64 << 20;
/// Of what directories keep, pages and large values each get at least one part in this number.
const SHARE_MIN: u64 = 16;

/// What is built on object storage, to be looked at now and then.
#[derive(Default)]
pub(crate) struct Watch {
    built: Vec<Built>,
    directory_bytes: u64,
    streak: Streak,
}

struct Built {
    objects: Arc<ObjectDevice>,
    /// With directories above.
    tiers: Option<Arc<TieredDevice>>,
}

impl Watch {
    /// Puts `storage-object-url` below a device, or in its place if there is none.
    ///
    /// # Errors
    /// When the object storage does not answer, or holds something else.
    pub(crate) fn below(&mut self, upper: Option<Arc<dyn Device>>, settings: &Settings, part: Part) -> io::Result<Arc<dyn Device>> {
        let storage = &settings.storage;
        let address = format!("{}/{}", storage.object_url.trim_end_matches('/'), part.name());
        let options = match part {
            Part::Log => ObjectOptions { object_bytes: PAGE_BYTES, ..ObjectOptions::default() },
            Part::Values => ObjectOptions { object_bytes: VALUES_OBJECT_BYTES, gather: true, ..ObjectOptions::default() },
        };
        let objects = ObjectDevice::open(&address, &options.with_environment())
            .map_err(|error| io::Error::new(error.kind(), format!("storage-object-url: {error}")))?;
        let objects = Arc::new(objects);
        let Some(upper) = upper else {
            self.built.push(Built { objects: Arc::clone(&objects), tiers: None });
            return Ok(objects);
        };
        self.directory_bytes = storage.directory_bytes;
        let first = Tier::new(upper);
        let first = if storage.directory_bytes == 0 { first } else { first.with_capacity(storage.directory_bytes / 2) };
        let commit = match storage.commit_tier {
            CommitTier::Directory => 0,
            CommitTier::ObjectStore => 1,
        };
        let backlog_bytes = match settings.memory.maxmemory {
            0 => BACKLOG_BYTES_MAX,
            bytes => (bytes / BACKLOG_SHARE).clamp(BACKLOG_BYTES_MIN, BACKLOG_BYTES_MAX),
        };
        // Nothing outlives the server, so what is on its way when it ends need not arrive.
        let options = TierOptions { commit, backlog_bytes, finish: false, ..TierOptions::default() };
        let tiers = Arc::new(TieredDevice::new(vec![first, Tier::new(Arc::clone(&objects) as _)], options)?);
        self.built.push(Built { objects, tiers: Some(Arc::clone(&tiers)) });
        Ok(tiers)
    }

    /// Divides the directories' space, brings figures to the instance, and tells of errors.
    pub(crate) fn turn(&mut self, instance: &Instance) {
        if self.built.is_empty() {
            return;
        }
        self.divide();
        let (mut directory, mut backlog, mut bytes, mut sum) = (0, 0, 0, ObjectReport::default());
        for built in &self.built {
            if let Some([above, below]) = built.tiers.as_ref().map(|tiers| tiers.report()).as_deref() {
                directory += above.held_bytes;
                backlog += below.backlog_bytes;
            }
            bytes += built.objects.used_bytes();
            let report = built.objects.report();
            sum.read_errors += report.read_errors;
            sum.write_errors += report.write_errors;
            sum.delete_errors += report.delete_errors;
            sum.last_error = report.last_error.or(sum.last_error);
        }
        let gauges = &instance.gauges.objects;
        gauges.directory_bytes.store(directory, Relaxed);
        gauges.backlog_bytes.store(backlog, Relaxed);
        gauges.bytes.store(bytes, Relaxed);
        gauges.read_errors.store(sum.read_errors, Relaxed);
        gauges.write_errors.store(sum.write_errors, Relaxed);
        gauges.delete_errors.store(sum.delete_errors, Relaxed);
        let error = sum.last_error.unwrap_or_default();
        match self.streak.next(sum.read_errors + sum.write_errors + sum.delete_errors, false, clock::monotonic_ns()) {
            Some(News::Begins) => {
                gauges.set_last_error(&error);
                tracing::warn!("Object storage fails: {}", gauges.last_error());
            }
            Some(News::GoesOn) => gauges.set_last_error(&error),
            Some(News::Ends(errors)) => tracing::info!("No errors of object storage for {QUIET:?}, after {errors}"),
            None => {}
        }
    }

    /// Gives pages and large values parts of the directories' space as large as what they hold in all.
    fn divide(&self) {
        let total = self.directory_bytes;
        let tiers: Vec<&Arc<TieredDevice>> = self.built.iter().filter_map(|built| built.tiers.as_ref()).collect();
        let ([log, values], true) = (tiers.as_slice(), total > 0) else { return };
        let values_bytes = share(total, values.used_bytes(), log.used_bytes());
        values.set_capacity(0, values_bytes);
        log.set_capacity(0, total - values_bytes);
    }
}

/// The part of a total that is in proportion to `own`, but leaves something for both.
fn share(total: u64, own: u64, other: u64) -> u64 {
    let part = u128::from(total) * u128::from(own) / u128::from((own + other).max(1));
    u64::try_from(part).unwrap_or(total).clamp(total / SHARE_MIN, total - total / SHARE_MIN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn space_is_divided_as_the_data_is() {
        assert_eq!(share(1600, 0, 0), 100);
        assert_eq!(share(1600, 50, 50), 800);
        assert_eq!(share(1600, 1 << 50, 0), 1500);
        assert_eq!(share(1 << 62, 1 << 61, 1 << 61), 1 << 61);
    }
}
