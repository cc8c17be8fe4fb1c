//! Memory that native functions hold between their steps, as the text of a long result, before it is an object.
//!
//! It counts against the limit of the run, and comes back when it is dropped: a native function that fails, or whose run ends,
//! needs to know nothing of it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::Memory;

/// Bytes below which nothing is counted: most results are short.
const FREE: usize = 4096;

/// The memory has no room.
#[derive(Debug)]
pub(crate) struct Full;

/// Bytes of memory that are counted while this lives.
#[derive(Debug, Default)]
pub(crate) struct Charge {
    counter: Option<Arc<AtomicUsize>>,
    bytes: usize,
}

impl Charge {
    /// Counts `bytes` in place of what was counted.
    pub(crate) fn set(&mut self, memory: &Memory, bytes: usize) -> Result<(), Full> {
        if bytes <= self.bytes || bytes <= FREE {
            return Ok(());
        }
        let more = bytes - self.bytes;
        if !memory.allows(more) {
            return Err(Full);
        }
        let counter = self.counter.get_or_insert_with(|| Arc::clone(&memory.gathered));
        counter.fetch_add(more, Ordering::Relaxed);
        self.bytes = bytes;
        Ok(())
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        if let Some(counter) = &self.counter {
            counter.fetch_sub(self.bytes, Ordering::Relaxed);
        }
    }
}

/// A text that grows within the limit of the run.
#[derive(Debug, Default)]
pub(crate) struct Gathered {
    bytes: Vec<u8>,
    charge: Charge,
}

impl Gathered {
    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Makes room for `more` bytes.
    #[inline]
    pub(crate) fn reserve(&mut self, memory: &Memory, more: usize) -> Result<(), Full> {
        if self.bytes.capacity() - self.bytes.len() >= more { Ok(()) } else { self.grow(memory, more) }
    }

    #[cold]
    fn grow(&mut self, memory: &Memory, more: usize) -> Result<(), Full> {
        let least = self.bytes.len().checked_add(more).ok_or(Full)?;
        let ample = least.max(self.bytes.capacity() * 2).max(64);
        // Near the limit there is no room to spare.
        let target = if self.charge.set(memory, ample).is_ok() { ample } else { least };
        self.charge.set(memory, target)?;
        self.bytes.reserve_exact(target - self.bytes.len());
        Ok(())
    }

    #[inline]
    pub(crate) fn append(&mut self, memory: &Memory, bytes: &[u8]) -> Result<(), Full> {
        self.reserve(memory, bytes.len())?;
        self.bytes.extend_from_slice(bytes);
        Ok(())
    }

    #[inline]
    pub(crate) fn push(&mut self, memory: &Memory, byte: u8) -> Result<(), Full> {
        self.reserve(memory, 1)?;
        self.bytes.push(byte);
        Ok(())
    }

    /// Appends the byte `count` times.
    pub(crate) fn fill(&mut self, memory: &Memory, byte: u8, count: usize) -> Result<(), Full> {
        self.reserve(memory, count)?;
        self.bytes.resize(self.bytes.len() + count, byte);
        Ok(())
    }

    /// Appends what a function writes, which is short.
    pub(crate) fn write(&mut self, memory: &Memory, write: impl FnOnce(&mut Vec<u8>)) -> Result<(), Full> {
        write(self.short(memory)?);
        Ok(())
    }

    /// The text with room for a number in any format.
    pub(crate) fn short(&mut self, memory: &Memory) -> Result<&mut Vec<u8>, Full> {
        self.reserve(memory, 512)?;
        Ok(&mut self.bytes)
    }

    pub(crate) fn as_slice(&self) -> &[u8] {
        &self.bytes
    }

    /// Takes the text, which is no longer counted.
    pub(crate) fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::heap::Heap;

    #[test]
    fn what_is_gathered_counts_until_it_is_dropped() {
        let mut heap = Heap::new(0);
        heap.memory.set_limit(heap.memory.used() + 100_000);
        let mut text = Gathered::default();
        text.append(&heap.memory, &[b'x'; 60_000]).expect("room");
        assert!(!heap.memory.allows(50_000) && heap.memory.allows(30_000));
        assert!(text.append(&heap.memory, &[b'x'; 60_000]).is_err());
        assert_eq!(text.len(), 60_000);
        text.append(&heap.memory, &[b'x'; 40_000]).expect("no room to spare, but enough");
        drop(text);
        assert!(heap.memory.allows(100_000) && !heap.memory.allows(100_001));
    }
}
