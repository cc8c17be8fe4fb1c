//! Sorting in steps, for what would take too long at once: short runs first, then two neighbours at a time are merged.

use std::cmp::Ordering;

/// Elements of a run.
const RUN: usize = 512;

/// Elements on their way into order.
#[derive(Clone, Debug)]
pub(in crate::sorted_set) struct Sorter<T> {
    from: Vec<T>,
    /// What the present pass has merged.
    to: Vec<T>,
    /// Elements of what is in order; 0 while runs are sorted.
    width: usize,
    /// Where the pair begins that is merged, or the next run.
    at: usize,
    /// What of the pair's first half, and of its second half, is not merged yet.
    left: usize,
    right: usize,
}

impl<T: Copy> Sorter<T> {
    pub(in crate::sorted_set) fn new(elements: Vec<T>) -> Self {
        Self { from: elements, to: Vec::new(), width: 0, at: 0, left: 0, right: 0 }
    }

    /// Goes on by about `count` elements, each of which is prepared before it is compared. True: all are in order.
    pub(in crate::sorted_set) fn step(
        &mut self,
        count: usize,
        prepare: impl Fn(&mut T),
        compare: impl Fn(&T, &T) -> Ordering,
    ) -> bool {
        let len = self.from.len();
        if self.width == 0 && self.at == 0 && count >= len {
            self.from.iter_mut().for_each(prepare);
            self.from.sort_unstable_by(compare);
            self.width = len;
            return true;
        }
        if self.width == 0 {
            let end = self.at.saturating_add(RUN.max(count / RUN * RUN)).min(len);
            self.from[self.at..end].iter_mut().for_each(prepare);
            self.from[self.at..end].chunks_mut(RUN).for_each(|run| run.sort_unstable_by(&compare));
            self.at = end;
            if end < len {
                return false;
            }
            self.begin_pass(RUN);
        }
        for _ in 0..count {
            if self.width >= len {
                return true;
            }
            self.merge_one(&compare);
        }
        self.width >= len
    }

    fn begin_pass(&mut self, width: usize) {
        let len = self.from.len();
        self.to.clear();
        if width < len {
            self.to.reserve_exact(len);
        }
        (self.width, self.at, self.left, self.right) = (width, 0, 0, width.min(len));
    }

    /// Merges one element; behind the last one of a pass the next begins.
    fn merge_one(&mut self, compare: impl Fn(&T, &T) -> Ordering) {
        let len = self.from.len();
        let (left_end, right_end) = ((self.at + self.width).min(len), (self.at + 2 * self.width).min(len));
        let takes_left = match (self.left < left_end, self.right < right_end) {
            (true, true) => compare(&self.from[self.left], &self.from[self.right]) != Ordering::Greater,
            (takes_left, _) => takes_left,
        };
        let place = if takes_left { &mut self.left } else { &mut self.right };
        self.to.push(self.from[*place]);
        *place += 1;
        if self.to.len() < right_end {
            return;
        }
        if right_end == len {
            std::mem::swap(&mut self.from, &mut self.to);
            return self.begin_pass(2 * self.width);
        }
        (self.at, self.left, self.right) = (right_end, right_end, (right_end + self.width).min(len));
    }

    /// The elements: in order once a step has said so.
    pub(in crate::sorted_set) fn into_elements(self) -> Vec<T> {
        self.from
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_come_into_order_whatever_the_steps() {
        for (len, count) in [(0, 1), (1, 1), (511, 3), (512, 512), (513, 7), (5000, 1), (5000, 700), (20_000, 512)] {
            let elements: Vec<u32> = (0..len).map(|n: u32| n.wrapping_mul(2_654_435_761) % 3_000).collect();
            let mut expected = elements.clone();
            expected.sort_unstable();
            let (mut sorter, mut steps) = (Sorter::new(elements), 0);
            while !sorter.step(count, |_| (), u32::cmp) {
                steps += 1;
            }
            assert!(sorter.into_elements() == expected, "{len} {count}");
            assert!(steps <= 20 + 8 * len as usize / count + len as usize / 512, "{len} {count}: {steps} steps");
        }
    }
}
