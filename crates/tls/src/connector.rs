//! The client's end: what it trusts, what it shows, and one session per connection.
//!
//! The parameters are flags, by the names that redis-cli has for them; errors are told by these names.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use almandine_net::Stage;
use almandine_net::transport::Broken;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{Resumption, UnbufferedClientConnection, WantsClientCert};
use rustls::crypto::{CryptoProvider, aws_lc_rs, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, ConfigBuilder, DigitallySignedStruct, Error, HandshakeKind, RootCertStore, SignatureScheme};

use crate::options::TlsFault;
use crate::records::Records;
use crate::refused::Refused;
use crate::time::WallClock;
use crate::{ciphers, files, key};

/// Where systems have the authorities that they trust.
const SYSTEM_AUTHORITIES: [&str; 3] =
    ["/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem"];

/// Servers whose sessions are kept.
const SESSIONS: usize = 16;

/// Settings of a client. Empty paths and texts are not stated.
#[derive(Clone, Debug, Default)]
pub struct ClientOptions {
    /// `--cacert`: certificates of authorities that are trusted, PEM. Without them and `--cacertdir`, those of the system.
    pub ca_file: PathBuf,
    /// `--cacertdir`: a directory of such files.
    pub ca_directory: PathBuf,
    /// `--cert`: the client's certificate, PEM.
    pub cert_file: PathBuf,
    /// `--key`: its key, PEM, without a passphrase.
    pub key_file: PathBuf,
    /// `--sni`: the name that the server's certificate is for, where it is not the host's.
    pub server_name: String,
    /// `--insecure`: any certificate will do.
    pub insecure: bool,
    /// `--tls-ciphers`: ciphers of TLS 1.2.
    pub ciphers: String,
    /// `--tls-ciphersuites`: ciphers of TLS 1.3.
    pub suites: String,
}

/// Makes the sessions of new connections. They are resumed where the server lets them; clones share what can be.
#[derive(Clone, Debug)]
pub struct Connector {
    config: Arc<ClientConfig>,
    name: Option<ServerName<'static>>,
}

impl Connector {
    /// Reads the files that `options` name.
    ///
    /// # Errors
    /// When they cannot be followed.
    pub fn new(options: &ClientOptions) -> Result<Self, TlsFault> {
        let mut provider = aws_lc_rs::default_provider();
        let flag = |fault: TlsFault| {
            TlsFault::new(if fault.parameter == "tls-ciphers" { "--tls-ciphers" } else { "--tls-ciphersuites" }, fault.text)
        };
        provider.cipher_suites = ciphers::choose(provider.cipher_suites, &options.suites, &options.ciphers).map_err(flag)?;
        let provider = Arc::new(provider);
        let builder = ClientConfig::builder_with_details(Arc::clone(&provider), Arc::new(WallClock))
            .with_protocol_versions(rustls::DEFAULT_VERSIONS)
            .map_err(|error| TlsFault::new("--tls-ciphersuites", error.to_string()))?;
        let builder = if options.insecure {
            builder.dangerous().with_custom_certificate_verifier(Arc::new(Anyone(provider)))
        } else {
            builder.with_root_certificates(authorities(options)?)
        };
        let config = authenticate(builder, options)?;
        let name = (!options.server_name.is_empty()).then(|| name("--sni", &options.server_name)).transpose()?;
        Ok(Self { config: Arc::new(config), name })
    }

    /// The same with sessions of its own, which are resumed or not.
    #[must_use]
    pub fn apart(&self, resume: bool) -> Self {
        let mut config = ClientConfig::clone(&self.config);
        config.resumption = if resume { Resumption::in_memory_sessions(SESSIONS) } else { Resumption::disabled() };
        Self { config: Arc::new(config), name: self.name.clone() }
    }

    /// A session with a host: a name or an address.
    ///
    /// # Errors
    /// When a certificate cannot be for such a name.
    pub fn session(&self, host: &str) -> Result<ClientSession, TlsFault> {
        let name = self.name.clone().map_or_else(|| name("--sni", host), Ok)?;
        let connection = UnbufferedClientConnection::new(Arc::clone(&self.config), name);
        let connection = connection.map_err(|error| TlsFault::new("--tls", error.to_string()))?;
        Ok(ClientSession { records: Records::new(connection) })
    }
}

