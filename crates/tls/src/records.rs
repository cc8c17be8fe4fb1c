//! The records of one connection, of either end, by rustls' interface without buffers.
//!
//! Records are decrypted where they were received. What is left over of one is kept until the rest of it comes; then only that
//! rest is copied, and what follows is decrypted where it is again.

use almandine_net::Stage;
use almandine_net::transport::Broken;
use rustls::Error;
use rustls::client::{ClientConnectionData, UnbufferedClientConnection};
use rustls::server::{ServerConnectionData, UnbufferedServerConnection};
use rustls::unbuffered::{
    ConnectionState, EncodeError, EncodeTlsData, EncryptError, InsufficientSizeError, UnbufferedStatus, WriteTraffic,
};

/// A record's header: its type, two bytes of version, the length of what follows.
const HEADER_BYTES: usize = 5;
/// Most bytes that are kept: a message of a handshake, which rustls bounds by 64 KiB, and a record.
pub(crate) const KEPT_BYTES_MAX: usize = 96 * 1024;
/// What a record takes beside its content, at most.
const RECORD_EXTRA_BYTES: usize = 64;
/// The content of a record, at most.
const RECORD_BYTES: usize = 16 * 1024;

/// An end of a connection.
pub(crate) trait Side {
    /// What rustls knows of it.
    type Data;

    /// Processes records until rustls has something to say.
    fn process<'c, 'i>(&'c mut self, wire: &'i mut [u8]) -> UnbufferedStatus<'c, 'i, Self::Data>;
}

impl Side for UnbufferedServerConnection {
    type Data = ServerConnectionData;

    fn process<'c, 'i>(&'c mut self, wire: &'i mut [u8]) -> UnbufferedStatus<'c, 'i, ServerConnectionData> {
        self.process_tls_records(wire)
    }
}

impl Side for UnbufferedClientConnection {
    type Data = ClientConnectionData;

    fn process<'c, 'i>(&'c mut self, wire: &'i mut [u8]) -> UnbufferedStatus<'c, 'i, ClientConnectionData> {
        self.process_tls_records(wire)
    }
}

/// A connection, and what is not complete of what it has received.
pub(crate) struct Records<S> {
    connection: S,
    stage: Stage,
    /// The beginning of what is not complete.
    kept: Vec<u8>,
    /// Nothing more comes from it.
    failed: bool,
}

impl<S: Side> Records<S> {
    pub(crate) fn new(connection: S) -> Self {
        Self { connection, stage: Stage::Handshake, kept: Vec::new(), failed: false }
    }

    pub(crate) fn connection(&self) -> &S {
        &self.connection
    }

    pub(crate) fn stage(&self) -> Stage {
        self.stage
    }

    /// Bytes of what is kept.
    pub(crate) fn kept_bytes(&self) -> usize {
        self.kept.capacity()
    }

    /// Takes bytes from the wire, as [`Transport::decode`](almandine_net::Transport::decode) does. An error is told once.
    pub(crate) fn decode(&mut self, wire: &mut [u8], plain: &mut Vec<u8>, reply: &mut Vec<u8>) -> Result<(), Option<Error>> {
        if self.failed {
            return Err(None);
        }
        let outcome = self.decode_all(wire, plain, reply);
        if outcome.is_ok() && self.kept.len() <= KEPT_BYTES_MAX {
            return Ok(());
        }
        self.failed = true;
        Err(Some(outcome.err().unwrap_or_else(|| Error::General("too much of it is incomplete".to_owned()))))
    }

    /// Keeps bytes of the wire for later; none of them, and false, when they are too many.
    pub(crate) fn keep(&mut self, wire: &[u8]) -> bool {
        let fits = self.kept.len() + wire.len() <= KEPT_BYTES_MAX;
        self.kept.extend_from_slice(if fits { wire } else { &[] });
        fits
    }

    /// Appends the records of `plain`.
    pub(crate) fn encode(&mut self, plain: &[u8], wire: &mut Vec<u8>) -> Result<(), Broken> {
        let room = plain.len() + (plain.len() / RECORD_BYTES + 1) * RECORD_EXTRA_BYTES;
        self.write(wire, room, |traffic, room| traffic.encrypt(plain, room))
    }

    /// Appends what tells the peer that nothing more comes.
    pub(crate) fn end(&mut self, wire: &mut Vec<u8>) {
        if self.stage != Stage::Handshake {
            let _ = self.write(wire, RECORD_EXTRA_BYTES, |traffic, room| traffic.queue_close_notify(room));
        }
    }

