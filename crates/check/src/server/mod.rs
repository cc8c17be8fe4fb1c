//! A server that runs: where it is, how to log in, and a connection to it.

mod connection;
mod tls;

use std::fs;
use std::io;
use std::path::PathBuf;

use clap::Args;

pub(crate) use self::connection::{Connection, Reply};
use self::tls::TlsOptions;

/// Where redis-cli takes its password from, too.
const PASSWORD_VARIABLE: &str = "REDISCLI_AUTH";

#[derive(Debug, Args)]
pub(crate) struct Target {
    /// Name or address of the server.
    #[arg(long, default_value = "127.0.0.1")]
    host: String,
    /// Its port.
    #[arg(long, short, default_value = "6379")]
    port: u16,
    /// Its Unix socket, instead of host and port.
    #[arg(long, value_name = "PATH", conflicts_with_all = ["host", "port", "tls"])]
    socket: Option<PathBuf>,
    #[command(flatten)]
    tls: TlsOptions,
    /// The user to log in as, when it is not the default one.
    #[arg(long)]
    user: Option<String>,
    /// A file whose first line is the password. Without, the environment variable REDISCLI_AUTH has it, if there is one.
    #[arg(long, value_name = "FILE")]
    password_file: Option<PathBuf>,
}

impl Target {
    /// A connection.
    pub(crate) fn connect(&self) -> io::Result<Connection> {
        match &self.socket {
            Some(path) => Connection::unix(path),
            None => Connection::tcp(&self.host, self.port, &self.tls),
        }
        .map_err(|error| self.at(&error))
    }

    /// The password, if there is one.
    pub(crate) fn password(&self) -> io::Result<Option<String>> {
        let Some(path) = &self.password_file else { return Ok(std::env::var(PASSWORD_VARIABLE).ok()) };
        let text =
            fs::read_to_string(path).map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", path.display())))?;
        Ok(Some(text.lines().next().unwrap_or_default().to_owned()))
    }

    /// Logs in, if there is a password, and sends PING: the answer to that, or the error before it.
    pub(crate) fn greet(&self, connection: &mut Connection, password: Option<&str>) -> io::Result<Reply> {
        if let Some(password) = password {
            let words = [&["AUTH"][..], self.user.as_deref().as_slice(), &[password]].concat();
            if let refused @ Reply::Error(_) = connection.call(&words).map_err(|error| self.at(&error))? {
                return Ok(refused);
            }
        }
        connection.call(&["PING"]).map_err(|error| self.at(&error))
    }

    /// An error with the place before it.
    pub(crate) fn at(&self, error: &io::Error) -> io::Error {
        let place = match &self.socket {
            Some(path) => path.display().to_string(),
            None => format!("{}:{}", self.host, self.port),
        };
        io::Error::new(error.kind(), format!("{place}: {error}"))
    }
}
