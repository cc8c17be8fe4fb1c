//! What connections begin with: certificates, keys and rules, from an operator's settings. They can change while the server runs.

use std::path::Path;
use std::sync::Arc;

use almandine_io::files as io_files;
use almandine_net::{Peer, Transport, TransportFactory};
use arc_swap::ArcSwapOption;
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::server::{NoServerSessionStorage, ServerConfig, UnbufferedServerConnection, WebPkiClientVerifier};
use rustls::{Error, InconsistentKeys};

use crate::options::{Clients, NameField, TlsFault, TlsOptions};
use crate::time::WallClock;
use crate::transport::ServerTransport;
use crate::{ciphers, files, key, sessions};

/// Makes transports of new connections, once it has a configuration.
#[derive(Default)]
pub struct Acceptor {
    current: ArcSwapOption<Configuration>,
}

/// What connections begin with.
pub struct Configuration {
    config: Arc<ServerConfig>,
    name: NameField,
}

impl Acceptor {
    /// Has new connections begin with a configuration. Those that are there go on as they began, and none of their sessions is
    /// resumed.
    pub fn install(&self, configuration: Configuration) {
        self.current.store(Some(Arc::new(configuration)));
    }

    /// For the endpoints whose connections it makes.
    #[must_use]
    pub fn transports(self: &Arc<Self>) -> TransportFactory {
        let acceptor = Arc::clone(self);
        Arc::new(move |peer| acceptor.accept(peer))
    }

    /// What a connection begins with that another runtime serves; none before there is a configuration.
    #[must_use]
    pub fn server_config(&self) -> Option<Arc<ServerConfig>> {
        self.current.load().as_ref().map(|current| Arc::clone(&current.config))
    }

    fn accept(&self, peer: &Peer) -> Option<Box<dyn Transport>> {
        let current = self.current.load();
        let current = current.as_ref()?;
        // It fails only for a configuration that no connection can have.
        let connection = UnbufferedServerConnection::new(Arc::clone(&current.config)).ok()?;
        Some(Box::new(ServerTransport::new(connection, current.name, &peer.remote)))
    }
}

/// A number that changes when one of the files does that `options` name. What cannot be read counts as empty.
#[must_use]
pub fn fingerprint(options: &TlsOptions) -> u64 {
    use std::hash::{DefaultHasher, Hasher};
    let mut hasher = DefaultHasher::new();
    let mut add = |path: &Path| {
        let bytes = io_files::read(path).unwrap_or_default();
        hasher.write_usize(bytes.len());
        hasher.write(&bytes);
    };
    [&options.cert_file, &options.key_file, &options.ca_file].into_iter().for_each(|path| add(path));
    if !options.ca_directory.as_os_str().is_empty() {
        files::listed(("tls-ca-cert-dir", &options.ca_directory)).unwrap_or_default().iter().for_each(|path| add(path));
    }
    hasher.finish()
}

/// Reads the files that `options` name.
///
/// # Errors
/// When they cannot be followed.
pub fn read(options: &TlsOptions) -> Result<Configuration, TlsFault> {
    let missing = |parameter, what| TlsFault::new(parameter, format!("TLS needs {what}: set it, or set tls-port to 0"));
    if options.cert_file.as_os_str().is_empty() {
        return Err(missing("tls-cert-file", "a certificate"));
    }
    if options.key_file.as_os_str().is_empty() {
        return Err(missing("tls-key-file", "the key of the certificate"));
    }
    let mut provider = aws_lc_rs::default_provider();
    provider.cipher_suites = ciphers::choose(provider.cipher_suites, &options.suites, &options.ciphers)?;
    let provider = Arc::new(provider);
    let versions = ciphers::versions(&options.protocols)?;
    let chain = files::certificates("tls-cert-file", &options.cert_file)?;
    let key = key::read(&options.key_file, &options.key_password)?;
    let config = ServerConfig::builder_with_details(Arc::clone(&provider), Arc::new(WallClock))
        .with_protocol_versions(&versions)
        .map_err(|error| TlsFault::new("tls-protocols", error.to_string()))?;
    let config = match verifier(options, provider)? {
        Some(verifier) => config.with_client_cert_verifier(verifier),
        None => config.with_no_client_auth(),
    };
    let mut config = config.with_single_cert(chain, key).map_err(|error| fault_of(&error, options))?;
    config.ignore_client_order = options.prefers_own_order;
    match options.sessions {
        Some(sessions) => {
            let failed = |error: Error| TlsFault::new("tls-session-caching", format!("no key for tickets can be made: {error}"));
            sessions::resume(&mut config, sessions).map_err(failed)?;
        }
        None => (config.session_storage, config.send_tls13_tickets) = (Arc::new(NoServerSessionStorage {}), 0),
    }
    Ok(Configuration { config: Arc::new(config), name: options.name })
}

/// What checks certificates of clients.
fn verifier(
    options: &TlsOptions,
    provider: Arc<CryptoProvider>,
) -> Result<Option<Arc<dyn rustls::server::danger::ClientCertVerifier>>, TlsFault> {
    if options.clients == Clients::Unasked {
        return Ok(None);
    }
    let roots = files::authorities(("tls-ca-cert-file", &options.ca_file), ("tls-ca-cert-dir", &options.ca_directory))?;
    if roots.is_empty() {
        let text = "TLS needs the authority of clients' certificates: set it or tls-ca-cert-dir, or set tls-auth-clients to no";
        return Err(TlsFault::new("tls-ca-cert-file", text));
    }
    let builder = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
    let builder = if options.clients == Clients::Optional { builder.allow_unauthenticated() } else { builder };
    builder.build().map(Some).map_err(|error| TlsFault::new("tls-ca-cert-file", error.to_string()))
}

fn fault_of(error: &Error, options: &TlsOptions) -> TlsFault {
    let (certificate, key) = (options.cert_file.display(), options.key_file.display());
    match error {
        Error::InconsistentKeys(InconsistentKeys::KeyMismatch) => {
            TlsFault::new("tls-key-file", format!("{key} is not the key of {certificate}: name the pair that belongs together"))
        }
        Error::InvalidCertificate(_) => TlsFault::new(
            "tls-cert-file",
            format!("{certificate} cannot be used: {error}. It must be an X.509 certificate of version 3"),
        ),
        _ => TlsFault::new("tls-key-file", format!("{key} cannot be used: {error}. It must be an RSA, ECDSA or Ed25519 key")),
    }
}
