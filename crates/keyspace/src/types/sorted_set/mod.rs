//! Sorted sets: a key read and changed as one.
//!
//! A member past its time is absent here, whether or not it has been removed: it has no rank, and others do not count it.

mod edits;
mod members;
mod new;
#[cfg(test)]
mod tests;
mod write;

pub use members::Members;

pub use almandine_datatypes::sorted_set::{Edge, LexRange, ScoreRange};
pub use almandine_datatypes::sorted_set::{Scored, SortedSetEncoding, SortedSetLimits, Update};

use std::ops::Range;

use almandine_base::object::{self, Object};
use almandine_datatypes::hash::Placement;
use almandine_datatypes::packed::Due;
use almandine_datatypes::sorted_set::{PackedSortedSet, SortedSetObject};
use almandine_store::Kind;

use self::edits::SortedSetEdit;
use super::collection::{Collection, Contents, New, Snapshot, ValueMut, sample, visit_while};
use crate::Refusal;

/// Members that are looked at under the latch, at most.
const IN_PLACE_MAX: usize = 512;

/// The type of sorted sets.
pub struct SortedSets;

/// A sorted set that no key has yet.
pub type NewSortedSet = New<SortedSets>;

/// A large sorted set as it was at one time.
pub type SortedSetSnapshot = Snapshot<SortedSets>;

/// A sorted set to be changed, under its latch.
pub type SortedSetMut<'w> = ValueMut<'w, SortedSets>;

impl Collection for SortedSets {
    const KIND: Kind = Kind::SortedSet;
    type Object = SortedSetObject;
    type Packed<'p> = PackedSortedSet<'p>;
    type View<'v> = SortedSet<'v>;
    type Limits = SortedSetLimits;
    type Edit<'e> = SortedSetEdit<'e>;

    const UNLIMITED: SortedSetLimits = SortedSetLimits { entries: usize::MAX, value: usize::MAX };

    fn packed(bytes: &[u8]) -> PackedSortedSet<'_> {
        PackedSortedSet::new(bytes)
    }

    fn packed_len(packed: PackedSortedSet<'_>) -> usize {
        packed.len()
    }

    fn unpack(packed: PackedSortedSet<'_>, placement: Placement) -> SortedSetObject {
        SortedSetObject::from_packed(&packed, placement)
    }

    fn pack(object: &SortedSetObject, out: &mut Vec<u8>) -> Result<bool, object::Missing> {
        object.pack(out)
    }

    #[inline]
    fn view(contents: Contents<'_, Self>, now: u64) -> SortedSet<'_> {
        SortedSet::new(contents, now)
    }

    fn len(contents: Contents<'_, Self>, now: u64) -> usize {
        SortedSet::new(contents, now).len()
    }

    fn replay(set: &mut SortedSetMut<'_>, edit: SortedSetEdit<'_>) -> Result<(), Refusal> {
        match edit {
            SortedSetEdit::Set { member, score } => drop(set.set_stored(member, score, Due::Keep)?),
            SortedSetEdit::SetDue { member, due } => drop(set.set_due(member, due)?),
            SortedSetEdit::Remove { member } => drop(set.remove(member)?),
            SortedSetEdit::SetEncoding(encoding) => write::set_encoding(&mut set.draft, encoding)?,
        }
        Ok(())
    }

    fn is_expired(contents: Contents<'_, Self>, now: u64) -> bool {
        next_due(contents).is_some_and(|due| due <= now) && SortedSet::new(contents, now).is_empty()
    }
}

fn next_due(contents: Contents<'_, SortedSets>) -> Option<u64> {
    match contents {
        Contents::Packed(packed) => packed.next_due(),
        Contents::Object(object) => object.next_due(),
    }
}

fn is_live(entry: &Scored<'_>, now: u64) -> bool {
    entry.due.is_none_or(|due| due > now)
}

/// A sorted set to be read. Ranks are from 0 on, ascending by score and then by the bytes of members.
pub struct SortedSet<'s> {
    contents: Contents<'s, SortedSets>,
    now: u64,
    /// Where members are that are past their time, ascending: seldom any.
    gone: Vec<usize>,
}

impl<'s> SortedSet<'s> {
    #[inline]
    fn new(contents: Contents<'s, SortedSets>, now: u64) -> Self {
        let gone = if next_due(contents).is_some_and(|due| due <= now) { due_ranks(contents, now) } else { Vec::new() };
        Self { contents, now, gone }
    }

