//! The step between this process and a server it starts: pin, tie to the parent's life, become the server.
//!
//! A hidden subcommand, because pinning and the death signal must be set in the child before it becomes the server, which
//! std allows only with unsafe code in between fork and exec.

use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};

use clap::Args;
use rustix::process::{Signal, set_parent_process_death_signal};

use almandine_bench::system::affinity::{parse_cores, pin_this_thread};

/// Arguments of the hidden subcommand.
#[derive(Debug, Args)]
pub struct Launch {
    /// Cores to run on.
    #[arg(long)]
    cores: String,
    /// The server and its arguments.
    #[arg(last = true, required = true)]
    command: Vec<String>,
}

impl Launch {
    /// Becomes the server; returns only if that fails.
    pub fn run(self) -> Result<ExitCode, String> {
        let cores = parse_cores(&self.cores)?;
        if !cores.is_empty() {
            pin_this_thread(&cores)?;
        }
        // The server must not outlive a benchmark that is interrupted.
        set_parent_process_death_signal(Some(Signal::KILL)).map_err(|e| format!("prctl: {e}"))?;
        let (binary, arguments) = self.command.split_first().ok_or("nothing to start")?;
        let error = Command::new(binary).args(arguments).exec();
        Err(format!("cannot start {binary}: {error}"))
    }
}