fn name(parameter: &'static str, text: &str) -> Result<ServerName<'static>, TlsFault> {
    let wrong = |_| TlsFault::new(parameter, format!("no certificate is for {text:?}: give the name that the server's has"));
    ServerName::try_from(text.to_owned()).map_err(wrong)
}

fn authorities(options: &ClientOptions) -> Result<RootCertStore, TlsFault> {
    let (file, directory) = (("--cacert", &*options.ca_file), ("--cacertdir", &*options.ca_directory));
    if !options.ca_file.as_os_str().is_empty() || !options.ca_directory.as_os_str().is_empty() {
        return files::authorities(file, directory);
    }
    let found = SYSTEM_AUTHORITIES.iter().find_map(|path| files::certificates("--cacert", Path::new(path)).ok());
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(found.unwrap_or_default());
    if roots.is_empty() {
        let text = "this system has no authorities: name the one that signed the server's certificate, or give --insecure";
        return Err(TlsFault::new("--cacert", text));
    }
    Ok(roots)
}

/// With the client's certificate, if it has one.
fn authenticate(builder: ConfigBuilder<ClientConfig, WantsClientCert>, options: &ClientOptions) -> Result<ClientConfig, TlsFault> {
    let (certificate, private) = (&options.cert_file, &options.key_file);
    match (certificate.as_os_str().is_empty(), private.as_os_str().is_empty()) {
        (true, true) => return Ok(builder.with_no_client_auth()),
        (false, true) => return Err(TlsFault::new("--key", "--cert needs the key of the certificate")),
        (true, false) => return Err(TlsFault::new("--cert", "--key needs the certificate that it belongs to")),
        (false, false) => {}
    }
    let chain = files::certificates("--cert", certificate)?;
    let decrypt = |fault: TlsFault| match fault.parameter {
        "tls-key-file-pass" => {
            let file = private.display();
            TlsFault::new("--key", format!("{file} is encrypted: give a plain one, as 'openssl pkey -in {file} -out NEW' makes it"))
        }
        _ => TlsFault::new("--key", fault.text),
    };
    let key = key::read(private, "").map_err(decrypt)?;
    let pair = |error: Error| {
        let (certificate, private) = (certificate.display(), private.display());
        TlsFault::new("--key", format!("{private} and {certificate} cannot be used together: {error}"))
    };
    builder.with_client_auth_cert(chain, key).map_err(pair)
}

/// One connection's session. It does no I/O: its caller moves the bytes.
pub struct ClientSession {
    records: Records<UnbufferedClientConnection>,
}

impl ClientSession {
    /// Takes bytes from the wire, which it may change; none begin the handshake. Appends what the server has sent to `plain`, and
    /// what it must be told at once to `reply`.
    ///
    /// # Errors
    /// When the server is not trusted, does not trust the client, or does not speak TLS. `reply` tells it.
    pub fn decode(&mut self, wire: &mut [u8], plain: &mut Vec<u8>, reply: &mut Vec<u8>) -> Result<(), Refused> {
        let before = self.records.stage();
        self.records.decode(wire, plain, reply).map_err(|error| Refused {
            error: error.unwrap_or_else(|| Error::General("it has failed before".to_owned())),
            in_handshake: before == Stage::Handshake,
        })
    }

    /// Appends the form of `plain` on the wire.
    ///
    /// # Errors
    /// When no more can be sent.
    pub fn encode(&mut self, plain: &[u8], wire: &mut Vec<u8>) -> Result<(), Broken> {
        self.records.encode(plain, wire)
    }

    /// Appends what tells the server that nothing more comes.
    pub fn end(&mut self, wire: &mut Vec<u8>) {
        self.records.end(wire);
    }

    /// How far it is.
    #[must_use]
    pub fn stage(&self) -> Stage {
        self.records.stage()
    }

    /// Whether it goes on with an earlier session's secrets, without another key exchange of certificates.
    #[must_use]
    pub fn is_resumed(&self) -> bool {
        self.records.connection().handshake_kind() == Some(HandshakeKind::Resumed)
    }
}

impl fmt::Debug for ClientSession {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientSession").field("stage", &self.stage()).finish_non_exhaustive()
    }
}

/// Takes any certificate, of which the server must have the key all the same.
#[derive(Debug)]
struct Anyone(Arc<CryptoProvider>);

impl ServerCertVerifier for Anyone {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signed, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signed, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use almandine_io::socket::Address;
    use almandine_net::{Peer, Transport};

    use super::*;
    use crate::{Acceptor, Clients, NameField, Sessions, TlsOptions, read};

    fn file(name: &str) -> PathBuf {
        Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/tls")).join(name)
    }

    fn acceptor(clients: Clients) -> Arc<Acceptor> {
        let options = TlsOptions {
            cert_file: file("server.crt"),
            key_file: file("server.key"),
            key_password: String::new(),
            ca_file: file("ca.crt"),
            ca_directory: "".into(),
            clients,
            name: NameField::CommonName,
            protocols: String::new(),
            ciphers: String::new(),
            suites: String::new(),
            prefers_own_order: false,
            sessions: Some(Sessions { kept_max: 10, seconds: 100 }),
        };
        let acceptor = Arc::<Acceptor>::default();
        acceptor.install(read(&options).unwrap());
        acceptor
    }

