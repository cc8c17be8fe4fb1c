//! The io_uring reactor.
//!
//! Every connection has one multishot receive armed: the kernel posts a completion per chunk, in a buffer of the [`pool`], without
//! being asked again. The sends of a round go with the same system call that waits (see [`Outbox`]). Completions are
//! made only inside that call (`DEFER_TASKRUN`), by the thread that waits (`SINGLE_ISSUER`): no interrupt of our code, no lock
//! in the kernel.
//!
//! A completion may be late: its connection may be gone and its place used again. The generation in the user data tells. A removed
//! connection's operations are cancelled before its descriptor is closed, for the kernel holds the file as long as they are
//! armed. Shutting the socket down would complete them too, but by reading on: a peer whose window had closed would then
//! neither get data acknowledged nor a reset, and hang for a minute.
//!
//! Reads of files go the same way, behind the sends of the round and in the same system call; see [`reads`]. The number
//! under way is bounded, so neither a round's submissions nor its completions can keep the sockets waiting for long.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::Arc;
use std::time::Duration;

use io_uring::types::{CancelBuilder, Fd, SubmitArgs, Timespec};
use io_uring::{IoUring, cqueue, opcode, squeue};

use super::event::{End, Event, Interest, Token, at_place};
use super::outbox::{Outbox, Ticket};
use super::stragglers::Stragglers;
use crate::clock;
use crate::socket::{Descriptor, Listener, Stream};
use crate::storage::threads;
use crate::storage::{ReadRequest, Source};
use crate::wake::Wake;
use pool::Pool;
use reads::{Completed, Reads};

mod pool;
mod reads;

/// Submissions per system call; when more come up, they take another call.
const SUBMISSIONS: u32 = 512;
/// Completions that fit the shared queue; the kernel keeps what does not fit and we fetch it.
const COMPLETIONS: u32 = 4096;
/// Fewest reads that are submitted before the round ends: the device works while the worker still asks for more.
/// With 50 reads under way, 4 gave 70 thousand reads per second where 64 gave 62 (example `device_reads`).
const READS_AT_ONCE: usize = 4;
/// While the device is busy, a submission has at least one part in this number of the reads under way: each submission has a price.
const READS_AT_ONCE_SHARE: usize = 16;
/// How long a reactor that is dropped waits for reads that the device does not end; then their memory is never freed.
const READS_TIMEOUT: Duration = Duration::from_secs(30);
/// `IORING_ENTER_GETEVENTS`: run what was deferred and post its completions.
const ENTER_GETEVENTS: u32 = 1;

/// What a completion belongs to; the highest byte of the user data.
mod kind {
    pub(super) const RECEIVE: u8 = 1;
    pub(super) const SEND: u8 = 2;
    pub(super) const ACCEPT: u8 = 3;
    pub(super) const WRITABLE: u8 = 4;
    pub(super) const HANG_UP: u8 = 5;
    pub(super) const WAKE: u8 = 6;
    pub(super) const CANCEL: u8 = 7;
    pub(super) const READ: u8 = 8;
}

/// See the module.
pub struct Uring {
    ring: IoUring,
    pool: Pool,
    /// Completions of this round, taken from the shared queue at once so that it has room again.
    round: Vec<cqueue::Entry>,
    /// The next entry of `round`.
    cursor: usize,
    /// The buffer that the last event lent.
    lent: Option<u16>,
    sockets: Vec<WatchedSocket>,
    listeners: Vec<(u32, Arc<Listener>)>,
    /// Listeners whose last completion has not arrived.
    leaving_listeners: Vec<(u32, Arc<Listener>)>,
    stragglers: Stragglers,
    /// Streams that submissions of this round may name.
    leaving: Vec<Stream>,
    reads: Reads,
    threads: threads::Reads,
    wake: Arc<Wake>,
}

#[derive(Default)]
struct WatchedSocket {
    generation: u32,
    stream: Option<Stream>,
    interest: Option<Interest>,
    receive: Receive,
    awaits_writable: bool,
    awaits_hang_up: bool,
}

