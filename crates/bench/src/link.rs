//! A connection to a server, with TLS or without.
//!
//! It moves bytes; what they mean is [`control`](crate::control)'s and [`load`](crate::load)'s. Whether a call waits is up to the
//! flags that it is given.

use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use almandine_net::Stage;
use almandine_tls::{ClientSession, Connector};
use rustix::net::sockopt::{self, Timeout};
use rustix::net::{RecvFlags, SendFlags};

use crate::control::Address;

/// How long a connection may take.
const CONNECT: Duration = Duration::from_secs(5);
/// How long the server may take for each step of a handshake.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// How long a call waits for bytes that do not come.
const SILENCE: Duration = Duration::from_secs(60);
/// What is encrypted at a time, so that little waits when the socket takes no more.
const PIECE_BYTES: usize = 64 << 10;
/// What a reader that has no buffers receives at a time.
const READ_BYTES: usize = 16 << 10;

/// A connection.
#[derive(Debug)]
pub struct Link {
    socket: OwnedFd,
    tls: Option<Box<Tls>>,
}

#[derive(Debug)]
struct Tls {
    session: ClientSession,
    /// Encrypted, and from where on the socket has not taken it.
    wire: (Vec<u8>, usize),
    /// Decrypted for [`Read`], and from where on it has not been read.
    plain: (Vec<u8>, usize),
}

/// What is received goes here; many connections share it.
#[derive(Debug)]
pub struct Buffers {
    wire: Vec<u8>,
    plain: Vec<u8>,
}

impl Buffers {
    /// For this many bytes at a time.
    pub fn new(bytes: usize) -> Self {
        Self { wire: vec![0; bytes], plain: Vec::new() }
    }
}

impl Link {
    /// Connects, and does the handshake if there is a connector. What is told of an error follows "cannot connect to …: ".
    pub fn open(address: &Address, tls: Option<&Connector>) -> Result<Self, String> {
        let socket = connect(address).map_err(|error| format!("{error}; is the server running there?"))?;
        let Some(connector) = tls else { return Ok(Self { socket, tls: None }) };
        let host = match address {
            Address::Tcp(host, _) => host,
            Address::Unix(_) => "localhost",
        };
        let session = connector.session(host).map_err(|fault| fault.to_string())?;
        let tls = Box::new(Tls { session, wire: (Vec::new(), 0), plain: (Vec::new(), 0) });
        let mut link = Self { socket, tls: Some(tls) };
        link.handshake().map_err(|error| match error.kind() {
            io::ErrorKind::WouldBlock => {
                "no answer to a TLS handshake: give the port that speaks TLS (tls-port), or leave --tls out".into()
            }
            io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe => {
                format!("the server ended the TLS handshake ({error}): does this port speak TLS?")
            }
            _ => error.to_string(),
        })?;
        Ok(link)
    }

    fn handshake(&mut self) -> io::Result<()> {
        self.set_timeout(HANDSHAKE)?;
        if let Some(tls) = &mut self.tls {
            tls.decode(&mut [])?;
        }
        while self.tls.as_ref().is_some_and(|tls| tls.session.stage() == Stage::Handshake) {
            self.flush_wire(SendFlags::empty())?;
            self.receive_plain()?;
        }
        self.flush_wire(SendFlags::empty())?;
        self.set_timeout(SILENCE)
    }

    fn set_timeout(&self, timeout: Duration) -> io::Result<()> {
        Ok(sockopt::set_socket_timeout(&self.socket, Timeout::Recv, Some(timeout))?)
    }

    /// Whether it speaks TLS.
    pub fn has_tls(&self) -> bool {
        self.tls.is_some()
    }

    /// Whether its session was resumed.
    pub fn is_resumed(&self) -> bool {
        self.tls.as_ref().is_some_and(|tls| tls.session.is_resumed())
    }

    /// Whether the socket has taken all that was sent.
    pub fn is_flushed(&self) -> bool {
        self.tls.as_ref().is_none_or(|tls| tls.wire.1 == tls.wire.0.len())
    }

    /// The descriptor alone, of a connection without TLS.
    pub fn into_socket(self) -> Result<OwnedFd, String> {
        match self.tls {
            None => Ok(self.socket),
            Some(_) => Err("this load is made without TLS only".into()),
        }
    }

    /// Resets the connection when it is closed: the port is free at once.
    pub fn reset_on_close(&self) -> io::Result<()> {
        Ok(sockopt::set_socket_linger(&self.socket, Some(Duration::ZERO))?)
    }

