//! Files by their paths: what `io::files` does on the disk of a node.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::io::Errno;

use super::content::PAGE_BYTES;
use super::names::Names;
use super::state::{Inode, State};
use super::{Disk, How, OpenFile};

/// The file at a path, made when it is missing.
pub(super) fn open(state: &mut State, path: &Path) -> io::Result<u64> {
    let place = state.names.place(path)?;
    match state.names.at(&place) {
        Some(number) if state.names.is_directory(number) => Err(Errno::ISDIR.into()),
        Some(number) => Ok(number),
        None => {
            let number = state.number();
            let inode = Inode::new(state.is_apart(path));
            state.files.insert(number, inode);
            state.names.link(place, number);
            Ok(number)
        }
    }
}

/// Makes a directory and those above it that are missing.
pub(super) fn make_directories(state: &mut State, path: &Path) -> io::Result<()> {
    let mut made = PathBuf::from("/");
    for name in Names::absolute(path).iter().skip(1) {
        made.push(name);
        match state.names.find(&made) {
            Ok(number) if state.names.is_directory(number) => {}
            Ok(_) => return Err(Errno::EXIST.into()),
            Err(_) => {
                let place = state.names.place(&made)?;
                let number = state.number();
                state.names.make_directory(place, number);
            }
        }
    }
    Ok(())
}

impl Disk {
    pub(crate) fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        self.look(self.process(), false, |drawing| {
            let file = drawing.state.names.find(path)?;
            if drawing.state.names.is_directory(file) {
                return Err(Errno::ISDIR.into());
            }
            let length = drawing.state.file(file)?.content.bytes();
            let mut bytes = vec![0; usize::try_from(length).map_err(io::Error::other)?];
            drawing.read_whole(file, &mut bytes, 0)?;
            Ok(bytes)
        })
    }

    pub(crate) fn remove(&self, path: &Path) -> io::Result<()> {
        self.change(self.process(), ("removes a name", [0, 0]), false, |drawing| {
            let place = drawing.state.names.place(path)?;
            let number = drawing.state.names.at(&place).ok_or(Errno::NOENT)?;
            if drawing.state.names.is_directory(number) {
                return Err(Errno::ISDIR.into());
            }
            drawing.state.names.unlink(place);
            drawing.state.free();
            Ok(())
        })
    }

    pub(crate) fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.change(self.process(), ("renames", [0, 0]), false, |drawing| {
            let names = &mut drawing.state.names;
            let (absolute, into) = (Names::absolute(from), Names::absolute(to));
            if absolute != into && into.starts_with(&absolute) && names.find(from).is_ok_and(|number| names.is_directory(number)) {
                return Err(Errno::INVAL.into());
            }
            let (from, to) = (names.place(from)?, names.place(to)?);
            let number = names.at(&from).ok_or(Errno::NOENT)?;
            match names.at(&to).filter(|other| *other != number) {
                Some(other) if names.is_directory(other) && !names.is_directory(number) => return Err(Errno::ISDIR.into()),
                Some(other) if names.is_directory(other) && !names.list(other)?.is_empty() => {
                    return Err(Errno::NOTEMPTY.into());
                }
                Some(other) if !names.is_directory(other) && names.is_directory(number) => return Err(Errno::NOTDIR.into()),
                _ => {}
            }
            names.rename(from, to, number);
            drawing.state.free();
            Ok(())
        })
    }

    pub(crate) fn make_directories(&self, path: &Path) -> io::Result<()> {
        self.change(self.process(), ("makes directories", [0, 0]), false, |drawing| make_directories(drawing.state, path))
    }

    pub(crate) fn sync_directory(&self, path: &Path) -> io::Result<()> {
        self.change(self.process(), ("syncs a directory", [0, 0]), true, |drawing| {
            let directory = drawing.state.names.find(path)?;
            if !drawing.state.names.is_directory(directory) {
                return drawing.sync(directory);
            }
            if drawing.sync_fails(directory, path) {
                return Err(Errno::IO.into());
            }
            drawing.state.names.sync(directory);
            drawing.state.free();
            Ok(())
        })
    }

    /// In an order that a seed chooses, as that of a real directory means nothing.
    pub(crate) fn names(&self, directory: &Path) -> io::Result<Vec<String>> {
        self.look(self.process(), false, |drawing| {
            let directory = drawing.state.names.find(directory)?;
            let mut names = drawing.state.names.list(directory)?;
            let first = drawing.below(names.len() as u64);
            names.rotate_left(usize::try_from(first).unwrap_or(0));
            Ok(names.iter().map(|name| name.to_string_lossy().into_owned()).collect())
        })
    }

    pub(crate) fn canonical(&self, path: &Path) -> io::Result<PathBuf> {
        self.look(self.process(), false, |drawing| drawing.state.names.find(path).map(|_| Names::absolute(path)))
    }

    pub(crate) fn disk_bytes(&self, path: &Path) -> io::Result<u64> {
        self.look(self.process(), false, |drawing| {
            let number = drawing.state.names.find(path)?;
            Ok(drawing.state.files.get(&number).map_or(0, |inode| inode.content.pages() * PAGE_BYTES) as u64)
        })
    }

    /// The node and the number of the file.
    pub(crate) fn identity(&self, path: &Path) -> io::Result<(u64, u64)> {
        let node = u64::from(self.node.0);
        self.look(self.process(), false, |drawing| drawing.state.names.find(path).map(|number| (node, number)))
    }

    /// Opens a file, and makes it when it is missing.
    pub(crate) fn open(self: Arc<Self>, path: &Path, how: How) -> io::Result<OpenFile> {
        OpenFile::new(self, path, how)
    }

    /// Makes a file, or empties the one that is there.
    pub(crate) fn create(self: Arc<Self>, path: &Path) -> io::Result<OpenFile> {
        self.open(path, How { empty: true, ..How::default() })
    }

    /// Opens a file for writing at its end.
    pub(crate) fn append(self: Arc<Self>, path: &Path) -> io::Result<OpenFile> {
        self.open(path, How { append: true, ..How::default() })
    }
}
