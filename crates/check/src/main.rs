//! The `almandine-check` program: verifies, shows, cuts, repairs and converts the directory of an operation log, and asks a
//! running server whether it answers, and what it says of itself.
//!
//! It takes the lock of the directory, so it never looks at a log that a server writes. It changes nothing without `--yes`.

mod convert;
mod cut;
mod fetch;
mod log;
mod ping;
mod progress;
mod repair;
mod report;
mod server;
mod show;
mod snapshot;
mod support;
mod verify;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use almandine_oplog::{Fault, LogKeys};
use clap::{CommandFactory, Parser, Subcommand};

use self::report::{Outcome, Report};

/// Looks at the operation log of a server that does not run, mends it, and converts it; asks one that runs whether it lives, or for
/// a support bundle.
///
/// Exit codes: 0, the log, snapshot or bundle is whole, or was mended or converted, or the server answers; 1, something is missing
/// or damaged, or the server is not ready; 2, the arguments are wrong; 3, it could not look.
#[derive(Debug, Parser)]
#[command(name = "almandine-check", version, after_help = almandine_manual::AFTER_HELP)]
struct Cli {
    /// Write one JSON object instead of text.
    #[arg(long, global = true)]
    json: bool,
    /// The file of keys with which a log is encrypted, as the server's log-key-file. Without it such a log is checked by its sums,
    /// and `convert` cannot read it; with it `convert` encrypts the log that it writes.
    #[arg(long, global = true, value_name = "FILE")]
    key_file: Option<PathBuf>,
    #[command(subcommand)]
    command: Task,
}

#[derive(Debug, Subcommand)]
enum Task {
    /// Read all of it, and say whether a server would start with it.
    Verify {
        /// The directory of the log, or a snapshot file.
        path: PathBuf,
        /// Also read what the base names in this directory; once for each, in the order in which the server has them.
        #[arg(long, value_name = "DIRECTORY")]
        storage_dir: Vec<PathBuf>,
        #[command(flatten)]
        search: convert::Search,
    },
    /// List its segments and groups.
    Show {
        /// The directory of the log.
        directory: PathBuf,
        /// Also the units of each group.
        #[arg(long)]
        units: bool,
    },
    /// Drop its end: from the first group on that is not whole, or behind a place.
    Cut {
        /// The directory of the log.
        directory: PathBuf,
        /// Keep the groups that end at or before this LSN.
        #[arg(long, value_name = "LSN")]
        at: Option<u64>,
        /// Keep the groups that were written at or before this time, in Unix seconds, also with decimals.
        #[arg(long, value_name = "SECONDS", conflicts_with = "at")]
        at_time: Option<f64>,
        /// Do it; without this, only say what would be dropped.
        #[arg(long)]
        yes: bool,
    },
    /// Copy a backup or the archive of a log from object storage to a directory, for a look or a restart at a point in time. The
    /// server that writes it goes on; one that is to go on with an archive starts with `log-object-url` and an empty directory.
    Fetch {
        /// s3://BUCKET/FOLDER, az://CONTAINER/FOLDER, gs://BUCKET/FOLDER or file:///FOLDER, with credentials from the environment.
        url: String,
        /// Where the log is to be; empty, or not there yet.
        #[arg(required_unless_present = "list")]
        directory: Option<PathBuf>,
        /// Where what its base names in storage-dir is to be: a directory that is empty, or not there yet.
        #[arg(long, value_name = "DIRECTORY")]
        storage_dir: Option<PathBuf>,
        /// Only list the backups: their names, bytes, and the times from which and to which each has every moment. Of the archive
        /// of a log its bases: from which LSN and time on it has every moment.
        #[arg(long, conflicts_with = "directory")]
        list: bool,
        /// Of the archive of a log: only the groups that end at or before this LSN.
        #[arg(long, value_name = "LSN", conflicts_with_all = ["backup", "before", "covering", "owner"])]
        at: Option<u64>,
        /// Of the archive of a log: only the groups that were written at or before this time, in Unix seconds, also with decimals.
        #[arg(long, value_name = "SECONDS", conflicts_with_all = ["at", "backup", "before", "covering", "owner"])]
        at_time: Option<f64>,
        #[command(flatten)]
        choice: fetch::Choice,
    },
    /// Write a log, an append-only file of Redis or a snapshot in another form. What is read is not changed.
    Convert(convert::Convert),
    /// Make a manifest that is missing or damaged anew from the segments; of one that is whole, say whether what it names is.
    Repair {
        /// The directory of the log.
        directory: PathBuf,
        /// Do it; without this, only say what would be written.
        #[arg(long)]
        yes: bool,
    },
    /// Write what a running server says of itself into one file that may be given to others: no passwords, keys, values or
    /// arguments.
    Support(support::Support),
    /// Say whether a running server answers, for health checks. An error is an answer, too: that it wants a password, loads its
    /// data, or takes no writes.
    Ping(ping::Ping),
    /// Print the manual page or the completions of a shell.
    #[command(hide = true)]
    PrintReference(almandine_manual::PrintReference),
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    if let Task::PrintReference(task) = &cli.command {
        return task.run(Cli::command()).unwrap_or_else(|error| {
            eprintln!("{error}");
            ExitCode::from(Outcome::CouldNotLook as u8)
        });
    }
    let mut report = Report::default();
    let result = cli.key_file.as_deref().map(read_keys).transpose().and_then(|keys| run(&cli, keys, &mut report));
    let outcome = result.unwrap_or_else(|fault| report.fail(&fault));
    if report.print(cli.json, outcome).is_err() {
        return ExitCode::from(Outcome::CouldNotLook as u8);
    }
    ExitCode::from(outcome as u8)
}

fn read_keys(path: &Path) -> Result<Arc<LogKeys>, Fault> {
    LogKeys::read(path).map(Arc::new).map_err(|error| Fault::Io { what: "use", path: path.to_owned(), error })
}

fn run(cli: &Cli, keys: Option<Arc<LogKeys>>, report: &mut Report) -> Result<Outcome, Fault> {
    match &cli.command {
        Task::PrintReference(_) => Ok(Outcome::Whole),
        Task::Fetch { url, directory, storage_dir, at, at_time, choice, .. } => Ok(match directory {
            Some(directory) => {
                let limit = cut::Limit::new(*at, *at_time);
                fetch::fetch(url, (choice, limit), (directory, storage_dir.as_deref()), keys, report)
            }
            None => fetch::list(url, report),
        }),
        Task::Convert(task) => Ok(convert::convert(task, cli.key_file.as_deref(), report)),
        Task::Ping(task) => Ok(ping::ping(task, report)),
        Task::Support(task) => Ok(support::support(task, report)),
        Task::Verify { path, storage_dir, search } => verify::verify((path, storage_dir, keys), search.bytes(), report),
        Task::Show { directory, units } => show::show((directory, keys), *units, report),
        Task::Cut { directory, at, at_time, yes } => cut::cut((directory, keys), cut::Limit::new(*at, *at_time), *yes, report),
        Task::Repair { directory, yes } => repair::repair((directory, keys), *yes, report),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_do_not_collide() {
        Cli::command().debug_assert();
    }
}