    /// Processes what is complete of `wire`. Returns how many bytes that is. rustls must be given what is left of them again, with
    /// whatever comes behind: it remembers places of messages in there, and panics where they are missing.
    fn process(&mut self, wire: &mut [u8], plain: &mut Vec<u8>, reply: &mut Vec<u8>) -> Result<usize, Error> {
        let mut done = 0;
        loop {
            let UnbufferedStatus { discard, state, .. } = self.connection.process(&mut wire[done..]);
            done += discard;
            match state {
                Ok(ConnectionState::ReadTraffic(mut records)) => {
                    while let Some(record) = records.next_record() {
                        let record = record?;
                        plain.extend_from_slice(record.payload);
                        done += record.discard;
                    }
                }
                Ok(ConnectionState::EncodeTlsData(message)) => put(message, reply)?,
                Ok(ConnectionState::TransmitTlsData(message)) => message.done(),
                Ok(ConnectionState::WriteTraffic(_)) => {
                    if self.stage == Stage::Handshake {
                        self.stage = Stage::Open;
                    }
                    return Ok(done);
                }
                Ok(ConnectionState::BlockedHandshake) => return Ok(done),
                Ok(ConnectionState::PeerClosed) => self.stage = Stage::Ended,
                Ok(ConnectionState::Closed) => return Ok(wire.len()),
                Ok(_) => return Err(Error::General("data before the handshake".to_owned())),
                Err(error) => {
                    // What rustls says to the peer about it comes first of all.
                    let UnbufferedStatus { state, .. } = self.connection.process(&mut wire[done..]);
                    if let Ok(ConnectionState::EncodeTlsData(alert)) = state {
                        put(alert, reply)?;
                    }
                    return Err(error);
                }
            }
        }
    }

    /// Bytes that are missing of the record that the kept bytes begin; none when that is unknown.
    fn missing(&self) -> Option<usize> {
        let header = self.kept.first_chunk::<HEADER_BYTES>();
        let end = header.map_or(HEADER_BYTES, |header| HEADER_BYTES + usize::from(u16::from_be_bytes([header[3], header[4]])));
        end.checked_sub(self.kept.len()).filter(|missing| *missing > 0 && self.stage != Stage::Handshake)
    }

    /// Appends what `write` puts into `room` bytes, or more where it needs them.
    fn write(
        &mut self,
        wire: &mut Vec<u8>,
        room: usize,
        mut write: impl FnMut(&mut WriteTraffic<'_, S::Data>, &mut [u8]) -> Result<usize, EncryptError>,
    ) -> Result<(), Broken> {
        while !self.failed {
            let UnbufferedStatus { discard, state, .. } = self.connection.process(&mut self.kept);
            match state.map_err(|_| Broken)? {
                ConnectionState::WriteTraffic(mut traffic) => {
                    return append(wire, room, |room| match write(&mut traffic, room) {
                        Err(EncryptError::InsufficientSize(error)) => Err(Some(error)),
                        encrypted => encrypted.map_err(|_| None),
                    });
                }
                ConnectionState::EncodeTlsData(message) => put(message, wire).map_err(|_| Broken)?,
                ConnectionState::TransmitTlsData(message) => message.done(),
                ConnectionState::PeerClosed => self.stage = Stage::Ended,
                _ => break,
            }
            self.kept.drain(..discard);
        }
        Err(Broken)
    }

    fn decode_all(&mut self, wire: &mut [u8], plain: &mut Vec<u8>, reply: &mut Vec<u8>) -> Result<(), Error> {
        let mut position = 0;
        while !self.kept.is_empty() {
            let rest = &wire[position..];
            let copied = self.missing().unwrap_or(rest.len()).min(rest.len());
            self.kept.extend_from_slice(&rest[..copied]);
            position += copied;
            if self.missing().is_some() {
                if position < wire.len() {
                    // The header is there now.
                    continue;
                }
                return Ok(());
            }
            let mut kept = std::mem::take(&mut self.kept);
            let done = self.process(&mut kept, plain, reply)?;
            kept.drain(..done);
            self.kept = kept;
            if position == wire.len() {
                if self.kept.is_empty() {
                    self.kept = Vec::new();
                }
                return Ok(());
            }
        }
        let done = self.process(&mut wire[position..], plain, reply)?;
        self.kept = wire[position + done..].to_vec();
        Ok(())
    }
}

/// Appends a message of rustls' own.
fn put<D>(mut message: EncodeTlsData<'_, D>, wire: &mut Vec<u8>) -> Result<(), Error> {
    let put = append(wire, 0, |room| match message.encode(room) {
        Err(EncodeError::InsufficientSize(error)) => Err(Some(error)),
        encoded => encoded.map_err(|_| None),
    });
    put.map_err(|Broken| Error::General("a message was encoded twice".to_owned()))
}

/// Appends what `write` puts into the room that it gets, which is made larger when it is too small.
fn append(
    wire: &mut Vec<u8>,
    mut room: usize,
    mut write: impl FnMut(&mut [u8]) -> Result<usize, Option<InsufficientSizeError>>,
) -> Result<(), Broken> {
    let start = wire.len();
    loop {
        wire.resize(start + room, 0);
        match write(&mut wire[start..]) {
            Ok(written) => {
                wire.truncate(start + written);
                return Ok(());
            }
            Err(Some(InsufficientSizeError { required_size })) if required_size > room => room = required_size,
            Err(_) => {
                wire.truncate(start);
                return Err(Broken);
            }
        }
    }
}
