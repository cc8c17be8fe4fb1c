//! The members of a large sorted set by their ranks.

use almandine_base::object::Missing;

use crate::hashed::{below, ranks};
use crate::sorted_set::Scored;
use crate::sorted_set::chunk::order::OrderChunk;
use crate::sorted_set::edge::{ByEdge, Edge};
use crate::tree::{ByRank, Tree};

use super::{SortedSetBackwards, SortedSetIter};

/// From this part of all members on, a sample goes through all of them.
const WALK_FROM: usize = 4;

/// The members, ascending by score and then by bytes. A rank counts the members before one.
#[derive(Clone, Copy, Debug)]
pub struct SortedSetOrder<'a>(pub(super) &'a Tree<OrderChunk>);

impl<'a> SortedSetOrder<'a> {
    fn len(self) -> usize {
        self.0.len() as usize
    }

    /// The ranks of the members that are due at `now`, ascending.
    #[must_use]
    pub fn due_ranks(self, now: u64) -> Vec<usize> {
        let mut ranks = Vec::new();
        self.0.visit_due(now, &mut |before, chunk| {
            let due = chunk.iter().enumerate().filter(|(_, entry)| entry.due.is_some_and(|due| due <= now));
            ranks.extend(due.map(|(index, _)| before as usize + index));
        });
        ranks
    }

    /// How many members lie below an edge: all that ranges by score and by member need.
    pub fn rank_of(self, edge: &Edge<'_>) -> Result<usize, Missing> {
        let mut route = ByEdge { edge: *edge, rank: 0 };
        let chunk = self.0.leaf(&mut route)?;
        Ok(route.rank as usize + chunk.below(edge))
    }

    /// The member of a rank, from 0 on.
    pub fn nth(self, rank: usize) -> Result<Option<Scored<'a>>, Missing> {
        if rank >= self.len() {
            return Ok(None);
        }
        let mut route = ByRank(rank as u64);
        let chunk = self.0.leaf(&mut route)?;
        Ok(chunk.nth(route.0 as usize))
    }

    /// All members, ascending.
    #[must_use]
    pub fn iter(self) -> SortedSetIter<'a> {
        self.iter_from(0)
    }

    /// Members from a rank on, ascending.
    #[must_use]
    pub fn iter_from(self, rank: usize) -> SortedSetIter<'a> {
        SortedSetIter::new(self.0, rank)
    }

    /// The `count` lowest members, descending.
    #[must_use]
    pub fn iter_back(self, count: usize) -> SortedSetBackwards<'a> {
        SortedSetBackwards::new(self.0, count)
    }

    /// Visits `count` different members at random, or all if they are fewer. `random` gives 64 random bits.
    ///
    /// # Errors
    /// [`Missing`]: a chunk is not in memory; the members that were visited are no random sample.
    pub fn sample(self, count: usize, random: &mut dyn FnMut() -> u64, visit: &mut dyn FnMut(Scored<'_>)) -> Result<(), Missing> {
        if count < self.len() / WALK_FROM {
            for rank in ranks(count, self.len(), random) {
                self.nth(rank)?.into_iter().for_each(&mut *visit);
            }
            return Ok(());
        }
        let (mut wanted, mut left) = (count.min(self.len()), self.len());
        for entry in self.iter() {
            if wanted == left || below(random(), left) < wanted {
                visit(entry?);
                wanted -= 1;
            }
            left -= 1;
        }
        Ok(())
    }
}
