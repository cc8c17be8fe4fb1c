//! Files by their names: read, written, replaced, removed and listed.
//!
//! What the standard library does, in one place, so that a simulator can stand in for it. For start-up, configuration and
//! background threads: everything here may block.

use std::fs::{self, OpenOptions};
use std::io::ErrorKind::{InvalidInput, PermissionDenied, ReadOnlyFilesystem, Unsupported};
use std::io::{self, Read, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::file::File;
use crate::process;
#[cfg(feature = "sim")]
use crate::sim::disk::How;

/// Where the caller runs in a simulation, the disk of its node does what is asked for.
macro_rules! simulated {
    (|$disk:ident| $does:expr) => {
        #[cfg(feature = "sim")]
        if let Some($disk) = crate::sim::world::current_disk() {
            return $does;
        }
    };
}

/// A file's bytes.
pub fn read(path: impl AsRef<Path>) -> io::Result<Vec<u8>> {
    simulated!(|disk| disk.read(path.as_ref()));
    fs::read(path)
}

/// The bytes of a regular file to which only its owner has rights.
///
/// # Errors
/// `PermissionDenied` with the mode when others may.
pub fn read_private(path: impl AsRef<Path>) -> io::Result<Vec<u8>> {
    simulated!(|disk| disk.read(path.as_ref()));
    let mut file = fs::File::open(path)?;
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Err(io::Error::new(InvalidInput, "it is no regular file"));
    }
    let mode = metadata.mode() & 0o777;
    if mode & 0o077 != 0 {
        let text = format!("others than its owner may use it (mode {mode:03o}): 'chmod 600' it");
        return Err(io::Error::new(PermissionDenied, text));
    }
    // Made anew, it would leave copies in memory.
    let mut bytes = Vec::with_capacity(usize::try_from(metadata.len()).unwrap_or(0) + 1);
    file.read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// A file's text.
///
/// # Errors
/// `InvalidData` when it is not UTF-8.
pub fn read_to_string(path: impl AsRef<Path>) -> io::Result<String> {
    simulated!(
        |disk| String::from_utf8(disk.read(path.as_ref())?).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
    );
    fs::read_to_string(path)
}

/// Writes a whole file, in place of what it held.
pub fn write(path: impl AsRef<Path>, bytes: impl AsRef<[u8]>) -> io::Result<()> {
    simulated!(|disk| File::from(disk.create(path.as_ref())?).write_all(bytes.as_ref()));
    fs::write(path, bytes)
}

/// Makes a file, or empties the one that is there.
pub fn create(path: impl AsRef<Path>) -> io::Result<File> {
    simulated!(|disk| disk.create(path.as_ref()).map(File::from));
    fs::File::create(path).map(File::from)
}

/// Opens a file that exists, for reading.
///
/// # Errors
/// `NotFound` when there is none.
pub fn open(path: impl AsRef<Path>) -> io::Result<File> {
    simulated!(|disk| disk.identity(path.as_ref()).and_then(|_| disk.open(path.as_ref(), How::default())).map(File::from));
    fs::File::open(path).map(File::from)
}

/// Opens a file for writing at its end, and makes it when it is missing.
pub fn append(path: impl AsRef<Path>) -> io::Result<File> {
    simulated!(|disk| disk.append(path.as_ref()).map(File::from));
    OpenOptions::new().create(true).append(true).open(path).map(File::from)
}

/// Removes a file's name.
pub fn remove(path: impl AsRef<Path>) -> io::Result<()> {
    simulated!(|disk| disk.remove(path.as_ref()));
    fs::remove_file(path)
}

/// Gives a file another name, in place of a file that has it.
pub fn rename(from: impl AsRef<Path>, to: impl AsRef<Path>) -> io::Result<()> {
    simulated!(|disk| disk.rename(from.as_ref(), to.as_ref()));
    fs::rename(from, to)
}

/// Gives a file a further name, on the same file system.
///
/// # Errors
/// As the system reports them: `AlreadyExists` when there is a file of that name, `CrossesDevices` from another file system.
pub fn link(from: impl AsRef<Path>, to: impl AsRef<Path>) -> io::Result<()> {
    simulated!(|_disk| Err(io::Error::from(io::ErrorKind::Unsupported)));
    fs::hard_link(from, to)
}

/// How many names a file has.
pub fn links(path: impl AsRef<Path>) -> io::Result<u64> {
    simulated!(|_disk| Ok(1));
    Ok(fs::metadata(path)?.nlink())
}

/// Puts `bytes` in place of what a file holds, with its permissions: the old file or the new one is there at any moment, and
/// the new one is durable.
///
/// # Errors
/// As the system reports them; the old file is there then.
pub fn replace(file: impl AsRef<Path>, bytes: impl AsRef<[u8]>) -> io::Result<()> {
    let file = file.as_ref();
    let temporary = write_beside(file, bytes)?;
    let replaced = rename(&temporary, file).and_then(|()| sync_directory(file.parent().unwrap_or(Path::new(""))));
    if replaced.is_err() {
        let _ = remove(&temporary);
    }
    replaced
}

/// The first half of [`replace`]: writes `bytes` durably to a file beside `file`, with its permissions, and returns its path.
///
/// # Errors
/// As the system reports them; nothing is left then.
pub fn write_beside(file: &Path, bytes: impl AsRef<[u8]>) -> io::Result<PathBuf> {
    let directory = file.parent().unwrap_or(Path::new(""));
    let mut name = file.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}.tmp", process::id()));
    let temporary = directory.join(name);
    let written = (|| {
        let mut out = create(&temporary)?;
        match copy_permissions(file, &out) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        out.write_all(bytes.as_ref())?;
        out.sync_all()
    })();
    match written {
        Ok(()) => Ok(temporary),
        Err(error) => {
            let _ = remove(&temporary);
            Err(error)
        }
    }
}

