//! Reads of devices, on both reactors: they are read right, wake the waiting thread, none is lost, and a reactor may go at any
//! time.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::fs::OpenOptions;
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use almandine_io::file::File;
use almandine_io::reactor::{Choice, Event, Kind, Outbox, Reactor, select};
use almandine_io::storage::{BlockingSource, Buffer, ReadDone, ReadRequest, Source};
use almandine_io::wake::Wake;

const BLOCK: usize = 4096;
const BLOCKS: u64 = 512;
/// Bytes behind the last whole block.
const ODD: usize = 100;

fn kinds() -> impl Iterator<Item = Kind> {
    [Kind::Epoll, Kind::Uring].into_iter().filter(|kind| select(Choice::Only(*kind)).is_ok())
}

/// A file whose every 8 bytes are the number of their block; removed when dropped.
struct Blocks {
    path: PathBuf,
}

impl Blocks {
    fn new() -> Self {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let name = format!("almandine-io-reads-{}-{}", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(name);
        let mut bytes: Vec<u8> = (0..BLOCKS).flat_map(|block| block.to_le_bytes().repeat(BLOCK / 8)).collect();
        bytes.extend_from_slice(&[9; ODD]);
        std::fs::write(&path, bytes).unwrap();
        Self { path }
    }

    fn open(&self) -> Arc<File> {
        Arc::new(std::fs::File::open(&self.path).unwrap().into())
    }

    /// With `O_DIRECT`, where the file system has it.
    fn direct(&self) -> Option<Arc<File>> {
        OpenOptions::new().read(true).custom_flags(libc::O_DIRECT).open(&self.path).ok().map(|file| Arc::new(file.into()))
    }
}

impl Drop for Blocks {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

/// A source that answers once it is opened.
#[derive(Default)]
struct Gate {
    open: Mutex<bool>,
    opened: Condvar,
}

impl Gate {
    fn open(&self) {
        *self.open.lock().unwrap() = true;
        self.opened.notify_all();
    }
}

impl BlockingSource for Gate {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        let _open = self.opened.wait_while(self.open.lock().unwrap(), |open| !*open).unwrap();
        buffer.fill(offset as u8);
        Ok(())
    }
}

struct Failing;

impl BlockingSource for Failing {
    fn read_at(&self, offset: u64, _: &mut [u8]) -> io::Result<()> {
        assert!(offset == 0, "a panic that a test wants");
        Err(io::Error::new(io::ErrorKind::PermissionDenied, "no"))
    }
}

struct Worker {
    reactor: Reactor,
    outbox: Outbox,
}

impl Worker {
    fn new(kind: Kind) -> Self {
        let reactor = Reactor::new(kind, &Arc::new(Wake::new().unwrap())).unwrap();
        let outbox = reactor.outbox();
        Self { reactor, outbox }
    }

    fn file(&mut self, token: u64, file: &Arc<File>, offset: u64, bytes: usize) {
        let source = Source::File { file: Arc::clone(file), offset };
        self.reactor.read(ReadRequest { token, source, buffer: Buffer::new(bytes) });
    }

    fn blocking(&mut self, token: u64, source: &Arc<impl BlockingSource + 'static>, offset: u64) {
        let source = Source::Blocking { source: Arc::clone(source) as _, offset };
        self.reactor.read(ReadRequest { token, source, buffer: Buffer::new(BLOCK) });
    }

    /// What ended in one round.
    fn round(&mut self, timeout: Duration) -> Vec<ReadDone> {
        self.reactor.wait(timeout, &mut self.outbox).unwrap();
        let mut all = Vec::new();
        while let Some(event) = self.reactor.next() {
            match event {
                Event::Read(done) => all.push(done),
                other => panic!("{other:?}"),
            }
        }
        all
    }

