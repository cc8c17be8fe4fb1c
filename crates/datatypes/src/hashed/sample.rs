//! HRANDFIELD and SRANDMEMBER: elements at random, each as likely as any other.

use almandine_base::object::Missing;

use super::object::{HashedObject, HashedType};

/// From this part of all elements on, a sample goes through all of them.
const WALK_FROM: usize = 4;

impl<S: HashedType> HashedObject<S> {
    /// Visits `count` different elements at random, or all if they are fewer. `random` gives 64 random bits.
    ///
    /// # Errors
    /// [`Missing`]: a chunk is not in memory; what was visited is no random sample.
    pub fn sample(&self, count: usize, random: &mut dyn FnMut() -> u64, visit: &mut dyn FnMut(S::Item<'_>)) -> Result<(), Missing> {
        if count >= self.len() / WALK_FROM {
            return self.sample_walking(count, random, visit);
        }
        for rank in ranks(count, self.len(), random) {
            self.nth(rank)?.into_iter().for_each(&mut *visit);
        }
        Ok(())
    }

    /// Takes each element with the chance that as many as are wanted come from those that are left (selection sampling).
    fn sample_walking(
        &self,
        count: usize,
        random: &mut dyn FnMut() -> u64,
        visit: &mut dyn FnMut(S::Item<'_>),
    ) -> Result<(), Missing> {
        let (mut wanted, mut left) = (count.min(self.len()), self.len());
        for entry in self.iter_from(0) {
            if wanted == 0 {
                break;
            }
            if wanted == left || below(random(), left) < wanted {
                visit(entry?);
                wanted -= 1;
            }
            left -= 1;
        }
        Ok(())
    }
}

/// `count` different numbers below `n` in their order, at most a part of all.
pub(crate) fn ranks(count: usize, n: usize, random: &mut dyn FnMut() -> u64) -> Vec<usize> {
    debug_assert!(count < n || count == 0, "there are as many numbers");
    let mut ranks = Vec::with_capacity(count);
    while ranks.len() < count {
        ranks.extend((ranks.len()..count).map(|_| below(random(), n)));
        ranks.sort_unstable();
        ranks.dedup();
    }
    ranks
}

/// A number below `n`, which 64 random bits choose; 0 if there is none.
pub(crate) fn below(bits: u64, n: usize) -> usize {
    ((u128::from(bits) * n as u128) >> 64) as usize
}
