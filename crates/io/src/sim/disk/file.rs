//! An open file of a simulated disk.

use std::fmt;
use std::io;
use std::path::Path;
use std::sync::Arc;

use rustix::io::Errno;

use super::content::PAGE_BYTES;
use super::{Disk, paths};
use crate::sim::turn::{self, Place};

/// How a file is opened.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct How {
    /// Past the page cache.
    pub(crate) direct: bool,
    /// Writes go to the end.
    pub(crate) append: bool,
    /// What it held goes.
    pub(crate) empty: bool,
}

/// See the module.
pub(crate) struct OpenFile {
    pub(super) disk: Arc<Disk>,
    pub(super) file: u64,
    pub(super) process: u64,
    open: u64,
    how: How,
    position: u64,
}

impl fmt::Debug for OpenFile {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("OpenFile").field("file", &self.file).field("how", &self.how).finish_non_exhaustive()
    }
}

impl OpenFile {
    /// Opens a file, and makes it when it is missing.
    pub(crate) fn new(disk: Arc<Disk>, path: &Path, how: How) -> io::Result<Self> {
        let process = disk.process();
        let (file, open) = disk.change(process, ("opens a file", [0, 0]), false, |drawing| {
            let file = paths::open(drawing.state, path)?;
            let number = drawing.state.number();
            if how.empty {
                drawing.state.file(file)?.content.set_len(0, number);
            }
            Ok((file, drawing.state.open(file)?))
        })?;
        Ok(Self { disk, file, process, open, how, position: 0 })
    }

    pub(crate) fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.check(buffer, offset)?;
        let direct = self.how.direct;
        let count = self.disk.look(self.process, direct, |drawing| drawing.read(self.file, buffer, offset, direct))?;
        self.note("has read", offset, &buffer[..count]);
        Ok(count)
    }

    /// What a read of a reactor or a batch finds when its time is over.
    pub(super) fn read_now(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        self.check(buffer, offset)?;
        let turn = self.disk.enter(self.process)?;
        let count = self.disk.draw(&turn, |drawing| drawing.read_whole(self.file, buffer, offset))?;
        self.note("has read", offset, &buffer[..count]);
        if count < buffer.len() { Err(io::ErrorKind::UnexpectedEof.into()) } else { Ok(()) }
    }

    /// When a read that begins now ends.
    pub(super) fn end_ns(&self) -> u64 {
        self.disk.end_ns(self.how.direct)
    }

    pub(crate) fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        self.check(bytes, offset)?;
        if self.how.direct { self.write_direct(bytes, offset) } else { self.write_cached(bytes, offset) }
    }

    fn write_cached(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        self.disk.change(self.process, ("writes", [self.file, offset]), false, |drawing| {
            let (write, told) = drawing.write(self.file, bytes, offset, false);
            drawing.state.apply(&write);
            told
        })
    }

    fn write_direct(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        let turn = self.disk.count_change(self.process)?;
        let failure = self.disk.count_operation();
        self.note("writes past the page cache", offset, bytes);
        let end_ns = self.disk.end_ns(true);
        let (number, told) = self.disk.draw(&turn, |drawing| {
            let (write, told) = drawing.failing(failure, |drawing| drawing.write(self.file, bytes, offset, true));
            (drawing.state.begin(write), told)
        });
        if turn::place() != Place::Thread {
            self.disk.state().end(number);
            return told;
        }
        let (disk, process, arrived) = (Arc::clone(&self.disk), self.process, turn.condition());
        turn.at(end_ns, move || {
            // Behind a crash, too: the disk has the write already.
            let Some(turn) = disk.turn.upgrade() else { return };
            if process == disk.process() {
                // The node may crash here; then the crash decides what arrives.
                let _ = disk.count_change(process);
            }
            disk.state().end(number);
            turn.note("a write arrives", [number, 0]);
            turn.notify_all(arrived);
        });
        turn::block("waits for its write", Some(arrived), None);
        told
    }

    /// Writes at the end or behind the last write.
    pub(crate) fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let offset = if self.how.append { self.disk.state().file(self.file)?.content.bytes() } else { self.position };
        let count = self.write_at(bytes, offset)?;
        self.position = offset + count as u64;
        Ok(count)
    }

    pub(crate) fn sync(&self) -> io::Result<()> {
        self.disk.change(self.process, ("syncs", [self.file, 0]), true, |drawing| drawing.sync(self.file))
    }

    pub(crate) fn set_len(&self, bytes: u64) -> io::Result<()> {
        self.disk.change(self.process, ("sets a length", [self.file, bytes]), false, |drawing| {
            let number = drawing.state.number();
            drawing.state.file(self.file)?.content.set_len(bytes, number);
            Ok(())
        })
    }

    pub(crate) fn len(&self) -> io::Result<u64> {
        self.disk.look(self.process, false, |drawing| Ok(drawing.state.file(self.file)?.content.bytes()))
    }

    /// Whether the system would copy the permissions of the file of this name.
    pub(crate) fn copy_permissions(&self, from: &Path) -> io::Result<()> {
        self.disk.identity(from).map(drop)
    }

    pub(crate) fn lock(&self) -> io::Result<bool> {
        self.disk.look(self.process, false, |drawing| drawing.state.lock(self.file, self.open))
    }

    pub(crate) fn punch_hole(&self, offset: u64, bytes: u64) -> io::Result<()> {
        self.disk.change(self.process, ("makes a hole", [offset, bytes]), true, |drawing| drawing.punch(self.file, offset, bytes))
    }

    pub(crate) fn next_data(&self, offset: u64) -> io::Result<Option<(u64, u64)>> {
        self.disk.look(self.process, false, |drawing| Ok(drawing.state.file(self.file)?.content.next_data(offset)))
    }

    /// Refuses what a direct transfer must not be.
    fn check(&self, memory: &[u8], offset: u64) -> io::Result<()> {
        let is_aligned = |number: u64| number.is_multiple_of(PAGE_BYTES as u64);
        let memory_is = memory.as_ptr().addr().is_multiple_of(512) && is_aligned(memory.len() as u64);
        if self.how.direct && !(memory_is && is_aligned(offset)) {
            return Err(Errno::INVAL.into());
        }
        Ok(())
    }

    /// With a hash of the bytes, so that two runs differ where what they read or write does.
    fn note(&self, what: &'static str, offset: u64, bytes: &[u8]) {
        let Some(turn) = self.disk.turn.upgrade() else { return };
        turn.note(what, [self.file << 40 ^ offset, crate::sim::trace::hash(bytes)]);
    }
}

impl Drop for OpenFile {
    fn drop(&mut self) {
        let mut state = self.disk.state();
        if state.process == self.process {
            state.close(self.file, self.open);
        }
    }
}
