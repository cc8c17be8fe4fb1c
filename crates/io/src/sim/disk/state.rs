//! The state of one disk: files by number, their names and locks, what is under way, and the faults that are drawn.

use std::collections::BTreeMap;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};

use rustix::io::Errno;

use super::content::{Content, How, PAGE_BYTES, WriteFault};
use super::faults::{DiskFaults, Failure};
use super::names::Names;
use crate::sim::choice::Subsystem;
use crate::sim::node::CrashKind;
use crate::sim::turn::Turn;

const PAGE: u64 = PAGE_BYTES as u64;
/// Operations that a full disk may refuse.
const NEED_ROOM: [&str; 6] = ["opens a file", "writes", "syncs", "sets a length", "renames", "makes directories"];

#[derive(Default)]
pub(super) struct State {
    pub(super) names: Names,
    pub(super) files: BTreeMap<u64, Inode>,
    pub(super) faults: DiskFaults,
    /// The faults of what lies below a directory, where that has its own.
    pub(super) apart: Option<(PathBuf, DiskFaults)>,
    /// How often each fault has happened.
    pub(super) happened: BTreeMap<&'static str, u64>,
    /// Which process uses the disk: the opens of an earlier one are dead.
    pub(super) process: u64,
    /// Changes that began.
    pub(super) changes: u64,
    pub(super) crash_at: Option<(u64, CrashKind)>,
    /// Operations that began.
    pub(super) operations: u64,
    pub(super) fail_at: Option<(Range<u64>, Failure)>,
    /// Direct writes that have not reached the disk.
    under_way: BTreeMap<u64, Write>,
    last_number: u64,
}

#[derive(Default)]
pub(super) struct Inode {
    pub(super) content: Content,
    /// It was made below a directory with faults of its own.
    is_apart: bool,
    opens: u64,
    /// The open that has the lock.
    lock: Option<u64>,
}

impl Inode {
    pub(super) fn new(is_apart: bool) -> Self {
        Self { is_apart, ..Self::default() }
    }
}

/// A write whose fate is drawn.
pub(super) struct Write {
    pub(super) file: u64,
    pub(super) offset: u64,
    pub(super) bytes: Vec<u8>,
    pub(super) how: How,
}

/// What goes wrong, and the name under which that is counted where the directory with faults of its own lies.
const APART: [(&str, &str); 10] = [
    ("a read fails", "apart: a read fails"),
    ("an unreadable page is read", "apart: an unreadable page is read"),
    ("the disk is full", "apart: the disk is full"),
    ("a write fails", "apart: a write fails"),
    ("a write is lost", "apart: a write is lost"),
    ("a write is misdirected", "apart: a write is misdirected"),
    ("a bit is flipped", "apart: a bit is flipped"),
    ("a page becomes unreadable", "apart: a page becomes unreadable"),
    ("a sync fails", "apart: a sync fails"),
    ("a hole fails", "apart: a hole fails"),
];

fn told(what: &'static str, is_apart: bool) -> &'static str {
    APART.iter().find(|(name, _)| is_apart && *name == what).map_or(what, |(_, told)| told)
}

/// The state with what it draws from.
pub(super) struct Drawing<'a> {
    pub(super) state: &'a mut State,
    pub(super) turn: &'a Turn,
}

impl State {
    /// A number that was not used before.
    pub(super) fn number(&mut self) -> u64 {
        self.last_number += 1;
        self.last_number
    }

    pub(super) fn file(&mut self, file: u64) -> io::Result<&mut Inode> {
        Ok(self.files.get_mut(&file).ok_or(Errno::NOENT)?)
    }

    /// A further open of a file; its number.
    pub(super) fn open(&mut self, file: u64) -> io::Result<u64> {
        self.file(file)?.opens += 1;
        Ok(self.number())
    }

