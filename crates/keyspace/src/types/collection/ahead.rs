//! Several elements of one object, ahead of their look-ups: what leads to them is fetched step by step, each step for all, so that
//! the misses overlap.

use almandine_base::object::{Object, PREFETCH_STEPS, PREFETCH_TO_WRITE};
use almandine_store::prefetch;

/// Elements that are fetched together: their lines stay in the first cache level until they are used.
pub(in crate::types) const TOGETHER: usize = 16;

/// The first step that differs from one element to the other.
const OWN_STEP: u32 = 2;

/// The elements of these hashes will be looked up, and perhaps changed.
pub(in crate::types) fn fetch_ahead(object: &dyn Object, hashes: &[u64], write: bool) {
    let [first, _, ..] = hashes else { return };
    (0..OWN_STEP).for_each(|step| object.prefetch(step, *first, &mut |line| prefetch(line)));
    let last = if write { PREFETCH_TO_WRITE + 1 } else { PREFETCH_STEPS };
    for step in OWN_STEP..last {
        hashes.iter().for_each(|hash| object.prefetch(step, *hash, &mut |line| prefetch(line)));
    }
}
