//! Expiry of fields: removing what is due.

use almandine_base::object::Missing;

use crate::tree::FirstDue;

use super::object::HashObject;

/// See [`almandine_base::object::Object::expire`].
pub(super) fn expire(hash: &mut HashObject, now: u64, limit: usize, removed: &mut dyn FnMut(&[u8])) -> Result<usize, Missing> {
    let mut count = 0;
    while count < limit && hash.tree.next_due().is_some_and(|due| due <= now) {
        let gone = hash.tree.update(&mut FirstDue(now), &hash.placement, |chunk| chunk.expire(now, limit - count, removed))?;
        debug_assert!(gone > 0, "INV-TREE-1: where nodes say that something is due, something is");
        if gone == 0 {
            break;
        }
        count += gone;
    }
    Ok(count)
}
