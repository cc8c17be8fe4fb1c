//! TLS.

use super::{NATURAL, PORT, TEXT, YES_NO};
use crate::kind::Kind;
use crate::parameter::section;

section! {
    /// TLS.
    Tls "TLS"
    "tls-port": PORT = "0" [] "TLS port; 0 for none.";
    "tls-cert-file": TEXT = "" [] "Certificate of the server.";
    "tls-key-file": TEXT = "" [] "Key of the server's certificate.";
    "tls-key-file-pass": TEXT = "" [sensitive] "Password of the server's key.";
    "tls-client-cert-file": TEXT = "" [] "Certificate for outgoing connections.";
    "tls-client-key-file": TEXT = "" [] "Key of that certificate.";
    "tls-client-key-file-pass": TEXT = "" [sensitive] "Password of that key.";
    "tls-ca-cert-file": TEXT = "" [] "Certificates of authorities.";
    "tls-ca-cert-dir": TEXT = "" [] "Directory with certificates of authorities.";
    "tls-dh-params-file": TEXT = "" [] "Diffie-Hellman parameters.";
    "tls-auth-clients": (Kind::Choice(&["no", "yes", "optional"])) = "yes" [] "Whether clients must show a certificate.";
    "tls-auth-clients-user": (Kind::Choice(&["off", "CN", "URI"])) = "off" [] "Field of the certificate that names the user.";
    "tls-auto-reload-interval": NATURAL = "0" [] "Seconds between looks for new certificates; 0 for never.";
    "tls-cluster": YES_NO = "no" [] "TLS on the cluster bus.";
    "tls-replication": YES_NO = "no" [] "TLS to the primary.";
    "tls-protocols": TEXT = "" [] "Versions of TLS.";
    "tls-ciphers": TEXT = "" [] "Ciphers up to TLS 1.2.";
    "tls-ciphersuites": TEXT = "" [] "Ciphers of TLS 1.3.";
    "tls-prefer-server-ciphers": YES_NO = "no" [] "The server chooses the cipher.";
    "tls-session-caching": YES_NO = "yes" [] "Resume sessions.";
    "tls-session-cache-size": NATURAL = "20480" [] "Sessions that can be resumed.";
    "tls-session-cache-timeout": NATURAL = "300" [] "Seconds for which a session can be resumed.";
    "max-new-tls-connections-per-cycle": (Kind::Integer(1, 1000)) = "1" []
        "TLS connections accepted in one turn of the event loop.";
}
