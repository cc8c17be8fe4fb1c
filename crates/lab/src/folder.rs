//! A folder that is gone when the benchmark is, however it ends.
//!
//! Servers under test write gigabytes. A benchmark that is interrupted does not run destructors, so a small process of its own
//! waits at a pipe for the end of this one, and then removes what is left.

use std::env;
use std::fs;
use std::io::{Read, stdin};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

use clap::Args;

/// A new folder, removed with its content when dropped.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
    remover: Child,
}

impl Folder {
    /// A folder below `parent`, or below the system's temporary directory.
    pub fn new(parent: Option<&Path>) -> Result<Self, String> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let name = format!("almandine-lab-{}-{}", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed));
        let parent = parent.map_or_else(env::temp_dir, Path::to_owned);
        let wrong = |e| format!("cannot create a folder in {}: {e}", parent.display());
        // Servers run in other folders, so the path is absolute.
        fs::create_dir_all(&parent).map_err(wrong)?;
        let path = parent.canonicalize().map_err(wrong)?.join(name);
        // The other process comes first: there is no instant at which no process would remove the folder.
        let remover = Command::new(env::current_exe().map_err(|e| e.to_string())?)
            .arg("remove-afterwards")
            .arg(&path)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            // Ctrl-C is for the benchmark.
            .process_group(0)
            .spawn()
            .map_err(|e| format!("cannot start a second process: {e}"))?;
        let folder = Self { path, remover };
        fs::create_dir(&folder.path).map_err(wrong)?;
        Ok(folder)
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        drop(self.remover.stdin.take());
        // Without the other process it is removed here; nothing more can be done about a failure.
        let removed = self.remover.wait().is_ok_and(|status| status.success());
        if !removed {
            let _ = fs::remove_dir_all(&self.path);
        }
    }
}

/// Arguments of the hidden subcommand.
#[derive(Debug, Args)]
pub struct RemoveAfterwards {
    /// What is removed at the end of standard input.
    folder: PathBuf,
}

impl RemoveAfterwards {
    /// Waits, then removes.
    pub fn run(self) -> Result<ExitCode, String> {
        let _ = stdin().read_to_end(&mut Vec::new());
        // A server that is just being killed may still create files.
        for _ in 0..50 {
            if fs::remove_dir_all(&self.folder).is_ok() || !self.folder.exists() {
                return Ok(ExitCode::SUCCESS);
            }
            thread::sleep(Duration::from_millis(100));
        }
        Err(format!("cannot remove {}", self.folder.display()))
    }
}