    fn take(&mut self, count: usize) -> Vec<ReadDone> {
        let start = Instant::now();
        let mut all = Vec::new();
        while all.len() < count {
            assert!(start.elapsed() < Duration::from_secs(60), "{} of {count} came", all.len());
            all.extend(self.round(Duration::from_secs(10)));
        }
        assert_eq!(all.len(), count);
        all
    }
}

fn assert_block(buffer: &[u8], block: u64) {
    assert!(buffer.chunks(8).all(|word| word == block.to_le_bytes()), "block {block} has {:?}", &buffer[..8]);
}

#[test]
fn five_thousand_reads_come_back_whole() {
    let blocks = Blocks::new();
    for kind in kinds() {
        for file in [Some(blocks.open()), blocks.direct()].into_iter().flatten() {
            let mut worker = Worker::new(kind);
            for token in 0..5000 {
                worker.file(token, &file, token * 7 % BLOCKS * BLOCK as u64, BLOCK);
            }
            let mut seen = vec![false; 5000];
            for done in worker.take(5000) {
                done.result.unwrap();
                assert_block(&done.buffer, done.token * 7 % BLOCKS);
                assert!(!std::mem::replace(&mut seen[done.token as usize], true));
            }
            assert_eq!(Arc::strong_count(&file), 1);
        }
    }
}

#[test]
fn long_reads_are_whole() {
    let blocks = Blocks::new();
    for kind in kinds() {
        let mut worker = Worker::new(kind);
        let file = blocks.direct().unwrap_or_else(|| blocks.open());
        for token in 0..64 {
            worker.file(token, &file, token * 4 * BLOCK as u64, 16 * BLOCK);
        }
        for done in worker.take(64) {
            done.result.unwrap();
            (0..).zip(done.buffer.chunks(BLOCK)).for_each(|(index, chunk)| assert_block(chunk, done.token * 4 + index));
        }
    }
}

#[test]
fn the_end_of_a_file_is_an_error() {
    let blocks = Blocks::new();
    for kind in kinds() {
        for file in [Some(blocks.open()), blocks.direct()].into_iter().flatten() {
            let mut worker = Worker::new(kind);
            for (token, block, count) in
                [(0, BLOCKS - 1, 1), (1, BLOCKS - 1, 2), (2, BLOCKS, 1), (3, BLOCKS + 1, 1), (4, BLOCKS + 100, 4)]
            {
                worker.file(token, &file, block * BLOCK as u64, count * BLOCK);
            }
            let mut all = worker.take(5);
            all.sort_by_key(|done| done.token);
            assert!(all[0].result.is_ok());
            for done in &all[1..] {
                assert_eq!(done.result.as_ref().unwrap_err().kind(), io::ErrorKind::UnexpectedEof, "{done:?}");
            }
        }
    }
}

#[test]
fn errors_are_delivered() {
    let blocks = Blocks::new();
    let write_only = Arc::new(File::from(OpenOptions::new().write(true).open(&blocks.path).unwrap()));
    for kind in kinds() {
        let mut worker = Worker::new(kind);
        worker.file(0, &write_only, 0, BLOCK);
        worker.blocking(1, &Arc::new(Failing), 0);
        worker.blocking(2, &Arc::new(Failing), 1);
        if let Some(direct) = blocks.direct() {
            worker.file(3, &direct, 1, BLOCK);
        }
        let mut all = worker.take(if blocks.direct().is_some() { 4 } else { 3 });
        all.sort_by_key(|done| done.token);
        let error = |index: usize| all[index].result.as_ref().unwrap_err();
        assert_eq!(error(0).raw_os_error(), Some(libc::EBADF));
        assert_eq!(error(1).kind(), io::ErrorKind::PermissionDenied);
        assert!(error(2).to_string().contains("panicked"));
        if all.len() > 3 {
            assert_eq!(error(3).raw_os_error(), Some(libc::EINVAL));
        }
        // The threads are still there.
        let gate = Arc::new(Gate::default());
        gate.open();
        (0..100).for_each(|token| worker.blocking(token, &gate, token));
        worker.take(100).iter().for_each(|done| assert!(done.buffer.iter().all(|byte| *byte == done.token as u8)));
    }
}

#[test]
fn a_finished_read_ends_the_wait() {
    let blocks = Blocks::new();
    for kind in kinds() {
        let mut worker = Worker::new(kind);
        let file = blocks.direct().unwrap_or_else(|| blocks.open());
        let mut slowest = Duration::ZERO;
        for token in 0..300 {
            let start = Instant::now();
            worker.file(token, &file, token * BLOCK as u64, BLOCK);
            assert_block(&worker.take(1)[0].buffer, token);
            slowest = slowest.max(start.elapsed());
            // The gate opens while the worker sleeps.
            let gate = Arc::new(Gate::default());
            worker.blocking(token, &gate, token);
            if token % 10 == 0 {
                assert!(worker.round(Duration::from_millis(1)).is_empty());
            }
            let opener = std::thread::spawn(move || gate.open());
            let start = Instant::now();
            worker.take(1);
            slowest = slowest.max(start.elapsed());
            opener.join().unwrap();
        }
        // A lost wake would take 10 s.
        assert!(slowest < Duration::from_secs(5), "{slowest:?}");
    }
}

#[test]
fn a_slow_source_does_not_hold_files_up() {
    let blocks = Blocks::new();
    for kind in kinds() {
        let mut worker = Worker::new(kind);
        let (gate, file) = (Arc::new(Gate::default()), blocks.open());
        (0..200).for_each(|token| worker.blocking(token, &gate, 0));
        (1000..2000).for_each(|token| worker.file(token, &file, token % BLOCKS * BLOCK as u64, BLOCK));
        assert!(worker.take(1000).iter().all(|done| done.token >= 1000));
        assert!(worker.round(Duration::from_millis(20)).is_empty());
        gate.open();
        assert!(worker.take(200).iter().all(|done| done.token < 200));
    }
}

#[test]
fn a_round_takes_a_bounded_number_and_leaves_none() {
    for kind in kinds() {
        let mut worker = Worker::new(kind);
        let gate = Arc::new(Gate::default());
        gate.open();
        (0..3000).for_each(|token| worker.blocking(token, &gate, 0));
        std::thread::sleep(Duration::from_millis(300));
        let first = worker.round(Duration::from_secs(1)).len();
        assert!((1..1000).contains(&first), "{first}");
        worker.take(3000 - first);
    }
}

#[test]
fn a_reactor_may_go_while_it_reads() {
    let blocks = Blocks::new();
    for kind in kinds() {
        for rounds in 0..3 {
            let file = blocks.direct().unwrap_or_else(|| blocks.open());
            let gate = Arc::new(Gate::default());
            let mut worker = Worker::new(kind);
            for token in 0..3000 {
                worker.file(token, &file, token % (BLOCKS - 16) * BLOCK as u64, 16 * BLOCK);
            }
            (0..50).for_each(|token| worker.blocking(token, &gate, 0));
            (0..rounds).for_each(|_| _ = worker.round(Duration::ZERO));
            drop(worker);
            if kind == Kind::Uring {
                // The ring's reads have ended or were never begun.
                assert_eq!(Arc::strong_count(&file), 1);
            }
            gate.open();
            let start = Instant::now();
            while Arc::strong_count(&file) + Arc::strong_count(&gate) > 2 {
                assert!(start.elapsed() < Duration::from_secs(60));
                std::thread::sleep(Duration::from_millis(1));
            }
        }
    }
}

#[test]
fn a_read_that_never_ends_is_cancelled() {
    let start = Instant::now();
    let (reader, writer) = io::pipe().unwrap();
    if kinds().any(|kind| kind == Kind::Uring) {
        let file = Arc::new(File::from(std::fs::File::from(std::os::fd::OwnedFd::from(reader))));
        let mut worker = Worker::new(Kind::Uring);
        worker.file(1, &file, 0, BLOCK);
        assert!(worker.round(Duration::from_millis(10)).is_empty());
        drop(worker);
        assert_eq!(Arc::strong_count(&file), 1);
    }
    drop(writer);
    assert!(start.elapsed() < Duration::from_secs(20));
}
