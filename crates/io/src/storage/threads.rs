//! Threads that read, blocking, what a worker cannot read on its own ring.
//!
//! They are shared by the process and started as reads come, up to a number; a thread that waits for work sleeps. Files and other
//! sources have threads of their own, because an object store that takes 100 ms must not hold the files up.
//!
//! A finished read goes into the [`Reads`] of the reactor that asked, and its [`Wake`] is written unless a wake is already on
//! its way. So a burst of reads costs one wake, and no thread polls. Requests own their memory: a reactor may be dropped while
//! threads still read for it.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering, fence};
use std::sync::{Arc, Condvar, Mutex, PoisonError};

use crossbeam_queue::SegQueue;

use super::{ReadDone, ReadRequest, Source};
use crate::file::File;
use crate::wake::Wake;

/// Threads that read files: enough to keep a device busy, few enough to have no part in the memory of the process.
const FILE_THREADS_MAX: usize = 16;
/// Threads that read other sources, which mostly wait for a network.
const SOURCE_THREADS_MAX: usize = 32;
/// Finished reads that one round of a reactor takes, so that they do not starve its connections.
const DONE_MAX: usize = 512;

static FILES: Lane = Lane::new(FILE_THREADS_MAX);
static SOURCES: Lane = Lane::new(SOURCE_THREADS_MAX);

/// What one reactor has the threads read.
pub(crate) struct Reads {
    inbox: Arc<Inbox>,
    /// Started and not taken back yet.
    in_flight: usize,
    /// How many the current round may still take.
    left: usize,
}

/// Where finished reads wait for their reactor.
struct Inbox {
    done: SegQueue<ReadDone>,
    /// The reactor has been woken and has not looked since.
    told: AtomicBool,
    wake: Arc<Wake>,
}

impl Reads {
    pub(crate) fn new(wake: &Arc<Wake>) -> Self {
        let inbox = Inbox { done: SegQueue::new(), told: AtomicBool::new(false), wake: Arc::clone(wake) };
        Self { inbox: Arc::new(inbox), in_flight: 0, left: 0 }
    }

    /// Has a thread read.
    pub(crate) fn start(&mut self, request: ReadRequest) {
        if self.in_flight == 0 {
            // A read may have been taken back before its thread told so; that must not pass for word of this one.
            self.inbox.told.swap(false, Ordering::AcqRel);
        }
        self.in_flight += 1;
        let lane = match request.source {
            Source::File { .. } => &FILES,
            Source::Blocking { .. } => &SOURCES,
        };
        lane.submit(Job { request, inbox: Arc::clone(&self.inbox) });
    }

    /// Whether there are finished reads that a wait would not be ended for, because the last round left them.
    pub(crate) fn are_left(&self) -> bool {
        self.in_flight > 0 && !self.inbox.done.is_empty()
    }

    /// To be called after each wait.
    pub(crate) fn begin_round(&mut self) {
        if self.in_flight > 0 {
            // A thread that completes a read after this wakes again; reads completed before are seen below.
            self.inbox.told.swap(false, Ordering::AcqRel);
            self.left = DONE_MAX;
        }
    }

    /// The next finished read of the round.
    pub(crate) fn next(&mut self) -> Option<ReadDone> {
        if self.in_flight == 0 || self.left == 0 {
            return None;
        }
        let done = self.inbox.done.pop()?;
        self.in_flight -= 1;
        self.left -= 1;
        Some(done)
    }
}

impl Inbox {
    fn complete(&self, done: ReadDone) {
        self.done.push(done);
        if !self.told.swap(true, Ordering::AcqRel) {
            self.wake.wake();
        }
    }
}

struct Job {
    request: ReadRequest,
    inbox: Arc<Inbox>,
}

impl Job {
    fn execute(self) {
        let ReadRequest { token, source, mut buffer } = self.request;
        let result = match &source {
            Source::File { file, offset } => read_whole(file, *offset, &mut buffer),
            Source::Blocking { source, offset } => catch_unwind(AssertUnwindSafe(|| source.read_at(*offset, &mut buffer)))
                .unwrap_or_else(|_| Err(io::Error::other("the read of the device panicked"))),
        };
        drop(source);
        self.inbox.complete(ReadDone { token, buffer, result });
    }

    fn fail(self, error: &io::Error) {
        let ReadRequest { token, buffer, .. } = self.request;
        self.inbox.complete(ReadDone { token, buffer, result: Err(io::Error::new(error.kind(), error.to_string())) });
    }
}

/// Threads with one queue of jobs.
struct Lane {
    jobs: SegQueue<Job>,
    threads_max: usize,
    threads: AtomicUsize,
    /// Threads that sleep or are about to, less those that a wake-up is meant for.
    sleepers: AtomicUsize,
    /// Wake-ups that are not taken yet.
    calls: Mutex<usize>,
    called: Condvar,
}

impl Lane {
    const fn new(threads_max: usize) -> Self {
        Self {
            jobs: SegQueue::new(),
            threads_max,
            threads: AtomicUsize::new(0),
            sleepers: AtomicUsize::new(0),
            calls: Mutex::new(0),
            called: Condvar::new(),
        }
    }

    fn submit(&'static self, job: Job) {
        self.jobs.push(job);
        // With the fence in `sleep`: this sees the sleeper, or the sleeper sees the job.
        fence(Ordering::SeqCst);
        if self.take_sleeper() {
            *self.calls.lock().unwrap_or_else(PoisonError::into_inner) += 1;
            self.called.notify_one();
        } else {
            self.grow();
        }
    }

    /// Starts a thread if there may be one more. Otherwise all are busy, and they look for jobs before they sleep.
    fn grow(&'static self) {
        let more = |count: usize| (count < self.threads_max).then_some(count + 1);
        if self.threads.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_err() {
            return;
        }
        let Err(error) = crate::thread::spawn("read", move || self.run()) else { return };
        if self.threads.fetch_sub(1, Ordering::Relaxed) == 1 {
            while let Some(job) = self.jobs.pop() {
                job.fail(&error);
            }
        }
    }

    fn run(&self) {
        loop {
            while let Some(job) = self.jobs.pop() {
                job.execute();
            }
            self.sleep();
        }
    }

    fn sleep(&self) {
        self.sleepers.fetch_add(1, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        // When the count is down already, a call is on its way, and it is taken below.
        if !self.jobs.is_empty() && self.take_sleeper() {
            return;
        }
        let calls = self.calls.lock().unwrap_or_else(PoisonError::into_inner);
        let mut calls = self.called.wait_while(calls, |calls| *calls == 0).unwrap_or_else(PoisonError::into_inner);
        *calls -= 1;
    }

    fn take_sleeper(&self) -> bool {
        self.sleepers.fetch_update(Ordering::AcqRel, Ordering::Relaxed, |count| count.checked_sub(1)).is_ok()
    }
}

/// Fills the buffer from a file.
fn read_whole(file: &File, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
    let mut filled = 0;
    while filled < buffer.len() {
        match file.read_at(&mut buffer[filled..], offset + filled as u64) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(count) => filled += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            // With `O_DIRECT` a read stops at an unaligned place only at the end of the file, and cannot go on there.
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) && !filled.is_multiple_of(512) => {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