/// The multishot receive of a socket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Receive {
    #[default]
    Off,
    Armed,
    /// Cancelled, but its last completion is not here yet.
    Stopping,
}

impl Uring {
    pub(super) fn new(wake: &Arc<Wake>) -> io::Result<Self> {
        let ring = IoUring::builder()
            .setup_single_issuer()
            .setup_defer_taskrun()
            .setup_coop_taskrun()
            .setup_submit_all()
            .setup_cqsize(COMPLETIONS)
            .dontfork()
            .build(SUBMISSIONS)?;
        let params = ring.params();
        if !params.is_feature_nodrop() || !params.is_feature_ext_arg() || !params.is_feature_skip_cqe_on_success() {
            return Err(io::Error::new(io::ErrorKind::Unsupported, "the kernel's io_uring lacks a feature"));
        }
        let pool = Pool::new()?;
        pool.register(&ring.submitter())?;
        let mut reactor = Self {
            ring,
            pool,
            round: Vec::with_capacity(COMPLETIONS as usize),
            cursor: 0,
            lent: None,
            sockets: Vec::new(),
            listeners: Vec::new(),
            leaving_listeners: Vec::new(),
            stragglers: Stragglers::default(),
            leaving: Vec::new(),
            reads: Reads::default(),
            threads: threads::Reads::new(wake),
            wake: Arc::clone(wake),
        };
        reactor.arm_wake()?;
        reactor.submit()?;
        Ok(reactor)
    }

    /// Checks on a pair of sockets that the kernel reports a short send and is silent about a whole one. [`Outbox`] relies on that.
    pub(super) fn probe(&mut self) -> io::Result<()> {
        use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
        let (ours, theirs) = socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
        let stream = Stream::new(ours.into());
        stream.set_send_buffer(4096)?;
        let mut outbox = Outbox::gathering();
        let token = |place| Token { place, generation: 1 };
        // One send is cut in the middle, and the others find no room at all.
        let bytes = [1; 16 * 1024];
        for place in 0..8 {
            outbox.send(token(place), &stream, &bytes, &mut Ticket::default())?;
        }
        self.wait(Duration::ZERO, &mut outbox)?;
        let mut unsent = 0;
        while let Some(rest) = outbox.take_unsent() {
            unsent += rest.rest.len();
        }
        drop(stream);
        let received = Stream::new(theirs.into());
        let mut buffer = vec![0; 8 * 16 * 1024];
        let mut sent = 0;
        while let Some(count @ 1..) = received.receive(&mut buffer)? {
            sent += count;
        }
        if unsent == 0 || sent + unsent != buffer.len() {
            return Err(io::Error::new(io::ErrorKind::Unsupported, "the kernel does not report short sends"));
        }
        Ok(())
    }

    pub(super) fn listen(&mut self, index: u32, listener: &Arc<Listener>) -> io::Result<()> {
        self.listeners.push((index, Arc::clone(listener)));
        self.arm_accept(index, listener.fd().as_raw_fd())
    }

    pub(super) fn stop_listening_on(&mut self, index: u32) {
        if let Some(position) = self.listeners.iter().position(|(known, _)| *known == index) {
            self.leaving_listeners.push(self.listeners.swap_remove(position));
            // It fails only with the interface itself, which the next wait reports.
            let _ = self.push_cancel(data(kind::ACCEPT, Token { place: index, generation: 0 }));
        }
    }

    pub(super) fn stop_listening(&mut self) {
        for (index, _) in std::mem::take(&mut self.listeners) {
            let _ = self.push_cancel(data(kind::ACCEPT, Token { place: index, generation: 0 }));
        }
        let _ = self.submit();
    }

    pub(super) fn add(&mut self, token: Token, stream: &Stream) -> io::Result<()> {
        let socket = WatchedSocket {
            generation: token.generation,
            stream: Some(stream.clone()),
            interest: Some(Interest::Data),
            ..WatchedSocket::default()
        };
        *at_place(&mut self.sockets, token.place) = socket;
        self.arm_receive(token)
    }

