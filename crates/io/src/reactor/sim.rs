//! The reactor of the simulation: it keeps io_uring's contract, with a network whose faults are choices.
//!
//! As on a ring, data that a round has collected is delivered although the watch changes meanwhile, a connection that finds no
//! free buffer receives in a later round, and the output that a round has gathered goes with the next wait.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::event::{End, Event, Interest, Token, at_place};
use super::outbox::Outbox;
use super::stragglers::Stragglers;
use crate::sim::disk::start_read;
use crate::sim::net::{Alarm, Socket};
use crate::socket::{Descriptor, Listener, Stream};
use crate::storage::{ReadDone, ReadRequest};
use crate::wake::Wake;

/// Size of a buffer, as in the ring.
const BUFFER_BYTES: usize = 32 * 1024;
/// Finished reads that one round takes.
const DONE_MAX: usize = 512;

/// See the module.
pub struct Sim {
    wake: Arc<Wake>,
    sockets: Vec<WatchedSocket>,
    listeners: Vec<(u32, Arc<Listener>)>,
    stragglers: Stragglers,
    /// Connections that are to receive no more from the next wait on.
    stopping: Vec<Token>,
    /// Streams that the owner has left in this round.
    leaving: Vec<Stream>,
    round: VecDeque<Completion>,
    /// Reads that have ended.
    done: Arc<Mutex<VecDeque<ReadDone>>>,
    /// How many of them the current round may still take.
    done_left: usize,
    /// The buffer that the last event lent.
    lent: Option<Vec<u8>>,
    free: Vec<Vec<u8>>,
    /// Buffers with data that is not delivered.
    filled: usize,
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

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Receive {
    #[default]
    Off,
    Armed,
    /// To be off with the next wait.
    Stopping,
}

/// What a round has collected.
enum Completion {
    /// A buffer, and the bytes in it.
    Received(Token, Vec<u8>, usize),
    Ended(Token, End),
    Writable(Token),
    HangUp(Token),
    Accepted(u32, Descriptor),
    AcceptFailed(u32),
}

impl Sim {
    pub(super) fn new(wake: &Arc<Wake>) -> io::Result<Self> {
        if wake.simulated().is_none() {
            return Err(io::Error::new(io::ErrorKind::Unsupported, "the caller is no simulated thread"));
        }
        Ok(Self {
            wake: Arc::clone(wake),
            sockets: Vec::new(),
            listeners: Vec::new(),
            stragglers: Stragglers::default(),
            stopping: Vec::new(),
            leaving: Vec::new(),
            round: VecDeque::new(),
            done: Arc::default(),
            done_left: 0,
            lent: None,
            free: Vec::new(),
            filled: 0,
        })
    }

    pub(super) fn listen(&mut self, index: u32, listener: &Arc<Listener>) -> io::Result<()> {
        let socket = listener.simulated().ok_or_else(foreign)?;
        self.alarm().arm(socket);
        self.listeners.push((index, Arc::clone(listener)));
        Ok(())
    }

    pub(super) fn stop_listening_on(&mut self, index: u32) {
        if let Some(position) = self.listeners.iter().position(|(known, _)| *known == index) {
            let (_, listener) = self.listeners.swap_remove(position);
            self.disarm(&listener);
            self.stragglers.take(index, &listener);
        }
    }

    pub(super) fn stop_listening(&mut self) {
        for (_, listener) in std::mem::take(&mut self.listeners) {
            self.disarm(&listener);
        }
    }

    pub(super) fn add(&mut self, token: Token, stream: &Stream) -> io::Result<()> {
        let simulated = stream.simulated().ok_or_else(foreign)?;
        self.alarm().watch(simulated, number(token));
        *at_place(&mut self.sockets, token.place) = WatchedSocket {
            generation: token.generation,
            stream: Some(stream.clone()),
            interest: Some(Interest::Data),
            receive: Receive::Armed,
            ..WatchedSocket::default()
        };
        Ok(())
    }

    pub(super) fn watch(&mut self, token: Token, interest: Interest) {
        let Some(socket) = socket(&mut self.sockets, token) else { return };
        socket.interest = Some(interest);
        if interest == Interest::Data {
            if socket.receive == Receive::Off {
                socket.receive = Receive::Armed;
                self.look_again(token);
            }
            return;
        }
        if socket.receive == Receive::Armed {
            socket.receive = Receive::Stopping;
            self.stopping.push(token);
        }
        if interest == Interest::HangUp && !std::mem::replace(&mut socket.awaits_hang_up, true) {
            self.look_again(token);
        }
    }

