//! One segment file and what it holds.
//!
//! The state's lock is taken by writers and discards, never for reading. A discard punches under it, so that a range is not given
//! back after it was written anew.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use almandine_io::sync::Mutex;

use almandine_io::file::{self, File};

use super::locked;
use crate::ranges::Ranges;
use crate::{BLOCK_BYTES, error};

#[derive(Debug)]
pub(super) struct Segment {
    index: u64,
    path: PathBuf,
    file: Arc<File>,
    state: Mutex<State>,
    /// Written since the last sync.
    dirty: AtomicBool,
}

#[derive(Debug, Default)]
struct State {
    /// Written and not discarded.
    held: Ranges,
    /// Discarded but not given back: the file system has no holes, or the whole file is about to go.
    stuck: Ranges,
    writers: u32,
    deleted: bool,
}

impl Segment {
    pub(super) fn open(index: u64, path: PathBuf, direct: bool) -> io::Result<Self> {
        let file = file::open(&path, direct).map_err(|e| error::at_path("open", &path, &e))?;
        Ok(Self { index, path, file: Arc::new(file), state: Mutex::default(), dirty: AtomicBool::new(false) })
    }

    pub(super) fn index(&self) -> u64 {
        self.index
    }

    pub(super) fn file(&self) -> &Arc<File> {
        &self.file
    }

    /// Finds what the file holds already; says how much that is.
    pub(super) fn recover(&self, segment_bytes: u64) -> io::Result<u64> {
        let block = BLOCK_BYTES as u64;
        let mut state = locked(&self.state);
        let mut from = 0;
        while let Some((begin, end)) = self.file.next_data(from).map_err(|e| error::at_path("look for data in", &self.path, &e))? {
            debug_assert!(from <= begin && begin < end, "data is found in ascending order");
            state.held.insert(begin / block * block, end.next_multiple_of(block));
            from = end;
        }
        if from > segment_bytes {
            let text =
                format!("{} is longer than a segment of {segment_bytes} bytes: it is not ours, move it away", self.path.display());
            return Err(io::Error::new(io::ErrorKind::InvalidData, text));
        }
        debug_assert!(state.stuck.is_empty() && state.writers == 0, "a segment is recovered before it is used");
        // An earlier process may have crashed between a write and its sync.
        self.dirty.store(true, Ordering::Release);
        Ok(state.held.bytes())
    }

    /// Announces a write; false when the segment is deleted.
    pub(super) fn begin_write(&self) -> bool {
        let mut state = locked(&self.state);
        if !state.deleted {
            state.writers += 1;
        }
        !state.deleted
    }

    /// Ends a write of this range; counts the space it takes.
    pub(super) fn end_write(&self, begin: u64, end: u64, used: &AtomicU64) {
        let mut state = locked(&self.state);
        debug_assert!(state.writers > 0 && !state.deleted, "a write ends that has begun, and keeps its segment");
        debug_assert!(begin <= end, "a write that failed ends where it began");
        state.writers -= 1;
        self.dirty.store(true, Ordering::Release);
        let new = state.held.insert(begin, end);
        let stuck = state.stuck.remove(begin, end);
        debug_assert!(stuck <= new, "D1: what is stuck is not held");
        used.fetch_add(new - stuck, Ordering::Relaxed);
    }

    /// Gives a range back; counts the space that this frees. A file in which nothing else is held is left to be deleted.
    pub(super) fn discard(&self, begin: u64, end: u64, used: &AtomicU64) -> io::Result<()> {
        let mut state = locked(&self.state);
        if state.deleted || begin >= end {
            return Ok(());
        }
        for (b, e) in state.held.iter().collect::<Vec<_>>() {
            state.stuck.insert(b.max(begin), e.min(end));
        }
        state.held.remove(begin, end);
        debug_assert!(state.held.is_empty() || !state.held.touches(begin, end), "D2: only the range is discarded, and all of it");
        // A write that failed may have left something that is not counted as held.
        let punch = !state.held.is_empty() || state.writers > 0;
        if punch && self.punch(begin, end)? {
            give_back(used, state.stuck.remove(begin, end));
        }
        Ok(())
    }

    /// After a discard of this range: deletes the file if nothing is held and no write is under way, else frees the range
    /// alone. True when deleted.
    pub(super) fn delete_if_empty(&self, begin: u64, end: u64, used: &AtomicU64) -> io::Result<bool> {
        let mut state = locked(&self.state);
        if state.deleted {
            return Ok(false);
        }
        if state.writers == 0 && state.held.is_empty() {
            self.delete()?;
            state.deleted = true;
            give_back(used, state.stuck.bytes());
            return Ok(true);
        }
        if state.stuck.touches(begin, end) && self.punch(begin, end)? {
            give_back(used, state.stuck.remove(begin, end));
        }
        Ok(false)
    }

    fn punch(&self, begin: u64, end: u64) -> io::Result<bool> {
        debug_assert!(begin < end && begin.is_multiple_of(BLOCK_BYTES as u64), "holes are whole blocks");
        self.dirty.store(true, Ordering::Release);
        self.file.punch_hole(begin, end - begin).map_err(|e| error::at_path("give back space of", &self.path, &e))
    }

    /// Whether nothing is held.
    pub(super) fn is_empty(&self) -> bool {
        locked(&self.state).held.is_empty()
    }

    /// Removes the file's name; reads under way go on.
    pub(super) fn delete(&self) -> io::Result<()> {
        almandine_io::files::remove(&self.path).map_err(|e| error::at_path("delete", &self.path, &e))
    }

    /// The ranges that are held.
    pub(super) fn held(&self) -> Vec<(u64, u64)> {
        locked(&self.state).held.iter().collect()
    }

    /// Makes what was written durable.
    pub(super) fn sync(&self) -> io::Result<()> {
        if self.dirty.swap(false, Ordering::AcqRel) {
            self.file.sync_data().map_err(|e| error::at_path("sync", &self.path, &e))?;
        }
        Ok(())
    }
}

/// Counts space that is free again.
fn give_back(used: &AtomicU64, bytes: u64) {
    let before = used.fetch_sub(bytes, Ordering::Relaxed);
    debug_assert!(bytes <= before, "D1: {bytes} bytes are given back of {before}");
}
