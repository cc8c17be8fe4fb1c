//! What the server listens on, as `port`, `tls-port`, `bind` and `unixsocket` say.
//!
//! A change opens what is new beside what there is, so that a failure leaves everything as it was; what is asked for as before
//! stays open.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use almandine_config::sections::network::Network as Settings;
use almandine_io::socket::{self, ListenOptions, Listener};
use almandine_io::{files, thread};
use almandine_net::{Endpoint, TransportFactory};

/// How often a server that starts tries to listen on what is in use, and how long it waits before it tries again.
const TRIES: u32 = 100;
const PAUSE: Duration = Duration::from_millis(10);

/// The listeners of one moment.
#[derive(Default)]
pub(crate) struct Listeners {
    tcp: Vec<Tcp>,
    unix: Option<Unix>,
}

#[derive(Clone)]
struct Tcp {
    /// The word of `bind`.
    word: String,
    port: u16,
    secure: bool,
    endpoint: Arc<Endpoint>,
}

/// What is asked for.
#[derive(Clone, Copy)]
pub(crate) struct Asked<'s> {
    pub(crate) network: &'s Settings,
    /// Zero for none.
    pub(crate) tls_port: u16,
    /// Of the connections to it.
    pub(crate) transports: &'s TransportFactory,
    /// Where relative paths begin.
    pub(crate) directory: &'s Path,
}

#[derive(Clone)]
struct Unix {
    /// As `unixsocket` has it.
    path: String,
    file: Arc<SocketFile>,
    endpoint: Arc<Endpoint>,
}

/// The file of a Unix socket, which is removed with the last reference.
struct SocketFile {
    path: PathBuf,
    /// Which file it was when it was made.
    identity: Option<(u64, u64)>,
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        // Do not remove the file of another process that has taken the path since.
        if self.identity.is_some() && files::identity(&self.path).ok() == self.identity {
            tracing::info!("Removing the unix socket file.");
            let _ = files::remove(&self.path);
        }
    }
}

/// Why the server cannot listen as it is told to.
#[derive(Debug)]
pub(crate) struct Failure {
    /// What it was to listen on.
    pub(crate) on: On,
    pub(crate) error: io::Error,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum On {
    Tcp,
    Tls,
    Unix,
}

impl Listeners {
    /// What a server that starts listens on. The kernel ends what a killed process had asked of io_uring some 10 ms behind the
    /// process itself, and until then its listeners are there: one that starts at once in its place waits for that.
    pub(crate) fn at_start(asked: Asked<'_>) -> Result<Self, Failure> {
        let mut tries = 1;
        loop {
            match Self::default().following(asked) {
                Err(failure) if failure.error.kind() == io::ErrorKind::AddrInUse && tries < TRIES => {
                    if tries == 1 {
                        tracing::info!("What the server is to listen on is in use; trying for {:?}.", PAUSE * TRIES);
                    }
                    tries += 1;
                    thread::sleep(PAUSE);
                }
                outcome => return outcome,
            }
        }
    }

    /// What is asked for: taken from these where it is the same, and opened where it is new. What is not asked for any more
    /// listens on.
    pub(crate) fn following(&self, asked: Asked<'_>) -> Result<Self, Failure> {
        let failed = |on, port, kind| {
            move |error: io::Error| {
                let text = format!("Failed listening on port {port} ({kind}), aborting: {error}");
                Failure { on, error: io::Error::new(error.kind(), text) }
            }
        };
        let (settings, secure) = (asked.network, Some(asked.transports));
        let mut tcp = self.tcp_following(settings, settings.port, None).map_err(failed(On::Tcp, settings.port, "TCP"))?;
        tcp.extend(self.tcp_following(settings, asked.tls_port, secure).map_err(failed(On::Tls, asked.tls_port, "TLS"))?);
        let unix = self.unix_following(settings, asked.directory).map_err(|error| {
            let error = io::Error::new(error.kind(), format!("could not listen on {}: {error}", settings.unix_socket));
            Failure { on: On::Unix, error }
        })?;
        Ok(Self { tcp, unix })
    }

    fn tcp_following(&self, settings: &Settings, port: u16, transports: Option<&TransportFactory>) -> io::Result<Vec<Tcp>> {
        let mut all: Vec<Tcp> = Vec::new();
        if port == 0 {
            return Ok(all);
        }
        let secure = transports.is_some();
        let options =
            ListenOptions { backlog: settings.tcp_backlog, mark: settings.socket_mark, multipath: settings.multipath_tcp };
        let with_port: Vec<&Tcp> = self.tcp.iter().filter(|known| known.port == port).collect();
        let lenders: Vec<&Listener> = with_port.iter().map(|known| &*known.endpoint.listener).collect();
        for word in &settings.bind {
            if all.iter().any(|known| known.word == *word) {
                return Err(io::Error::new(io::ErrorKind::InvalidInput, format!("{word} is there twice")));
            }
            if let Some(known) = with_port.iter().find(|known| known.word == *word && known.secure == secure) {
                known.endpoint.listener.set_backlog(settings.tcp_backlog)?;
                all.push((*known).clone());
            } else if let Some(listener) = socket::bind_one(word, port, options, &lenders)? {
                all.push(Tcp { word: word.clone(), port, secure, endpoint: endpoint(listener, transports.cloned()) });
            }
        }
        if all.is_empty() && !settings.bind.is_empty() {
            return Err(io::Error::new(io::ErrorKind::AddrNotAvailable, "none of the bind addresses is available"));
        }
        Ok(all)
    }

