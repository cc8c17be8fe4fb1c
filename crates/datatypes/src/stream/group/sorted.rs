//! Items of a fixed size in the order of their keys, in a tree of chunks.

use std::fmt::Debug;
use std::sync::Arc;

use almandine_base::object::Missing;

use crate::tree::{ByBound, ByRank, EarliestDue, Leaf, SHARED_BYTES, Summary, Tree, size_class};

const ITEMS_MAX: usize = 64;
/// Items mostly come in order, so the lower part of a chunk that is split stays nearly full.
const SPLIT_AT: usize = ITEMS_MAX * 7 / 8;
const MERGED_MAX: usize = ITEMS_MAX * 3 / 4;

/// What is kept in order.
pub(in crate::stream) trait Item: Copy + Debug {
    type Key: Copy + Debug + Default + Ord;

    fn key(&self) -> Self::Key;

    /// What [`Sorted::earliest`] goes by.
    fn due(&self) -> u64;
}

/// Items, each with a key of its own.
#[derive(Clone, Debug)]
pub(in crate::stream) struct Sorted<T: Item>(Option<Tree<Chunk<T>>>);

impl<T: Item> Default for Sorted<T> {
    fn default() -> Self {
        Self(None)
    }
}

impl<T: Item> Sorted<T> {
    pub(in crate::stream) fn len(&self) -> u64 {
        self.0.as_ref().map_or(0, Tree::len)
    }

    pub(in crate::stream) fn memory(&self) -> usize {
        self.0.as_ref().map_or(0, Tree::memory)
    }

    pub(in crate::stream) fn get(&self, key: T::Key) -> Result<Option<T>, Missing> {
        let Some(tree) = &self.0 else { return Ok(None) };
        let chunk = tree.leaf(&mut ByBound(key))?;
        Ok(chunk.find(key).ok().map(|index| chunk.items()[index]))
    }

    /// Puts an item in, and gives the one that had its key.
    pub(in crate::stream) fn put(&mut self, item: T) -> Result<Option<T>, Missing> {
        self.0.get_or_insert_default().update(&mut ByBound(item.key()), &(), |chunk| chunk.put(item))
    }

    pub(in crate::stream) fn remove(&mut self, key: T::Key) -> Result<Option<T>, Missing> {
        if self.get(key)?.is_none() {
            return Ok(None);
        }
        let Some(tree) = &mut self.0 else { return Ok(None) };
        let gone = tree.update(&mut ByBound(key), &(), |chunk| chunk.remove(key))?;
        if tree.is_empty() {
            self.0 = None;
        }
        Ok(gone)
    }

    /// Items from a key on, ascending.
    pub(in crate::stream) fn iter_from(&self, key: T::Key) -> impl Iterator<Item = Result<T, Missing>> + '_ {
        let leaves = self.0.iter().flat_map(move |tree| tree.leaves(&mut ByBound(key)));
        leaves.flat_map(move |chunk| {
            let (items, error) = match chunk {
                Ok(chunk) => (chunk.items(), None),
                Err(missing) => (&[][..], Some(Err(missing))),
            };
            let from = items.partition_point(|item| item.key() < key);
            items[from..].iter().map(|item| Ok(*item)).chain(error)
        })
    }

    /// The item of a rank.
    pub(in crate::stream) fn nth(&self, rank: u64) -> Result<Option<T>, Missing> {
        let Some(tree) = self.0.as_ref().filter(|tree| rank < tree.len()) else { return Ok(None) };
        let mut route = ByRank(rank);
        let chunk = tree.leaf(&mut route)?;
        Ok(chunk.items().get(route.0 as usize).copied())
    }

    /// Of the items that are due first, the one with the lowest key.
    pub(in crate::stream) fn earliest(&self) -> Result<Option<T>, Missing> {
        let Some(tree) = &self.0 else { return Ok(None) };
        Ok(tree.leaf(&mut EarliestDue)?.items().iter().min_by_key(|item| item.due()).copied())
    }

    /// See [`Tree::release`].
    pub(in crate::stream) fn release(&mut self, limit: usize) -> bool {
        self.0.as_mut().is_none_or(|tree| tree.release(limit))
    }

    pub(in crate::stream) fn check(&self) {
        if let Some(tree) = &self.0 {
            tree.check(&());
        }
    }
}

