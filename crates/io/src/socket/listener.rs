//! Listening sockets, with the meaning that `bind`, `port`, `unixsocket` and `tcp-backlog` have in Redis.

use std::fs;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use socket2::{Domain, SockAddr, Socket, Type};

use super::Address;

/// A socket that listens.
#[derive(Debug)]
pub struct Listener {
    socket: OwnedFd,
    address: Address,
}

impl Listener {
    /// Listens on one TCP address; port 0 lets the kernel choose.
    ///
    /// # Errors
    /// When the address is not ours, is taken, or its family is not supported.
    pub fn tcp(address: SocketAddr, backlog: u32) -> io::Result<Self> {
        let socket = Socket::new(Domain::for_address(address), Type::STREAM, None)?;
        if address.is_ipv6() {
            // A v4 address has its own socket, so that `bind * -::*` works whatever the system's default is.
            socket.set_only_v6(true)?;
        }
        socket.set_reuse_address(true)?;
        socket.bind(&address.into())?;
        listen(&socket, backlog)?;
        let bound = socket.local_addr()?.as_socket().unwrap_or(address);
        Ok(Self { socket: socket.into(), address: Address::Ip(bound) })
    }

    /// Listens on a Unix socket, replacing a file that an earlier process left. `mode` is the file's permission, such as `0o700`.
    ///
    /// # Errors
    /// When the path cannot be created.
    pub fn unix(path: &Path, mode: Option<u32>, backlog: u32) -> io::Result<Self> {
        match fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
        socket.bind(&SockAddr::unix(path)?)?;
        if let Some(mode) = mode {
            fs::set_permissions(path, fs::Permissions::from_mode(mode))?;
        }
        listen(&socket, backlog)?;
        Ok(Self { socket: socket.into(), address: Address::Unix(path.to_owned()) })
    }

    /// What it is bound to, with the port that the kernel chose.
    #[must_use]
    pub fn address(&self) -> &Address {
        &self.address
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Listens on every address of a `bind` line. `*` is every IPv4 and `::*` every IPv6 address; an address after `-` may be
/// unavailable.
///
/// # Errors
/// For the first address that cannot be bound and is not optional, naming it; or when nothing could be bound.
pub fn bind(addresses: &[&str], port: u16, backlog: u32) -> io::Result<Vec<Listener>> {
    let mut listeners = Vec::new();
    for text in addresses {
        let (optional, host) = match text.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, *text),
        };
        match resolve(host, port).and_then(|address| Listener::tcp(address, backlog)) {
            Ok(listener) => listeners.push(listener),
            Err(error) if optional && unavailable(&error) => {}
            Err(error) => {
                return Err(io::Error::new(error.kind(), format!("could not listen on {host} port {port}: {error}")));
            }
        }
    }
    if listeners.is_empty() && !addresses.is_empty() {
        return Err(io::Error::new(io::ErrorKind::AddrNotAvailable, "none of the bind addresses is available"));
    }
    Ok(listeners)
}

fn listen(socket: &Socket, backlog: u32) -> io::Result<()> {
    socket.set_nonblocking(true)?;
    socket.listen(i32::try_from(backlog).unwrap_or(i32::MAX))
}

fn resolve(host: &str, port: u16) -> io::Result<SocketAddr> {
    let host = match host {
        "*" => "0.0.0.0",
        "::*" => "::",
        name => name,
    };
    (host, port).to_socket_addrs()?.next().ok_or_else(|| io::Error::new(io::ErrorKind::AddrNotAvailable, "the name has no address"))
}

/// The errors that an optional address may have: the address or its family does not exist here.
fn unavailable(error: &io::Error) -> bool {
    const ERRORS: [i32; 6] = [
        libc::EADDRNOTAVAIL,
        libc::EAFNOSUPPORT,
        libc::EPFNOSUPPORT,
        libc::EPROTONOSUPPORT,
        libc::ESOCKTNOSUPPORT,
        libc::ENOPROTOOPT,
    ];
    error.raw_os_error().is_some_and(|number| ERRORS.contains(&number))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn optional_addresses_may_be_missing() {
        assert!(bind(&["192.0.2.1"], 0, 16).is_err());
        assert!(bind(&["-192.0.2.1"], 0, 16).is_err(), "nothing is left");
        let listeners = bind(&["127.0.0.1", "-192.0.2.1"], 0, 16).unwrap();
        assert!(matches!(listeners[0].address(), Address::Ip(address) if address.port() != 0));
        assert_eq!(listeners.len(), 1);
    }

    #[test]
    fn a_unix_socket_replaces_its_predecessor_and_has_its_mode() {
        let path = std::env::temp_dir().join(format!("almandine-listener-{}.sock", std::process::id()));
        drop(Listener::unix(&path, None, 16).unwrap());
        let listener = Listener::unix(&path, Some(0o600), 16).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(listener.address().to_string(), format!("{}:0", path.display()));
        fs::remove_file(&path).unwrap();
    }
}
