//! HRANDFIELD: fields at random, each as likely as any other.

use almandine_base::object::Missing;

use crate::packed::Entry;

use super::object::HashObject;

/// From this part of all fields on, a sample goes through all of them.
const WALK_FROM: usize = 4;

impl HashObject {
    /// One field at random. None if there is none.
    ///
    /// # Errors
    /// [`Missing`]: its chunk is not in memory.
    pub fn random(&self, bits: u64) -> Result<Option<Entry<'_>>, Missing> {
        self.nth(below(bits, self.len()))
    }

    /// Visits `count` different fields at random, or all if they are fewer. `random` gives 64 random bits.
    ///
    /// # Errors
    /// [`Missing`]: a chunk is not in memory; the fields that were visited are no random sample.
    pub fn sample(&self, count: usize, random: &mut dyn FnMut() -> u64, visit: &mut dyn FnMut(Entry<'_>)) -> Result<(), Missing> {
        if count >= self.len() / WALK_FROM {
            return self.sample_walking(count, random, visit);
        }
        let mut ranks = Vec::with_capacity(count);
        while ranks.len() < count {
            ranks.extend((ranks.len()..count).map(|_| below(random(), self.len())));
            ranks.sort_unstable();
            ranks.dedup();
        }
        for rank in ranks {
            self.nth(rank)?.into_iter().for_each(&mut *visit);
        }
        Ok(())
    }

    /// Takes each field with the chance that as many as are wanted come from those that are left (selection sampling).
    fn sample_walking(
        &self,
        count: usize,
        random: &mut dyn FnMut() -> u64,
        visit: &mut dyn FnMut(Entry<'_>),
    ) -> Result<(), Missing> {
        let (mut wanted, mut left) = (count.min(self.len()), self.len());
        for entry in self.iter() {
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

/// A number below `n`, which 64 random bits choose; 0 if there is none.
fn below(bits: u64, n: usize) -> usize {
    ((u128::from(bits) * n as u128) >> 64) as usize
}
