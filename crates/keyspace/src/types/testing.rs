//! What the tests of all types need: a keyspace, in memory or on a device, and batches that wait for the device.

use super::collection::EditBytes;
use crate::{Accessor, Keyspace, Missing, Options, Refusal};
use almandine_device::{Device, MemoryDevice};
use almandine_store::{Fetcher, Stage, Storage};
use std::fmt::Debug;
use std::sync::Arc;

/// An empty keyspace, with a device below it if `storage` says so.
pub(crate) fn keyspace(storage: bool) -> Arc<Keyspace> {
    keyspace_on(storage.then(|| Arc::new(MemoryDevice::new()) as Arc<dyn Device>))
}

/// An empty keyspace above a device for pages, if there is one.
pub(crate) fn keyspace_on(pages: Option<Arc<dyn Device>>) -> Arc<Keyspace> {
    let storage = pages.map(|pages| Storage { pages, values: Arc::new(MemoryDevice::new()), ciphers: Arc::default() });
    let store = almandine_store::Options { memory_bytes_max: 1 << 28, storage, ..Default::default() };
    Keyspace::open(Options { maxmemory: 64 << 20, store, ..Options::default() }).expect("a keyspace")
}

/// Does something in a batch of its own, again with what it needed from the device until it has that.
pub(crate) fn batch_at<R>(accessor: &mut Accessor, now_ms: i64, mut work: impl FnMut(&mut Accessor) -> Result<R, Refusal>) -> R {
    let (mut stage, mut fetcher) = (Stage::default(), Fetcher::default());
    for _ in 0..100 {
        accessor.begin_batch(now_ms);
        accessor.attach(stage);
        let result = work(accessor);
        stage = accessor.detach();
        accessor.end_batch();
        match result {
            Ok(result) => return result,
            Err(Refusal::Missing(Missing::Cold)) => {
                let cold = accessor.session.cold();
                cold.stage_blocking(&mut cold.take_wanted(), &mut stage, &mut fetcher);
            }
            Err(refusal) => panic!("{refusal:?}"),
        }
    }
    panic!("never at hand");
}

/// As [`batch_at`], at time 0.
pub(crate) fn batch<R>(accessor: &mut Accessor, work: impl FnMut(&mut Accessor) -> Result<R, Refusal>) -> R {
    batch_at(accessor, 0, work)
}

/// Edits are read as they were written, and bytes that are cut off end with the last whole one.
pub(crate) fn assert_edits_come_back<'e, E: EditBytes<'e> + Copy + PartialEq + Debug>(all: &[E]) {
    let mut edits = Vec::new();
    all.iter().for_each(|edit| edit.push(&mut edits));
    let edits: &'static [u8] = edits.leak();
    let mut bytes = edits;
    assert_eq!(std::iter::from_fn(|| E::take(&mut bytes)).collect::<Vec<_>>(), all);
    for len in 0..edits.len() {
        let mut bytes = &edits[..len];
        assert!(std::iter::from_fn(|| E::take(&mut bytes)).count() < all.len());
    }
}
