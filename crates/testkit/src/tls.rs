//! TLS clients, and the certificates of `tests/tls`.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, HandshakeKind, RootCertStore, StreamOwned, SupportedProtocolVersion};

use crate::Client;
use crate::runtime::{Runtime, Stream};

/// A file of `tests/tls`.
#[must_use]
pub fn file(name: &str) -> String {
    let directory = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/tls"));
    directory.join(name).to_string_lossy().into_owned()
}

fn certificate(name: &str) -> CertificateDer<'static> {
    CertificateDer::from_pem_file(file(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// What clients of a kind share: the authority that they trust, their certificate, and the sessions that they can resume.
#[derive(Clone, Debug)]
pub struct Peer(Arc<ClientConfig>);

impl Peer {
    /// A peer that trusts an authority, and has a certificate or none.
    ///
    /// # Panics
    /// When a file is missing.
    #[must_use]
    pub fn new(authority: &str, own: Option<&str>, versions: &[&'static SupportedProtocolVersion]) -> Self {
        let mut roots = RootCertStore::empty();
        roots.add(certificate(authority)).expect("an authority");
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let builder = ClientConfig::builder_with_provider(provider).with_protocol_versions(versions).expect("versions");
        let builder = builder.with_root_certificates(roots);
        let config = match own {
            None => builder.with_no_client_auth(),
            Some(name) => {
                let key = PrivateKeyDer::from_pem_file(file(&format!("{name}.key"))).expect("a key");
                builder.with_client_auth_cert(vec![certificate(&format!("{name}.crt"))], key).expect("a pair")
            }
        };
        Self(Arc::new(config))
    }

    /// A peer that trusts the authority of the tests' server.
    #[must_use]
    pub fn plain() -> Self {
        Self::new("ca.crt", None, rustls::ALL_VERSIONS)
    }

    /// The same with a certificate of its own.
    #[must_use]
    pub fn with(own: &str) -> Self {
        Self::new("ca.crt", Some(own), rustls::ALL_VERSIONS)
    }

    /// Connects, and does the handshake.
    ///
    /// # Errors
    /// When the server does not accept or refuses the handshake. With TLS 1.3 a refusal may come with the first reply instead.
    pub fn connect(&self, address: SocketAddr) -> io::Result<Client<TlsStream>> {
        let name = ServerName::try_from("localhost").map_err(io::Error::other)?;
        let connection = ClientConnection::new(Arc::clone(&self.0), name).map_err(io::Error::other)?;
        let mut stream = StreamOwned::new(connection, address.open()?);
        while stream.conn.is_handshaking() {
            stream.conn.complete_io(&mut stream.sock)?;
        }
        Ok(Client::on(TlsStream(stream)))
    }

    /// Whether a command is answered with PONG.
    #[must_use]
    pub fn is_served(&self, address: SocketAddr) -> bool {
        self.connect(address).and_then(|mut client| client.call(&["PING"])).is_ok_and(|reply| reply.to_string() == "+PONG")
    }
}

/// A connection with TLS.
#[derive(Debug)]
pub struct TlsStream(StreamOwned<ClientConnection, TcpStream>);

impl TlsStream {
    /// Whether its session was resumed.
    #[must_use]
    pub fn is_resumed(&self) -> bool {
        self.0.conn.handshake_kind() == Some(HandshakeKind::Resumed)
    }

    /// The server's certificate.
    #[must_use]
    pub fn certificate(&self) -> Option<Vec<u8>> {
        self.0.conn.peer_certificates().and_then(|chain| chain.first()).map(|certificate| certificate.to_vec())
    }

    /// Tells the server that no more is sent.
    ///
    /// # Errors
    /// Of the socket.
    pub fn notify_end(&mut self) -> io::Result<()> {
        self.0.conn.send_close_notify();
        self.0.flush()
    }

    /// The socket below.
    pub fn socket(&mut self) -> &mut TcpStream {
        &mut self.0.sock
    }
}

impl Read for TlsStream {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.0.read(into)
    }
}

impl Write for TlsStream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

impl Stream for TlsStream {
    fn set_read_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        self.0.sock.set_read_timeout(timeout)
    }

    fn end_writing(&self) {
        self.0.sock.end_writing();
    }
}
