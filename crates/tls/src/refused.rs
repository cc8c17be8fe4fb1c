//! Why a server and a client do not come together, and what to do about it.

use std::fmt;

use rustls::{AlertDescription, CertificateError, Error};

/// Why a session cannot go on, and what to do.
#[derive(Debug)]
pub struct Refused {
    pub(crate) error: Error,
    /// It came before both ends had agreed.
    pub(crate) in_handshake: bool,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let error = &self.error;
        let (what, remedy) = match error {
            Error::InvalidMessage(_) if self.in_handshake => {
                return f.write_str("it does not speak TLS: give the port that does (tls-port), or leave --tls out");
            }
            Error::InvalidCertificate(CertificateError::UnknownIssuer | CertificateError::BadSignature) => {
                ("its certificate is not trusted", "name the authority that signed it by --cacert, or give --insecure")
            }
            Error::InvalidCertificate(CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. }) => {
                ("its certificate is for another name", "give the name that it is for by --sni")
            }
            Error::AlertReceived(AlertDescription::CertificateRequired) => {
                ("it wants a certificate of the client", "give one by --cert and --key")
            }
            Error::AlertReceived(
                AlertDescription::UnknownCA
                | AlertDescription::BadCertificate
                | AlertDescription::CertificateUnknown
                | AlertDescription::CertificateExpired
                | AlertDescription::DecryptError,
            ) => ("it does not take the client's certificate", "give one by --cert that its authority has signed"),
            // With TLS 1.2 a certificate that is missing is told so, too.
            Error::AlertReceived(AlertDescription::HandshakeFailure | AlertDescription::ProtocolVersion) => (
                "no version or cipher suits both ends, or it wants a certificate of the client",
                "give others by --tls-ciphersuites, or one by --cert and --key",
            ),
            _ => return write!(f, "{error}"),
        };
        write!(f, "{what} ({error}): {remedy}")
    }
}

impl std::error::Error for Refused {}
