//! `--check-config`: whether a server would start with a configuration, and what it would say of it. It opens nothing, so that it may run beside the
//! server and as another user.

use std::process::ExitCode;

use almandine_config::Report;

use crate::{log, run, storage, users};

/// Prints every error and every note. The status is that of the start.
pub(crate) fn print(report: &Report) -> ExitCode {
    let mut errors = report.errors.clone();
    if errors.is_empty() {
        // What only shows when all lines are right.
        let settings = &report.config.snapshot().settings;
        let users = run::follow_directives(&report.config).and_then(|table| users::load(&report.config, table));
        errors.extend(users.err().map(|error| error.to_string()));
        errors.extend(storage::check_budget(settings).err());
        errors.extend(log::check_directory(settings).err().map(|error| error.to_string()));
        if settings.network.port == 0 && settings.network.unix_socket.is_empty() {
            errors.push("the server would listen nowhere: set 'port' or 'unixsocket'".to_owned());
        }
    }
    for error in &errors {
        println!("error: {error}");
    }
    for note in &report.notes {
        println!("note: {note}");
    }
    if errors.is_empty() {
        println!("The configuration is sound.");
        return ExitCode::SUCCESS;
    }
    println!("{} {}: the server would not start.", errors.len(), if errors.len() == 1 { "error" } else { "errors" });
    ExitCode::FAILURE
}
