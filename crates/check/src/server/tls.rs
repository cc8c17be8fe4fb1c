//! TLS for a connection: its options, by the names that redis-cli has for them, and a stream of what is decrypted.

use std::io::{self, Error, ErrorKind, Read, Write};
use std::path::PathBuf;

use almandine_net::Stage;
use almandine_tls::{ClientOptions, ClientSession, Connector};
use clap::Args;

const READ_BYTES: usize = 16 << 10;

#[derive(Debug, Args)]
pub(super) struct TlsOptions {
    /// Speak TLS.
    #[arg(long)]
    pub(super) tls: bool,
    /// Authorities that are trusted, PEM; without, those of the system.
    #[arg(long, value_name = "FILE", requires = "tls")]
    cacert: Option<PathBuf>,
    /// Certificate of this client, PEM.
    #[arg(long, value_name = "FILE", requires_all = ["key", "tls"])]
    cert: Option<PathBuf>,
    /// Key of the certificate, PEM.
    #[arg(long, value_name = "FILE", requires = "cert")]
    key: Option<PathBuf>,
    /// Name that the server's certificate is for, where it is not the host's.
    #[arg(long, value_name = "NAME", requires = "tls")]
    sni: Option<String>,
    /// Take any certificate of the server.
    #[arg(long, requires = "tls")]
    insecure: bool,
}

impl TlsOptions {
    /// A session with a host.
    pub(super) fn session(&self, host: &str) -> io::Result<ClientSession> {
        let options = ClientOptions {
            ca_file: self.cacert.clone().unwrap_or_default(),
            cert_file: self.cert.clone().unwrap_or_default(),
            key_file: self.key.clone().unwrap_or_default(),
            server_name: self.sni.clone().unwrap_or_default(),
            insecure: self.insecure,
            ..ClientOptions::default()
        };
        let session = Connector::new(&options).and_then(|connector| connector.session(host));
        session.map_err(|fault| Error::new(ErrorKind::InvalidInput, fault.to_string()))
    }
}

/// A stream within another one.
pub(super) struct Encrypted<S> {
    stream: S,
    session: ClientSession,
    /// What is decrypted, and from where on it has not been read.
    plain: (Vec<u8>, usize),
}

impl<S: Read + Write> Encrypted<S> {
    /// Does the handshake.
    pub(super) fn open(stream: S, session: ClientSession) -> io::Result<Self> {
        let mut encrypted = Self { stream, session, plain: (Vec::new(), 0) };
        encrypted.decode(&mut [])?;
        while encrypted.session.stage() == Stage::Handshake {
            encrypted.receive().map_err(|error| match error.kind() {
                ErrorKind::WouldBlock | ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset => {
                    Error::new(error.kind(), format!("the server ends the TLS handshake ({error}): does this port speak TLS?"))
                }
                _ => error,
            })?;
        }
        Ok(encrypted)
    }

    /// Takes bytes from the wire, and answers what has to be answered.
    fn decode(&mut self, wire: &mut [u8]) -> io::Result<()> {
        let mut reply = Vec::new();
        let taken = self.session.decode(wire, &mut self.plain.0, &mut reply);
        self.stream.write_all(&reply)?;
        taken.map_err(|refused| Error::other(refused.to_string()))
    }

    fn receive(&mut self) -> io::Result<()> {
        let mut wire = vec![0; READ_BYTES];
        match self.stream.read(&mut wire)? {
            0 => Err(ErrorKind::UnexpectedEof.into()),
            count => self.decode(&mut wire[..count]),
        }
    }
}

impl<S: Read + Write> Read for Encrypted<S> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        while self.plain.1 == self.plain.0.len() {
            self.plain = (std::mem::take(&mut self.plain.0), 0);
            self.plain.0.clear();
            match self.receive() {
                Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(0),
                result => result?,
            }
        }
        let count = (&self.plain.0[self.plain.1..]).read(into)?;
        self.plain.1 += count;
        Ok(count)
    }
}

impl<S: Read + Write> Write for Encrypted<S> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut wire = Vec::new();
        self.session.encode(bytes, &mut wire).map_err(|_| Error::new(ErrorKind::BrokenPipe, "the TLS session has ended"))?;
        self.stream.write_all(&wire)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}
