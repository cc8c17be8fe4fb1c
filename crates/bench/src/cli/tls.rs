//! The options of TLS, by the names that redis-cli and redis-benchmark have for them.

use std::path::PathBuf;

use almandine_tls::{ClientOptions, Connector};
use clap::Args;

/// How TLS is spoken.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "TLS")]
pub struct TlsOptions {
    /// Speak TLS, on all connections.
    #[arg(long)]
    pub tls: bool,
    /// Authorities that are trusted, PEM; without this and --cacertdir, those of the system.
    #[arg(long, value_name = "FILE", requires = "tls")]
    pub cacert: Option<PathBuf>,
    /// A directory of such files.
    #[arg(long, value_name = "DIRECTORY", requires = "tls")]
    pub cacertdir: Option<PathBuf>,
    /// Certificate of this client, PEM.
    #[arg(long, value_name = "FILE", requires = "key")]
    pub cert: Option<PathBuf>,
    /// Key of the certificate, PEM.
    #[arg(long, value_name = "FILE", requires = "cert")]
    pub key: Option<PathBuf>,
    /// Name that the server's certificate is for, where it is not the host's.
    #[arg(long, value_name = "NAME", requires = "tls")]
    pub sni: Option<String>,
    /// Take any certificate of the server.
    #[arg(long, requires = "tls")]
    pub insecure: bool,
    /// Ciphers of TLS 1.2, by OpenSSL's names.
    #[arg(long, value_name = "LIST", requires = "tls")]
    pub tls_ciphers: Option<String>,
    /// Ciphers of TLS 1.3, as in TLS_AES_128_GCM_SHA256.
    #[arg(long, value_name = "LIST", requires = "tls")]
    pub tls_ciphersuites: Option<String>,
}

impl TlsOptions {
    /// What makes sessions, if TLS is spoken.
    pub fn connector(&self) -> Result<Option<Connector>, String> {
        if !self.tls {
            return match &self.cert {
                Some(_) => Err("--cert and --key are for --tls".into()),
                None => Ok(None),
            };
        }
        let options = ClientOptions {
            ca_file: self.cacert.clone().unwrap_or_default(),
            ca_directory: self.cacertdir.clone().unwrap_or_default(),
            cert_file: self.cert.clone().unwrap_or_default(),
            key_file: self.key.clone().unwrap_or_default(),
            server_name: self.sni.clone().unwrap_or_default(),
            insecure: self.insecure,
            ciphers: self.tls_ciphers.clone().unwrap_or_default(),
            suites: self.tls_ciphersuites.clone().unwrap_or_default(),
        };
        Connector::new(&options).map(Some).map_err(|fault| fault.to_string())
    }
}