/// Makes a directory and those above it that are missing, and makes their names durable.
pub fn make_directories(path: impl AsRef<Path>) -> io::Result<()> {
    make_missing(path.as_ref())?;
    // Also those that were there: an earlier process may have made them and crashed before this.
    for directory in canonical(path)?.ancestors().skip(1) {
        match sync_directory(directory) {
            // What may not be read, or cannot be synced, was made by another program.
            Err(error) if [PermissionDenied, InvalidInput, ReadOnlyFilesystem, Unsupported].contains(&error.kind()) => {}
            synced => synced?,
        }
    }
    Ok(())
}

fn make_missing(path: &Path) -> io::Result<()> {
    simulated!(|disk| disk.make_directories(path));
    fs::create_dir_all(path)
}

/// Makes durable which files a directory has. The empty path is the working directory.
pub fn sync_directory(path: impl AsRef<Path>) -> io::Result<()> {
    let path = named(path.as_ref());
    simulated!(|disk| disk.sync_directory(path));
    fs::File::open(path)?.sync_all()
}

/// The names in a directory. The empty path is the working directory.
pub fn names(directory: impl AsRef<Path>) -> io::Result<Vec<String>> {
    let directory = named(directory.as_ref());
    simulated!(|disk| disk.names(directory));
    fs::read_dir(directory)?.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned())).collect()
}

/// A name for the working directory where paths that are joined to it need none.
fn named(directory: &Path) -> &Path {
    if directory.as_os_str().is_empty() { Path::new(".") } else { directory }
}

/// Whether there is a directory.
#[must_use]
pub fn is_directory(path: impl AsRef<Path>) -> bool {
    simulated!(|disk| disk.names(path.as_ref()).is_ok());
    path.as_ref().is_dir()
}

/// The path without links and dots.
///
/// # Errors
/// `NotFound` when there is nothing.
pub fn canonical(path: impl AsRef<Path>) -> io::Result<PathBuf> {
    simulated!(|disk| disk.canonical(path.as_ref()));
    fs::canonicalize(path)
}

/// Bytes that a file takes on its file system; holes take none.
pub fn disk_bytes(path: impl AsRef<Path>) -> io::Result<u64> {
    simulated!(|disk| disk.disk_bytes(path.as_ref()));
    Ok(fs::metadata(path)?.blocks() * 512)
}

/// Bytes that a process of this user may still write to the file system of a path.
pub fn free_bytes(path: impl AsRef<Path>) -> io::Result<u64> {
    simulated!(|_disk| Ok(u64::MAX));
    let room = rustix::fs::statvfs(path.as_ref())?;
    Ok(room.f_bavail.saturating_mul(room.f_frsize))
}

/// Removes an empty directory.
pub fn remove_directory(path: impl AsRef<Path>) -> io::Result<()> {
    simulated!(|_disk| Err(io::Error::from(io::ErrorKind::Unsupported)));
    fs::remove_dir(path)
}

/// What tells a file from every other one that exists: its device and inode. Links are not followed.
///
/// # Errors
/// `NotFound` when there is nothing.
pub fn identity(path: impl AsRef<Path>) -> io::Result<(u64, u64)> {
    simulated!(|disk| disk.identity(path.as_ref()));
    let metadata = fs::symlink_metadata(path)?;
    Ok((metadata.dev(), metadata.ino()))
}

/// Gives a file the permissions of another one.
///
/// # Errors
/// As the system reports them; `NotFound` when there is no other one.
pub fn copy_permissions(from: impl AsRef<Path>, to: &File) -> io::Result<()> {
    to.copy_permissions(from.as_ref())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_come_and_go_by_their_names() {
        let directory = std::env::temp_dir().join(format!("almandine-files-{}", std::process::id()));
        make_directories(&directory).unwrap();
        let (old, new) = (directory.join("old"), directory.join("new"));
        write(&old, "one\n").unwrap();
        append(&old).unwrap().write_all(b"two\n").unwrap();
        rename(&old, &new).unwrap();
        sync_directory(&directory).unwrap();
        assert_eq!(names(&directory).unwrap(), ["new"]);
        assert_eq!(read_to_string(&new).unwrap(), "one\ntwo\n");
        assert_eq!(read(&new).unwrap().len(), 8);
        assert!(disk_bytes(&new).is_ok() && disk_bytes(&old).is_err());
        assert!(free_bytes(&directory).unwrap() > 0 && free_bytes(&old).is_err());
        assert!(canonical(directory.join(".").join("new")).unwrap().ends_with("new"));
        replace(&new, "three\n").unwrap();
        assert_eq!((read(&new).unwrap(), names(&directory).unwrap().len()), (b"three\n".to_vec(), 1));
        assert!(replace(directory.join("missing").join("file"), "").is_err());
        copy_permissions(&new, &create(&old).unwrap()).unwrap();
        assert!(identity(&new).unwrap() == identity(&new).unwrap() && identity(&new).unwrap() != identity(&old).unwrap());
        assert_eq!(read(&old).unwrap(), b"");
        remove(&old).unwrap();
        remove(&new).unwrap();
        assert!(names(&directory).unwrap().is_empty());
        remove_directory(&directory).unwrap();
        assert!(!is_directory(&directory));
    }
}
