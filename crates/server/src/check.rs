//! `--check-config`: whether a server would start with a configuration, and what it would say of it. It opens and makes nothing, so
//! that it may run beside the server and as another user.

use std::path::Path;
use std::process::ExitCode;

use almandine_config::Report;

use crate::{log, node, startup, storage, tls, users};

/// Prints every error and every note. The status is that of the start.
pub(crate) fn print(report: &Report) -> ExitCode {
    let (mut errors, mut warnings) = (report.errors.clone(), Vec::new());
    if errors.is_empty() {
        // What only shows when all lines are right.
        let settings = &report.config.snapshot().settings;
        let directory = Path::new(&settings.process.dir);
        let users = node::follow_directives(&report.config).and_then(|table| users::load(&report.config, table, directory));
        errors.extend(users.err().map(|error| error.to_string()));
        errors.extend(storage::check(settings, directory).err());
        warnings.extend(startup::too_little_memory(settings));
        errors.extend(log::check_directory(settings).err().map(|error| error.to_string()));
        errors.extend(tls::check(settings, directory).err().map(|fault| fault.to_string()));
        if settings.network.port == 0 && settings.tls.port == 0 && settings.network.unix_socket.is_empty() {
            errors.push("the server would listen nowhere: set 'port', 'tls-port' or 'unixsocket'".to_owned());
        }
    }
    for error in &errors {
        println!("error: {error}");
    }
    for warning in &warnings {
        println!("warning: {warning}");
    }
    for note in &report.notes {
        println!("note: {note}");
    }
    let counted = |number: usize, noun: &str| format!("{number} {noun}{}", if number == 1 { "" } else { "s" });
    if errors.is_empty() {
        match warnings.len() {
            0 => println!("The configuration is sound."),
            number => {
                println!("{}: the server would start, and not do all that the configuration asks for.", counted(number, "warning"))
            }
        }
        return ExitCode::SUCCESS;
    }
    println!("{}: the server would not start.", counted(errors.len(), "error"));
    ExitCode::FAILURE
}
