//! What is done beside the writer: syncs that nothing waits for, and files that are given up.

use std::io;

use almandine_io::files;

use super::Appender;
use super::beside::Syncing;
use crate::directory::{base_path, segment_path};
use crate::errands::Pending;
use crate::fault::Fault;
use crate::manifest::{BaseEntry, SegmentEntry};

impl Appender {
    /// Begins to make durable all groups that were appended; further ones may be appended meanwhile. False when a sync is under way
    /// or there is nothing to do.
    ///
    /// # Errors
    /// Of the system: then nothing more may be appended.
    pub(crate) fn begin_sync(&mut self) -> Result<bool, Fault> {
        debug_assert_eq!(self.end, self.group_end, "between two groups");
        if self.beside.syncing.is_some() || self.durable == self.group_end {
            return Ok(false);
        }
        self.end_block()?;
        let (file, written) = self.segment.written();
        let pending = self.beside.errands.give(move || file.sync_data());
        self.beside.syncing = Some(Syncing { pending, written, end: self.group_end });
        Ok(true)
    }

    /// Bytes behind what is durable or will be by the sync that is under way.
    pub(crate) fn unsynced_bytes(&self) -> u64 {
        let begun = self.beside.syncing.as_ref().map_or(self.durable, |syncing| syncing.end);
        self.group_end.lsn - begun.lsn
    }

    /// Whether no sync is under way. What one that was begun should make durable is durable then.
    ///
    /// # Errors
    /// As of [`Self::sync`].
    pub(crate) fn has_synced(&mut self) -> Result<bool, Fault> {
        let is_done = self.beside.syncing.as_ref().is_none_or(|syncing| syncing.pending.is_done())
            && self.beside.names.as_ref().is_none_or(Pending::is_done);
        if is_done {
            self.settle()?;
        }
        Ok(is_done)
    }

    /// Waits for the sync that is under way, and for that of names. The system tells of a failure once, so no other sync may come
    /// before.
    pub(crate) fn settle(&mut self) -> Result<(), Fault> {
        if let Some(names) = self.beside.names.take() {
            names.wait().unwrap_or(Err(Fault::Stopped))?;
        }
        let Some(Syncing { pending, written, end }) = self.beside.syncing.take() else { return Ok(()) };
        let synced = pending.wait().unwrap_or_else(|| Err(io::Error::other("its thread has ended")));
        self.segment.note_sync(synced, written)?;
        if self.durable.lsn < end.lsn {
            self.durable = end;
        }
        Ok(())
    }

    /// Waits until all is done that was to be done beside the writer.
    pub(super) fn finish_errands(&self) {
        let _ = self.beside.errands.give(|| ()).wait();
    }

    /// Gives files up that the manifest does not name any more. What cannot be removed goes with the next start.
    pub(super) fn drop_files(&self, segments: &[SegmentEntry], base: Option<BaseEntry>) {
        for segment in segments {
            self.give_up(segment);
        }
        for (base, part) in base.iter().flat_map(|base| (0..base.parts).map(move |part| (base, part))) {
            let path = base_path(self.directory.path(), base.number, part);
            self.beside.errands.give(|| files::remove(path));
        }
    }

    /// Gives up the file of a segment: for use as another one, unless others than its key's owners could read what it holds behind
    /// the end of that.
    pub(super) fn give_up(&self, segment: &SegmentEntry) {
        let path = segment_path(self.directory.path(), segment.number);
        if self.keys.current().is_some() && segment.key.is_none() {
            self.beside.errands.give(|| files::remove(path));
        } else {
            let spares = self.spares.recycler();
            self.beside.errands.give(move || spares.recycle(&path));
        }
    }
}
