//! The epoll reactor: level-triggered readiness, one receive per ready connection and round into a buffer that all share.
//!
//! Level-triggered, because one receive that does not fill the buffer then costs nothing more; a connection that has more data
//! than the buffer takes its next turn in the next round, which is fair to the others.
//!
//! Files have no readiness: all reads of devices are left to the threads, whose results come after the sockets of a round.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use rustix::buffer::spare_capacity;
use rustix::event::Timespec;
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::io::Errno;
use rustix::net::SocketFlags;

use super::event::{End, Event, Interest, Token, at_place};
use super::stragglers::Stragglers;
use crate::socket::{Listener, Stream};
use crate::storage::{ReadRequest, threads};
use crate::wake::Wake;

/// Largest chunk that one receive takes.
const RECEIVE_BYTES: usize = 64 * 1024;
/// Most ready descriptors per round.
const EVENTS_MAX: usize = 512;
/// Most connections accepted from one listener per round, so that a flood does not starve those that are there.
const ACCEPTS_MAX: u32 = 16;

/// Places from here on are not connections.
const RESERVED: u32 = u32::MAX - 0xFFFF;
const WAKE: Token = Token { place: u32::MAX, generation: 0 };

/// See the module.
pub struct Epoll {
    descriptor: std::os::fd::OwnedFd,
    ready: Vec<epoll::Event>,
    /// The next entry of `ready`.
    cursor: usize,
    /// What is left to report of the entry before the cursor.
    current: Option<(Token, EventFlags)>,
    accepts: u32,
    buffer: Box<[u8]>,
    sockets: Vec<WatchedSocket>,
    listeners: Vec<(u32, Arc<Listener>)>,
    stragglers: Stragglers,
    threads: threads::Reads,
    _wake: Arc<Wake>,
}

#[derive(Default)]
struct WatchedSocket {
    generation: u32,
    flags: EventFlags,
    stream: Option<Stream>,
}

impl Epoll {
    pub(super) fn new(wake: &Arc<Wake>) -> io::Result<Self> {
        let descriptor = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        epoll::add(&descriptor, wake.fd(), data(WAKE), EventFlags::IN | EventFlags::ET)?;
        Ok(Self {
            descriptor,
            ready: Vec::with_capacity(EVENTS_MAX),
            cursor: 0,
            current: None,
            accepts: 0,
            buffer: vec![0; RECEIVE_BYTES].into_boxed_slice(),
            sockets: Vec::new(),
            listeners: Vec::new(),
            stragglers: Stragglers::default(),
            threads: threads::Reads::new(wake),
            _wake: Arc::clone(wake),
        })
    }

    pub(super) fn listen(&mut self, index: u32, listener: &Arc<Listener>) -> io::Result<()> {
        epoll::add(&self.descriptor, listener.fd(), data(listener_token(index)), EventFlags::IN | EventFlags::EXCLUSIVE)?;
        self.listeners.push((index, Arc::clone(listener)));
        Ok(())
    }

    pub(super) fn stop_listening_on(&mut self, index: u32) {
        if let Some(position) = self.listeners.iter().position(|(known, _)| *known == index) {
            let (_, listener) = self.listeners.swap_remove(position);
            let _ = epoll::delete(&self.descriptor, listener.fd());
            self.stragglers.take(index, &listener);
        }
    }

    pub(super) fn stop_listening(&mut self) {
        for (_, listener) in self.listeners.drain(..) {
            let _ = epoll::delete(&self.descriptor, listener.fd());
        }
    }

    pub(super) fn add(&mut self, token: Token, stream: &Stream) -> io::Result<()> {
        let flags = flags_of(Interest::Data);
        epoll::add(&self.descriptor, stream.fd(), data(token), flags)?;
        *at_place(&mut self.sockets, token.place) =
            WatchedSocket { generation: token.generation, flags, stream: Some(stream.clone()) };
        Ok(())
    }

    pub(super) fn watch(&mut self, token: Token, interest: Interest) -> io::Result<()> {
        self.modify(token, |flags| (flags & EventFlags::OUT) | flags_of(interest))
    }

    pub(super) fn notify_writable(&mut self, token: Token) -> io::Result<()> {
        self.modify(token, |flags| flags | EventFlags::OUT)
    }

    pub(super) fn remove(&mut self, token: Token) {
        let Some(socket) = socket(&mut self.sockets, token) else { return };
        if let Some(stream) = socket.stream.take() {
            let _ = epoll::delete(&self.descriptor, stream.fd());
        }
    }

    pub(super) fn read(&mut self, request: ReadRequest) {
        self.threads.start(request);
    }

