//! The names of a file system: directories, and what of their changes a crash of the machine may undo.
//!
//! A change of names is durable when a directory that it touches has been synced. Until then a crash leaves all of the change or
//! nothing, so a rename never leaves a name without a file.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Component, Path, PathBuf};

use rustix::io::Errno;

/// The number of the directory at the top.
const ROOT: u64 = 0;

/// A place for a name: the number of a directory, and the name in it.
pub(super) type Place = (u64, OsString);

/// See the module. Files and directories have numbers.
#[derive(Debug)]
pub(super) struct Names {
    directories: BTreeMap<u64, Directory>,
    /// In their order; not durable yet.
    unsynced: Vec<Change>,
}

#[derive(Debug, Default)]
struct Directory {
    names: BTreeMap<OsString, u64>,
    durable: BTreeMap<OsString, u64>,
}

#[derive(Clone, Debug)]
enum Change {
    Link(Place, u64),
    Unlink(Place),
    Rename(Place, Place, u64),
}

impl Change {
    fn places(&self) -> impl Iterator<Item = &Place> {
        let (one, other) = match self {
            Self::Link(place, _) | Self::Unlink(place) => (place, None),
            Self::Rename(from, to, _) => (from, Some(to)),
        };
        std::iter::once(one).chain(other)
    }
}

impl Default for Names {
    fn default() -> Self {
        Self { directories: BTreeMap::from([(ROOT, Directory::default())]), unsynced: Vec::new() }
    }
}

impl Names {
    /// The path from the top, without dots.
    pub(super) fn absolute(path: &Path) -> PathBuf {
        let mut absolute = PathBuf::from("/");
        for component in path.components() {
            match component {
                Component::Normal(name) => absolute.push(name),
                Component::ParentDir => drop(absolute.pop()),
                Component::RootDir | Component::CurDir | Component::Prefix(_) => {}
            }
        }
        absolute
    }

    /// What a path names.
    pub(super) fn find(&self, path: &Path) -> io::Result<u64> {
        Self::absolute(path).iter().skip(1).try_fold(ROOT, |directory, name| self.entry(directory, name))
    }

    fn entry(&self, directory: u64, name: &OsStr) -> io::Result<u64> {
        let directory = self.directories.get(&directory).ok_or(Errno::NOTDIR)?;
        Ok(*directory.names.get(name).ok_or(Errno::NOENT)?)
    }

    /// Where a path's last name is or would be.
    pub(super) fn place(&self, path: &Path) -> io::Result<Place> {
        let path = Self::absolute(path);
        let directory = self.find(path.parent().ok_or(Errno::ISDIR)?)?;
        if !self.is_directory(directory) {
            return Err(Errno::NOTDIR.into());
        }
        Ok((directory, path.file_name().unwrap_or_default().to_owned()))
    }

    pub(super) fn at(&self, place: &Place) -> Option<u64> {
        self.directories.get(&place.0)?.names.get(&place.1).copied()
    }

    pub(super) fn is_directory(&self, number: u64) -> bool {
        self.directories.contains_key(&number)
    }

    /// The names in a directory, in their order.
    pub(super) fn list(&self, directory: u64) -> io::Result<Vec<OsString>> {
        Ok(self.directories.get(&directory).ok_or(Errno::NOTDIR)?.names.keys().cloned().collect())
    }

    pub(super) fn make_directory(&mut self, place: Place, number: u64) {
        self.directories.insert(number, Directory::default());
        self.link(place, number);
    }

    pub(super) fn link(&mut self, place: Place, number: u64) {
        self.change(Change::Link(place, number));
    }

    pub(super) fn unlink(&mut self, place: Place) {
        self.change(Change::Unlink(place));
    }

    pub(super) fn rename(&mut self, from: Place, to: Place, number: u64) {
        if from != to {
            self.change(Change::Rename(from, to, number));
        }
    }

    fn change(&mut self, change: Change) {
        self.apply(&change, |directory| &mut directory.names);
        self.unsynced.push(change);
    }

    fn apply(&mut self, change: &Change, version: impl Fn(&mut Directory) -> &mut BTreeMap<OsString, u64>) {
        let mut set = |(directory, name): &Place, number: Option<u64>| {
            let Some(directory) = self.directories.get_mut(directory) else { return };
            match number {
                Some(number) => version(directory).insert(name.clone(), number),
                None => version(directory).remove(name),
            };
        };
        match change {
            Change::Link(place, number) => set(place, Some(*number)),
            Change::Unlink(place) => set(place, None),
            Change::Rename(from, to, number) => {
                set(from, None);
                set(to, Some(*number));
            }
        }
    }

    /// The changes of a directory are durable.
    pub(super) fn sync(&mut self, directory: u64) {
        let changes = std::mem::take(&mut self.unsynced);
        let is_now = |change: &Change| change.places().any(|place| place.0 == directory);
        changes.iter().filter(|change| is_now(change)).for_each(|change| self.apply(change, |directory| &mut directory.durable));
        for (at, change) in changes.iter().enumerate().filter(|(_, change)| !is_now(change)) {
            // A later change of the same place that is durable leaves nothing of this one.
            let is_over = |later: &Change| is_now(later) && later.places().any(|place| change.places().any(|own| own == place));
            if !changes[at..].iter().any(is_over) {
                self.unsynced.push(change.clone());
            }
        }
    }

    /// The machine crashes: a change that is not synced has happened or has not.
    pub(super) fn crash(&mut self, choose: &mut dyn FnMut(u64) -> u64) {
        let changes = std::mem::take(&mut self.unsynced);
        let mode = if changes.is_empty() { 0 } else { choose(4) };
        let first = if mode == 2 { choose(changes.len() as u64 + 1) } else { 0 };
        for (place, change) in (0..).zip(changes) {
            let happened = match mode {
                0 => true,
                1 => false,
                2 => place < first,
                _ => choose(2) == 0,
            };
            if happened {
                self.apply(&change, |directory| &mut directory.durable);
            }
        }
        for directory in self.directories.values_mut() {
            directory.names = directory.durable.clone();
        }
    }

    /// Forgets directories without a name, and says which numbers have one or may have one after a crash.
    pub(super) fn reachable(&mut self) -> BTreeSet<u64> {
        let mut reachable = BTreeSet::from([ROOT]);
        reachable.extend(self.unsynced.iter().filter_map(|change| match change {
            Change::Link(_, number) | Change::Rename(_, _, number) => Some(*number),
            Change::Unlink(_) => None,
        }));
        let mut left: Vec<u64> = reachable.iter().copied().collect();
        while let Some(number) = left.pop() {
            let Some(directory) = self.directories.get(&number) else { continue };
            let named = directory.names.values().chain(directory.durable.values());
            left.extend(named.filter(|number| reachable.insert(**number)));
        }
        self.directories.retain(|number, _| reachable.contains(number));
        reachable
    }
}
