//! Pushes and pops at the ends of a large list, and how the stacks there keep their size.

use almandine_base::object::Missing;

use crate::list::End;
use crate::packed::Member;
use crate::packed::listpack::{Encoded, trailer_len};
use crate::tree::{ByRank, Tree};

use super::{ListObject, bytes_of};
use crate::list::chunk::stack::Stack;
use crate::list::chunk::{CHUNK_BYTES_MAX, Chunk};

impl ListObject {
    fn stack(&self, end: End) -> &Stack {
        match end {
            End::Left => &self.head,
            End::Right => &self.tail,
        }
    }

    fn stack_mut(&mut self, end: End) -> &mut Stack {
        match end {
            End::Left => &mut self.head,
            End::Right => &mut self.tail,
        }
    }

    /// Puts an element at an end.
    #[inline]
    pub fn push(&mut self, end: End, element: &[u8]) {
        let new = Encoded::new(element);
        if new.size() > CHUNK_BYTES_MAX {
            return self.push_alone(end, &new);
        }
        let stack = self.stack_mut(end);
        stack.push(&new);
        if stack.is_large() {
            self.relieve();
        }
    }

    /// Puts an element that has a chunk to itself at an end.
    #[cold]
    fn push_alone(&mut self, end: End, new: &Encoded) {
        while self.stack(end).len() > 0 {
            self.store_chunk(end);
        }
        self.add_middle_bytes((new.size() + trailer_len(new.size())) as isize);
        self.add_chunk(end, Chunk::of(new));
    }

    /// Lets stacks that have become too large give chunks to the tree.
    pub(in crate::list) fn relieve(&mut self) {
        for end in [End::Left, End::Right] {
            while self.stack(end).is_large() {
                self.store_chunk(end);
            }
        }
    }

    /// Makes a chunk of the bottom of a stack.
    fn store_chunk(&mut self, end: End) {
        let stack = self.stack_mut(end);
        let before = stack.entries().len();
        let chunk = stack.take_chunk(end == End::Left);
        let bytes = before - stack.entries().len();
        self.add_middle_bytes(bytes as isize);
        self.add_chunk(end, chunk);
    }

    fn add_chunk(&mut self, end: End, chunk: Chunk) {
        let tree = self.middle.get_or_insert_default();
        match end {
            End::Left => tree.prepend(chunk),
            End::Right => tree.append((), chunk),
        }
    }

    /// The place of the last element in the tree at an end.
    fn last(tree: &Tree<Chunk>, end: End) -> u64 {
        match end {
            End::Left => 0,
            End::Right => tree.len() - 1,
        }
    }

    /// Takes the element at an end away, and gives what `taken` makes of it. None: there is none. A list without elements is the
    /// caller's to remove.
    #[inline]
    pub fn pop<R>(&mut self, end: End, taken: impl FnOnce(&[u8]) -> R) -> Result<Option<R>, Missing> {
        if self.stack(end).len() == 0 && !self.fill_stack(end)? {
            return self.pop_alone(end, taken);
        }
        let stack = self.stack_mut(end);
        let Some((element, size)) = stack.top() else { return Ok(None) };
        let result = taken(&Member::from(element));
        stack.drop_top(size);
        Ok(Some(result))
    }

    /// Gives an empty stack the elements of the chunk next to it, or half of what the stack at the other end has. False: what is
    /// next to it has a chunk to itself, or there is nothing.
    fn fill_stack(&mut self, end: End) -> Result<bool, Missing> {
        let Some(tree) = &mut self.middle else {
            self.share(end);
            return Ok(self.stack(end).len() > 0);
        };
        let last = Self::last(tree, end);
        if !tree.leaf(&mut ByRank(last))?.is_ordinary() {
            return Ok(false);
        }
        let chunk = self.take_chunk(end)?;
        self.stack_mut(end).push_chunk(&chunk, end == End::Left);
        Ok(true)
    }

    /// Takes the chunk at an end out of the tree.
    fn take_chunk(&mut self, end: End) -> Result<Chunk, Missing> {
        let Some(tree) = &mut self.middle else { return Ok(Chunk::default()) };
        let chunk = tree.update(&mut ByRank(Self::last(tree, end)), &(), std::mem::take)?;
        if tree.is_empty() {
            (self.middle, self.middle_bytes) = (None, Some(0));
            return Ok(chunk);
        }
        self.add_middle_bytes(-(bytes_of(&chunk) as isize));
        self.know_middle_bytes();
        Ok(chunk)
    }

    /// Gives an empty stack the lower half of the other one; there is nothing between them.
    fn share(&mut self, end: End) {
        let (empty, other) = match end {
            End::Left => (&mut self.head, &mut self.tail),
            End::Right => (&mut self.tail, &mut self.head),
        };
        let half = other.len().div_ceil(2);
        // Of two stacks that are bottom to bottom, what is lowest here comes highest there.
        let mut at = other.offset(half);
        while let Some((_, size)) = other.entry_before(at) {
            at -= size;
            empty.push_whole(&other.entries()[at..at + size]);
        }
        other.keep_top(other.len() - half);
    }

    /// Takes an element away that has a chunk to itself.
    #[cold]
    fn pop_alone<R>(&mut self, end: End, taken: impl FnOnce(&[u8]) -> R) -> Result<Option<R>, Missing> {
        if self.middle.is_none() {
            return Ok(None);
        }
        let chunk = self.take_chunk(end)?;
        Ok(chunk.nth(0).map(|element| taken(&Member::from(element))))
    }
}
