//! Listening sockets, with the meaning that `bind`, `port`, `unixsocket` and `tcp-backlog` have in Redis.

use std::fs;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::Path;

use socket2::{Domain, Protocol, SockAddr, SockRef, Socket, Type};

use super::{Address, Descriptor};

/// A socket that listens.
#[derive(Debug)]
pub struct Listener {
    socket: Inside,
    address: Address,
}

#[derive(Debug)]
enum Inside {
    System(OwnedFd),
    #[cfg(feature = "sim")]
    Sim(crate::sim::net::ListenSocket),
}

/// How a socket listens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ListenOptions {
    /// Connections that may wait to be accepted.
    pub backlog: u32,
    /// Mark on the socket and its connections, for the packet filter; 0 for none. Setting one needs a privilege.
    pub mark: u32,
    /// Accept multipath TCP.
    pub multipath: bool,
}

impl ListenOptions {
    /// Only a backlog.
    #[must_use]
    pub const fn backlog(backlog: u32) -> Self {
        Self { backlog, mark: 0, multipath: false }
    }
}

impl Listener {
    /// Listens on one TCP address; port 0 lets the kernel choose. `lenders` are listeners of ours that may have the same port:
    /// they stay as they are, also where their address covers this one, as `0.0.0.0` covers all.
    ///
    /// # Errors
    /// When the address is not ours, is taken, or its family is not supported.
    pub fn tcp(address: SocketAddr, options: ListenOptions, lenders: &[&Self]) -> io::Result<Self> {
        #[cfg(feature = "sim")]
        if let Some(listening) = Self::simulate(Address::Ip(address), options.backlog, lenders) {
            return listening;
        }
        let protocol = options.multipath.then_some(Protocol::MPTCP);
        let socket = Socket::new(Domain::for_address(address), Type::STREAM, protocol)?;
        if address.is_ipv6() {
            // A v4 address has its own socket, so that `bind * -::*` works whatever the system's default is.
            socket.set_only_v6(true)?;
        }
        socket.set_reuse_address(true)?;
        if options.mark != 0 {
            socket.set_mark(options.mark)?;
        }
        let loan = Loan::of(&socket, lenders)?;
        socket.bind(&address.into())?;
        listen(&SockRef::from(&socket), options.backlog)?;
        drop(loan);
        let bound = socket.local_addr()?.as_socket().unwrap_or(address);
        Ok(Self { socket: Inside::System(socket.into()), address: Address::Ip(bound) })
    }

    /// Listens on a Unix socket. `mode` is the file's permission, such as `0o700`. A socket that an earlier process left is
    /// replaced.
    ///
    /// # Errors
    /// When the path cannot be created, is something else than a socket, or a process listens on it.
    pub fn unix(path: &Path, mode: Option<u32>, backlog: u32) -> io::Result<Self> {
        #[cfg(feature = "sim")]
        if let Some(listening) = Self::simulate(Address::Unix(path.to_owned()), backlog, &[]) {
            return listening;
        }
        remove_abandoned(path)?;
        let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
        socket.bind(&SockAddr::unix(path)?)?;
        let listener = Self { socket: Inside::System(socket.into()), address: Address::Unix(path.to_owned()) };
        let prepared = mode.map_or(Ok(()), |mode| set_mode(path, mode)).and_then(|()| listen(&listener.reference(), backlog));
        if let Err(error) = prepared {
            let _ = fs::remove_file(path);
            return Err(error);
        }
        Ok(listener)
    }

    /// Changes how many connections may wait to be accepted.
    pub fn set_backlog(&self, backlog: u32) -> io::Result<()> {
        #[cfg(feature = "sim")]
        if let Some(listening) = self.simulated() {
            listening.set_backlog(backlog);
            return Ok(());
        }
        listen(&self.reference(), backlog)
    }

