//! The process: working directory, background, pid file.

use std::io;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use almandine_config::{SetError, Settings};
use almandine_io::files;

use crate::node::Host;
use crate::{cores, crash, log, oom_score, open_files, title};

/// Set in the environment of a process that was started to run in the background.
const BACKGROUND: &str = "ALMANDINE_BACKGROUND";

/// Starts the same server again in the background when `daemonize` asks for it. Returns whether this process is done.
///
/// The child is a process group of its own without terminal input and output. (Forking here would need `unsafe`, and nothing of
/// this process is worth keeping.)
///
/// # Errors
/// When the child cannot be started.
pub(crate) fn went_to_background(settings: &Settings, args: &[String]) -> io::Result<bool> {
    if !settings.process.daemonize || std::env::var_os(BACKGROUND).is_some() {
        return Ok(false);
    }
    Command::new(std::env::current_exe()?)
        .args(args)
        .env(BACKGROUND, "1")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .process_group(0)
        .spawn()?;
    Ok(true)
}

/// The process of `almandine-server`, which follows the settings of its only node. Its working directory is their `dir`.
pub(crate) struct OwnProcess;

impl Host for OwnProcess {
    fn directory(&self, _: &Settings) -> PathBuf {
        PathBuf::new()
    }

    fn prepare(&self, settings: &Settings) -> Result<(), SetError> {
        std::env::set_current_dir(&settings.process.dir).map_err(|error| SetError::failed("dir", error.to_string()))?;
        open_files::follow(settings)?;
        cores::follow(settings)?;
        oom_score::apply(settings)
    }

    fn commit(&self, settings: &Settings) {
        log::configure(settings);
        crash::configure(settings);
        title::follow(settings);
    }
}

/// The file that holds the process id while it exists.
pub(crate) struct PidFile(PathBuf);

impl PidFile {
    /// Writes the file that the settings name; a server in the background has one in any case, as with Redis.
    pub(crate) fn write(settings: &Settings) -> Option<Self> {
        let process = &settings.process;
        let path = match process.pidfile.as_str() {
            "" if process.daemonize => "/var/run/redis.pid",
            "" => return None,
            path => path,
        };
        if let Err(error) = files::write(path, format!("{}\n", std::process::id())) {
            tracing::warn!("Failed to write PID file {path}: {error}");
            return None;
        }
        Some(Self(PathBuf::from(path)))
    }
}

impl Drop for PidFile {
    fn drop(&mut self) {
        tracing::info!("Removing the pid file.");
        // The process ends; there is nothing to do about a file that is gone already.
        let _ = files::remove(&self.0);
    }
}