    pub(super) fn wait(&mut self, timeout: Duration) -> io::Result<()> {
        self.ready.clear();
        self.cursor = 0;
        self.current = None;
        let timeout = if self.threads.are_left() || self.stragglers.are_left() { Duration::ZERO } else { timeout };
        let timeout = Timespec::try_from(timeout).unwrap_or(Timespec { tv_sec: 1, tv_nsec: 0 });
        let result = epoll::wait(&self.descriptor, spare_capacity(&mut self.ready), Some(&timeout));
        self.threads.begin_round();
        match result {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    pub(super) fn next(&mut self) -> Option<Event<'_>> {
        loop {
            let (token, flags) = match self.current.take() {
                Some(current) => current,
                None => {
                    let Some(event) = self.ready.get(self.cursor) else {
                        return self.stragglers.next().or_else(|| self.threads.next().map(Event::Read));
                    };
                    self.cursor += 1;
                    self.accepts = 0;
                    let (token, flags) = (token_of(event.data), event.flags);
                    (token, flags)
                }
            };
            if token == WAKE {
                continue;
            }
            if token.place >= RESERVED {
                if let Some(event) = self.accept(token) {
                    return Some(event);
                }
                continue;
            }
            let Some(socket) = socket(&mut self.sockets, token) else { continue };
            let Some(stream) = &socket.stream else { continue };
            if flags.contains(EventFlags::OUT) && socket.flags.contains(EventFlags::OUT) {
                self.current = Some((token, flags - EventFlags::OUT));
                // A failure would only repeat the event.
                let _ = self.modify(token, |flags| flags - EventFlags::OUT);
                return Some(Event::Writable { token });
            }
            let broken = flags.intersects(EventFlags::ERR | EventFlags::HUP);
            if socket.flags.contains(EventFlags::IN) {
                if !broken && !flags.contains(EventFlags::IN) {
                    continue;
                }
                match stream.receive(&mut self.buffer) {
                    Ok(None) => {}
                    Ok(Some(0)) => return Some(Event::Ended { token, end: End::Finished }),
                    Ok(Some(count)) => return Some(Event::Received { token, data: &mut self.buffer[..count] }),
                    Err(_) => return Some(Event::Ended { token, end: End::Broken }),
                }
            } else if broken {
                return Some(Event::Ended { token, end: End::Broken });
            } else if flags.contains(EventFlags::RDHUP) && socket.flags.contains(EventFlags::RDHUP) {
                return Some(Event::Ended { token, end: End::Finished });
            }
        }
    }

    fn accept(&mut self, token: Token) -> Option<Event<'static>> {
        let index = u32::MAX - 1 - token.place;
        let position = self.listeners.iter().position(|(known, _)| *known == index)?;
        let (_, listener) = self.listeners.get(position)?;
        while self.accepts < ACCEPTS_MAX {
            self.accepts += 1;
            match rustix::net::accept_with(listener.fd(), SocketFlags::CLOEXEC) {
                Ok(descriptor) => {
                    self.current = Some((token, EventFlags::IN));
                    return Some(Event::Accepted { listener: index, descriptor: descriptor.into() });
                }
                Err(Errno::AGAIN) => return None,
                Err(Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM) => {
                    let _ = epoll::delete(&self.descriptor, listener.fd());
                    self.listeners.swap_remove(position);
                    return Some(Event::AcceptFailed { listener: index });
                }
                // The connection went away before it was accepted.
                Err(_) => {}
            }
        }
        None
    }

    fn modify(&mut self, token: Token, change: impl FnOnce(EventFlags) -> EventFlags) -> io::Result<()> {
        let Some(socket) = socket(&mut self.sockets, token) else { return Ok(()) };
        let flags = change(socket.flags);
        if flags != socket.flags
            && let Some(stream) = &socket.stream
        {
            socket.flags = flags;
            epoll::modify(&self.descriptor, stream.fd(), data(token), flags)?;
        }
        Ok(())
    }
}

fn socket(sockets: &mut [WatchedSocket], token: Token) -> Option<&mut WatchedSocket> {
    sockets.get_mut(token.place as usize).filter(|socket| socket.generation == token.generation)
}

/// Errors and a hang-up of both directions are always reported by the kernel.
fn flags_of(interest: Interest) -> EventFlags {
    match interest {
        Interest::Data => EventFlags::IN,
        Interest::HangUp => EventFlags::RDHUP,
        Interest::Nothing => EventFlags::empty(),
    }
}

fn listener_token(index: u32) -> Token {
    debug_assert!(index < 0xFFFF);
    Token { place: u32::MAX - 1 - index, generation: 0 }
}

fn data(token: Token) -> EventData {
    EventData::new_u64(u64::from(token.generation) << 32 | u64::from(token.place))
}

#[expect(clippy::cast_possible_truncation, reason = "the two halves of the number")]
fn token_of(data: EventData) -> Token {
    let number = data.u64();
    Token { place: number as u32, generation: (number >> 32) as u32 }
}
