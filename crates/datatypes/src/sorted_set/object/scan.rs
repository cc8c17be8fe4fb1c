//! ZSCAN: through the members in the order of their hashes, some at a time.
//!
//! The index gives hashes and scores, the order the members: among those of a score, the ones with a hash that is looked for. Where
//! many members have the same score, all of them are gone through for each call, so a call then takes more members at once: as many
//! as pay for the way.

use std::collections::BTreeMap;

use almandine_base::object::Missing;

use crate::hashed::bound;
use crate::sorted_set::{Scored, score};
use crate::tree::ByBound;

use super::SortedSetObject;
use crate::sorted_set::edge::Edge;

/// Members that may be gone through for each one that is visited.
const WALK_MAX: usize = 256;

impl SortedSetObject {
    /// Visits about `count` members from `cursor` on, and returns the cursor to go on with; 0 begins, and 0 is returned at the end.
    /// Any number is a cursor. A member that is there from the first call to the last is visited at least once, whatever scores
    /// change.
    ///
    /// # Errors
    /// [`Missing`]: a chunk is not in memory; what was visited will be visited again.
    pub fn scan(&self, cursor: u64, count: usize, visit: &mut dyn FnMut(Scored<'_>)) -> Result<u64, Missing> {
        let Ok(low) = u32::try_from(cursor) else { return Ok(0) };
        let mut leaves = self.index.leaves(&mut ByBound(low));
        let (mut wanted, mut found, mut walk) = (BTreeMap::<u64, f64>::new(), 0, 0);
        for chunk in leaves.by_ref() {
            let chunk = chunk?;
            for (_, score) in chunk.iter() {
                if wanted.insert(score::key(score), score).is_none() {
                    walk += self.order().rank_of(&Edge::behind_score(score))? - self.order().rank_of(&Edge::before_score(score))?;
                }
            }
            found += chunk.len();
            if found >= count.max(1) && walk <= found * WALK_MAX {
                break;
            }
        }
        let high = leaves.bound().copied();
        for score in wanted.into_values() {
            self.visit_equal(score, (low, high), visit)?;
        }
        Ok(high.map_or(0, u64::from))
    }

    /// Visits the members of a score whose hashes lie in a range.
    fn visit_equal(&self, score: f64, (low, high): (u32, Option<u32>), visit: &mut dyn FnMut(Scored<'_>)) -> Result<(), Missing> {
        for entry in self.order().iter_from(self.order().rank_of(&Edge::before_score(score))?) {
            let entry = entry?;
            if entry.score != score {
                break;
            }
            let hash = bound(self.placement.hash(entry.member));
            if low <= hash && high.is_none_or(|high| hash < high) {
                visit(entry);
            }
        }
        Ok(())
    }
}