    /// A connection that waits to be accepted, if there is one.
    ///
    /// # Errors
    /// When the process has no descriptors left.
    pub fn accept(&self) -> io::Result<Option<Descriptor>> {
        #[cfg(feature = "sim")]
        if let Some(listening) = self.simulated() {
            return Ok(listening.accept()?.map(Descriptor::from));
        }
        match rustix::net::accept_with(self.fd(), rustix::net::SocketFlags::CLOEXEC) {
            Ok(descriptor) => Ok(Some(descriptor.into())),
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR | rustix::io::Errno::CONNABORTED) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// The same socket for another runtime; it listens until both are gone.
    ///
    /// # Errors
    /// When the process has no descriptors left; for a Unix socket, and in a simulation, which no other runtime knows.
    pub fn share(&self) -> io::Result<std::net::TcpListener> {
        match (&self.socket, &self.address) {
            (Inside::System(socket), Address::Ip(_)) => Ok(std::net::TcpListener::from(socket.try_clone()?)),
            _ => Err(io::Error::from(io::ErrorKind::Unsupported)),
        }
    }

    /// Ends listening at once, for every holder of the socket. Connections that were accepted stay.
    pub fn close(&self) {
        #[cfg(feature = "sim")]
        if let Some(listening) = self.simulated() {
            return listening.close();
        }
        // An error says that it does not listen.
        let _ = self.reference().shutdown(std::net::Shutdown::Both);
    }

    fn reference(&self) -> SockRef<'_> {
        match &self.socket {
            Inside::System(socket) => SockRef::from(socket),
            #[cfg(feature = "sim")]
            Inside::Sim(_) => unreachable!("a simulated listener has no descriptor"),
        }
    }

    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        match &self.socket {
            Inside::System(socket) => socket.as_fd(),
            #[cfg(feature = "sim")]
            Inside::Sim(_) => unreachable!("a simulated listener has no descriptor"),
        }
    }

    #[cfg(feature = "sim")]
    pub(crate) fn simulated(&self) -> Option<&crate::sim::net::ListenSocket> {
        match &self.socket {
            Inside::System(_) => None,
            Inside::Sim(listening) => Some(listening),
        }
    }

    /// Listens in the simulation of the calling thread, if there is one.
    #[cfg(feature = "sim")]
    fn simulate(address: Address, backlog: u32, lenders: &[&Self]) -> Option<io::Result<Self>> {
        let (world, node) = crate::sim::world::current()?;
        let lenders: Vec<_> = lenders.iter().filter_map(|lender| lender.simulated()).collect();
        let listening = crate::sim::net::ListenSocket::new(world.net(), node, address, backlog, &lenders);
        Some(listening.map(|(socket, address)| Self { socket: Inside::Sim(socket), address }))
    }

    /// What it is bound to, with the port that the kernel chose.
    #[must_use]
    pub fn address(&self) -> &Address {
        &self.address
    }
}

/// While it lasts, sockets share a port that each of them has alone otherwise.
///
/// The kernel lets sockets of one user have overlapping addresses if all ask for it (`SO_REUSEPORT`). Always asking would let a
/// second server by mistake take half of the first one's connections; so it is asked for while one of ours is bound beside the
/// others.
struct Loan<'s>(Vec<SockRef<'s>>);

impl<'s> Loan<'s> {
    fn of(socket: &'s Socket, lenders: &[&'s Listener]) -> io::Result<Self> {
        if lenders.is_empty() {
            return Ok(Self(Vec::new()));
        }
        let loan = Self(lenders.iter().map(|lender| lender.reference()).chain([SockRef::from(socket)]).collect());
        loan.0.iter().try_for_each(|socket| socket.set_reuse_port(true))?;
        Ok(loan)
    }
}

impl Drop for Loan<'_> {
    fn drop(&mut self) {
        for socket in &self.0 {
            // It was possible a moment ago.
            let _ = socket.set_reuse_port(false);
        }
    }
}

