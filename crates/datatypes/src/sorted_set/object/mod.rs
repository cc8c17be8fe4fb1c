//! A large sorted set: what commands do with it, and what the store does.

mod build;
mod convert;
mod image;
mod iter;
mod order;
mod scan;

pub use build::Assembly;
pub use iter::{SortedSetBackwards, SortedSetIter};
pub use order::SortedSetOrder;

use almandine_base::object::{Damaged, ImageCursor, Kind, Missing, Object};

use super::{Scored, SortedSetEncoding, Update};
use crate::hashed::{Placement, bound};
use crate::tree::{ByBound, ByRank, FirstDue, Tree};

use super::chunk::index::IndexChunk;
use super::chunk::order::OrderChunk;
use super::edge::{ByEdge, Edge};

/// A sorted set of any number of members, each below 2 GiB. No score is NaN.
///
/// A member whose expiry has passed is there until [`Object::expire`] removes it: nothing here knows the time.
#[derive(Clone, Debug)]
pub struct SortedSetObject {
    pub(super) order: Tree<OrderChunk>,
    pub(super) index: Tree<IndexChunk>,
    pub(super) placement: Placement,
    pub(super) encoding: SortedSetEncoding,
    /// Parts of an image that were read.
    pub(super) parts: u32,
}

impl SortedSetObject {
    /// An empty sorted set.
    #[must_use]
    pub fn new(placement: Placement) -> Self {
        let encoding = SortedSetEncoding::SkipList;
        Self { order: Tree::default(), index: Tree::default(), placement, encoding, parts: 0 }
    }

    /// How many members there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.order.len() as usize
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    /// What OBJECT ENCODING names.
    #[must_use]
    pub fn encoding(&self) -> SortedSetEncoding {
        self.encoding
    }

    /// Lets OBJECT ENCODING name another encoding.
    pub fn set_encoding(&mut self, encoding: SortedSetEncoding) {
        self.encoding = encoding;
    }

    /// The hash of a member, for `prefetch`.
    #[must_use]
    pub fn hash(&self, member: &[u8]) -> u64 {
        self.placement.hash(member)
    }

    /// A member with its score.
    pub fn find(&self, member: &[u8]) -> Result<Option<Scored<'_>>, Missing> {
        Ok(self.locate(self.hash32(member), member)?.map(|located| located.entry))
    }

    /// How many members lie before a member, and the member with its score.
    pub fn rank(&self, member: &[u8]) -> Result<Option<(usize, Scored<'_>)>, Missing> {
        Ok(self.locate(self.hash32(member), member)?.map(|located| (located.before + located.index, located.entry)))
    }

    fn hash32(&self, member: &[u8]) -> u32 {
        bound(self.placement.hash(member))
    }

    /// Looks the hash's scores up, and then the member under each of them: of a score that another member of the same hash has, it
    /// is not there.
    fn locate(&self, hash: u32, member: &[u8]) -> Result<Option<Located<'_>>, Missing> {
        for score in self.index.leaf(&mut ByBound(hash))?.candidates(hash) {
            let mut route = ByEdge { edge: Edge::before_member(score, member), rank: 0 };
            let chunk = self.order.leaf(&mut route)?;
            if let Some((index, entry)) = chunk.find(score, member) {
                return Ok(Some(Located { entry, index, before: route.rank as usize }));
            }
        }
        Ok(None)
    }

    /// Gives a member a score, which is not NaN.
    pub fn set(&mut self, member: &[u8], score: f64) -> Result<Update, Missing> {
        debug_assert!(!score.is_nan(), "a score is a number");
        let hash = self.hash32(member);
        let located = self.locate(hash, member)?;
        let Some((before, due, index)) = located.map(|located| (located.entry.score, located.entry.due, located.index)) else {
            let new = Scored { member, score, due: None };
            self.order.update(&mut at(score, member), &(), |chunk| chunk.insert(&new))?;
            self.index.update(&mut ByBound(hash), &(), |chunk| chunk.insert(hash, score))?;
            return Ok(Update::Added);
        };
        if before == score {
            return Ok(Update::Same);
        }
        let new = Scored { member, score, due };
        if !self.order.update(&mut at(before, member), &(), |chunk| chunk.shift(index, &new))? {
            self.order.update(&mut at(score, member), &(), |chunk| chunk.insert(&new))?;
        }
        let changed = self.index.update(&mut ByBound(hash), &(), |chunk| chunk.exchange(hash, before, score))?;
        debug_assert!(changed, "INV-ZSET-1: each member has an entry in the index");
        Ok(Update::Changed)
    }

    /// Gives a member another expiry, or none. Says whether there is such a member.
    pub fn set_due(&mut self, member: &[u8], due: Option<u64>) -> Result<bool, Missing> {
        let (score, before) = match self.find(member)? {
            None => return Ok(false),
            Some(entry) => (entry.score, entry.due),
        };
        let new = Scored { member, score, due };
        Ok(before == due || self.order.update(&mut at(score, member), &(), |chunk| chunk.exchange(score, &new))?)
    }

    /// Removes a member, and gives its score. None if there is no such member. A sorted set without members is the caller's to
    /// remove.
    pub fn remove(&mut self, member: &[u8]) -> Result<Option<f64>, Missing> {
        let hash = self.hash32(member);
        let located = self.locate(hash, member)?.map(|located| (located.entry.score, located.index));
        let Some((score, index)) = located else { return Ok(None) };
        self.order.update(&mut at(score, member), &(), |chunk| chunk.remove_nth(index))?;
        self.forget(hash, score)?;
        Ok(Some(score))
    }

    /// Removes a member's entry in the index.
    fn forget(&mut self, hash: u32, score: f64) -> Result<(), Missing> {
        let gone = self.index.update(&mut ByBound(hash), &(), |chunk| chunk.remove(hash, score))?;
        debug_assert!(gone, "INV-ZSET-1: each member has an entry in the index");
        Ok(())
    }

    /// Removes the member of a rank, and tells it to `taken`. Says whether there was one.
    pub fn remove_nth(&mut self, rank: usize, taken: &mut dyn FnMut(Scored<'_>)) -> Result<bool, Missing> {
        let Some(entry) = self.order().nth(rank)? else { return Ok(false) };
        let (hash, score) = (self.hash32(entry.member), entry.score);
        taken(entry);
        let mut route = ByRank(rank as u64);
        self.order.leaf(&mut route)?;
        let index = route.0 as usize;
        self.order.update(&mut ByRank(rank as u64), &(), |chunk| chunk.remove_nth(index))?;
        self.forget(hash, score)?;
        Ok(true)
    }

    /// Removes `count` members from a rank on, or all from there, and tells each to `taken`. Says how many there were.
    ///
    /// # Errors
    /// [`Missing`]: a chunk is not in memory; what was told is gone.
    pub fn remove_range(&mut self, rank: usize, count: usize, taken: &mut dyn FnMut(Scored<'_>)) -> Result<usize, Missing> {
        let (mut gone, mut left) = (Vec::new(), count.min(self.len().saturating_sub(rank)));
        let removed = left;
        while left > 0 {
            let mut route = ByRank(rank as u64);
            let chunk = self.order.leaf(&mut route)?;
            let from = route.0 as usize;
            let step = left.min(chunk.len() - from);
            for entry in chunk.iter_from(from).take(step) {
                gone.push((self.hash32(entry.member), entry.score));
                taken(entry);
            }
            self.order.update(&mut ByRank(rank as u64), &(), |chunk| chunk.remove_many(from, step))?;
            gone.drain(..).try_for_each(|(hash, score)| self.forget(hash, score))?;
            left -= step;
        }
        Ok(removed)
    }

    /// The members in their order.
    #[must_use]
    pub fn order(&self) -> SortedSetOrder<'_> {
        SortedSetOrder(&self.order)
    }

    /// Panics unless all is sound. Takes time in proportion to the size. For tests.
    pub fn check(&self) {
        self.order.check(&());
        self.index.check(&());
        assert_eq!(self.order.len(), self.index.len(), "INV-ZSET-1: order and index have the same members");
        for (rank, entry) in self.order().iter().enumerate() {
            let entry = entry.expect("all is in memory");
            let found = self.rank(entry.member).expect("all is in memory");
            assert_eq!(found, Some((rank, entry)), "INV-ZSET-1: each member has an entry in the index");
        }
    }
}

