//! A blocking connection for everything that is not load: INFO, DBSIZE, FLUSHALL, surveys.
//!
//! Clear rather than fast. Knows RESP2 replies only; it never sends HELLO 3.

use std::fmt;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::fd::OwnedFd;
use std::path::PathBuf;

use almandine_tls::Connector;

use crate::link::Link;

/// The first bytes of an alert of TLS: the server expects TLS and did not get it.
const ALERT: [u8; 2] = [0x15, 0x03];

/// Where a server listens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Address {
    /// Host and port.
    Tcp(String, u16),
    /// Path of a Unix socket.
    Unix(PathBuf),
}

impl Address {
    /// Parses `host:port`, `[::1]:port` or `unix:/path`.
    pub fn parse(text: &str) -> Result<Self, String> {
        if let Some(path) = text.strip_prefix("unix:") {
            return Ok(Self::Unix(path.into()));
        }
        let wrong = || format!("{text:?} is not an address: give host:port or unix:/path");
        let (host, port) = text.rsplit_once(':').ok_or_else(wrong)?;
        let host = host.trim_start_matches('[').trim_end_matches(']');
        Ok(Self::Tcp(host.into(), port.parse().map_err(|_| wrong())?))
    }

    /// Whether the server runs on this machine.
    pub fn is_local(&self) -> bool {
        match self {
            Self::Tcp(host, _) => host == "localhost" || host == "::1" || host.starts_with("127."),
            Self::Unix(_) => true,
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(host, port) if host.contains(':') => write!(f, "[{host}]:{port}"),
            Self::Tcp(host, port) => write!(f, "{host}:{port}"),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

/// A server and how to log in to it.
#[derive(Debug, Clone)]
pub struct Target {
    /// Where it listens.
    pub address: Address,
    /// ACL user, if any.
    pub user: Option<String>,
    /// Password, if any.
    pub password: Option<String>,
    /// Database number.
    pub database: u32,
    /// Protocol version of load connections: 2 or 3.
    pub protocol: u8,
    /// How TLS is spoken, if it is.
    pub tls: Option<Connector>,
}

impl Target {
    /// The server at `address`, without a password and without TLS.
    pub fn new(address: Address) -> Self {
        Self { address, user: None, password: None, database: 0, protocol: 2, tls: None }
    }

    fn preamble(&self) -> Vec<Vec<&str>> {
        let mut commands = Vec::new();
        match (&self.user, &self.password) {
            (Some(user), Some(password)) => commands.push(vec!["AUTH", user, password]),
            (None, Some(password)) => commands.push(vec!["AUTH", password]),
            _ => {}
        }
        commands
    }

    /// Opens a blocking connection.
    pub fn control(&self) -> Result<Control, String> {
        let link =
            Link::open(&self.address, self.tls.as_ref()).map_err(|error| format!("cannot connect to {}: {error}", self.address))?;
        let mut control =
            Control { stream: BufReader::with_capacity(64 << 10, link), address: self.address.clone(), answered: false };
        for command in self.preamble() {
            control.ask(&command)?;
        }
        if self.database > 0 {
            control.ask(&["SELECT", &self.database.to_string()])?;
        }
        Ok(control)
    }

    /// Opens a connection for load, still blocking.
    pub fn link(&self) -> Result<Link, String> {
        let mut control = self.control()?;
        if self.protocol == 3 {
            control.send(&["HELLO", "3"]).map_err(|e| control.broken(&e))?;
            control.skip_hello()?;
        }
        Ok(control.into_link())
    }

    /// The descriptor of such a connection; only without TLS.
    pub fn connect(&self) -> Result<OwnedFd, String> {
        self.link()?.into_socket()
    }
}

/// One reply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply {
    /// `+`
    Simple(String),
    /// `-`
    Error(String),
    /// `:`
    Integer(i64),
    /// `$`, or a null.
    Bulk(Option<Vec<u8>>),
    /// `*`
    Array(Vec<Reply>),
}

/// A blocking connection.
pub struct Control {
    stream: BufReader<Link>,
    address: Address,
    /// Anything has come.
    answered: bool,
}

impl Control {
    /// The connection alone, still blocking. What has been received and not read is lost: there must be nothing.
    pub fn into_link(self) -> Link {
        self.stream.into_inner()
    }

    /// The connection.
    pub fn link(&self) -> &Link {
        self.stream.get_ref()
    }

    /// Sends a command and returns its reply, errors as `Err`.
    pub fn ask(&mut self, command: &[&str]) -> Result<Reply, String> {
        self.send(command).map_err(|e| self.broken(&e))?;
        match self.reply().map_err(|e| self.broken(&e))? {
            Reply::Error(text) => Err(format!("{} answered {} with {text:?}", self.address, command[0])),
            reply => Ok(reply),
        }
    }

    /// Sends a command whose reply is an integer.
    pub fn integer(&mut self, command: &[&str]) -> Result<i64, String> {
        match self.ask(command)? {
            Reply::Integer(number) => Ok(number),
            other => Err(format!("{} answered {} with {other:?}", self.address, command[0])),
        }
    }

    /// Writes several commands at once.
    pub fn send_raw(&mut self, bytes: &[u8]) -> Result<(), String> {
        self.stream.get_mut().write_all(bytes).map_err(|e| self.broken(&e))
    }

    /// Reads the next reply.
    pub fn next_reply(&mut self) -> Result<Reply, String> {
        self.reply().map_err(|e| self.broken(&e))
    }

    /// A field of INFO, such as `process_id`.
    pub fn info(&mut self, field: &str) -> Result<Option<String>, String> {
        let Reply::Bulk(Some(text)) = self.ask(&["INFO"])? else { return Ok(None) };
        let text = String::from_utf8_lossy(&text);
        let found = text.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
        Ok(found.map(str::to_owned))
    }

    fn send(&mut self, command: &[&str]) -> io::Result<()> {
        let mut bytes = format!("*{}\r\n", command.len());
        for argument in command {
            bytes.push_str(&format!("${}\r\n{argument}\r\n", argument.len()));
        }
        self.stream.get_mut().write_all(bytes.as_bytes())
    }

    fn broken(&self, error: &io::Error) -> String {
        let is_refused = !self.answered && !self.link().has_tls();
        let hint = if is_refused { "; if the server speaks TLS on this port, give --tls" } else { "" };
        format!("the connection to {} broke: {error}{hint}", self.address)
    }

    fn line(&mut self) -> io::Result<String> {
        if !self.answered && self.stream.fill_buf()?.starts_with(&ALERT) {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "it answers with an alert of TLS"));
        }
        let mut line = String::new();
        if self.stream.read_line(&mut line)? == 0 {
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the server closed it"));
        }
        self.answered = true;
        line.truncate(line.trim_end_matches(['\r', '\n']).len());
        Ok(line)
    }

