//! A file that takes the room of a file system.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A file that takes the room of a file system.
#[derive(Debug)]
pub struct Filler(PathBuf);

impl Filler {
    /// Leaves this many bytes of the file system at `disk`.
    ///
    /// # Panics
    /// When it has fewer, or cannot be filled.
    #[must_use]
    pub fn leave(disk: &Path, bytes: u64) -> Self {
        let filler = Self(disk.join("filler"));
        let free = rustix::fs::statvfs(disk).map(|disk| disk.f_bavail * disk.f_frsize).expect("a file system");
        let taken = free.checked_sub(bytes).expect("it has more room");
        let status = Command::new("fallocate").arg("-l").arg(taken.to_string()).arg(&filler.0).status().expect("fallocate");
        assert!(status.success());
        filler
    }

    /// Gives the room back.
    ///
    /// # Panics
    /// When the file is gone.
    pub fn remove(self) {
        fs::remove_file(&self.0).expect("it is there");
    }
}
