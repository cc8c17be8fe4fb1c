//! TLS.

use super::{NATURAL, PORT, TEXT, YES_NO};
use crate::choices::{CertificateName, Choice, Demand};
use crate::kind::Kind;
use crate::parameter::section;

section! {
    /// TLS.
    Tls "TLS"
    "tls-port": PORT = "0" [] "TLS port; 0 for none." => port: u16;
    "tls-cert-file": TEXT = "" [] "Certificate of the server and those that lead to its authority, PEM." => cert_file: String;
    "tls-key-file": TEXT = "" [] "Key of the server's certificate, PEM." => key_file: String;
    "tls-key-file-pass": TEXT = "" [sensitive] "Passphrase of the server's key." => key_password: String;
    "tls-client-cert-file": TEXT = "" [] "Certificate for outgoing connections.";
    "tls-client-key-file": TEXT = "" [] "Key of that certificate.";
    "tls-client-key-file-pass": TEXT = "" [sensitive] "Password of that key.";
    "tls-ca-cert-file": TEXT = "" [] "Certificates of the authorities of clients, PEM." => ca_file: String;
    "tls-ca-cert-dir": TEXT = "" [] "Directory with such files." => ca_directory: String;
    "tls-dh-params-file": TEXT = "" [] "Diffie-Hellman parameters.";
    "tls-auth-clients": (Kind::Choice(Demand::NAMES)) = "yes" [] "Whether clients must show a certificate." => clients: Demand;
    "tls-auth-clients-user": (Kind::Choice(CertificateName::NAMES)) = "off" []
        "Field of a client's certificate that names its user, who needs no password then." => clients_user: CertificateName;
    "tls-auto-reload-interval": NATURAL = "0" []
        "Seconds between looks for changed files, which new connections begin with; 0 for never." => reload_interval_s: u32;
    "tls-cluster": YES_NO = "no" [] "TLS on the cluster bus.";
    "tls-replication": YES_NO = "no" [] "TLS to the primary.";
    "tls-protocols": TEXT = "" [] "Versions of TLS: `TLSv1.2`, `TLSv1.3`; empty for both." => protocols: String;
    "tls-ciphers": TEXT = "" [] "Ciphers of TLS 1.2, as OpenSSL names them; empty for all." => ciphers: String;
    "tls-ciphersuites": TEXT = "" [] "Ciphers of TLS 1.3; empty for all." => suites: String;
    "tls-prefer-server-ciphers": YES_NO = "no" []
        "The server's order of ciphers decides, not the client's." => prefers_own_order: bool;
    "tls-session-caching": YES_NO = "yes" [] "Resume sessions." => resumes: bool;
    "tls-session-cache-size": NATURAL = "20480" [] "Sessions that are kept of clients without tickets." => sessions_max: u32;
    "tls-session-cache-timeout": NATURAL = "300" [] "Seconds for which a session can be resumed." => session_s: u32;
    "max-new-tls-connections-per-cycle": (Kind::Integer(1, 1000)) = "1" []
        "Steps of TLS handshakes that a worker does in one round." => handshakes_per_round: u32;
}