/// Changes the permissions of a Unix socket's file.
pub fn set_mode(path: &Path, mode: u32) -> io::Result<()> {
    #[cfg(feature = "sim")]
    if crate::sim::world::current().is_some() {
        return Ok(());
    }
    fs::set_permissions(path, fs::Permissions::from_mode(mode))
}

/// Gives a Unix socket's file to a group, by its name or its number.
///
/// # Errors
/// When there is no such group, or the system refuses it.
pub fn set_group(path: &Path, group: &str) -> io::Result<()> {
    #[cfg(feature = "sim")]
    if crate::sim::world::current().is_some() {
        return Ok(());
    }
    let number = match group.parse() {
        Ok(number) => number,
        Err(_) => group_number(group)?,
    };
    std::os::unix::fs::chown(path, None, Some(number))
}

/// As `/etc/group` has it.
fn group_number(name: &str) -> io::Result<u32> {
    let groups = fs::read_to_string("/etc/group")?;
    let number = |line: &str| {
        let mut fields = line.split(':');
        (fields.next() == Some(name)).then(|| fields.nth(1)?.parse().ok()).flatten()
    };
    groups.lines().find_map(number).ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, "there is no such group"))
}

/// Listens on one address of a `bind` line. `*` is every IPv4 and `::*` every IPv6 address; nothing when an address after `-`
/// is unavailable. `lenders` as in [`Listener::tcp`].
///
/// # Errors
/// When it cannot be bound and is not optional, naming it.
pub fn bind_one(text: &str, port: u16, options: ListenOptions, lenders: &[&Listener]) -> io::Result<Option<Listener>> {
    let (optional, host) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text),
    };
    match resolve(host, port).and_then(|address| Listener::tcp(address, options, lenders)) {
        Ok(listener) => Ok(Some(listener)),
        Err(error) if optional && unavailable(&error) => Ok(None),
        Err(error) => Err(io::Error::new(error.kind(), format!("could not listen on {host} port {port}: {error}"))),
    }
}

/// Listens on every address of a `bind` line; see [`bind_one`].
///
/// # Errors
/// For the first address that cannot be bound and is not optional, naming it; or when nothing could be bound.
pub fn bind(addresses: &[&str], port: u16, backlog: u32) -> io::Result<Vec<Listener>> {
    let mut listeners = Vec::new();
    for text in addresses {
        listeners.extend(bind_one(text, port, ListenOptions::backlog(backlog), &[])?);
    }
    if listeners.is_empty() && !addresses.is_empty() {
        return Err(io::Error::new(io::ErrorKind::AddrNotAvailable, "none of the bind addresses is available"));
    }
    Ok(listeners)
}

/// Removes the file of a Unix socket on which no process listens.
fn remove_abandoned(path: &Path) -> io::Result<()> {
    match fs::symlink_metadata(path) {
        Ok(metadata) if metadata.file_type().is_socket() => {}
        Ok(_) => return Err(io::Error::new(io::ErrorKind::AlreadyExists, "the file exists and is not a socket")),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    }
    let probe = Socket::new(Domain::UNIX, Type::STREAM, None)?;
    // A listener with a full queue would hold up a blocking connect; it answers EAGAIN to this one.
    probe.set_nonblocking(true)?;
    // Do not remove the file on any other answer: only a refused connection proves that no process listens.
    match probe.connect(&SockAddr::unix(path)?) {
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => fs::remove_file(path),
        Err(error) if error.raw_os_error() == Some(libc::EPROTOTYPE) => Err(in_use()),
        Err(error) if error.kind() != io::ErrorKind::WouldBlock => Err(error),
        _ => Err(in_use()),
    }
}

fn in_use() -> io::Error {
    io::Error::new(io::ErrorKind::AddrInUse, "another process listens on the socket")
}

fn listen(socket: &SockRef<'_>, backlog: u32) -> io::Result<()> {
    socket.set_nonblocking(true)?;
    socket.listen(i32::try_from(backlog).unwrap_or(i32::MAX))
}

