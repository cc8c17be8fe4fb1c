//! `support`: asks a running server about itself and writes the answers into one file that may be given to others. It has no
//! passwords, no keys, no values, no arguments of commands and no texts of clients; [`redact`] says how that is held.

mod archive;
mod collect;
mod log;
mod machine;
mod redact;

use std::io;
use std::path::PathBuf;

use clap::Args;
use serde_json::json;

use self::collect::Collection;
use crate::report::{Outcome, Report};
use crate::server::{Connection, Reply, Target};

/// Lines of the log that are shown without their words.
const LOG_LINES: usize = 500;

#[derive(Debug, Args)]
pub(crate) struct Support {
    /// Where to write: a file that is not there yet, such as support.tar.gz.
    to: PathBuf,
    #[command(flatten)]
    target: Target,
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

/// A connection that is logged in, and the password. An error of the server ends it, except that of one that loads its data, which
/// says something about itself, too.
fn connect(task: &Support) -> io::Result<(Connection, Vec<String>)> {
    let password = task.target.password()?;
    let mut connection = task.target.connect()?;
    match task.target.greet(&mut connection, password.as_deref())? {
        Reply::Error(text) if !text.starts_with("LOADING") => Err(task.target.at(&io::Error::other(text))),
        _ => Ok((connection, password.into_iter().collect())),
    }
}
