//! Members of a sorted set in order, either way.

use almandine_datatypes::packed::iter::PackedIter;
use almandine_datatypes::sorted_set::{self, Scored, packed};

use super::{SortedSets, is_live};
use crate::Refusal;
use crate::types::collection::Contents;

/// Members in order. What is not in memory ends them with an error.
pub struct Members<'s> {
    walk: Walk<'s>,
    left: usize,
    now: u64,
}

enum Walk<'s> {
    Packed(PackedIter<'s, Scored<'s>>),
    PackedBack(packed::PackedSortedSetBackwards<'s>),
    Object(sorted_set::SortedSetIter<'s>),
    ObjectBack(sorted_set::SortedSetBackwards<'s>),
}

impl<'s> Members<'s> {
    /// At most `count` live members from the place `from` on.
    pub(super) fn forwards(contents: Contents<'s, SortedSets>, from: usize, count: usize, now: u64) -> Self {
        let walk = match contents {
            Contents::Packed(packed) => {
                let mut iter = packed.iter();
                if let Some(skipped) = from.checked_sub(1) {
                    iter.nth(skipped);
                }
                Walk::Packed(iter)
            }
            Contents::Object(object) => Walk::Object(object.order().iter_from(from)),
        };
        Self { walk, left: count, now }
    }

    /// At most `count` live members before the place `before`, from there down.
    pub(super) fn backwards(contents: Contents<'s, SortedSets>, before: usize, count: usize, now: u64) -> Self {
        let walk = match contents {
            Contents::Packed(packed) => {
                let mut iter = packed.iter_back();
                if let Some(skipped) = (packed.len() - before).checked_sub(1) {
                    iter.nth(skipped);
                }
                Walk::PackedBack(iter)
            }
            Contents::Object(object) => Walk::ObjectBack(object.order().iter_back(before)),
        };
        Self { walk, left: count, now }
    }
}

impl<'s> Iterator for Members<'s> {
    type Item = Result<Scored<'s>, Refusal>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.left == 0 {
            return None;
        }
        loop {
            let entry = match &mut self.walk {
                Walk::Packed(iter) => Ok(iter.next()?),
                Walk::PackedBack(iter) => Ok(iter.next()?),
                Walk::Object(iter) => iter.next()?,
                Walk::ObjectBack(iter) => iter.next()?,
            };
            match entry {
                Ok(entry) if !is_live(&entry, self.now) => {}
                Ok(entry) => {
                    self.left -= 1;
                    return Some(Ok(entry));
                }
                Err(missing) => {
                    self.left = 0;
                    return Some(Err(missing.into()));
                }
            }
        }
    }
}
