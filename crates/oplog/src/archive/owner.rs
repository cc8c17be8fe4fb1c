//! Which owner a directory is: a file beside the manifest.

use std::io;
use std::path::Path;

use almandine_io::{entropy, files};

use super::fault::ArchiveFault;
use crate::fault::Fault;

const FILE: &str = "ARCHIVE";

/// An owner of archives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Owner {
    pub(super) id: u64,
    /// From this page on pages are its own; those before were there when it took the archive over.
    pub(super) pages_from: u64,
}

impl Owner {
    /// One with a number that no other has.
    pub(super) fn new() -> Result<Self, ArchiveFault> {
        let mut bytes = [0; 8];
        entropy::fill(&mut bytes)?;
        Ok(Self { id: u64::from_le_bytes(bytes), pages_from: 0 })
    }

    /// That of a directory; none before it has an archive.
    pub(super) fn read(directory: &Path) -> Result<Option<Self>, ArchiveFault> {
        let path = directory.join(FILE);
        let text = match files::read_to_string(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            text => text.map_err(|error| Fault::io("read", &path, error))?,
        };
        let owner = Self::parse(&text).ok_or_else(|| Fault::damaged(&path, 0, "it names no owner"));
        Ok(Some(owner?))
    }

    fn parse(text: &str) -> Option<Self> {
        let mut lines = text.lines();
        let id = u64::from_str_radix(lines.next()?.strip_prefix("almandine archive owner ")?, 16).ok()?;
        let pages_from = match lines.next() {
            None => 0,
            Some(line) => line.strip_prefix("pages from ")?.parse().ok()?,
        };
        Some(Self { id, pages_from })
    }

    fn text(self) -> String {
        let pages = if self.pages_from == 0 { String::new() } else { format!("pages from {}\n", self.pages_from) };
        format!("almandine archive owner {:016x}\n{pages}", self.id)
    }

    /// Makes it that of a directory.
    pub(super) fn write(self, directory: &Path) -> Result<(), ArchiveFault> {
        let path = directory.join(FILE);
        files::replace(&path, self.text()).map_err(|error| Fault::io("write", &path, error).into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_is_pinned_and_no_other_passes() {
        let owner = Owner { id: 0xAB, pages_from: 0 };
        assert_eq!(owner.text(), "almandine archive owner 00000000000000ab\n");
        let with_pages = Owner { pages_from: 12, ..owner };
        assert_eq!(with_pages.text(), "almandine archive owner 00000000000000ab\npages from 12\n");
        assert_eq!([Owner::parse(&owner.text()), Owner::parse(&with_pages.text())], [Some(owner), Some(with_pages)]);
        for text in
            ["", "almandine archive owner x", "almandine archive owner ab\npages", "almandine archive owner ab\npages from x"]
        {
            assert_eq!(Owner::parse(text), None, "{text}");
        }
    }
}
