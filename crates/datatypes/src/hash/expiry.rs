//! Expiry of fields: the conditions of HEXPIRE, and removing what is due.

use almandine_base::object::Missing;

use crate::tree::FirstDue;

use super::object::HashObject;

/// The condition of HEXPIRE and its like.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Condition {
    /// None.
    #[default]
    Always,
    /// `NX`: the field has no expiry.
    IfNone,
    /// `XX`: the field has one.
    IfAny,
    /// `GT`: the new expiry is later. None is later than any.
    IfLater,
    /// `LT`: the new expiry is earlier. None is later than any.
    IfEarlier,
}

impl Condition {
    /// Whether a field with the expiry `before` may have `after`, both in milliseconds since 1970.
    #[must_use]
    pub fn allows(self, before: Option<u64>, after: u64) -> bool {
        match self {
            Self::Always => true,
            Self::IfNone => before.is_none(),
            Self::IfAny => before.is_some(),
            Self::IfLater => before.is_some_and(|before| after > before),
            Self::IfEarlier => before.is_none_or(|before| after < before),
        }
    }
}

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_are_those_of_redis() {
        use Condition::{Always, IfAny, IfEarlier, IfLater, IfNone};
        let allowed = |before, after| [Always, IfNone, IfAny, IfLater, IfEarlier].map(|condition| condition.allows(before, after));
        assert_eq!(allowed(None, 5), [true, true, false, false, true]);
        assert_eq!(allowed(Some(4), 5), [true, false, true, true, false]);
        assert_eq!(allowed(Some(5), 5), [true, false, true, false, false]);
        assert_eq!(allowed(Some(6), 5), [true, false, true, false, true]);
    }
}
