//! Many connections on one thread, for procedures that look at what each one receives: an epoll, and sockets that remember what
//! they could not send.

use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use rustix::event::epoll;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags};
use rustix::time::Timespec;

/// Bytes that one receive may bring.
pub const RECEIVE_BYTES: usize = 256 << 10;

/// Says which sockets can be read, or written again.
#[derive(Debug)]
pub struct Poller(OwnedFd);

impl Poller {
    /// One that watches nothing.
    pub fn new() -> Result<Self, String> {
        epoll::create(epoll::CreateFlags::CLOEXEC).map(Self).map_err(say)
    }

    /// Waits for events at most this long; without time it only looks.
    pub fn wait(&self, events: &mut Vec<epoll::Event>, limit: Duration) -> Result<(), String> {
        let limit = Timespec { tv_sec: limit.as_secs() as i64, tv_nsec: i64::from(limit.subsec_nanos()) };
        events.clear();
        match epoll::wait(&self.0, rustix::buffer::spare_capacity(events), Some(&limit)) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(error) => Err(say(error)),
        }
    }
}

/// A connection.
#[derive(Debug)]
pub struct Wire {
    socket: OwnedFd,
    number: u64,
    unsent: Vec<u8>,
    polls_write: bool,
}

impl Wire {
    /// Has the poller report the socket's events with this number.
    pub fn new(socket: OwnedFd, poller: &Poller, number: u64) -> Result<Self, String> {
        epoll::add(&poller.0, &socket, epoll::EventData::new_u64(number), epoll::EventFlags::IN).map_err(say)?;
        Ok(Self { socket, number, unsent: Vec::new(), polls_write: false })
    }

    /// Sends, and keeps what the socket does not take until [`Wire::flush`].
    pub fn send(&mut self, poller: &Poller, bytes: &[u8]) -> Result<(), String> {
        if self.unsent.is_empty() {
            let sent = self.send_part(bytes)?;
            if sent == bytes.len() {
                return Ok(());
            }
            self.unsent.extend_from_slice(&bytes[sent..]);
        } else {
            self.unsent.extend_from_slice(bytes);
        }
        self.watch(poller)
    }

    /// Sends what is left, as far as the socket takes it. To be called at every event.
    pub fn flush(&mut self, poller: &Poller) -> Result<(), String> {
        if !self.unsent.is_empty() {
            let sent = self.send_part(&self.unsent)?;
            self.unsent.drain(..sent);
        }
        self.watch(poller)
    }

    /// Receives once; 0 when there is nothing.
    pub fn receive(&self, buffer: &mut [u8]) -> Result<usize, String> {
        loop {
            match rustix::net::recv(&self.socket, &mut *buffer, RecvFlags::DONTWAIT) {
                Ok((_, 0)) => return Err("the server closed a connection".into()),
                Ok((_, received)) => return Ok(received),
                Err(Errno::AGAIN) => return Ok(0),
                Err(Errno::INTR) => {}
                Err(error) => return Err(format!("receiving failed: {error}; did the server exit?")),
            }
        }
    }

    fn send_part(&self, bytes: &[u8]) -> Result<usize, String> {
        let mut sent = 0;
        while sent < bytes.len() {
            match rustix::net::send(&self.socket, &bytes[sent..], SendFlags::NOSIGNAL | SendFlags::DONTWAIT) {
                Ok(part) => sent += part,
                Err(Errno::AGAIN) => break,
                Err(Errno::INTR) => {}
                Err(error) => return Err(format!("sending failed: {error}; did the server exit?")),
            }
        }
        Ok(sent)
    }

    /// Asks for writability exactly while something is unsent.
    fn watch(&mut self, poller: &Poller) -> Result<(), String> {
        let wanted = !self.unsent.is_empty();
        if wanted == self.polls_write {
            return Ok(());
        }
        self.polls_write = wanted;
        let flags = if wanted { epoll::EventFlags::IN | epoll::EventFlags::OUT } else { epoll::EventFlags::IN };
        epoll::modify(&poller.0, self.socket.as_fd(), epoll::EventData::new_u64(self.number), flags).map_err(say)
    }
}

fn say(error: Errno) -> String {
    format!("epoll: {error}")
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn what_the_socket_does_not_take_is_sent_later() {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut other, _) = listener.accept().unwrap();
        let poller = Poller::new().unwrap();
        let mut wire = Wire::new(stream.into(), &poller, 7).unwrap();
        let bytes: Vec<u8> = (0..24u32 << 20).map(|at| (at % 251) as u8).collect();
        wire.send(&poller, &bytes[..16 << 20]).unwrap();
        wire.send(&poller, &bytes[16 << 20..]).unwrap();
        assert!(wire.polls_write, "no socket takes so much at once");
        let reader = std::thread::spawn(move || {
            let mut all = vec![0; 24 << 20];
            other.read_exact(&mut all).unwrap();
            all
        });
        let mut events = Vec::with_capacity(8);
        while wire.polls_write {
            poller.wait(&mut events, Duration::from_secs(20)).unwrap();
            assert!(events.drain(..).all(|event| event.data.u64() == 7));
            wire.flush(&poller).unwrap();
        }
        assert!(reader.join().unwrap() == bytes);
    }
}
