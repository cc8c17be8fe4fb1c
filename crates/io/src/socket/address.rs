//! Addresses of sockets, as clients see them.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;

/// Where a socket is bound or connected to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// TCP over IPv4 or IPv6.
    Ip(SocketAddr),
    /// A Unix socket; clients show the path of the listener.
    Unix(PathBuf),
}

/// As in `CLIENT LIST`: `127.0.0.1:6379`, `[::1]:6379`, `/run/almandine.sock:0`.
impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ip(address) => write!(f, "{address}"),
            Self::Unix(path) => write!(f, "{}:0", path.display()),
        }
    }
}
