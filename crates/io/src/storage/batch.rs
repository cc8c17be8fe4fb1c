//! Reading many places at once from a thread that may wait: background work that would otherwise go to the device one by one.
//!
//! Files are read through a small ring of the thread's own, all in flight together; whatever cannot go that way is read in
//! turn. Nothing is left in flight when [`BatchReader::read`] returns, so the buffers are the caller's all the time.

use std::io;
use std::time::Duration;

use io_uring::{IoUring, opcode, types};

use super::{Buffer, Source};
use crate::thread;

/// Reads in flight together; at most the bits of a `u64`.
const DEPTH: u32 = 64;
/// How often in a row the kernel may refuse for want of something that it gets back by itself, before the ring is given up.
const PATIENCE: u32 = 1000;
/// Between two of those.
const PAUSE: Duration = Duration::from_millis(1);

/// One read of a batch.
#[derive(Debug)]
pub struct BatchRead {
    /// Where to read.
    pub source: Source,
    /// What to read into; filled whole.
    pub buffer: Buffer,
    /// How it went.
    pub result: io::Result<()>,
}

impl BatchRead {
    /// A read that has not been done.
    #[must_use]
    pub fn new(source: Source, buffer: Buffer) -> Self {
        Self { source, buffer, result: Err(io::ErrorKind::Interrupted.into()) }
    }

    /// Reads by itself, blocking.
    pub(crate) fn alone(&mut self) {
        self.result = match &self.source {
            Source::File { file, offset } => file.read_exact_at(&mut self.buffer, *offset),
            Source::Blocking { source, offset } => source.read_at(*offset, &mut self.buffer),
        };
    }
}

/// One system call that submits what is queued and waits for a completion. Tests have it fail.
type Enter<'a> = &'a mut dyn FnMut(&IoUring) -> io::Result<usize>;

/// Reads batches. One per thread.
#[derive(Default)]
pub struct BatchReader {
    /// Made when it is first needed; never, where the kernel has none.
    ring: Option<Option<IoUring>>,
}

impl BatchReader {
    /// Does all of the reads.
    pub fn read(&mut self, reads: &mut [BatchRead]) {
        self.read_by(reads, &mut |ring| ring.submit_and_wait(1));
    }

    fn read_by(&mut self, reads: &mut [BatchRead], enter: Enter<'_>) {
        #[cfg(feature = "sim")]
        if crate::sim::disk::read_together(reads) {
            return;
        }
        let ring = self.ring.get_or_insert_with(|| IoUring::new(DEPTH).ok());
        let Some(ring) = ring.as_mut().filter(|_| reads.len() > 1) else {
            reads.iter_mut().for_each(BatchRead::alone);
            return;
        };
        for (index, group) in reads.chunks_mut(DEPTH as usize).enumerate() {
            if !read_group(ring, group, enter) {
                // The ring is in an unknown state: it is not used again. What it was asked for is read in turn.
                self.ring = Some(None);
                reads[index * DEPTH as usize..].iter_mut().for_each(BatchRead::alone);
                return;
            }
        }
    }
}

/// Reads up to [`DEPTH`] places. False when the ring failed: then it must be dropped, and every read of the group be done again.
fn read_group(ring: &mut IoUring, group: &mut [BatchRead], enter: Enter<'_>) -> bool {
    let mut expected = submit_group(ring, group);
    let mut patience = PATIENCE;
    while expected != 0 {
        let entered = enter(ring);
        let before = expected;
        for completion in ring.completion() {
            let index = completion.user_data();
            expected &= !(1 << index);
            let Some(read) = usize::try_from(index).ok().and_then(|index| group.get_mut(index)) else { continue };
            match usize::try_from(completion.result()) {
                Ok(bytes) if bytes == read.buffer.len() => read.result = Ok(()),
                // Short or interrupted: once more, in the slow way that does all of it or says why not.
                _ => read.alone(),
            }
        }
        match entered {
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) if expected != before => patience = PATIENCE,
            // The kernel is short of memory, or its queue is full for the moment.
            Err(error) if matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::EBUSY)) && patience > 0 => {
                patience -= 1;
                thread::sleep(PAUSE);
            }
            Err(_) => {
                abandon(group, expected);
                return false;
            }
        }
    }
    true
}

/// Queues the reads of a group. Returns a bit for each read whose completion must be waited for.
fn submit_group(ring: &mut IoUring, group: &mut [BatchRead]) -> u64 {
    debug_assert!(group.len() <= DEPTH as usize, "a bit for each read");
    let mut expected = 0;
    for (index, read) in group.iter_mut().enumerate() {
        let Source::File { file, offset } = &read.source else {
            read.alone();
            continue;
        };
        let len = u32::try_from(read.buffer.len()).unwrap_or(u32::MAX);
        let entry = opcode::Read::new(types::Fd(file.descriptor()), read.buffer.as_mut_ptr(), len)
            .offset(*offset)
            .build()
            .user_data(index as u64);
        // SAFETY: file and buffer live in `group` until the entry's completion has come, or for ever: `read_group` returns only
        // after the completions of all entries, or leaves the memory of the others to the kernel (see `abandon`).
        if unsafe { ring.submission().push(&entry) }.is_err() {
            read.alone();
            continue;
        }
        expected |= 1 << index;
    }
    expected
}

