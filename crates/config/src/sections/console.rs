//! Metrics and health by HTTP.

use super::PORT;
use crate::kind::Kind;
use crate::parameter::section;

section! {
    /// Metrics and health by HTTP.
    Console "Metrics and health by HTTP"
    "metrics-port": PORT = "0" [own]
        "Port of /metrics for Prometheus, /health/live and /health/ready, by HTTP; 0 for none." => port: u16;
    "metrics-bind": (Kind::Words(16)) = "127.0.0.1 -::1" [own]
        "Addresses to serve them on, as in `bind`; beyond loopback by TLS only, with the certificates and rules of `tls-port`."
        => bind: Vec<String>;
}
