//! HSCAN and SSCAN: through the elements in the order of their hashes, some at a time.

use almandine_base::object::Missing;

use crate::tree::ByBound;

use super::object::{HashedObject, HashedType};

impl<S: HashedType> HashedObject<S> {
    /// Visits about `count` elements, whole chunks of them, from `cursor` on, and returns the cursor to go on with; 0 begins, and 0
    /// is returned at the end. Any number is a cursor.
    ///
    /// An element that is there from the first call to the last is visited at least once, whatever else comes and goes: a call
    /// visits all elements whose hashes lie between its cursor and the next one, and hashes stay.
    ///
    /// # Errors
    /// [`Missing`]: a chunk is not in memory; what was visited will be visited again.
    pub fn scan(&self, cursor: u64, count: usize, visit: &mut dyn FnMut(S::Item<'_>)) -> Result<u64, Missing> {
        let Ok(low) = u32::try_from(cursor) else { return Ok(0) };
        let mut leaves = self.tree.leaves(&mut ByBound(low));
        let mut left = count.max(1);
        while left > 0 {
            let Some(chunk) = leaves.next() else { return Ok(0) };
            let chunk = chunk?;
            chunk.iter().for_each(|entry| visit(S::item(entry)));
            left = left.saturating_sub(chunk.len());
        }
        Ok(leaves.bound().map_or(0, |bound| u64::from(*bound)))
    }
}