fn resolve(host: &str, port: u16) -> io::Result<SocketAddr> {
    #[cfg(feature = "sim")]
    if crate::sim::world::current().is_some() {
        return crate::sim::net::resolve(host, port);
    }
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
        fs::write(&path, "precious").unwrap();
        assert!(Listener::unix(&path, None, 16).is_err(), "only sockets are replaced");
        assert_eq!(fs::read_to_string(&path).unwrap(), "precious");
        // That a file is there may be all that it says.
        fs::write(&path, "").unwrap();
        let refused = Listener::unix(&path, None, 16).unwrap_err();
        assert_eq!((refused.kind(), fs::metadata(&path).unwrap().len()), (io::ErrorKind::AlreadyExists, 0));
        fs::remove_file(&path).unwrap();
    }

    #[test]
    fn a_unix_socket_on_which_a_process_listens_is_never_replaced() {
        let path = std::env::temp_dir().join(format!("almandine-listener-live-{}.sock", std::process::id()));
        let refused = || Listener::unix(&path, None, 16).unwrap_err().kind();
        let alive = Listener::unix(&path, None, 0).unwrap();
        assert_eq!(refused(), io::ErrorKind::AddrInUse);
        // Also while its queue is full.
        let connect = || {
            let socket = Socket::new(Domain::UNIX, Type::STREAM, None).unwrap();
            socket.set_nonblocking(true).unwrap();
            socket.connect(&SockAddr::unix(&path).unwrap()).map(|()| socket)
        };
        let waiting: Vec<Socket> = std::iter::from_fn(|| connect().ok()).take(100).collect();
        assert!(waiting.len() < 100, "the queue is full");
        assert_eq!(refused(), io::ErrorKind::AddrInUse);
        assert!(alive.accept().unwrap().is_some() && path.exists());
        drop((alive, waiting));
        drop(Listener::unix(&path, None, 16).unwrap());
        fs::remove_file(&path).unwrap();
        // Nor the socket of another protocol, such as the system log's.
        let datagrams = std::os::unix::net::UnixDatagram::bind(&path).unwrap();
        assert_eq!(refused(), io::ErrorKind::AddrInUse);
        drop(datagrams);
        fs::remove_file(&path).unwrap();
    }

    #[test]
    fn a_port_is_shared_with_our_own_listeners_only() {
        let options = ListenOptions::backlog(16);
        let all = bind(&["*"], 0, 16).unwrap().remove(0);
        let Address::Ip(address) = all.address() else { panic!("TCP") };
        let port = address.port();
        assert!(bind_one("127.0.0.1", port, options, &[]).is_err(), "a stranger finds the port taken");
        let one = bind_one("127.0.0.1", port, options, &[&all]).unwrap().unwrap();
        assert!(bind_one("127.0.0.2", port, options, &[&one]).is_err(), "the loan has ended");
        all.close();
        drop(all);
        assert!(std::net::TcpStream::connect(("127.0.0.1", port)).is_ok());
        assert!(std::net::TcpStream::connect(("127.0.0.2", port)).is_err(), "the wide one listens no more");
        assert!(bind_one("127.0.0.2", port, options, &[]).unwrap().is_some());
    }

    #[test]
    fn a_closed_listener_refuses_at_once_and_gives_the_port_back() {
        let listener = bind(&["127.0.0.1"], 0, 16).unwrap().remove(0);
        let Address::Ip(address) = *listener.address() else { panic!("TCP") };
        let waiting = std::net::TcpStream::connect(address).unwrap();
        assert!(listener.accept().unwrap().is_some() && listener.accept().unwrap().is_none());
        listener.close();
        assert!(std::net::TcpStream::connect(address).is_err());
        // Although the closed one is still there.
        assert!(bind_one("127.0.0.1", address.port(), ListenOptions::backlog(16), &[]).unwrap().is_some());
        drop(waiting);
    }
}