    pub(super) fn close(&mut self, file: u64, open: u64) {
        let Some(inode) = self.files.get_mut(&file) else { return };
        inode.opens = inode.opens.saturating_sub(1);
        inode.lock = inode.lock.filter(|holder| *holder != open);
        if inode.opens == 0 {
            self.free();
        }
    }

    /// False when another open has the lock.
    pub(super) fn lock(&mut self, file: u64, open: u64) -> io::Result<bool> {
        let holder = *self.file(file)?.lock.get_or_insert(open);
        Ok(holder == open)
    }

    /// Frees files without a name that are not open.
    pub(super) fn free(&mut self) {
        let reachable = self.names.reachable();
        self.files.retain(|number, inode| inode.opens > 0 || reachable.contains(number));
    }

    /// Bytes of the files that are apart, or of the others.
    fn used_bytes(&self, is_apart: bool) -> u64 {
        let files = self.files.values().filter(|inode| inode.is_apart == is_apart);
        files.map(|inode| inode.content.pages() as u64 * PAGE).sum()
    }

    /// Whether a path lies below the directory with faults of its own.
    pub(super) fn is_apart(&self, path: &Path) -> bool {
        self.apart.as_ref().is_some_and(|(directory, _)| Names::absolute(path).starts_with(directory))
    }

    fn faults(&self, is_apart: bool) -> &DiskFaults {
        match &self.apart {
            Some((_, faults)) if is_apart => faults,
            _ => &self.faults,
        }
    }

    /// The faults of a file.
    fn faults_of(&self, file: u64) -> &DiskFaults {
        self.faults(self.is_file_apart(file))
    }

    fn is_file_apart(&self, file: u64) -> bool {
        self.files.get(&file).is_some_and(|inode| inode.is_apart)
    }

    /// A direct write begins.
    pub(super) fn begin(&mut self, write: Write) -> u64 {
        let number = self.number();
        self.under_way.insert(number, write);
        number
    }

    /// A direct write reaches the disk, unless a crash has taken it.
    pub(super) fn end(&mut self, number: u64) {
        if let Some(write) = self.under_way.remove(&number) {
            self.apply(&write);
        }
    }

    pub(super) fn apply(&mut self, write: &Write) {
        if let Some(inode) = self.files.get_mut(&write.file) {
            inode.content.write(write.offset, &write.bytes, write.how);
        }
    }
}