#[derive(Clone, Debug)]
struct Items<T> {
    due: u64,
    items: Vec<T>,
}

/// Neighbours in order.
#[derive(Clone, Debug)]
struct Chunk<T: Item>(Arc<Items<T>>);

impl<T: Item> Default for Chunk<T> {
    fn default() -> Self {
        Self::of(Vec::new())
    }
}

impl<T: Item> Chunk<T> {
    fn of(items: Vec<T>) -> Self {
        let mut items = Items { due: 0, items };
        items.settle();
        Self(Arc::new(items))
    }

    fn items(&self) -> &[T] {
        &self.0.items
    }

    fn find(&self, key: T::Key) -> Result<usize, usize> {
        match self.items().last() {
            // Most come behind all others.
            Some(last) if last.key() < key => Err(self.items().len()),
            _ => self.items().binary_search_by_key(&key, Item::key),
        }
    }

    fn put(&mut self, item: T) -> Option<T> {
        let found = self.find(item.key());
        let this = Arc::make_mut(&mut self.0);
        let before = match found {
            Ok(index) => Some(std::mem::replace(&mut this.items[index], item)),
            Err(index) => {
                if this.items.len() == this.items.capacity() {
                    this.items.reserve_exact(this.items.len().max(4));
                }
                this.items.insert(index, item);
                None
            }
        };
        if before.is_some_and(|before| before.due() == this.due) {
            this.settle();
        } else {
            this.due = this.due.min(item.due());
        }
        before
    }

    fn remove(&mut self, key: T::Key) -> Option<T> {
        let index = self.find(key).ok()?;
        let this = Arc::make_mut(&mut self.0);
        let gone = this.items.remove(index);
        if gone.due() == this.due {
            this.settle();
        }
        Some(gone)
    }
}

impl<T: Item> Items<T> {
    fn settle(&mut self) {
        self.due = self.items.iter().map(Item::due).min().unwrap_or(u64::MAX);
    }
}

impl<T: Item> Leaf for Chunk<T> {
    type Bound = T::Key;
    type Context = ();

    fn summary(&self) -> Summary {
        Summary { count: self.0.items.len() as u64, due: self.0.due }
    }

    fn memory(&self) -> usize {
        size_class(SHARED_BYTES + size_of::<Items<T>>()) + size_class(self.0.items.len().next_power_of_two() * size_of::<T>())
    }

    fn is_large(&self) -> bool {
        self.items().len() > ITEMS_MAX
    }

    fn is_small(&self) -> bool {
        self.items().len() < ITEMS_MAX / 4
    }

    fn split(&mut self, (): &()) -> Option<(T::Key, Self)> {
        let this = Arc::make_mut(&mut self.0);
        let upper = this.items.split_off(SPLIT_AT);
        this.items.shrink_to_fit();
        this.settle();
        Some((upper.first()?.key(), Self::of(upper)))
    }

    fn merge(&mut self, right: &Self) -> bool {
        if self.items().len() + right.items().len() > MERGED_MAX {
            return false;
        }
        let this = Arc::make_mut(&mut self.0);
        this.items.extend_from_slice(right.items());
        this.due = this.due.min(right.0.due);
        true
    }

    fn check(&self, (low, high): (&T::Key, Option<&T::Key>), (): &()) {
        assert!(self.items().is_sorted_by(|one, other| one.key() < other.key()), "keys ascend");
        let lies = |key: T::Key| *low <= key && high.is_none_or(|high| key < *high);
        assert!(self.items().iter().all(|item| lies(item.key())), "INV-TREE-1: items lie in their chunk");
        assert_eq!(self.0.due, self.items().iter().map(Item::due).min().unwrap_or(u64::MAX));
    }
}