    /// How many members there are.
    #[must_use]
    #[inline]
    pub fn len(&self) -> usize {
        self.raw_len() - self.gone.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many members there are, those past their time and not yet removed included.
    #[must_use]
    #[inline]
    pub fn raw_len(&self) -> usize {
        self.contents.elements()
    }

    /// Whether it is so large that a reply with all of it should be made from a snapshot ([`SortedSetSnapshot`]).
    #[must_use]
    pub fn is_large(&self) -> bool {
        self.contents.is_large()
    }

    /// Whether a look at `count` members in a row takes long enough that it should be one at a snapshot
    /// ([`crate::Reader::read_whole_as`]).
    #[must_use]
    pub fn is_long(&self, count: usize) -> bool {
        count > IN_PLACE_MAX && matches!(self.contents, Contents::Object(_))
    }

    /// About how many bytes `count` members take.
    #[must_use]
    pub fn bytes_of(&self, count: usize) -> usize {
        match self.contents {
            Contents::Packed(_) => 0,
            Contents::Object(object) => object.memory() / object.len().max(1) * count,
        }
    }

    /// What OBJECT ENCODING names.
    #[must_use]
    pub fn encoding(&self) -> SortedSetEncoding {
        match self.contents {
            Contents::Packed(packed) => packed.encoding(),
            Contents::Object(object) => object.encoding(),
        }
    }

    /// When the first of its members expires, in milliseconds since the Unix epoch.
    #[must_use]
    pub fn next_due(&self) -> Option<u64> {
        next_due(self.contents)
    }

    /// A member with its score.
    ///
    /// # Errors
    /// When it is not in memory.
    #[inline]
    pub fn find(&self, member: &[u8]) -> Result<Option<Scored<'s>>, Refusal> {
        let found = match self.contents {
            Contents::Packed(packed) => packed.find(member),
            Contents::Object(object) => object.find(member)?,
        };
        Ok(found.filter(|entry| is_live(entry, self.now)))
    }

    /// A member's score.
    ///
    /// # Errors
    /// When it is not in memory.
    pub fn score(&self, member: &[u8]) -> Result<Option<f64>, Refusal> {
        Ok(self.find(member)?.map(|entry| entry.score))
    }

    /// How many members lie before a member, and the member with its score.
    ///
    /// # Errors
    /// When it is not in memory.
    pub fn rank(&self, member: &[u8]) -> Result<Option<(usize, Scored<'s>)>, Refusal> {
        let found = match self.contents {
            Contents::Packed(packed) => packed.iter().enumerate().find(|(_, entry)| entry.member == member),
            Contents::Object(object) => object.rank(member)?,
        };
        let found = found.filter(|(_, entry)| is_live(entry, self.now));
        Ok(found.map(|(raw, entry)| (self.live_rank(raw), entry)))
    }

    /// How many members lie below an edge.
    ///
    /// # Errors
    /// When a part of the sorted set is not in memory.
    pub fn rank_of(&self, edge: &Edge<'_>) -> Result<usize, Refusal> {
        let raw = match self.contents {
            Contents::Packed(packed) => packed.iter().take_while(|entry| edge.is_above_member(entry)).count(),
            Contents::Object(object) => object.order().rank_of(edge)?,
        };
        Ok(self.live_rank(raw))
    }

    /// The ranks of the members with scores in a range.
    ///
    /// # Errors
    /// When a part of the sorted set is not in memory.
    pub fn by_score(&self, range: &ScoreRange) -> Result<Range<usize>, Refusal> {
        let start = self.rank_of(&range.lower())?;
        Ok(start..self.rank_of(&range.upper())?.max(start))
    }

    /// The ranks of the members in a range of bytes. Where members have different scores, none is promised; `backwards` matters
    /// then.
    ///
    /// # Errors
    /// When a part of the sorted set is not in memory.
    pub fn by_lex(&self, range: &LexRange<'_>, backwards: bool) -> Result<Range<usize>, Refusal> {
        match self.contents {
            Contents::Packed(packed) => {
                let live = |entry: &Scored<'_>| is_live(entry, self.now);
                Ok(if backwards {
                    let places = range.places(packed.iter_back().filter(live).map(|entry| entry.member), true);
                    self.len() - places.end..self.len() - places.start
                } else {
                    range.places(packed.iter().filter(live).map(|entry| entry.member), false)
                })
            }
            Contents::Object(object) => {
                let Some(first) = object.order().nth(0)?.filter(|_| !range.is_empty()) else { return Ok(0..0) };
                let rank = |edge: Option<Edge<'_>>| edge.map(|edge| self.rank_of(&edge)).transpose();
                let start = rank(range.lower(first.score))?.unwrap_or(0);
                Ok(start..rank(range.upper(first.score))?.unwrap_or(self.len()).max(start))
            }
        }
    }

