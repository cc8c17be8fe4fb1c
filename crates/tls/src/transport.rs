//! The server's end of one connection.

use almandine_io::socket::Address;
use almandine_net::transport::Broken;
use almandine_net::{Stage, Transport};
use rustls::server::UnbufferedServerConnection;

use crate::certificate;
use crate::options::NameField;
use crate::records::Records;

/// Memory of rustls and of the keys for a connection, as the test `an_idle_connection_is_small` measures it, rounded up.
const CONNECTION_BYTES: usize = 8 * 1024;

pub(crate) struct ServerTransport {
    records: Records<UnbufferedServerConnection>,
    name: NameField,
    /// Where the peer is, for the log; until the handshake is over.
    peer: Option<Box<str>>,
}

impl ServerTransport {
    pub(crate) fn new(connection: UnbufferedServerConnection, name: NameField, peer: &Address) -> Self {
        Self { records: Records::new(connection), name, peer: Some(peer.to_string().into()) }
    }
}

impl Transport for ServerTransport {
    fn decode(&mut self, wire: &mut [u8], plain: &mut Vec<u8>, reply: &mut Vec<u8>) -> Result<(), Broken> {
        let outcome = self.records.decode(wire, plain, reply);
        if self.records.stage() != Stage::Handshake {
            self.peer = None;
        }
        outcome.map_err(|error| {
            let told = error.map(|error| error.to_string());
            match (told, self.peer.take()) {
                (Some(error), Some(peer)) => tracing::debug!("TLS handshake with {peer} failed: {error}"),
                (Some(error), None) => tracing::debug!("A TLS connection ends: {error}"),
                (None, _) => {}
            }
            Broken
        })
    }

    fn keep(&mut self, wire: &[u8]) -> bool {
        self.records.keep(wire)
    }

    fn encode(&mut self, plain: &[u8], wire: &mut Vec<u8>) -> Result<(), Broken> {
        self.records.encode(plain, wire)
    }

    fn end(&mut self, wire: &mut Vec<u8>) {
        self.records.end(wire);
    }

    fn stage(&self) -> Stage {
        self.records.stage()
    }

    fn names(&self) -> Vec<Box<str>> {
        let certificate = self.records.connection().peer_certificates().and_then(|chain| chain.first());
        certificate.map(|certificate| certificate::names(certificate, self.name)).unwrap_or_default()
    }

    fn memory_bytes(&self) -> usize {
        CONNECTION_BYTES + self.records.kept_bytes()
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
    use crate::records::KEPT_BYTES_MAX;
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
        let roots = files::authorities(("", &directory.join("ca.crt")), ("", Path::new(""))).unwrap();
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
