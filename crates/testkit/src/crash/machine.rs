//! A machine whose power can be cut: a file system of its own in an image, with everything that a server leaves on disk.
//!
//! The file system is stopped without a flush of its journal (`FS_IOC_SHUTDOWN`, by `xfs_io`), so that it forgets what was not
//! synced: contents, sizes and names. After that the server is killed, its rings are gone as memory is, and the machine has
//! another boot id. What the device itself caches survives, for the image lies in the memory of the real machine.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};
use std::{fs, io, thread};

use crate::{Program, Server};

/// Bytes of the image; it takes room on disk as it is written.
const IMAGE_BYTES: u64 = 2 << 30;
/// How long a killed process may keep the file system busy.
const BUSY_MAX: Duration = Duration::from_secs(30);

/// The kinds of file systems that a machine may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileSystem {
    /// ext4, with its defaults.
    Ext4,
    /// XFS, with its defaults.
    Xfs,
}

/// A mounted image, and what a server needs beside it.
#[derive(Debug)]
pub struct Machine {
    /// Image, mount point, boot id, rings and start script lie here.
    place: PathBuf,
}

static MADE: AtomicU32 = AtomicU32::new(0);

/// Why power cannot be cut here; none: it can.
#[must_use]
pub fn reason_against() -> Option<String> {
    if !rustix::process::geteuid().is_root() {
        return Some("only root mounts images".to_owned());
    }
    if !Path::new("/dev/loop-control").exists() {
        return Some("there are no loop devices".to_owned());
    }
    let missing = ["mkfs.ext4", "mkfs.xfs", "xfs_io", "unshare"]
        .into_iter()
        .find(|program| Command::new(program).arg("-V").stdout(Stdio::null()).stderr(Stdio::null()).status().is_err());
    missing.map(|program| format!("{program} is not installed"))
}

impl Machine {
    /// A machine with an empty file system, on which it starts `program`.
    ///
    /// # Panics
    /// When there cannot be one; see [`reason_against`].
    #[must_use]
    pub fn new(kind: FileSystem, program: &Path) -> Self {
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        let place = std::env::temp_dir().join(format!("almandine-machine-{}-{number}", std::process::id()));
        let machine = Self { place };
        machine.make(kind, program).unwrap_or_else(|e| panic!("{}: {e}", machine.place.display()));
        machine
    }

    fn make(&self, kind: FileSystem, program: &Path) -> io::Result<()> {
        fs::create_dir_all(self.disk())?;
        // What is unmounted here leaves the mount namespaces of all servers, those of other machines too.
        run(Command::new("mount").arg("--bind").arg(&self.place).arg(&self.place))?;
        run(Command::new("mount").arg("--make-shared").arg(&self.place))?;
        fs::File::create(self.image())?.set_len(IMAGE_BYTES)?;
        let image = self.image();
        match kind {
            FileSystem::Ext4 => run(Command::new("mkfs.ext4").arg("-q").arg(&image))?,
            FileSystem::Xfs => run(Command::new("mkfs.xfs").arg("-q").arg(&image))?,
        }
        // Another boot id only for the server: in a mount namespace of its own, and in the same process.
        let boot = self.place.join("boot");
        let script = format!(
            "#!/bin/sh\nexec unshare --mount --propagation slave sh -c \
             'mount --bind \"$0\" /proc/sys/kernel/random/boot_id && exec \"$@\"' '{}' '{}' \"$@\"\n",
            boot.display(),
            program.display()
        );
        fs::write(self.place.join("start"), script)?;
        run(Command::new("chmod").arg("+x").arg(self.place.join("start")))?;
        self.boot()
    }

    /// What starts the server on it.
    #[must_use]
    pub fn program(&self) -> Program {
        Program::Script(self.place.join("start"))
    }

    /// The flags that place a server's files on its disk, and its rings in its memory.
    #[must_use]
    pub fn flags(&self) -> [String; 4] {
        let rings = self.rings().display().to_string();
        ["--dir".to_owned(), self.disk().display().to_string(), "--ring-dir".to_owned(), rings]
    }

    /// Where its file system is.
    #[must_use]
    pub fn disk(&self) -> PathBuf {
        self.place.join("disk")
    }

    /// Starts a server with its directories on the file system, and with these flags besides.
    #[must_use]
    pub fn start(&self, more: &[&str]) -> Server {
        let place = self.flags();
        let place: Vec<&str> = place.iter().map(String::as_str).collect();
        Server::start(&self.program(), &[&place[..], more].concat())
    }

    fn rings(&self) -> PathBuf {
        self.place.join("rings")
    }

    fn image(&self) -> PathBuf {
        self.place.join("image")
    }

    /// Stops the file system: nothing reaches the disk from now on, and what it was not asked to keep is forgotten.
    ///
    /// # Panics
    /// When it cannot be stopped.
    pub fn cut_power(&self) {
        run(Command::new("xfs_io").args(["-x", "-c", "shutdown"]).arg(self.disk())).expect("the file system is stopped");
    }

    /// Starts the machine again, once its processes are gone.
    ///
    /// # Panics
    /// When the file system cannot be mounted.
    pub fn start_again(&self) {
        self.unmount().expect("the file system is free");
        fs::remove_dir_all(self.rings()).expect("rings");
        self.boot().expect("the file system is mounted again");
    }

    /// Another boot: memory is empty.
    fn boot(&self) -> io::Result<()> {
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        fs::write(self.place.join("boot"), format!("{number:08x}-0000-4000-8000-{:012x}\n", std::process::id()))?;
        fs::create_dir_all(self.rings())?;
        run(Command::new("mount").args(["-o", "loop"]).arg(self.image()).arg(self.disk()))
    }

    /// What a killed process had asked of io_uring holds the file system a moment longer than the process lives.
    fn unmount(&self) -> io::Result<()> {
        let deadline = Instant::now() + BUSY_MAX;
        loop {
            match run(Command::new("umount").arg(self.disk())) {
                Err(_) if Instant::now() < deadline => thread::sleep(Duration::from_millis(10)),
                ended => return ended,
            }
        }
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        let _ = self.unmount();
        let _ = run(Command::new("umount").arg(&self.place));
        let _ = fs::remove_dir_all(&self.place);
    }
}

fn run(command: &mut Command) -> io::Result<()> {
    let output = command.output()?;
    if output.status.success() {
        return Ok(());
    }
    Err(io::Error::other(format!("{command:?}: {}", String::from_utf8_lossy(&output.stderr))))
}
