//! Looks for the files of Redis, before any of them is read.

use std::ffi::OsStr;
use std::io::{self, ErrorKind};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use almandine_config::Settings;
use almandine_io::files;
use almandine_rdb::aof::{AofManifest, begins_with_snapshot};

/// An append-only file of Redis: files that are loaded one after the other.
#[derive(Debug)]
pub(crate) struct Source {
    /// In the order in which they are loaded, each with its bytes.
    pub(super) files: Vec<(PathBuf, u64)>,
    /// The manifest; none where there is a single file, as older versions have it.
    pub(super) manifest: Option<PathBuf>,
}

impl Source {
    /// A single file.
    ///
    /// # Errors
    /// When it cannot be looked at.
    pub(crate) fn alone(path: &Path) -> io::Result<Self> {
        let bytes = bytes_of(path)?.ok_or_else(|| failed(path, &"No such file or directory"))?;
        Ok(Self { files: vec![(path.to_owned(), bytes)], manifest: None })
    }

    /// Bytes of its files.
    pub(crate) fn bytes(&self) -> u64 {
        self.files.iter().map(|(_, bytes)| bytes).sum()
    }

    /// The file that begins with a snapshot, if the others are empty.
    ///
    /// # Errors
    /// When it cannot be read.
    pub(crate) fn snapshot(&self) -> io::Result<Option<PathBuf>> {
        let mut files = self.files.iter().filter(|(_, bytes)| *bytes > 0);
        let (Some((path, _)), None) = (files.next(), files.next()) else { return Ok(None) };
        Ok(has_snapshot(path)?.then(|| path.clone()))
    }

    /// Whether a manifest names its files.
    pub(crate) fn has_manifest(&self) -> bool {
        self.manifest.is_some()
    }

    /// What names it.
    pub(crate) fn path(&self) -> &Path {
        self.manifest.as_deref().or(self.files.first().map(|(path, _)| path.as_path())).unwrap_or(Path::new(""))
    }
}

/// Looks for an append-only file of Redis: its parts in `directory`, or a single file in `base`, the directory of the node.
///
/// # Errors
/// When a manifest is malformed or names a file that is missing, or something cannot be looked at.
pub(crate) fn find(settings: &Settings, base: &Path, directory: &Path) -> io::Result<Option<Source>> {
    let name = &settings.persistence.append_file;
    let path = directory.join(format!("{name}.manifest"));
    let alone = base.join(name);
    let bytes = match files::read(&path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == ErrorKind::NotFound => {
            let single = bytes_of(&alone)?.map(|bytes| Source { files: vec![(alone, bytes)], manifest: None });
            return Ok(single);
        }
        Err(error) => return Err(failed(&path, &error)),
    };
    let manifest = AofManifest::decode(&bytes).map_err(|error| failed(&path, &error))?;
    let named = manifest.base.iter().chain(&manifest.increments);
    let mut parts: Vec<PathBuf> = named.map(|file| directory.join(OsStr::from_bytes(&file.name))).collect();
    // A single file that Redis was about to move there.
    if let [only] = parts.as_mut_slice()
        && *only == directory.join(name)
        && bytes_of(only)?.is_none()
    {
        only.clone_from(&alone);
    }
    let mut found = Vec::with_capacity(parts.len());
    for part in parts {
        let bytes = bytes_of(&part)?.ok_or_else(|| failed(&part, &"No such file or directory"))?;
        found.push((part, bytes));
    }
    Ok(Some(Source { files: found, manifest: Some(path) }))
}

/// Bytes of a file; none where there is none.
pub(super) fn bytes_of(path: &Path) -> io::Result<Option<u64>> {
    match files::open(path).and_then(|file| file.len()) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(failed(path, &error)),
    }
}

/// Whether a file begins with a snapshot.
pub(super) fn has_snapshot(path: &Path) -> io::Result<bool> {
    let mut magic = [0; 5];
    let bytes = files::open(path).and_then(|file| file.read_at(&mut magic, 0)).map_err(|error| failed(path, &error))?;
    Ok(begins_with_snapshot(&magic[..bytes]))
}

/// The fault of a file that is needed.
pub(super) fn failed(path: &Path, error: &dyn std::fmt::Display) -> io::Error {
    io::Error::other(format!("{} of an append-only file of Redis cannot be loaded: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use crate::redis_files::scratch::Scratch;
    use almandine_config::Config;

    use super::*;

    fn settings() -> Settings {
        Config::defaults().snapshot().settings.clone()
    }

    #[test]
    fn parts_come_in_the_order_of_the_manifest_and_a_single_file_alone() {
        let scratch = Scratch::new("redis-files-source");
        let (base, parts) = (scratch.path(), scratch.path().join("appendonlydir"));
        assert!(find(&settings(), base, &parts).unwrap().is_none());
        files::write(base.join("appendonly.aof"), b"12345").unwrap();
        let single = find(&settings(), base, &parts).unwrap().unwrap();
        assert_eq!((single.bytes(), single.path()), (5, base.join("appendonly.aof").as_path()));

        files::make_directories(&parts).unwrap();
        let manifest = parts.join("appendonly.aof.manifest");
        // Redis has written this, and then not moved the file.
        files::write(&manifest, b"file appendonly.aof seq 1 type b\n").unwrap();
        let moving = find(&settings(), base, &parts).unwrap().unwrap();
        assert_eq!((&moving.files[..], moving.path()), (&[(base.join("appendonly.aof"), 5)][..], manifest.as_path()));
        files::write(parts.join("appendonly.aof"), b"1").unwrap();
        let moved = find(&settings(), base, &parts).unwrap().unwrap();
        assert_eq!(moved.files, [(parts.join("appendonly.aof"), 1)]);

        let text = b"file b seq 2 type b\nfile h seq 1 type h\nfile i seq 2 type i\nfile j seq 3 type i\n";
        files::write(&manifest, text).unwrap();
        for (name, bytes) in [("b", &b"1"[..]), ("i", b""), ("j", b"123")] {
            let text = find(&settings(), base, &parts).unwrap_err().to_string();
            assert!(
                text.contains(&format!("appendonlydir/{name} of an append-only file of Redis cannot be loaded: No such file")),
                "{text}"
            );
            files::write(parts.join(name), bytes).unwrap();
        }
        let found = find(&settings(), base, &parts).unwrap().unwrap();
        assert_eq!(found.files, [(parts.join("b"), 1), (parts.join("i"), 0), (parts.join("j"), 3)]);
        files::write(&manifest, b"file\n").unwrap();
        let text = find(&settings(), base, &parts).unwrap_err().to_string();
        assert!(
            text.contains("appendonly.aof.manifest of") && text.contains("Invalid AOF manifest file format, in line 1"),
            "{text}"
        );
    }
}
