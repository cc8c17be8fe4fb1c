//! Storage modes: the server with 16 MB of memory above a device, and the means to make all of its keys cold.
//!
//! Small test data would never leave memory, so [`crate::Server::make_cold`] asks for it with `DEBUG STORAGE EVICT`. That it did is
//! checked: without a device the command is an error, and [`Figures`] must show that keys were read from the device.

use std::collections::HashMap;

use crate::runtime::Stream;
use crate::{Client, Program, Server, Value};

/// A server with a device of some kind.
#[derive(Clone, Copy, Debug)]
pub struct Mode {
    /// For reports.
    pub name: &'static str,
    flags: &'static [&'static str],
}

const fn mode(name: &'static str, flags: &'static [&'static str]) -> Mode {
    Mode { name, flags }
}

/// `{dir}` is the server's own directory.
pub const MODES: &[Mode] = &[
    mode("files", &["--storage-dir", "{dir}/s"]),
    mode("files, no copies", &["--storage-dir", "{dir}/s", "--storage-copy-reads", "none"]),
    mode("files, copies to the tail", &["--storage-dir", "{dir}/s", "--storage-copy-reads", "tail"]),
    mode("files, epoll", &["--storage-dir", "{dir}/s", "--io-backend", "epoll"]),
    mode("three directories", &["--storage-dir", "{dir}/a {dir}/b {dir}/c"]),
    mode("memory", &["--storage-device", "memory"]),
];

/// A small directory above objects in another; for a server with the feature `object-store`.
pub const OBJECTS: Mode = mode(
    "directory above objects",
    &["--storage-dir", "{dir}/s", "--storage-dir-size", "4mb", "--storage-object-url", "file://{dir}/o"],
);

/// Reads and writes fail, bits flip; in memory, so that the machine's disk has no say.
pub const FAULTY: Mode = mode(
    "faulty",
    &["--storage-device", "faulty", "--storage-faults", "read-errors=2000 flipped-bits=500 write-errors=2000 torn-writes=1000"],
);

/// The beginning of the error that answers a command whose data the device does not give.
pub const UNREADABLE: &[u8] = b"ERR the storage device cannot give a record";

impl Mode {
    /// Starts a server in this mode.
    #[must_use]
    pub fn start(&self) -> Server {
        // The names of encodings are compared with redis-server 7.0.
        let common = ["--maxmemory", "16mb", "--enable-debug-command", "yes"];
        Server::start(&Program::Almandine, &[&common, self.flags].concat())
    }
}

/// Makes all keys cold. False when the client may not ask for it; see [`crate::Server::make_cold`].
///
/// # Panics
/// When the server has no device.
pub fn make_cold<S: Stream>(client: &mut Client<S>) -> bool {
    match client.line("DEBUG STORAGE EVICT") {
        Value::Simple(ok) if ok == b"OK" => true,
        Value::Error(e) if [&b"NOAUTH"[..], b"NOPERM", b"ERR DEBUG command not allowed"].iter().any(|word| e.starts_with(word)) => {
            false
        }
        other => panic!("DEBUG STORAGE EVICT: {other}"),
    }
}

/// Counts of `INFO storage`.
#[derive(Clone, Debug)]
pub struct Figures(HashMap<String, u64>);

impl Figures {
    /// Reads them.
    ///
    /// # Panics
    /// When the server does not answer.
    #[must_use]
    pub fn of(server: &Server) -> Self {
        Self::read(&mut server.client())
    }

    /// Asks for them by this client.
    ///
    /// # Panics
    /// When the server does not answer.
    pub fn read<S: Stream>(client: &mut Client<S>) -> Self {
        let Value::Bulk(text) = client.line("INFO storage") else { panic!("INFO storage") };
        let text = String::from_utf8_lossy(&text).into_owned();
        let pairs = text.lines().filter_map(|line| line.split_once(':'));
        Self(pairs.filter_map(|(name, value)| Some((name.to_owned(), value.trim().parse().ok()?))).collect())
    }

    /// One of them.
    ///
    /// # Panics
    /// When there is none of this name.
    #[must_use]
    pub fn get(&self, name: &str) -> u64 {
        *self.0.get(name).unwrap_or_else(|| panic!("no {name} in INFO storage"))
    }
}