    /// Sends, and returns how many bytes are taken: by the socket or, encrypted, by this; then [`Link::is_flushed`] tells when they
    /// have gone, and sending nothing goes on with them.
    pub fn send(&mut self, bytes: &[u8], flags: SendFlags) -> io::Result<usize> {
        if self.tls.is_none() {
            return Ok(rustix::net::send(&self.socket, bytes, flags | SendFlags::NOSIGNAL)?);
        }
        self.flush_wire(flags)?;
        let piece = &bytes[..bytes.len().min(PIECE_BYTES)];
        if let Some(tls) = self.tls.as_mut().filter(|_| !piece.is_empty()) {
            let broken = |_| io::Error::new(io::ErrorKind::BrokenPipe, "the TLS session has ended");
            tls.session.encode(piece, &mut tls.wire.0).map_err(broken)?;
        }
        match self.flush_wire(flags) {
            Err(error) if error.kind() != io::ErrorKind::WouldBlock => Err(error),
            _ => Ok(piece.len()),
        }
    }

    /// Receives once. No bytes, where only TLS itself had something to say; none at all at the end.
    pub fn receive<'b>(&mut self, buffers: &'b mut Buffers, flags: RecvFlags) -> io::Result<Option<&'b [u8]>> {
        let (_, received) = rustix::net::recv(&self.socket, &mut *buffers.wire, flags)?;
        let wire = &mut buffers.wire[..received];
        let Some(tls) = &mut self.tls else { return Ok((received > 0).then_some(wire)) };
        buffers.plain.clear();
        tls.decode_into(wire, &mut buffers.plain)?;
        let is_over = buffers.plain.is_empty() && (received == 0 || tls.session.stage() == Stage::Ended);
        // What TLS answers by itself goes as far as the socket takes it, and else with what is sent next.
        let _ = self.flush_wire(SendFlags::DONTWAIT);
        Ok((!is_over).then_some(&buffers.plain))
    }

    /// Receives into the buffer of [`Read`].
    fn receive_plain(&mut self) -> io::Result<()> {
        let mut wire = [0; READ_BYTES];
        let (_, received) = rustix::net::recv(&self.socket, &mut wire, RecvFlags::empty())?;
        let Some(tls) = &mut self.tls else { return Ok(()) };
        if received == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let decoded = tls.decode(&mut wire[..received]);
        if decoded.is_err() {
            // The server may be told why.
            let _ = self.flush_wire(SendFlags::DONTWAIT);
        }
        decoded
    }

    fn flush_wire(&mut self, flags: SendFlags) -> io::Result<()> {
        let Some(tls) = &mut self.tls else { return Ok(()) };
        let (wire, sent) = &mut tls.wire;
        while *sent < wire.len() {
            match rustix::net::send(&self.socket, &wire[*sent..], flags | SendFlags::NOSIGNAL) {
                Ok(taken) => *sent += taken,
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        wire.clear();
        *sent = 0;
        Ok(())
    }
}

impl Tls {
    fn decode(&mut self, wire: &mut [u8]) -> io::Result<()> {
        let mut plain = std::mem::take(&mut self.plain.0);
        let decoded = self.decode_into(wire, &mut plain);
        self.plain.0 = plain;
        decoded
    }

    fn decode_into(&mut self, wire: &mut [u8], plain: &mut Vec<u8>) -> io::Result<()> {
        self.session.decode(wire, plain, &mut self.wire.0).map_err(io::Error::other)
    }
}

/// For [`control`](crate::control): it waits.
impl Read for Link {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        loop {
            let Some(tls) = &mut self.tls else { return Ok(rustix::io::read(&self.socket, into)?) };
            let (plain, at) = &mut tls.plain;
            if *at < plain.len() {
                let count = into.len().min(plain.len() - *at);
                into[..count].copy_from_slice(&plain[*at..*at + count]);
                *at += count;
                return Ok(count);
            }
            plain.clear();
            *at = 0;
            if tls.session.stage() == Stage::Ended {
                return Ok(0);
            }
            self.receive_plain()?;
            self.flush_wire(SendFlags::empty())?;
        }
    }
}

impl Write for Link {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.send(bytes, SendFlags::empty())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.flush_wire(SendFlags::empty())
    }
}

impl AsFd for Link {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

fn connect(address: &Address) -> io::Result<OwnedFd> {
    match address {
        Address::Tcp(host, port) => {
            let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
            for address in (host.as_str(), *port).to_socket_addrs()? {
                match TcpStream::connect_timeout(&address, CONNECT) {
                    Ok(stream) => {
                        stream.set_nodelay(true)?;
                        stream.set_read_timeout(Some(SILENCE))?;
                        return Ok(stream.into());
                    }
                    Err(error) => last = error,
                }
            }
            Err(last)
        }
        Address::Unix(path) => {
            let stream = UnixStream::connect(path)?;
            stream.set_read_timeout(Some(SILENCE))?;
            Ok(stream.into())
        }
    }
}