impl Drawing<'_> {
    pub(super) fn below(&self, limit: u64) -> u64 {
        self.turn.below(Subsystem::Disk, limit)
    }

    /// Whether a fault happens; then it is counted and in the trace.
    pub(super) fn fault(&mut self, what: &'static str, per_million: u32, numbers: [u64; 2]) -> bool {
        let happens = self.turn.hits(Subsystem::Disk, per_million);
        if happens {
            self.happens(what, numbers);
        }
        happens
    }

    /// As [`Drawing::fault`], of a file.
    fn fault_of(&mut self, file: u64, what: &'static str, per_million: u32, offset: u64) -> bool {
        self.fault(told(what, self.state.is_file_apart(file)), per_million, [file, offset])
    }

    fn happens_to(&mut self, file: u64, what: &'static str, numbers: [u64; 2]) {
        self.happens(told(what, self.state.is_file_apart(file)), numbers);
    }

    /// A directory becomes durable, or fails to once.
    pub(super) fn sync_fails(&mut self, directory: u64, path: &Path) -> bool {
        let is_apart = self.state.is_apart(path);
        self.fault(told("a sync fails", is_apart), self.state.faults(is_apart).sync_errors, [directory, 0])
    }

    fn happens(&mut self, what: &'static str, numbers: [u64; 2]) {
        *self.state.happened.entry(what).or_default() += 1;
        self.turn.note(what, numbers);
    }

    /// Does something while the faults are those of an operation that is to fail.
    pub(super) fn failing<T>(&mut self, failure: Option<Failure>, operate: impl FnOnce(&mut Self) -> T) -> T {
        const ALL: u32 = 1_000_000;
        let Some(failure) = failure else { return operate(self) };
        let usual = (self.state.faults.clone(), self.state.apart.clone());
        let apart = self.state.apart.as_mut().map(|(_, faults)| faults);
        for faults in std::iter::once(&mut self.state.faults).chain(apart) {
            match failure {
                Failure::Full => faults.full_at_bytes = Some(0),
                Failure::Medium => {
                    (faults.read_errors, faults.write_errors, faults.sync_errors, faults.punch_errors) = (ALL, ALL, ALL, ALL);
                }
            }
        }
        let result = operate(self);
        (self.state.faults, self.state.apart) = usual;
        result
    }

    /// An operation by its name: what fails by its number has happened or not, or in part.
    pub(super) fn perform<T>(
        &mut self,
        (what, failure): (&'static str, Option<Failure>),
        operate: impl FnOnce(&mut Self) -> io::Result<T>,
    ) -> io::Result<T> {
        let Some(failure) = failure else { return operate(self) };
        let told = match failure {
            Failure::Medium => Errno::IO,
            // What makes no name and writes nothing needs no room.
            Failure::Full if !NEED_ROOM.contains(&what) => return operate(self),
            Failure::Full => Errno::NOSPC,
        };
        *self.state.happened.entry(what).or_default() += 1;
        self.turn.note("an operation is to fail", [0, 0]);
        let is_transfer = ["writes", "syncs", "syncs a directory", "makes a hole"].contains(&what);
        // A full disk refuses before it does anything, but for a write of which a part had room.
        let is_begun =
            is_transfer && failure == Failure::Medium || what == "writes" || failure == Failure::Medium && self.below(2) == 1;
        if is_begun {
            let done = self.failing(Some(failure), operate);
            if is_transfer {
                return done;
            }
        }
        Err(told.into())
    }

    /// How many bytes of a transfer happen, where one may be short. A direct one is cut between pages.
    fn cut(&mut self, what: &'static str, per_million: u32, [offset, bytes]: [u64; 2], direct: bool) -> u64 {
        let unit = if direct { PAGE } else { 1 };
        if bytes <= unit || !self.fault(what, per_million, [offset, bytes]) {
            return bytes;
        }
        unit + self.below((bytes / unit).saturating_sub(1)) * unit
    }

    /// Reads once; as the system does, a part may be all that comes.
    pub(super) fn read(&mut self, file: u64, buffer: &mut [u8], offset: u64, direct: bool) -> io::Result<usize> {
        let short_reads = self.state.faults_of(file).short_reads;
        let bytes = self.cut("a short read", short_reads, [offset, buffer.len() as u64], direct);
        self.read_whole(file, &mut buffer[..bytes as usize], offset)
    }

    /// Reads until the end of the file.
    pub(super) fn read_whole(&mut self, file: u64, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        if self.fault_of(file, "a read fails", self.state.faults_of(file).read_errors, offset) {
            return Err(Errno::IO.into());
        }
        match self.state.file(file)?.content.read(offset, buffer) {
            Some(count) => Ok(count),
            None => {
                self.happens_to(file, "an unreadable page is read", [file, offset]);
                Err(Errno::IO.into())
            }
        }
    }

    /// Decides what becomes of a write: what of it happens, and what the caller is told.
    pub(super) fn write(&mut self, file: u64, bytes: &[u8], offset: u64, direct: bool) -> (Write, io::Result<usize>) {
        let (faults, numbers) = (self.state.faults_of(file).clone(), [file, offset]);
        let mut count = self.cut("a short write", faults.short_writes, [offset, bytes.len() as u64], direct);
        let mut told = Ok(());
        if let Some(full) = faults.full_at_bytes {
            let free = full.saturating_sub(self.state.used_bytes(self.state.is_file_apart(file))) / PAGE;
            let fits = |count: u64| {
                let inode = self.state.files.get(&file);
                inode.is_none_or(|inode| inode.content.new_pages(offset, count as usize) as u64 <= free)
            };
            let wanted = count;
            while count > 0 && !fits(count) {
                count = ((offset + count - 1) / PAGE * PAGE).saturating_sub(offset);
            }
            if count < wanted {
                self.happens_to(file, "the disk is full", numbers);
            }
            if count == 0 && wanted > 0 {
                told = Err(Errno::NOSPC.into());
            }
        }
        if count > 0 && self.fault_of(file, "a write fails", faults.write_errors, offset) {
            let unit = if direct { PAGE } else { 1 };
            count = self.below(count / unit + 1) * unit;
            told = Err(Errno::IO.into());
        }
        let written_back = self.turn.hits(Subsystem::Disk, faults.written_back);
        let fault = self.write_fault(&faults, file, offset, count);
        let how = How { direct, write: self.state.number(), written_back, fault };
        let bytes = bytes[..count as usize].to_vec();
        (Write { file, offset, bytes, how }, told.map(|()| count as usize))
    }

    fn write_fault(&mut self, faults: &DiskFaults, file: u64, offset: u64, count: u64) -> WriteFault {
        if count == 0 {
            WriteFault::None
        } else if self.fault_of(file, "a write is lost", faults.lost_writes, offset) {
            WriteFault::Lost
        } else if self.turn.hits(Subsystem::Disk, faults.misdirected_writes) {
            let pages = self.state.files.get(&file).map_or(0, |inode| inode.content.bytes().div_ceil(PAGE));
            let to = self.below(pages);
            if to == offset / PAGE {
                return WriteFault::None;
            }
            self.happens_to(file, "a write is misdirected", [offset, to * PAGE]);
            WriteFault::Misdirected(to)
        } else if self.fault_of(file, "a bit is flipped", faults.flipped_bits, offset) {
            WriteFault::Flipped(self.below(count * 8))
        } else if self.fault_of(file, "a page becomes unreadable", faults.unreadable_pages, offset) {
            WriteFault::Unreadable(self.below(count))
        } else {
            WriteFault::None
        }
    }

    /// Makes a file durable, or fails to once.
    pub(super) fn sync(&mut self, file: u64) -> io::Result<()> {
        if self.fault_of(file, "a sync fails", self.state.faults_of(file).sync_errors, 0) {
            let leave_the_cache = self.below(2) == 1;
            self.state.file(file)?.content.forget_unsynced(leave_the_cache);
            return Err(Errno::IO.into());
        }
        self.state.file(file)?.content.sync();
        Ok(())
    }

    pub(super) fn punch(&mut self, file: u64, offset: u64, bytes: u64) -> io::Result<()> {
        if self.fault_of(file, "a hole fails", self.state.faults_of(file).punch_errors, offset) {
            return Err(Errno::IO.into());
        }
        let number = self.state.number();
        self.state.file(file)?.content.punch(offset, bytes, number);
        Ok(())
    }

    /// All opens are gone with their process, and of what was not durable the crash leaves what it leaves.
    pub(super) fn crash(&mut self, kind: CrashKind) {
        self.state.process += 1;
        let numbers: Vec<u64> = self.state.under_way.keys().copied().collect();
        for number in numbers {
            let Some(write) = self.state.under_way.get_mut(&number) else { continue };
            // The kernel has given the disk a part of the write, and that part still reaches it.
            let parts = write.bytes.len() as u64 / PAGE + 1;
            let lost = self.turn.below(Subsystem::Disk, parts) * PAGE;
            write.bytes.truncate(write.bytes.len() - lost as usize);
            if kind == CrashKind::Machine {
                self.state.end(number);
            }
        }
        let turn = self.turn;
        let mut choose = |limit| turn.below(Subsystem::Disk, limit);
        for inode in self.state.files.values_mut() {
            (inode.opens, inode.lock) = (0, None);
            if kind == CrashKind::Machine {
                inode.content.crash(&mut choose);
            }
        }
        if kind == CrashKind::Machine {
            self.state.names.crash(&mut choose);
        }
        self.state.free();
    }
}
