//! A device in memory: for tests, and as the first tier above a slow one.
//!
//! Chunks of 64 KiB are made when first written and freed when nothing in them is held. The lock is taken per chunk, so that a
//! reader waits for a copy of one chunk at most.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, PoisonError};

use almandine_io::sync::{RwLock, RwLockReadGuard, RwLockWriteGuard};

use crate::ranges::Ranges;
use crate::{BlockingSource, Device, Source, error};

const CHUNK_BYTES: u64 = 64 * 1024;
const NAME: &str = "the memory device";

/// Holds what is written in memory of the process; nothing survives it.
#[derive(Debug, Default)]
pub struct MemoryDevice {
    held: Arc<Held>,
}

#[derive(Debug, Default)]
struct Held {
    state: RwLock<State>,
}

#[derive(Debug, Default)]
struct State {
    chunks: BTreeMap<u64, Box<[u8]>>,
    ranges: Ranges,
}

impl MemoryDevice {
    /// An empty device.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }
}

impl Held {
    /// No code panics between changes that belong together, so a poisoned state is whole.
    fn state(&self) -> RwLockReadGuard<'_, State> {
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self) -> RwLockWriteGuard<'_, State> {
        self.state.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The parts of `bytes` bytes at `offset` that lie in one chunk each: offset, and range within the whole.
fn parts(offset: u64, bytes: usize) -> impl Iterator<Item = (u64, std::ops::Range<usize>)> {
    let mut done = 0;
    std::iter::from_fn(move || {
        let at = offset + done as u64;
        let part = usize::try_from(CHUNK_BYTES - at % CHUNK_BYTES).unwrap_or(bytes).min(bytes - done);
        done += part;
        (part > 0).then(|| (at, done - part..done))
    })
}

/// Where an offset lies within its chunk.
fn within(offset: u64) -> usize {
    (offset % CHUNK_BYTES) as usize
}

impl BlockingSource for Held {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        for (at, part) in parts(offset, buffer.len()) {
            let state = self.state();
            debug_assert!(within(at) + part.len() <= CHUNK_BYTES as usize, "a part lies in one chunk");
            let chunk = state.chunks.get(&(at / CHUNK_BYTES));
            match chunk.filter(|_| state.ranges.contains(at, at + part.len() as u64)) {
                Some(chunk) => buffer[part.clone()].copy_from_slice(&chunk[within(at)..within(at) + part.len()]),
                None => return Err(error::missing(NAME, at, part.len() as u64)),
            }
        }
        Ok(())
    }
}

impl Device for MemoryDevice {
    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        error::check_transfer("write", offset, data)?;
        for (at, part) in parts(offset, data.len()) {
            let mut state = self.held.change();
            let chunk = state.chunks.entry(at / CHUNK_BYTES).or_insert_with(|| vec![0; CHUNK_BYTES as usize].into_boxed_slice());
            chunk[within(at)..within(at) + part.len()].copy_from_slice(&data[part.clone()]);
            state.ranges.insert(at, at + part.len() as u64);
            debug_assert!(state.chunks.contains_key(&(at / CHUNK_BYTES)), "what is held has a chunk");
        }
        Ok(())
    }

    fn read(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        error::check_transfer("read", offset, buffer)?;
        self.held.read_at(offset, buffer)
    }

    fn discard(&self, offset: u64, bytes: u64) -> io::Result<()> {
        error::check_range("discard", offset, bytes)?;
        let end = offset + bytes;
        let mut state = self.held.change();
        let State { chunks, ranges } = &mut *state;
        ranges.remove(offset, end);
        let free = |index: &u64| !ranges.touches(index * CHUNK_BYTES, (index + 1) * CHUNK_BYTES);
        let touched: Vec<u64> = chunks.range(offset / CHUNK_BYTES..end.div_ceil(CHUNK_BYTES)).map(|(i, _)| *i).collect();
        for index in touched.iter().filter(|index| free(index)) {
            chunks.remove(index);
        }
        debug_assert_eq!(chunks.is_empty(), ranges.is_empty(), "D1: chunks are those of what is held");
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }

    fn source(&self, offset: u64, bytes: usize) -> io::Result<Source> {
        error::check_range("read", offset, bytes as u64)?;
        Ok(Source::Blocking { source: Arc::clone(&self.held) as Arc<dyn BlockingSource>, offset })
    }

    fn used_bytes(&self) -> u64 {
        self.held.state().ranges.bytes()
    }

    /// For a store that is opened anew on the same device.
    fn end(&self) -> io::Result<u64> {
        Ok(self.held.state().chunks.keys().last().map_or(0, |chunk| (chunk + 1) * CHUNK_BYTES))
    }
}
