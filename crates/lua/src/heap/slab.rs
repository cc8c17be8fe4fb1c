//! Objects of one type, by index.
//!
//! Freed slots hold the type's default, so that a slot is an object at all times and needs no tag.

/// Objects whose memory is kept for the next region.
const SPARE: usize = 4096;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Free,
    Live,
    Marked,
}

/// Objects of one type with a mark each.
#[derive(Debug)]
pub(crate) struct Slab<T> {
    items: Vec<T>,
    states: Vec<State>,
    free: Vec<u32>,
    /// Objects below it were there when the region began; they are neither freed nor given out.
    watermark: usize,
}

impl<T: Default> Slab<T> {
    pub(crate) fn new() -> Self {
        Self { items: Vec::new(), states: Vec::new(), free: Vec::new(), watermark: 0 }
    }

    #[inline]
    pub(crate) fn insert(&mut self, item: T) -> usize {
        if let Some(index) = self.free.pop() {
            self.items[index as usize] = item;
            self.states[index as usize] = State::Live;
            return index as usize;
        }
        self.items.push(item);
        self.states.push(State::Live);
        self.items.len() - 1
    }

    /// Adds an object that is its type's default, in its place: what is made elsewhere would be copied from there.
    #[inline]
    pub(crate) fn insert_default(&mut self) -> usize {
        if let Some(index) = self.free.pop() {
            self.states[index as usize] = State::Live;
            return index as usize;
        }
        let index = self.items.len();
        self.items.resize_with(index + 1, T::default);
        self.states.push(State::Live);
        index
    }

    #[inline]
    pub(crate) fn get(&self, index: usize) -> &T {
        &self.items[index]
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, index: usize) -> &mut T {
        &mut self.items[index]
    }

    pub(crate) fn len(&self) -> usize {
        self.items.len()
    }

    pub(crate) fn watermark(&self) -> usize {
        self.watermark
    }

    /// Marks an object; true when it was not marked.
    pub(crate) fn mark(&mut self, index: usize) -> bool {
        std::mem::replace(&mut self.states[index], State::Marked) != State::Marked
    }

    /// What is below the watermark is always alive.
    pub(crate) fn is_alive(&self, index: usize) -> bool {
        self.states[index] == State::Marked || index < self.watermark
    }

    /// Objects of the region that have no mark, in ascending order.
    pub(crate) fn unmarked(&self) -> impl Iterator<Item = usize> + '_ {
        (self.watermark..self.items.len()).filter(|index| self.states[*index] == State::Live)
    }

    /// Frees every object of the region that has no mark, and takes the marks away.
    pub(crate) fn sweep(&mut self) {
        self.free.clear();
        for index in (self.watermark..self.items.len()).rev() {
            match self.states[index] {
                State::Marked => self.states[index] = State::Live,
                State::Live => {
                    self.items[index] = T::default();
                    self.states[index] = State::Free;
                    self.free.push(index as u32);
                }
                State::Free => self.free.push(index as u32),
            }
        }
        self.states[..self.watermark].fill(State::Live);
    }

    /// A region begins behind everything that there is.
    pub(crate) fn begin_region(&mut self) {
        self.watermark = self.items.len();
        self.states.fill(State::Live);
        self.free.clear();
    }

    /// Drops the objects of the region.
    #[inline]
    pub(crate) fn cut(&mut self) {
        // What was freed lies in the region, too.
        if self.items.len() > self.watermark {
            self.drop_region();
        }
    }

    fn drop_region(&mut self) {
        self.items.truncate(self.watermark);
        self.states.truncate(self.watermark);
        self.free.clear();
        // A run that has made much does not leave its memory to the next ones.
        let kept = self.watermark * 2 + SPARE;
        if self.items.capacity() > kept * 2 {
            self.items.shrink_to(kept);
            self.states.shrink_to(kept);
            self.free.shrink_to(SPARE);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_used_again_and_regions_are_cut() {
        let mut slab = Slab::new();
        assert_eq!((slab.insert(1), slab.insert(2)), (0, 1));
        slab.begin_region();
        assert_eq!((slab.insert(3), slab.insert(4)), (2, 3));
        assert!(slab.mark(3) && !slab.mark(3));
        slab.sweep();
        assert_eq!((*slab.get(0), *slab.get(2), *slab.get(3)), (1, 0, 4));
        assert_eq!(slab.insert(5), 2);
        slab.cut();
        assert_eq!((slab.len(), slab.insert(6)), (2, 2));
    }
}
