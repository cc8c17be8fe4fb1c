//! Sorting many elements beside the commands of others: in runs that are sorted one by one, and merged when they are read.

use std::ops::Range;

use almandine_base::output::{Broken, Stream};
use almandine_handler::Stop;
use almandine_handler::computation::Computation;
use almandine_keyspace::types::Frozen;
use almandine_keyspace::types::list::NewList;

use super::answer;
use super::options::Sorting;
use super::table::{Entry, Order, Table};

/// Elements from which on it is worth the trouble.
pub(super) const LARGE: usize = 1 << 16;
/// Elements of a run.
const RUN: usize = 1 << 10;
/// Elements that a step takes up, and runs that it puts in order.
const STEP: usize = 256;
const RUNS_STEP: usize = 32;
/// Elements of one slice of a reply: each is found by a dozen comparisons, most of which wait for memory.
const MERGED: usize = 256;

/// Many elements as they were at one time, sorted.
pub(super) struct Large {
    pub(super) source: Frozen,
    pub(super) sorting: Sorting,
    /// Where the result goes, as it grows.
    pub(super) list: Option<NewList>,
    /// What is wrong with an element.
    pub(super) failed: Option<Stop>,
    table: Table,
    len: usize,
    /// What is answered of all that are sorted.
    places: Range<usize>,
    /// Elements that have been taken up.
    loaded: usize,
    /// Elements in sorted runs.
    sorted: usize,
    /// Runs that have something left, a heap with the one that comes first at the front.
    runs: Vec<Range<usize>>,
    /// Places that have been read.
    read: usize,
}

impl Large {
    pub(super) fn new(source: Frozen, sorting: Sorting, order: Order, len: usize, list: Option<NewList>) -> Self {
        let table = Table::new(order, sorting.descending, len);
        let places = sorting.places(len);
        Self { source, sorting, list, failed: None, table, len, places, loaded: 0, sorted: 0, runs: Vec::new(), read: 0 }
    }

    /// How many elements the answer has.
    pub(super) fn answered(&self) -> usize {
        self.places.len()
    }

    fn load(&mut self) {
        let part = self.loaded..self.len.min(self.loaded + STEP);
        self.loaded = part.end;
        let (table, failed) = (&mut self.table, &mut self.failed);
        let visited = self.source.elements().and_then(|elements| match elements {
            Some(elements) => elements.visit(part, |element| {
                if let Err(error) = table.push(element) {
                    *failed = Some(error.into());
                }
            }),
            None => Ok(()),
        });
        if let Err(refusal) = visited {
            self.failed = Some(refusal.into());
        }
    }

    fn sort_run(&mut self) {
        let run = self.sorted..self.len.min(self.sorted + RUN);
        self.sorted = run.end;
        self.table.sort_part(run.clone());
        // The last one found its way up when it was added; this one has yet to.
        self.runs.push(run);
        let mut at = self.runs.len() - 1;
        while at > 0 && self.is_before(at, (at - 1) / 2) {
            self.runs.swap(at, (at - 1) / 2);
            at = (at - 1) / 2;
        }
    }

    fn is_before(&self, one: usize, other: usize) -> bool {
        let entry = |run: usize| self.table.entries[self.runs[run].start];
        self.table.compare(entry(one), entry(other)).is_lt()
    }

    /// The element at the next place.
    fn pop(&mut self) -> Option<Entry> {
        let run = self.runs.first_mut()?;
        let entry = self.table.entries[run.start];
        run.start += 1;
        self.read += 1;
        if run.start == run.end {
            self.runs.swap_remove(0);
        }
        let mut at = 0;
        loop {
            let (left, right) = (2 * at + 1, 2 * at + 2);
            let mut first = at;
            for child in [left, right] {
                if child < self.runs.len() && self.is_before(child, first) {
                    first = child;
                }
            }
            if first == at {
                return Some(entry);
            }
            self.runs.swap(at, first);
            at = first;
        }
    }

    /// The next element of the answer.
    pub(super) fn next(&mut self) -> Option<&[u8]> {
        if self.read >= self.places.end {
            return None;
        }
        let entry = self.pop()?;
        Some(self.table.element(entry))
    }

    /// Puts the next elements into the list. True: that was the last one.
    fn fill(&mut self) -> bool {
        for _ in 0..STEP {
            if self.read >= self.places.end {
                return true;
            }
            let Some(entry) = self.pop() else { return true };
            let element = self.table.element(entry);
            for _ in 0..self.sorting.width() {
                if let Some(Err(refusal)) = self.list.as_mut().map(|list| list.push(element)) {
                    self.failed = Some(refusal.into());
                    return true;
                }
            }
        }
        false
    }
}

impl Computation for Large {
    fn step(&mut self) -> bool {
        if self.failed.is_some() || self.places.is_empty() {
            // A number that is none is an error even where nothing is answered.
            if self.failed.is_some() || self.loaded == self.len {
                return true;
            }
        }
        if self.loaded < self.len {
            self.load();
        } else if self.sorted < self.len {
            self.sort_run();
        } else if self.read < self.places.start {
            let skipped = self.places.start.min(self.read + RUNS_STEP);
            while self.read < skipped && self.pop().is_some() {}
        } else {
            return self.list.is_none() || self.fill();
        }
        false
    }

    fn memory(&self) -> usize {
        self.table.memory() + self.list.as_ref().map_or(0, NewList::memory)
    }
}

/// The rest of a reply with many elements.
pub(super) struct LargeStream {
    pub(super) large: Box<Large>,
    pub(super) null: &'static [u8],
}

impl Stream for LargeStream {
    fn next(&mut self, limit: usize, out: &mut Vec<u8>) -> Result<bool, Broken> {
        let begin = out.len();
        for _ in 0..MERGED {
            if out.len() - begin >= limit {
                break;
            }
            if self.large.read >= self.large.places.end {
                return Ok(false);
            }
            let Some(entry) = self.large.pop() else { return Err(Broken) };
            answer::write_texts(&self.large.sorting, self.large.table.element(entry), self.null, out);
        }
        Ok(true)
    }
}

/// The rest of a reply with elements that are not sorted.
pub(super) struct PlainStream {
    pub(super) source: Frozen,
    pub(super) sorting: Sorting,
    /// The places that are left.
    pub(super) places: Range<usize>,
    pub(super) null: &'static [u8],
}

impl Stream for PlainStream {
    fn next(&mut self, limit: usize, out: &mut Vec<u8>) -> Result<bool, Broken> {
        let Ok(Some(elements)) = self.source.elements() else { return Err(Broken) };
        let begin = out.len();
        while out.len() - begin < limit && !self.places.is_empty() {
            let part = self.places.start..self.places.end.min(self.places.start + STEP);
            self.places.start = part.end;
            let (sorting, null) = (&self.sorting, self.null);
            let written = answer::visit_in_order(&elements, sorting, part, |element| {
                answer::write_texts(sorting, element, null, out);
            });
            written.map_err(|_| Broken)?;
        }
        Ok(!self.places.is_empty())
    }
}