    pub(super) fn watch(&mut self, token: Token, interest: Interest) -> io::Result<()> {
        let Some(socket) = socket(&mut self.sockets, token) else { return Ok(()) };
        socket.interest = Some(interest);
        if interest == Interest::Data {
            return if socket.receive == Receive::Off { self.arm_receive(token) } else { Ok(()) };
        }
        if interest == Interest::HangUp && !std::mem::replace(&mut socket.awaits_hang_up, true) {
            self.arm_poll(token, kind::HANG_UP, libc::POLLRDHUP)?;
        }
        if let Some(socket) = self::socket(&mut self.sockets, token)
            && socket.receive == Receive::Armed
        {
            socket.receive = Receive::Stopping;
            self.push_cancel(data(kind::RECEIVE, token))?;
        }
        Ok(())
    }

    pub(super) fn notify_writable(&mut self, token: Token) -> io::Result<()> {
        let Some(socket) = socket(&mut self.sockets, token) else { return Ok(()) };
        if std::mem::replace(&mut socket.awaits_writable, true) {
            return Ok(());
        }
        self.arm_poll(token, kind::WRITABLE, libc::POLLOUT)
    }

    pub(super) fn remove(&mut self, token: Token) {
        let Some(socket) = socket(&mut self.sockets, token) else { return };
        let armed = socket.receive != Receive::Off || socket.awaits_writable || socket.awaits_hang_up;
        if let Some(stream) = socket.stream.take()
            && armed
        {
            // Its completion makes the next wait short, so that the descriptor is closed soon.
            let cancel = opcode::AsyncCancel2::new(CancelBuilder::fd(Fd(stream.number())).all()).build();
            let pushed = self.push(cancel.user_data(data(kind::CANCEL, Token { place: 0, generation: 0 })));
            debug_assert!(pushed.is_ok());
            self.leaving.push(stream);
        }
    }

    pub(super) fn read(&mut self, request: ReadRequest) {
        let ReadRequest { token, source, buffer } = request;
        match source {
            Source::File { file, offset } => {
                self.reads.wait(token, file, offset, buffer);
                self.submit_reads_early();
            }
            source @ Source::Blocking { .. } => self.threads.start(ReadRequest { token, source, buffer }),
        }
    }

    /// Submits reads before the round's end when there are enough of them, and a place for each.
    fn submit_reads_early(&mut self) {
        if self.reads.ready() >= READS_AT_ONCE.max(self.reads.in_flight() / READS_AT_ONCE_SHARE) {
            // An error comes again with the next wait, which reports it.
            let _ = self.push_reads().and_then(|()| self.hand_over());
        }
    }

    pub(super) fn wait(&mut self, timeout: Duration, outbox: &mut Outbox) -> io::Result<()> {
        self.give_back();
        self.round.drain(..self.cursor);
        self.cursor = 0;
        for index in 0..outbox.queued().len() {
            let entry = &outbox.queued()[index];
            let Some(stream) = &entry.stream else { continue };
            let fd = Fd(stream.number());
            let bytes = outbox.bytes(entry);
            let flags = libc::MSG_DONTWAIT | libc::MSG_WAITALL | libc::MSG_NOSIGNAL;
            let submission = opcode::Send::new(fd, bytes.as_ptr(), bytes.len() as u32).flags(flags).build();
            let token = Token { place: 0, generation: index as u32 };
            self.push(submission.flags(squeue::Flags::SKIP_SUCCESS).user_data(data(kind::SEND, token)))?;
        }
        self.push_reads()?;
        let goes_on = self.threads.are_left() || self.stragglers.are_left();
        self.enter(if goes_on { Duration::ZERO } else { timeout })?;
        self.threads.begin_round();
        self.leaving.clear();
        loop {
            self.round.extend(self.ring.completion());
            if !self.ring.submission().cq_overflow() {
                break;
            }
            self.enter(Duration::ZERO)?;
        }
        self.take_sends(outbox);
        outbox.next_round();
        Ok(())
    }