    fn unix_following(&self, settings: &Settings, directory: &Path) -> io::Result<Option<Unix>> {
        let (path, permissions) = (&settings.unix_socket, settings.unix_socket_permissions);
        if path.is_empty() {
            return Ok(None);
        }
        let mode = (permissions != 0).then_some(permissions);
        if let Some(known) = self.unix.as_ref().filter(|known| known.path == *path) {
            known.endpoint.listener.set_backlog(settings.tcp_backlog)?;
            mode.map_or(Ok(()), |mode| socket::set_mode(&known.file.path, mode))?;
            return Ok(Some(known.clone()));
        }
        // The working directory may change.
        let absolute = std::path::absolute(directory.join(path))?;
        let listener = Listener::unix(&directory.join(path), mode, settings.tcp_backlog)?;
        let file = SocketFile { identity: files::identity(&absolute).ok(), path: absolute };
        let unix = Unix { path: path.clone(), file: Arc::new(file), endpoint: endpoint(listener, None) };
        if !settings.unix_socket_group.is_empty() {
            socket::set_group(&unix.file.path, &settings.unix_socket_group)?;
        }
        Ok(Some(unix))
    }

    /// What to accept from.
    pub(crate) fn endpoints(&self) -> impl Iterator<Item = &Arc<Endpoint>> {
        self.tcp.iter().map(|tcp| &tcp.endpoint).chain(self.unix.as_ref().map(|unix| &unix.endpoint))
    }

    /// Says in the log where they are.
    pub(crate) fn announce(&self) {
        for endpoint in self.endpoints() {
            let by = if endpoint.transport.is_some() { " (TLS)" } else { "" };
            tracing::info!("Listening on {}{by}", endpoint.listener.address());
        }
    }

    /// Whether these are the same listeners.
    pub(crate) fn are(&self, others: &Self) -> bool {
        self.endpoints().map(Arc::as_ptr).eq(others.endpoints().map(Arc::as_ptr))
    }
}

fn endpoint(listener: Listener, transport: Option<TransportFactory>) -> Arc<Endpoint> {
    Arc::new(Endpoint { listener: Arc::new(listener), transport })
}

#[cfg(test)]
mod tests {
    use almandine_testkit::server::free_port;

    use super::*;

    fn settings(port: u16, bind: &[&str]) -> Settings {
        let network = almandine_config::Config::defaults().snapshot().settings.network.clone();
        Settings { port, bind: bind.iter().map(ToString::to_string).collect(), ..network }
    }

    fn following(listeners: &Listeners, network: &Settings) -> Result<Listeners, Failure> {
        let transports: TransportFactory = Arc::new(|_| None);
        listeners.following(Asked { network, tls_port: 0, transports: &transports, directory: Path::new("") })
    }

    #[test]
    fn what_is_asked_for_again_stays_and_a_failure_opens_nothing() {
        let port = free_port();
        let first = following(&Listeners::default(), &settings(port, &["127.0.0.1"])).unwrap();
        let both = following(&first, &settings(port, &["*", "127.0.0.1", "-192.0.2.1"])).unwrap();
        assert_eq!(both.endpoints().count(), 2);
        assert!(Arc::ptr_eq(both.endpoints().nth(1).unwrap(), first.endpoints().next().unwrap()));
        assert!(both.are(&following(&both, &settings(port, &["*", "127.0.0.1"])).unwrap()) && !both.are(&first));
        for wrong in [&["127.0.0.1", "192.0.2.1"][..], &["-192.0.2.1"], &["127.0.0.1", "127.0.0.1"]] {
            assert_eq!(following(&first, &settings(port, wrong)).err().unwrap().on, On::Tcp, "{wrong:?}");
        }
        assert_eq!(following(&first, &settings(0, &["*"])).unwrap().endpoints().count(), 0);
    }

    #[test]
    fn a_start_waits_for_what_a_killed_process_still_has() {
        let before = Arc::new(socket::bind(&["127.0.0.1"], 0, 16).unwrap());
        let almandine_io::socket::Address::Ip(address) = before[0].address().clone() else { panic!("a port") };
        let transports: TransportFactory = Arc::new(|_| None);
        let network = settings(address.port(), &["127.0.0.1"]);
        let start =
            || Listeners::at_start(Asked { network: &network, tls_port: 0, transports: &transports, directory: Path::new("") });
        let refused = start().err().unwrap();
        assert_eq!((refused.on, refused.error.kind()), (On::Tcp, io::ErrorKind::AddrInUse), "another server stays");
        let ends = std::thread::spawn(move || {
            std::thread::sleep(4 * PAUSE);
            drop(before);
        });
        assert_eq!(start().unwrap().endpoints().count(), 1);
        ends.join().unwrap();
    }

    #[test]
    fn the_file_of_a_socket_goes_with_the_last_who_listens() {
        let path = std::env::temp_dir().join(format!("almandine-listeners-{}.sock", std::process::id()));
        let with = Settings { unix_socket: path.to_str().unwrap().to_owned(), ..settings(0, &[]) };
        let first = following(&Listeners::default(), &with).unwrap();
        let same = following(&first, &Settings { unix_socket_permissions: 0o700, ..with.clone() }).unwrap();
        drop(first);
        assert!(path.exists());
        drop(same);
        assert!(!path.exists());
        let missing = Settings { unix_socket_group: "no such group".to_owned(), ..with };
        assert_eq!(following(&Listeners::default(), &missing).err().unwrap().on, On::Unix);
        assert!(!path.exists(), "nothing is left behind");
    }
}