    /// Both ends, and what the server has read.
    type Talk = (ClientSession, Box<dyn Transport>, Vec<u8>);

    /// The ends, after they have exchanged what they had to say.
    fn talk(acceptor: &Arc<Acceptor>, connector: &Connector) -> Result<Talk, String> {
        let address = Address::Ip("127.0.0.1:1".parse().unwrap());
        let peer = Peer { remote: address.clone(), local: address, worker: 0, descriptor: 0, names: Vec::new() };
        let mut server = acceptor.transports()(&peer).unwrap();
        let mut client = connector.session("localhost").map_err(|fault| fault.to_string())?;
        let (mut up, mut down, mut received, mut asked) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for round in 0..6 {
            let mut wire = std::mem::take(&mut down);
            client.decode(&mut wire, &mut received, &mut up).map_err(|refused| refused.to_string())?;
            if client.stage() == Stage::Open && round < 5 {
                client.encode(&[round], &mut up).unwrap();
            }
            let mut wire = std::mem::take(&mut up);
            // What is wrong with it is told to the client.
            let _ = server.decode(&mut wire, &mut asked, &mut down);
        }
        Ok((client, server, asked))
    }

    #[test]
    fn sessions_are_resumed_only_where_they_shall_be() {
        let acceptor = acceptor(Clients::Unasked);
        for resume in [false, true] {
            let connector = Connector::new(&ClientOptions { ca_file: file("ca.crt"), ..ClientOptions::default() }).unwrap();
            let connector = connector.apart(resume);
            let resumed: Vec<bool> = (0..3).map(|_| talk(&acceptor, &connector).unwrap().0.is_resumed()).collect();
            assert_eq!(resumed, [false, resume, resume]);
        }
    }

    #[test]
    fn who_is_not_trusted_is_told_what_to_do() {
        let trusting = |name: &str| ClientOptions { ca_file: file(name), ..ClientOptions::default() };
        let said = |clients, options: &ClientOptions| talk(&acceptor(clients), &Connector::new(options).unwrap()).err().unwrap();
        assert!(said(Clients::Unasked, &trusting("other-ca.crt")).contains("by --cacert"));
        let named = ClientOptions { server_name: "example.com".into(), ..trusting("ca.crt") };
        assert!(said(Clients::Unasked, &named).contains("by --sni"));
        assert!(said(Clients::Required, &trusting("ca.crt")).contains("wants a certificate"));
        let with = |name: &str| ClientOptions {
            cert_file: file(&format!("{name}.crt")),
            key_file: file(&format!("{name}.key")),
            ..trusting("ca.crt")
        };
        assert!(said(Clients::Required, &with("stranger")).contains("does not take the client's certificate"));
        let connector = Connector::new(&with("alice")).unwrap();
        let (_, server, asked) = talk(&acceptor(Clients::Required), &connector).unwrap();
        assert_eq!((server.names(), asked.is_empty()), (vec!["alice".into()], false));
        // Any certificate will do, but its key must be there.
        let insecure = ClientOptions { insecure: true, server_name: "example.com".into(), ..ClientOptions::default() };
        assert!(talk(&acceptor(Clients::Unasked), &Connector::new(&insecure).unwrap()).is_ok());
    }

    #[test]
    fn files_that_cannot_be_followed_are_told_by_their_flags() {
        let fault = |options: ClientOptions| Connector::new(&options).unwrap_err().to_string();
        let trusting = || ClientOptions { ca_file: file("ca.crt"), ..ClientOptions::default() };
        assert!(fault(ClientOptions { ca_file: file("none"), ..trusting() }).starts_with("--cacert: cannot read"));
        assert!(fault(ClientOptions { ca_directory: file("none"), ..trusting() }).starts_with("--cacertdir: cannot read"));
        assert!(fault(ClientOptions { cert_file: file("alice.crt"), ..trusting() }).starts_with("--key: --cert needs"));
        assert!(fault(ClientOptions { key_file: file("alice.key"), ..trusting() }).starts_with("--cert: --key needs"));
        let pair = |key: &str| ClientOptions { cert_file: file("alice.crt"), key_file: file(key), ..trusting() };
        assert!(fault(pair("server-encrypted.key")).contains("openssl pkey"));
        assert!(fault(pair("server.key")).contains("cannot be used together"));
        assert!(fault(ClientOptions { suites: "none".into(), ..trusting() }).starts_with("--tls-ciphersuites: there is no none"));
        assert!(fault(ClientOptions { server_name: "a b".into(), ..trusting() }).starts_with("--sni: no certificate is for"));
    }
}