    pub(super) fn next(&mut self) -> Option<Event<'_>> {
        self.give_back();
        loop {
            let Some(completion) = self.round.get(self.cursor) else {
                return self.stragglers.next().or_else(|| self.threads.next().map(Event::Read));
            };
            self.cursor += 1;
            let (result, flags) = (completion.result(), completion.flags());
            let (kind, token) = parts(completion.user_data());
            match kind {
                kind::RECEIVE => {
                    if let Some(end) = self.received(token, result, flags) {
                        return Some(Event::Ended { token, end });
                    }
                    if let Some(buffer) = self.lent {
                        return Some(Event::Received { token, data: self.pool.bytes(buffer, result.unsigned_abs() as usize) });
                    }
                }
                kind::ACCEPT => {
                    if let Some(event) = self.accepted(token.place, result, flags) {
                        return Some(event);
                    }
                }
                kind::WRITABLE => {
                    if let Some(socket) = socket(&mut self.sockets, token) {
                        socket.awaits_writable = false;
                        return Some(Event::Writable { token });
                    }
                }
                kind::HANG_UP => {
                    if let Some(socket) = socket(&mut self.sockets, token) {
                        socket.awaits_hang_up = false;
                        if socket.interest == Some(Interest::HangUp) {
                            return Some(Event::Ended { token, end: End::Finished });
                        }
                    }
                }
                kind::READ => {
                    let completed = self.reads.complete(token.place, result);
                    // It left a place: the device need not wait until all that came with it has been dealt with.
                    self.submit_reads_early();
                    match completed {
                        Some(Completed::Done(done)) => return Some(Event::Read(done)),
                        Some(Completed::Leave(request)) => self.threads.start(request),
                        None => {}
                    }
                }
                kind::WAKE if !cqueue::more(flags) => _ = self.arm_wake(),
                _ => {}
            }
        }
    }

    /// A completion of a receive. Lends its buffer when it has data for a connection that is still there.
    fn received(&mut self, token: Token, result: i32, flags: u32) -> Option<End> {
        let buffer = cqueue::buffer_select(flags);
        let Some(socket) = socket(&mut self.sockets, token) else {
            if let Some(buffer) = buffer {
                self.pool.recycle(buffer);
            }
            return None;
        };
        if !cqueue::more(flags) {
            socket.receive = Receive::Off;
        }
        let end = match -result {
            ..0 => {
                self.lent = buffer;
                None
            }
            0 => Some(End::Finished),
            // No buffer was free, or we stopped it; it is armed again below if data is wanted.
            libc::ENOBUFS | libc::ECANCELED | libc::EINTR | libc::EAGAIN => None,
            _ => Some(End::Broken),
        };
        if let (Some(buffer), ..=0) = (buffer, result) {
            self.pool.recycle(buffer);
        }
        let again = socket.receive == Receive::Off && socket.interest == Some(Interest::Data) && end.is_none();
        if again && self.arm_receive(token).is_err() {
            return Some(End::Broken);
        }
        end
    }

    fn accepted(&mut self, index: u32, result: i32, flags: u32) -> Option<Event<'static>> {
        let position = self.listeners.iter().position(|(known, _)| *known == index);
        // SAFETY: a completed accept hands a new descriptor over; there is no other owner.
        let descriptor = (result >= 0).then(|| Descriptor::from(unsafe { OwnedFd::from_raw_fd(result) }));
        let Some(position) = position else {
            if !cqueue::more(flags)
                && let Some(place) = self.leaving_listeners.iter().position(|(leaving, _)| *leaving == index)
            {
                let (_, listener) = self.leaving_listeners.swap_remove(place);
                self.stragglers.take(index, &listener);
            }
            return descriptor.map(|descriptor| Event::Accepted { listener: index, descriptor });
        };
        if !cqueue::more(flags) {
            let exhausted = matches!(-result, libc::EMFILE | libc::ENFILE | libc::ENOBUFS | libc::ENOMEM);
            let fd = self.listeners[position].1.fd().as_raw_fd();
            if exhausted || self.arm_accept(index, fd).is_err() {
                self.listeners.swap_remove(position);
                if descriptor.is_none() {
                    return Some(Event::AcceptFailed { listener: index });
                }
            }
        }
        Some(Event::Accepted { listener: index, descriptor: descriptor? })
    }

    /// Finds the sends that the kernel did not take whole.
    fn take_sends(&mut self, outbox: &mut Outbox) {
        for completion in &self.round {
            let (kind, token) = parts(completion.user_data());
            if kind == kind::SEND {
                let index = token.generation as usize;
                match completion.result() {
                    sent @ 0.. => outbox.fell_short(index, sent.unsigned_abs() as usize, false),
                    error => {
                        let full = matches!(-error, libc::EAGAIN | libc::EINTR | libc::ENOBUFS | libc::ENOMEM);
                        outbox.fell_short(index, 0, !full);
                    }
                }
            }
        }
    }

    /// Returns the buffer that the last event lent.
    fn give_back(&mut self) {
        if let Some(buffer) = self.lent.take() {
            self.pool.recycle(buffer);
        }
    }

    fn arm_receive(&mut self, token: Token) -> io::Result<()> {
        let Some(socket) = socket(&mut self.sockets, token) else { return Ok(()) };
        let Some(stream) = &socket.stream else { return Ok(()) };
        socket.receive = Receive::Armed;
        let submission = opcode::RecvMulti::new(Fd(stream.number()), pool::GROUP).build();
        self.push(submission.user_data(data(kind::RECEIVE, token)))
    }

    fn arm_poll(&mut self, token: Token, kind: u8, events: i16) -> io::Result<()> {
        let Some(socket) = socket(&mut self.sockets, token) else { return Ok(()) };
        let Some(stream) = &socket.stream else { return Ok(()) };
        let submission = opcode::PollAdd::new(Fd(stream.number()), u32::from(events.cast_unsigned())).build();
        self.push(submission.user_data(data(kind, token)))
    }

    fn arm_accept(&mut self, index: u32, fd: RawFd) -> io::Result<()> {
        let submission = opcode::AcceptMulti::new(Fd(fd)).flags(libc::SOCK_CLOEXEC).build();
        self.push(submission.user_data(data(kind::ACCEPT, Token { place: index, generation: 0 })))
    }

    fn arm_wake(&mut self) -> io::Result<()> {
        let fd = Fd(self.wake.fd().as_raw_fd());
        let submission = opcode::PollAdd::new(fd, u32::from(libc::POLLIN.cast_unsigned())).multi(true).build();
        self.push(submission.user_data(data(kind::WAKE, Token { place: 0, generation: 0 })))
    }

    fn push_cancel(&mut self, target: u64) -> io::Result<()> {
        let submission = opcode::AsyncCancel::new(target).build();
        self.push(submission.user_data(data(kind::CANCEL, Token { place: 0, generation: 0 })))
    }

    /// Queues as many reads as there are places for.
    fn push_reads(&mut self) -> io::Result<()> {
        while let Some((number, submission)) = self.reads.next_submission(&self.ring.submitter()) {
            self.push(submission.user_data(data(kind::READ, Token { place: number, generation: 0 })))?;
        }
        Ok(())
    }

    /// Queues a submission; a full queue is handed over first.
    fn push(&mut self, submission: squeue::Entry) -> io::Result<()> {
        loop {
            // SAFETY: the memory that a send names is the outbox' arena, which stays as it is until `wait` returns, and the kernel
            // is done with it by then (see `Outbox`). The memory that a read names is a buffer in `reads`, which stays there until
            // its completion is taken, or for ever (see `Drop`). No other operation names memory of ours. The descriptors
            // stay open until the submission is taken: those of connections through `sockets`, `leaving` or the outbox, those
            // of files through `reads`, the others through `listeners` and `wake`.
            if unsafe { self.ring.submission().push(&submission) }.is_ok() {
                return Ok(());
            }
            self.submit()?;
        }
    }

    /// Hands all queued submissions over without waiting.
    fn submit(&mut self) -> io::Result<()> {
        while !self.ring.submission().is_empty() {
            self.enter(Duration::ZERO)?;
        }
        Ok(())
    }

    /// Hands queued submissions over, and nothing else; what the kernel does not take stays queued.
    fn hand_over(&mut self) -> io::Result<()> {
        let queued = self.ring.submission().len();
        // SAFETY: plain arguments; no signal mask is given.
        unsafe { self.ring.submitter().enter::<libc::sigset_t>(queued as u32, 0, 0, None) }.map(drop)
    }

    /// One system call: submits, runs what the kernel has deferred, and waits for a completion if there is time.
    fn enter(&mut self, timeout: Duration) -> io::Result<()> {
        loop {
            let queued = self.ring.submission().len();
            let result = if timeout.is_zero() || !self.ring.completion().is_empty() {
                // SAFETY: plain arguments; no signal mask is given.
                unsafe { self.ring.submitter().enter::<libc::sigset_t>(queued as u32, 0, ENTER_GETEVENTS, None) }
            } else {
                let time = Timespec::new().sec(timeout.as_secs()).nsec(timeout.subsec_nanos());
                self.ring.submitter().submit_with_args(1, &SubmitArgs::new().timespec(&time))
            };
            match result.map_err(|error| error.raw_os_error()) {
                Ok(submitted) if submitted >= queued => return Ok(()),
                Err(Some(libc::ETIME)) => return Ok(()),
                // The kernel was short of memory or its queue of completions is full: what we have must be taken first.
                Ok(_) | Err(Some(libc::EINTR)) => {}
                Err(Some(libc::EAGAIN | libc::EBUSY)) => self.round.extend(self.ring.completion()),
                Err(error) => return Err(error.map_or_else(|| io::ErrorKind::Other.into(), io::Error::from_raw_os_error)),
            }
        }
    }
}

