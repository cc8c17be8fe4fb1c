//! One connection's TLS, by rustls' interface without buffers.
//!
//! Records are decrypted where they were received. What is left over of one is kept until the rest of it comes; then only that
//! rest is copied, and what follows is decrypted where it is again.

use almandine_io::socket::Address;
use almandine_net::transport::Broken;
use almandine_net::{Stage, Transport};
use rustls::Error;
use rustls::server::{ServerConnectionData, UnbufferedServerConnection};
use rustls::unbuffered::{
    ConnectionState, EncodeError, EncodeTlsData, EncryptError, InsufficientSizeError, UnbufferedStatus, WriteTraffic,
};

use crate::certificate;
use crate::options::NameField;

/// A record's header: its type, two bytes of version, the length of what follows.
const HEADER_BYTES: usize = 5;
/// Most bytes that are kept: a message of a handshake, which rustls bounds by 64 KiB, and a record.
const KEPT_BYTES_MAX: usize = 96 * 1024;
/// What a record takes beside its content, at most.
const RECORD_EXTRA_BYTES: usize = 64;
/// The content of a record, at most.
const RECORD_BYTES: usize = 16 * 1024;
/// Memory of rustls and of the keys for a connection, as the test `an_idle_connection_is_small` measures it, rounded up.
const CONNECTION_BYTES: usize = 8 * 1024;

pub(crate) struct ServerTransport {
    connection: UnbufferedServerConnection,
    name: NameField,
    stage: Stage,
    /// Where the peer is, for the log; until the handshake is over.
    peer: Option<Box<str>>,
    /// The beginning of what is not complete.
    kept: Vec<u8>,
    /// Nothing more comes from it.
    failed: bool,
}

impl ServerTransport {
    pub(crate) fn new(connection: UnbufferedServerConnection, name: NameField, peer: &Address) -> Self {
        Self { connection, name, stage: Stage::Handshake, peer: Some(peer.to_string().into()), kept: Vec::new(), failed: false }
    }