    fn reply(&mut self) -> io::Result<Reply> {
        let line = self.line()?;
        let strange = || io::Error::new(io::ErrorKind::InvalidData, format!("{line:?} is not a RESP2 reply"));
        let (kind, rest) = line.split_at_checked(1).ok_or_else(strange)?;
        let number = || rest.parse::<i64>().map_err(|_| strange());
        Ok(match kind {
            "+" => Reply::Simple(rest.into()),
            "-" => Reply::Error(rest.into()),
            ":" => Reply::Integer(number()?),
            "$" if rest == "-1" => Reply::Bulk(None),
            "$" => {
                let mut body = vec![0; number()? as usize + 2];
                self.stream.read_exact(&mut body)?;
                body.truncate(body.len() - 2);
                Reply::Bulk(Some(body))
            }
            "*" => Reply::Array((0..number()?.max(0)).map(|_| self.reply()).collect::<io::Result<_>>()?),
            _ => return Err(strange()),
        })
    }

    /// Reads the answer to HELLO 3: a map, counted rather than understood.
    fn skip_hello(&mut self) -> Result<(), String> {
        let (mut counter, mut tally) = (crate::reply::Counter::default(), crate::reply::Tally::default());
        while tally.replies == 0 {
            let received = self.stream.fill_buf().map(<[u8]>::to_vec);
            let bytes = received.map_err(|e| self.broken(&e))?;
            if bytes.is_empty() {
                return Err(format!("{} closed the connection after HELLO 3", self.address));
            }
            counter.consume(&bytes, &mut tally)?;
            self.stream.consume(bytes.len());
        }
        tally.first_error.map_or(Ok(()), |error| Err(format!("{} does not speak RESP3: {error}", self.address)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses() {
        for text in ["127.0.0.1:6379", "[::1]:7000", "unix:/tmp/x.sock"] {
            let address = Address::parse(text).unwrap();
            assert_eq!(address.to_string(), text);
            assert!(address.is_local());
        }
        assert!(Address::parse("localhost").is_err());
        assert!(!Address::parse("10.0.0.1:6379").unwrap().is_local());
    }
}
