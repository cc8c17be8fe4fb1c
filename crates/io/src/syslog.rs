//! Messages to the system's log, over its socket.

use std::io;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};

/// Where the system listens.
pub const PATH: &str = "/dev/log";

/// How urgent a message is, as numbered by the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// Something is wrong.
    Warning = 4,
    /// Worth knowing.
    Notice = 5,
    /// Perhaps worth knowing.
    Info = 6,
    /// For the search of a defect.
    Debug = 7,
}

/// A way to the system's log.
#[derive(Debug)]
pub struct Syslog {
    socket: UnixDatagram,
    path: PathBuf,
    facility: u8,
    name: String,
}

impl Syslog {
    /// Opens a way to the daemon that listens at `path`. The protocol numbers facilities: 1 for `user`, 16 to 23 for `local0`
    /// to `local7`.
    ///
    /// # Errors
    /// When the process has no descriptors left.
    pub fn open(path: &Path, facility: u8, name: &str) -> io::Result<Self> {
        let socket = UnixDatagram::unbound()?;
        socket.set_nonblocking(true)?;
        Ok(Self { socket, path: path.to_owned(), facility, name: name.to_owned() })
    }

    /// Sends a message; the receiver adds the time. It never waits: if the daemon does not keep up, the message is lost.
    ///
    /// # Errors
    /// When no daemon listens, or it does not take the message.
    pub fn send(&self, severity: Severity, message: &str) -> io::Result<()> {
        let priority = u32::from(self.facility) * 8 + severity as u32;
        let line = format!("<{priority}>{}[{}]: {message}", self.name, std::process::id());
        self.socket.send_to(line.as_bytes(), &self.path).map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_have_priority_name_and_process() {
        let path = std::env::temp_dir().join(format!("almandine-syslog-{}.sock", std::process::id()));
        let listener = UnixDatagram::bind(&path).unwrap();
        let log = Syslog::open(&path, 16, "redis").unwrap();
        log.send(Severity::Warning, "it burns").unwrap();
        let mut buffer = [0; 100];
        let length = listener.recv(&mut buffer).unwrap();
        assert_eq!(String::from_utf8_lossy(&buffer[..length]), format!("<132>redis[{}]: it burns", std::process::id()));
        // A daemon that does not read is not waited for.
        assert!((0..100_000).any(|_| log.send(Severity::Debug, &"x".repeat(1000)).is_err()));
        drop(listener);
        std::fs::remove_file(&path).unwrap();
        assert!(log.send(Severity::Notice, "nobody hears").is_err());
    }
}
