//! Reading many places at once from a thread that may wait: background work that would otherwise go to the device one by one.
//!
//! Files are read through a small ring of the thread's own, all in flight together; whatever cannot go that way is read in
//! turn. Nothing is left in flight when [`BatchReader::read`] returns, so the buffers are the caller's all the time.

use super::{Buffer, Source};
use io_uring::{IoUring, opcode, types};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;

/// Reads in flight together.
const DEPTH: u32 = 64;

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

    fn alone(&mut self) {
        self.result = match &self.source {
            Source::File { file, offset } => file.read_exact_at(&mut self.buffer, *offset),
            Source::Blocking { source, offset } => source.read_at(*offset, &mut self.buffer),
        };
    }
}

/// Reads batches. One per thread.
#[derive(Default)]
pub struct BatchReader {
    /// Made when it is first needed; never, where the kernel has none.
    ring: Option<Option<IoUring>>,
}

impl BatchReader {
    /// Does all of the reads.
    pub fn read(&mut self, reads: &mut [BatchRead]) {
        let ring = self.ring.get_or_insert_with(|| IoUring::new(DEPTH).ok());
        let Some(ring) = ring.as_mut().filter(|_| reads.len() > 1) else {
            reads.iter_mut().for_each(BatchRead::alone);
            return;
        };
        for group in reads.chunks_mut(DEPTH as usize) {
            if !read_group(ring, group) {
                // The ring is in an unknown state: it is not used again.
                self.ring = Some(None);
                return self.read(reads);
            }
        }
    }
}

/// Reads up to [`DEPTH`] places. False when the ring failed; then nothing is in flight, or the ring is gone.
fn read_group(ring: &mut IoUring, group: &mut [BatchRead]) -> bool {
    let mut expected = 0;
    for (index, read) in group.iter_mut().enumerate() {
        let Source::File { file, offset } = &read.source else {
            read.alone();
            continue;
        };
        let len = u32::try_from(read.buffer.len()).unwrap_or(u32::MAX);
        let entry = opcode::Read::new(types::Fd(file.as_raw_fd()), read.buffer.as_mut_ptr(), len)
            .offset(*offset)
            .build()
            .user_data(index as u64);
        // SAFETY: buffer and file live in `group`, and this function returns only after every entry's completion has come.
        if unsafe { ring.submission().push(&entry) }.is_err() {
            read.alone();
            continue;
        }
        expected += 1;
    }
    let mut done = 0;
    while done < expected {
        match ring.submit_and_wait(1) {
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            // Nothing that the kernel took can be given up while it may still write: better to end than to free the memory.
            Err(_) if done + ring.submission().len() < expected => std::process::abort(),
            Err(_) => return false,
        }
        for completion in ring.completion() {
            done += 1;
            let Some(read) = usize::try_from(completion.user_data()).ok().and_then(|index| group.get_mut(index)) else { continue };
            match usize::try_from(completion.result()) {
                Ok(bytes) if bytes == read.buffer.len() => read.result = Ok(()),
                // Short or interrupted: once more, in the slow way that does all of it or says why not.
                _ => read.alone(),
            }
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::BLOCK_BYTES;
    use std::sync::Arc;

    #[test]
    fn a_batch_reads_every_place_and_says_what_is_not_there() {
        let path = std::env::temp_dir().join(format!("almandine-batch-{}", std::process::id()));
        let blocks = 200u64;
        let bytes: Vec<u8> = (0..blocks).flat_map(|block| [block as u8; BLOCK_BYTES]).collect();
        std::fs::write(&path, bytes).unwrap();
        let file = Arc::new(std::fs::File::open(&path).unwrap());
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