    /// Processes what is complete of `wire`. Returns how many bytes that is. rustls must be given what is left of them again, with
    /// whatever comes behind: it remembers places of messages in there, and panics where they are missing.
    fn process(&mut self, wire: &mut [u8], plain: &mut Vec<u8>, reply: &mut Vec<u8>) -> Result<usize, Error> {
        let mut done = 0;
        loop {
            let UnbufferedStatus { discard, state, .. } = self.connection.process_tls_records(&mut wire[done..]);
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
                        (self.stage, self.peer) = (Stage::Open, None);
                    }
                    return Ok(done);
                }
                Ok(ConnectionState::BlockedHandshake) => return Ok(done),
                Ok(ConnectionState::PeerClosed) => self.stage = Stage::Ended,
                Ok(ConnectionState::Closed) => return Ok(wire.len()),
                Ok(_) => return Err(Error::General("data before the handshake".to_owned())),
                Err(error) => {
                    // What rustls says to the peer about it comes first of all.
                    let UnbufferedStatus { state, .. } = self.connection.process_tls_records(&mut wire[done..]);
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
        mut write: impl FnMut(&mut WriteTraffic<'_, ServerConnectionData>, &mut [u8]) -> Result<usize, EncryptError>,
    ) -> Result<(), Broken> {
        while !self.failed {
            let UnbufferedStatus { discard, state, .. } = self.connection.process_tls_records(&mut self.kept);
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

impl Transport for ServerTransport {
    fn decode(&mut self, wire: &mut [u8], plain: &mut Vec<u8>, reply: &mut Vec<u8>) -> Result<(), Broken> {
        if self.failed {
            return Err(Broken);
        }
        let outcome = self.decode_all(wire, plain, reply);
        if outcome.is_ok() && self.kept.len() <= KEPT_BYTES_MAX {
            return Ok(());
        }
        let error = outcome.err().map_or_else(|| "too much of it is incomplete".to_owned(), |error| error.to_string());
        match self.peer.take() {
            Some(peer) => tracing::debug!("TLS handshake with {peer} failed: {error}"),
            None => tracing::debug!("A TLS connection ends: {error}"),
        }
        self.failed = true;
        Err(Broken)
    }

    fn keep(&mut self, wire: &[u8]) -> bool {
        let fits = self.kept.len() + wire.len() <= KEPT_BYTES_MAX;
        self.kept.extend_from_slice(if fits { wire } else { &[] });
        fits
    }

    fn encode(&mut self, plain: &[u8], wire: &mut Vec<u8>) -> Result<(), Broken> {
        let room = plain.len() + (plain.len() / RECORD_BYTES + 1) * RECORD_EXTRA_BYTES;
        self.write(wire, room, |traffic, room| traffic.encrypt(plain, room))
    }

    fn end(&mut self, wire: &mut Vec<u8>) {
        if self.stage != Stage::Handshake {
            let _ = self.write(wire, RECORD_EXTRA_BYTES, |traffic, room| traffic.queue_close_notify(room));
        }
    }

    fn stage(&self) -> Stage {
        self.stage
    }

    fn names(&self) -> Vec<Box<str>> {
        let certificate = self.connection.peer_certificates().and_then(|chain| chain.first());
        certificate.map(|certificate| certificate::names(certificate, self.name)).unwrap_or_default()
    }

    fn memory_bytes(&self) -> usize {
        CONNECTION_BYTES + self.kept.capacity()
    }
}

/// Appends a message of rustls' own.
fn put(mut message: EncodeTlsData<'_, ServerConnectionData>, wire: &mut Vec<u8>) -> Result<(), Error> {
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

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::path::Path;
    use std::sync::Arc;

    use rustls::pki_types::ServerName;
    use rustls::version::{TLS12, TLS13};
    use rustls::{ClientConfig, ClientConnection, SupportedProtocolVersion};

    use super::*;
    use crate::{Acceptor, Clients, TlsOptions, files, read};

    fn acceptor() -> Arc<Acceptor> {
        let directory = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/tls"));
        let options = TlsOptions {
            cert_file: directory.join("server.crt"),
            key_file: directory.join("server.key"),
            key_password: String::new(),
            ca_file: directory.join("ca.crt"),
            ca_directory: "".into(),
            clients: Clients::Optional,
            name: NameField::Off,
            protocols: String::new(),
            ciphers: String::new(),
            suites: String::new(),
            prefers_own_order: false,
            sessions: None,
        };
        let acceptor = Arc::<Acceptor>::default();
        acceptor.install(read(&options).unwrap());
        acceptor
    }

    fn transport(acceptor: &Arc<Acceptor>) -> Box<dyn Transport> {
        let address = Address::Ip("127.0.0.1:1".parse().unwrap());
        let peer = almandine_net::Peer { remote: address.clone(), local: address, worker: 0, descriptor: 0, names: Vec::new() };
        acceptor.transports()(&peer).unwrap()
    }

    /// A client whose messages are in records of at most 64 bytes, so that each is in several.
    fn client(version: &'static SupportedProtocolVersion) -> ClientConnection {
        let directory = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/tls"));
        let roots = files::authorities(&directory.join("ca.crt"), Path::new("")).unwrap();
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let builder = ClientConfig::builder_with_provider(provider).with_protocol_versions(&[version]).unwrap();
        let mut config = builder.with_root_certificates(roots).with_no_client_auth();
        config.max_fragment_size = Some(64);
        ClientConnection::new(Arc::new(config), ServerName::try_from("localhost").unwrap()).unwrap()
    }

    /// What a client sends, after it has read `answer`, of which it appends what it has received.
    fn sent(client: &mut ClientConnection, mut answer: &[u8], received: &mut Vec<u8>) -> Vec<u8> {
        while !answer.is_empty() {
            client.read_tls(&mut answer).unwrap();
            client.process_new_packets().unwrap();
            // Without the end of the stream there may always be more.
            let _ = client.reader().read_to_end(received);
        }
        let mut bytes = Vec::new();
        while client.wants_write() {
            client.write_tls(&mut bytes).unwrap();
        }
        bytes
    }

    #[test]
    fn bytes_come_in_any_pieces() {
        use std::io::Write;
        let acceptor = acceptor();
        for version in [&TLS13, &TLS12] {
            for piece in [1, 7, 64, 100, 100_000] {
                let (mut server, mut client) = (transport(&acceptor), client(version));
                let (mut plain, mut reply, mut sent_plain) = (Vec::new(), Vec::new(), Vec::new());
                let mut received = Vec::new();
                for round in 0..20_u8 {
                    if !client.is_handshaking() {
                        let text = vec![round; 1000 * usize::from(round)];
                        client.writer().write_all(&text).unwrap();
                        sent_plain.extend(text);
                    }
                    let mut wire = sent(&mut client, &std::mem::take(&mut reply), &mut received);
                    for piece in wire.chunks_mut(piece) {
                        server.decode(piece, &mut plain, &mut reply).unwrap();
                    }
                    // It may be in the middle of anything when the server sends.
                    if server.stage() == Stage::Open {
                        server.encode(&[round; 20_000], &mut reply).unwrap();
                    }
                }
                assert!(!client.is_handshaking() && plain == sent_plain, "{version:?} {piece}");
                server.end(&mut reply);
                sent(&mut client, &reply, &mut received);
                assert_eq!(client.reader().read(&mut [0]).unwrap(), 0, "the end was told");
                assert!(received.len() >= 15 * 20_000, "{}", received.len());
            }
        }
    }

    #[test]
    fn whatever_a_peer_sends_is_an_error_at_worst() {
        let acceptor = acceptor();
        let mut harm: Vec<Vec<u8>> = Vec::new();
        for version in [&TLS13, &TLS12] {
            let hello = sent(&mut client(version), &[], &mut Vec::new());
            harm.extend((0..hello.len()).map(|end| hello[..end].to_vec()));
            harm.extend((0..hello.len()).map(|at| [&hello[..at], &[hello[at] ^ 0x41], &hello[at + 1..]].concat()));
        }
        // A message that has no end, in records; and every type of record with every beginning of a message.
        harm.push([&[22, 3, 1, 0x40, 0][..], &[1, 0xFF, 0xFF, 0xFF], &[0; 16_380]].concat().repeat(8));
        harm.extend((0..=255).map(|kind| [&[kind, 3, 3, 0, 4][..], &[1, 0, 0, 200]].concat()));
        harm.extend((0..=255).map(|kind| [&[22, 3, 3, 0, 4][..], &[kind, 0, 0, 0]].concat()));
        for (number, bytes) in harm.into_iter().enumerate() {
            for piece in [3, 100, 100_000] {
                let mut server = transport(&acceptor);
                let (mut plain, mut reply) = (Vec::new(), Vec::new());
                let failed = bytes.clone().chunks_mut(piece).any(|piece| server.decode(piece, &mut plain, &mut reply).is_err());
                // Whatever is called then.
                assert!(server.encode(b"reply", &mut reply).is_err() && plain.is_empty(), "{number}");
                server.end(&mut reply);
                assert_eq!(failed, server.decode(&mut [], &mut plain, &mut reply).is_err(), "{number}");
                assert!(server.memory_bytes() < 2 * KEPT_BYTES_MAX + CONNECTION_BYTES, "{number}");
            }
        }
    }
}