    pub(super) fn notify_writable(&mut self, token: Token) {
        let Some(socket) = socket(&mut self.sockets, token) else { return };
        if !std::mem::replace(&mut socket.awaits_writable, true)
            && let Some((alarm, simulated)) = self.end(token)
        {
            alarm.await_room(simulated);
        }
    }

    pub(super) fn remove(&mut self, token: Token) {
        if let Some((alarm, simulated)) = self.end(token) {
            alarm.leave(simulated);
        }
        let stream = socket(&mut self.sockets, token).and_then(|socket| socket.stream.take());
        self.leaving.extend(stream);
    }

    pub(super) fn read(&mut self, request: ReadRequest) {
        let (wake, inbox) = (Arc::clone(&self.wake), Arc::clone(&self.done));
        start_read(request, move |done| {
            inbox.lock().unwrap_or_else(PoisonError::into_inner).push_back(done);
            wake.wake();
        });
    }

    pub(super) fn wait(&mut self, timeout: Duration, outbox: &mut Outbox) -> io::Result<()> {
        self.give_back();
        self.hand_over(outbox);
        self.stop_receiving();
        self.leaving.clear();
        let goes_on = !self.round.is_empty() || !self.done().is_empty() || self.stragglers.are_left();
        self.alarm().wait(if goes_on { Duration::ZERO } else { timeout })?;
        self.accept_all();
        for number in self.alarm().take_ready() {
            self.collect(token(number));
        }
        self.done_left = DONE_MAX;
        outbox.next_round();
        Ok(())
    }

    pub(super) fn next(&mut self) -> Option<Event<'_>> {
        self.give_back();
        loop {
            let Some(completion) = self.round.pop_front() else {
                return self.stragglers.next().or_else(|| self.next_read().map(Event::Read));
            };
            match completion {
                Completion::Received(token, buffer, count) => {
                    if socket(&mut self.sockets, token).is_some() {
                        return Some(Event::Received { token, data: &mut self.lent.insert(buffer)[..count] });
                    }
                    self.recycle(buffer);
                }
                Completion::Ended(token, end) if socket(&mut self.sockets, token).is_some() => {
                    return Some(Event::Ended { token, end });
                }
                Completion::Writable(token) => {
                    if let Some(socket) = socket(&mut self.sockets, token) {
                        socket.awaits_writable = false;
                        return Some(Event::Writable { token });
                    }
                }
                Completion::HangUp(token) => {
                    if let Some(socket) = socket(&mut self.sockets, token) {
                        socket.awaits_hang_up = false;
                        if socket.interest == Some(Interest::HangUp) {
                            return Some(Event::Ended { token, end: End::Finished });
                        }
                    }
                }
                Completion::Accepted(listener, descriptor) => return Some(Event::Accepted { listener, descriptor }),
                Completion::AcceptFailed(listener) => return Some(Event::AcceptFailed { listener }),
                Completion::Ended(..) => {}
            }
        }
    }

    /// Sends what the round has gathered.
    fn hand_over(&mut self, outbox: &mut Outbox) {
        for index in 0..outbox.queued().len() {
            let entry = &outbox.queued()[index];
            let (Some(stream), bytes) = (&entry.stream, outbox.bytes(entry)) else { continue };
            match stream.send(bytes) {
                Ok(sent) => outbox.fell_short(index, sent, false),
                Err(_) => outbox.fell_short(index, 0, true),
            }
        }
    }

    /// Ends the receives that are to end. Some give data before.
    fn stop_receiving(&mut self) {
        for token in std::mem::take(&mut self.stopping) {
            let Some(socket) = socket(&mut self.sockets, token).filter(|socket| socket.receive == Receive::Stopping) else {
                continue;
            };
            let is_wanted_again = socket.interest == Some(Interest::Data);
            socket.receive = if is_wanted_again { Receive::Armed } else { Receive::Off };
            let Some((alarm, simulated)) = self.end(token) else { continue };
            if is_wanted_again {
                alarm.look_again(simulated);
            } else if alarm.look(simulated).readable && alarm.fails(|options| options.late_data_per_million, "data is late") {
                self.receive(token);
            }
        }
    }

