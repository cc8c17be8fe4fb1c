//! `support`: asks a running server about itself and writes the answers into one file that may be given to others. It has no
//! passwords, no keys, no values, no arguments of commands and no texts of clients; [`redact`] says how that is held.

mod archive;
mod collect;
mod connection;
mod log;
mod machine;
mod redact;
mod tls;

use std::fs;
use std::io;
use std::path::PathBuf;

use clap::Args;
use serde_json::json;

use self::collect::Collection;
use self::connection::{Connection, Reply};
use self::tls::TlsOptions;
use crate::report::{Outcome, Report};

/// Where redis-cli takes its password from, too.
const PASSWORD_VARIABLE: &str = "REDISCLI_AUTH";
/// Lines of the log that are shown without their words.
const LOG_LINES: usize = 500;

#[derive(Debug, Args)]
pub(crate) struct Support {
    /// Where to write: a file that is not there yet, such as support.tar.gz.
    to: PathBuf,
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
    /// Put this many of the last lines of the server's log in as they are. Scripts and clients may have brought keys and values
    /// into them: read them before you give them away. Without, only times, levels and the beginnings of known messages are in it.
    #[arg(long, value_name = "LINES")]
    log_lines: Option<usize>,
}

pub(crate) fn support(task: &Support, report: &mut Report) -> Outcome {
    let written = connect(task).and_then(|(connection, secrets)| Collection::write(task, connection, secrets));
    match written {
        Ok(missing) => {
            for (name, why) in &missing {
                report.list("missing", json!({ "name": name, "why": why }), format!("{name} is missing: {why}"));
            }
            let path = task.to.display().to_string();
            report.say("bundle", path.clone(), format!("the bundle is {path}"));
            if missing.is_empty() { Outcome::Whole } else { Outcome::Damaged }
        }
        Err(error) => {
            report.say("fault", json!({ "kind": "error", "text": error.to_string() }), error.to_string());
            Outcome::CouldNotLook
        }
    }
}

/// A connection that is logged in, and the password.
fn connect(task: &Support) -> io::Result<(Connection, Vec<String>)> {
    let password = match &task.password_file {
        Some(path) => {
            let text =
                fs::read_to_string(path).map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", path.display())))?;
            Some(text.lines().next().unwrap_or_default().to_owned())
        }
        None => std::env::var(PASSWORD_VARIABLE).ok(),
    };
    let (place, connection) = match &task.socket {
        Some(path) => (path.display().to_string(), Connection::unix(path)),
        None => (format!("{}:{}", task.host, task.port), Connection::tcp(&task.host, task.port, &task.tls)),
    };
    let at = |error: io::Error| io::Error::new(error.kind(), format!("{place}: {error}"));
    let mut connection = connection.map_err(at)?;
    if let Some(password) = &password {
        let words = match &task.user {
            Some(user) => vec!["AUTH", user, password],
            None => vec!["AUTH", password],
        };
        refused(connection.call(&words).map_err(at)?).map_err(at)?;
    }
    refused(connection.call(&["PING"]).map_err(at)?).map_err(at)?;
    Ok((connection, password.into_iter().collect()))
}

/// An error of the server ends it, except that of one that loads its data, which says something about itself, too.
fn refused(reply: Reply) -> io::Result<()> {
    match reply {
        Reply::Error(text) if !text.starts_with("LOADING") => Err(io::Error::other(text)),
        _ => Ok(()),
    }
}