impl Uring {
    /// Waits until no read is under way any more. Those that have not begun are cancelled; a device cannot be told to stop.
    fn wait_for_reads(&mut self) {
        self.reads.give_up();
        let numbers: Vec<u32> = self.reads.numbers().collect();
        for number in numbers {
            if self.push_cancel(data(kind::READ, Token { place: number, generation: 0 })).is_err() {
                break;
            }
        }
        let begin = clock::monotonic_ns();
        loop {
            self.round.drain(..self.cursor);
            self.round.extend(self.ring.completion());
            self.cursor = 0;
            while let Some(completion) = self.round.get(self.cursor) {
                self.cursor += 1;
                if let (kind::READ, token) = parts(completion.user_data()) {
                    self.reads.complete(token.place, completion.result());
                }
            }
            let late = u128::from(clock::monotonic_ns() - begin) > READS_TIMEOUT.as_nanos();
            if self.reads.in_flight() == 0 || late || self.enter(Duration::from_millis(100)).is_err() {
                return;
            }
        }
    }
}

impl Drop for Uring {
    fn drop(&mut self) {
        if self.reads.in_flight() > 0 {
            self.wait_for_reads();
        }
        if self.reads.in_flight() > 0 {
            self.reads.leak();
        }
        // Without the pool no operation can receive any more, so its memory may go. The kernel runs operations of this ring
        // only inside calls of this thread, but for the device's part in reads, and those have ended; so none is under way now.
        if self.ring.submitter().unregister_buf_ring(pool::GROUP).is_err()
            && let Ok(empty) = Pool::new()
        {
            std::mem::forget(std::mem::replace(&mut self.pool, empty));
        }
    }
}

fn socket(sockets: &mut [WatchedSocket], token: Token) -> Option<&mut WatchedSocket> {
    sockets.get_mut(token.place as usize).filter(|socket| socket.generation == token.generation && socket.stream.is_some())
}

/// The user data: 8 bits of kind, 24 bits of place, 32 bits of generation.
fn data(kind: u8, token: Token) -> u64 {
    assert!(token.place < 1 << 24);
    u64::from(kind) << 56 | u64::from(token.place) << 32 | u64::from(token.generation)
}

#[expect(clippy::cast_possible_truncation, reason = "the parts of the number")]
fn parts(data: u64) -> (u8, Token) {
    ((data >> 56) as u8, Token { place: (data >> 32) as u32 & 0x00FF_FFFF, generation: data as u32 })
}