    fn accept_all(&mut self) {
        while let Some(number) = self.alarm().next_accept() {
            let is_called = |listener: &Listener| listener.simulated().is_some_and(|socket| socket.number() == number);
            let Some(position) = self.listeners.iter().position(|(_, listener)| is_called(listener)) else { continue };
            let (index, listener) = self.listeners[position].clone();
            loop {
                match listener.accept() {
                    Ok(Some(descriptor)) => self.round.push_back(Completion::Accepted(index, descriptor)),
                    Ok(None) => break,
                    Err(_) => {
                        self.listeners.swap_remove(position);
                        self.disarm(&listener);
                        self.round.push_back(Completion::AcceptFailed(index));
                        break;
                    }
                }
            }
        }
    }

    /// Collects what has happened at a connection.
    fn collect(&mut self, token: Token) {
        let Some(socket) = socket(&mut self.sockets, token) else { return };
        let (receive, awaits_writable, awaits_hang_up) = (socket.receive, socket.awaits_writable, socket.awaits_hang_up);
        let Some((alarm, simulated)) = self.end(token) else { return };
        let look = alarm.look(simulated);
        let has_room = awaits_writable && alarm.take_room(simulated);
        if receive == Receive::Armed && look.readable {
            let full = self.filled >= alarm.buffers();
            if full || alarm.fails(|options| options.starvations_per_million, "buffers run out") {
                alarm.look_again(simulated);
            } else {
                self.receive(token);
            }
        }
        if has_room {
            self.round.push_back(Completion::Writable(token));
        }
        if awaits_hang_up && look.hung_up {
            self.round.push_back(Completion::HangUp(token));
        }
    }

    /// Receives what is there, as far as there are buffers.
    fn receive(&mut self, token: Token) {
        let buffers = self.alarm().buffers();
        loop {
            let Some((alarm, simulated)) = self.end(token) else { return };
            if self.filled >= buffers {
                return alarm.look_again(simulated);
            }
            let mut buffer = self.free.pop().unwrap_or_else(|| vec![0; BUFFER_BYTES]);
            let Some((_, simulated)) = self.end(token) else { return };
            match simulated.receive(&mut buffer) {
                Ok(Some(count @ 1..)) => {
                    self.filled += 1;
                    self.round.push_back(Completion::Received(token, buffer, count));
                }
                Ok(None) => return self.free.push(buffer),
                ended => {
                    self.free.push(buffer);
                    if let Some(socket) = socket(&mut self.sockets, token) {
                        socket.receive = Receive::Off;
                    }
                    let end = if ended.is_ok() { End::Finished } else { End::Broken };
                    return self.round.push_back(Completion::Ended(token, end));
                }
            }
        }
    }

    fn next_read(&mut self) -> Option<ReadDone> {
        self.done_left = self.done_left.checked_sub(1)?;
        self.done().pop_front()
    }

    fn done(&self) -> MutexGuard<'_, VecDeque<ReadDone>> {
        self.done.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn give_back(&mut self) {
        if let Some(buffer) = self.lent.take() {
            self.recycle(buffer);
        }
    }

    fn recycle(&mut self, buffer: Vec<u8>) {
        self.filled -= 1;
        self.free.push(buffer);
    }

    fn look_again(&self, token: Token) {
        if let Some((alarm, simulated)) = self.end(token) {
            alarm.look_again(simulated);
        }
    }

    fn disarm(&self, listener: &Listener) {
        if let Some(socket) = listener.simulated() {
            self.alarm().disarm(socket);
        }
    }

    fn end(&self, token: Token) -> Option<(&Alarm, &Socket)> {
        let socket = self.sockets.get(token.place as usize).filter(|socket| socket.generation == token.generation)?;
        Some((self.alarm(), socket.stream.as_ref()?.simulated()?))
    }

    fn alarm(&self) -> &Alarm {
        self.wake.simulated().expect("looked at when the reactor was made")
    }
}

impl Drop for Sim {
    fn drop(&mut self) {
        self.stop_listening();
        for socket in &self.sockets {
            if let Some(simulated) = socket.stream.as_ref().and_then(Stream::simulated) {
                self.alarm().leave(simulated);
            }
        }
    }
}

fn socket(sockets: &mut [WatchedSocket], token: Token) -> Option<&mut WatchedSocket> {
    sockets.get_mut(token.place as usize).filter(|socket| socket.generation == token.generation && socket.stream.is_some())
}

/// What the network knows a connection by.
fn number(token: Token) -> u64 {
    u64::from(token.generation) << 32 | u64::from(token.place)
}

fn token(number: u64) -> Token {
    Token { place: number as u32, generation: (number >> 32) as u32 }
}

fn foreign() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, "the socket is not of the simulation")
}
