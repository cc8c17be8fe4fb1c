//! HSCAN and SSCAN: through the elements in the order of their hashes, some at a time.

use almandine_base::object::Missing;

use crate::packed::FieldEntry;
use crate::packed::entry::EntryShape;
use crate::tree::ByBound;

use super::elements::Elements;

impl<S: EntryShape> Elements<S> {
    /// Visits about `count` elements, whole chunks of them, from `cursor` on, and returns the cursor to go on with; 0 begins, and 0
    /// is returned at the end. Any number is a cursor.
    ///
    /// An element that is there from the first call to the last is visited at least once, whatever else comes and goes: a call
    /// visits all elements whose hashes lie between its cursor and the next one, and hashes stay.
    pub(crate) fn scan(&self, cursor: u64, count: usize, visit: &mut dyn FnMut(FieldEntry<'_>)) -> Result<u64, Missing> {
        let Ok(low) = u32::try_from(cursor) else { return Ok(0) };
        let mut leaves = self.tree.leaves(&mut ByBound(low));
        let mut left = count.max(1);
        while left > 0 {
            let Some(chunk) = leaves.next() else { return Ok(0) };
            let chunk = chunk?;
            chunk.iter().for_each(&mut *visit);
            left = left.saturating_sub(chunk.len());
        }
        Ok(leaves.bound().map_or(0, |bound| u64::from(*bound)))
    }
}
