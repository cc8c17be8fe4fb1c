//! What an operator says about TLS.

use std::fmt;
use std::path::PathBuf;

/// Settings of the server's side. Empty paths and texts are not stated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsOptions {
    /// Certificate of the server, and those that lead to its authority, PEM.
    pub cert_file: PathBuf,
    /// Its key, PEM.
    pub key_file: PathBuf,
    /// The passphrase of the key; empty for none.
    pub key_password: String,
    /// Certificates of the authorities of clients, PEM.
    pub ca_file: PathBuf,
    /// A directory of such files.
    pub ca_directory: PathBuf,
    /// Whether clients must show a certificate.
    pub clients: Clients,
    /// Which part of it names a user.
    pub name: NameField,
    /// Versions, as `tls-protocols` has them.
    pub protocols: String,
    /// Ciphers of TLS 1.2, as `tls-ciphers` has them.
    pub ciphers: String,
    /// Ciphers of TLS 1.3, as `tls-ciphersuites` has them.
    pub suites: String,
    /// The server's order of ciphers decides.
    pub prefers_own_order: bool,
    /// Sessions that can be resumed; none when they cannot.
    pub sessions: Option<Sessions>,
}

/// Whether clients must show a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clients {
    /// They are not asked for one.
    Unasked,
    /// One that they show must be valid.
    Optional,
    /// They must.
    Required,
}

/// The part of a client's certificate that names its user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameField {
    /// None does.
    Off,
    /// The common name of its subject.
    CommonName,
    /// A URI among its alternative names.
    Uri,
}

/// Sessions that can be resumed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sessions {
    /// How many are kept of clients that take no tickets.
    pub kept_max: usize,
    /// For how long.
    pub seconds: u32,
}

/// Settings that cannot be followed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFault {
    /// The parameter that it is about.
    pub parameter: &'static str,
    /// What is wrong, and what to do.
    pub text: String,
}

impl TlsFault {
    /// What is wrong with a parameter.
    pub fn new(parameter: &'static str, text: impl Into<String>) -> Self {
        Self { parameter, text: text.into() }
    }
}

impl fmt::Display for TlsFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.parameter, self.text)
    }
}

impl std::error::Error for TlsFault {}