/// Leaves the buffers and files of the reads in `expected` to the kernel for ever: it may still write there. They get new buffers.
#[cold]
fn abandon(group: &mut [BatchRead], expected: u64) {
    for (index, read) in group.iter_mut().enumerate() {
        if expected & 1 << index != 0 {
            let fresh = Buffer::new(read.buffer.len());
            std::mem::forget(std::mem::replace(&mut read.buffer, fresh));
            std::mem::forget(read.source.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::BLOCK_BYTES;
    use std::sync::Arc;

    /// A file whose blocks are filled with their numbers, and a read of each, the last block first.
    fn reads(name: &str, blocks: u64) -> (std::path::PathBuf, Vec<BatchRead>) {
        let path = std::env::temp_dir().join(format!("almandine-batch-{name}-{}", std::process::id()));
        let bytes: Vec<u8> = (0..blocks).flat_map(|block| [block as u8; BLOCK_BYTES]).collect();
        std::fs::write(&path, bytes).unwrap();
        let file = Arc::new(std::fs::File::open(&path).unwrap().into());
        let read = |block: u64| {
            let source = Source::File { file: Arc::clone(&file), offset: block * BLOCK_BYTES as u64 };
            BatchRead::new(source, Buffer::new(BLOCK_BYTES))
        };
        let reads = (0..blocks).rev().map(read).collect();
        (path, reads)
    }

    fn assert_read(reads: &[BatchRead]) {
        for (read, block) in reads.iter().rev().zip(0..) {
            assert!(read.result.is_ok(), "block {block}: {:?}", read.result);
            assert!(read.buffer.iter().all(|&byte| byte == block), "block {block}");
        }
    }

    #[test]
    fn a_kernel_that_is_busy_is_asked_again() {
        for number in [libc::EAGAIN, libc::EBUSY, libc::EINTR] {
            for refuse in [0..2, 1..3] {
                let (path, mut reads) = reads("busy", 100);
                let mut calls = 0;
                let mut reader = BatchReader::default();
                reader.read_by(&mut reads, &mut |ring| {
                    calls += 1;
                    if refuse.contains(&calls) { Err(io::Error::from_raw_os_error(number)) } else { ring.submit_and_wait(1) }
                });
                assert_read(&reads);
                assert!(matches!(reader.ring, Some(Some(_))), "the ring is kept");
                std::fs::remove_file(path).unwrap();
            }
        }
    }

    #[test]
    fn a_ring_that_fails_with_reads_in_flight_is_given_up_and_the_reads_are_done() {
        let (path, mut reads) = reads("broken", 100);
        let mut calls = 0;
        let mut reader = BatchReader::default();
        reader.read_by(&mut reads, &mut |ring| {
            calls += 1;
            // The first call submits, and its completions are not all there yet as far as the caller can tell.
            if calls == 1 {
                ring.submit().map(drop)?
            };
            Err(io::Error::from_raw_os_error(libc::EBADF))
        });
        assert_read(&reads);
        assert!(matches!(reader.ring, Some(None)));
        std::fs::remove_file(path).unwrap();
    }

    #[test]
    fn a_batch_reads_every_place_and_says_what_is_not_there() {
        let path = std::env::temp_dir().join(format!("almandine-batch-{}", std::process::id()));
        let blocks = 200u64;
        let bytes: Vec<u8> = (0..blocks).flat_map(|block| [block as u8; BLOCK_BYTES]).collect();
        std::fs::write(&path, bytes).unwrap();
        let file = Arc::new(std::fs::File::open(&path).unwrap().into());
        let read = |block: u64| {
            let source = Source::File { file: Arc::clone(&file), offset: block * BLOCK_BYTES as u64 };
            BatchRead::new(source, Buffer::new(BLOCK_BYTES))
        };
        let mut reads: Vec<BatchRead> = (0..blocks).rev().map(read).chain([read(blocks + 5)]).collect();
        let mut reader = BatchReader::default();
        for _ in 0..2 {
            reader.read(&mut reads);
            let (missing, there) = reads.split_last_mut().unwrap();
            assert!(missing.result.is_err());
            for (read, block) in there.iter().zip((0..blocks).rev()) {
                assert!(read.result.is_ok() && read.buffer.iter().all(|&byte| byte == block as u8));
            }
        }
        std::fs::remove_file(path).unwrap();
    }
}