/// A member with its place: in its chunk, and how many members lie before that.
struct Located<'s> {
    entry: Scored<'s>,
    index: usize,
    before: usize,
}

/// To the chunk of a member.
fn at(score: f64, member: &[u8]) -> ByEdge<'_> {
    ByEdge { edge: Edge::before_member(score, member), rank: 0 }
}

impl Object for SortedSetObject {
    fn kind(&self) -> Kind {
        Kind::SortedSet
    }

    fn elements(&self) -> usize {
        self.len()
    }

    fn memory(&self) -> usize {
        size_of::<Self>() + self.order.memory() + self.index.memory()
    }

    fn snapshot(&self) -> Box<dyn Object> {
        Box::new(self.clone())
    }

    fn write_part(&self, cursor: ImageCursor, limit: usize, out: &mut Vec<u8>) -> Result<Option<ImageCursor>, Missing> {
        image::write_part(self, cursor, limit, out)
    }

    fn read_part(&mut self, part: &[u8]) -> Result<bool, Damaged> {
        image::read_part(self, part)
    }

    fn next_due(&self) -> Option<u64> {
        self.order.next_due()
    }

    fn expire(&mut self, now: u64, limit: usize, removed: &mut dyn FnMut(&[u8])) -> Result<usize, Missing> {
        let mut count = 0;
        while count < limit && self.next_due().is_some_and(|due| due <= now) {
            let (placement, mut gone) = (self.placement, Vec::new());
            self.order.update(&mut FirstDue(now), &(), |chunk| {
                chunk.expire(now, limit - count, &mut |entry| {
                    removed(entry.member);
                    gone.push((bound(placement.hash(entry.member)), entry.score));
                })
            })?;
            debug_assert!(!gone.is_empty(), "INV-TREE-1: where nodes say that something is due, something is");
            if gone.is_empty() {
                break;
            }
            count += gone.len();
            gone.into_iter().try_for_each(|(hash, score)| self.forget(hash, score))?;
        }
        Ok(count)
    }

    fn drop_step(&mut self, limit: usize) -> bool {
        // One of the two in each step; an empty tree is freed at once.
        if self.index.is_empty() { self.order.release(limit) } else { self.index.release(limit) && self.order.release(limit) }
    }

    fn prefetch(&self, step: u32, hash: u64, fetch: &mut dyn FnMut(*const u8)) {
        if step < 2 {
            // The root is the same whichever member it is.
            self.order.prefetch(step, &mut ByRank(0), fetch);
        }
        let Some(chunk) = self.index.prefetch(step, &mut ByBound(bound(hash)), fetch) else { return };
        if step == 3 {
            chunk.prefetch(fetch);
        } else if let Some(score) = chunk.candidates(bound(hash)).next()
            && let Ok(chunk) = self.order.leaf(&mut ByEdge { edge: Edge::before_score(score), rank: 0 })
        {
            // Most scores are those of one member, or of few.
            chunk.prefetch(fetch);
        }
    }
}