    /// The member of a rank.
    ///
    /// # Errors
    /// When it is not in memory.
    pub fn nth(&self, rank: usize) -> Result<Option<Scored<'s>>, Refusal> {
        match self.contents {
            Contents::Packed(packed) => Ok(packed.nth(self.raw_rank(rank))),
            Contents::Object(object) => Ok(object.order().nth(self.raw_rank(rank))?),
        }
    }

    /// The members of these ranks, ascending.
    #[must_use]
    pub fn range(&self, ranks: Range<usize>) -> Members<'s> {
        Members::forwards(self.contents, self.raw_rank(ranks.start), ranks.len(), self.now)
    }

    /// The members of these ranks, descending.
    #[must_use]
    pub fn range_back(&self, ranks: Range<usize>) -> Members<'s> {
        let after = ranks.end.checked_sub(1).map_or(0, |last| self.raw_rank(last).saturating_add(1));
        Members::backwards(self.contents, after.min(self.raw_len()), ranks.len(), self.now)
    }

    /// All members, ascending.
    #[must_use]
    pub fn iter(&self) -> Members<'s> {
        self.range(0..self.len())
    }

    /// Visits `count` different members at random, or all if they are fewer. `random` gives 64 random bits.
    ///
    /// # Errors
    /// When a part of the sorted set is not in memory; what was visited is no sample then.
    pub fn sample(&self, count: usize, random: &mut dyn FnMut() -> u64, visit: &mut dyn FnMut(Scored<'_>)) -> Result<(), Refusal> {
        if let Contents::Object(object) = self.contents
            && self.gone.is_empty()
        {
            return Ok(object.order().sample(count, random, visit)?);
        }
        sample(self.iter(), self.len(), count, random, visit)
    }

    /// Visits members from `cursor` on, about `count` of a large sorted set, and returns the cursor to go on with; 0 begins and
    /// ends.
    ///
    /// # Errors
    /// When a part of the sorted set is not in memory; what was visited is visited again.
    pub fn scan(&self, cursor: u64, count: usize, visit: &mut dyn FnMut(Scored<'_>)) -> Result<u64, Refusal> {
        let now = self.now;
        let mut visit = |entry: Scored<'_>| {
            if is_live(&entry, now) {
                visit(entry);
            }
        };
        match self.contents {
            Contents::Packed(packed) => {
                packed.iter().for_each(visit);
                Ok(0)
            }
            Contents::Object(object) => Ok(object.scan(cursor, count, &mut visit)?),
        }
    }

    /// The rank that a place among all members has, those past their time included.
    fn live_rank(&self, raw: usize) -> usize {
        raw - self.gone.partition_point(|gone| *gone < raw)
    }

    /// The place of the member of a rank.
    fn raw_rank(&self, rank: usize) -> usize {
        if self.gone.is_empty() {
            return rank;
        }
        // Before the member of index i in `gone` lie `gone[i] - i` others.
        let (mut low, mut high) = (0, self.gone.len());
        while low < high {
            let middle = low.midpoint(high);
            if self.gone[middle] - middle <= rank {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        rank.saturating_add(low)
    }
}

#[cold]
fn due_ranks(contents: Contents<'_, SortedSets>, now: u64) -> Vec<usize> {
    match contents {
        Contents::Packed(packed) => {
            packed.iter().enumerate().filter(|(_, entry)| !is_live(entry, now)).map(|(rank, _)| rank).collect()
        }
        Contents::Object(object) => object.order().due_ranks(now),
    }
}

impl SortedSetSnapshot {
    /// Visits the members of these ranks, descending if `backwards`, as long as `visit` says so. Returns the ranks that are left;
    /// None at the end.
    ///
    /// # Errors
    /// When a part of the sorted set is not in memory.
    pub fn visit(
        &self,
        ranks: Range<usize>,
        backwards: bool,
        visit: impl FnMut(Scored<'_>) -> bool,
    ) -> Result<Option<Range<usize>>, Refusal> {
        let Some(set) = self.view() else { return Ok(None) };
        let members = if backwards { set.range_back(ranks.clone()) } else { set.range(ranks.clone()) };
        let Some(seen) = visit_while(0, members, visit)? else { return Ok(None) };
        let left = if backwards { ranks.start..ranks.end - seen } else { ranks.start + seen..ranks.end };
        Ok(Some(left).filter(|left| !left.is_empty()))
    }
}
