//! The inventory of a backup: its files, where each piece of them begins, how long it is, and its sum.

use std::fmt::Write as _;

use super::name::StoredName;
use crate::crc32c::sum;

const FIRST_LINE: &str = "almandine backup 1";
/// Before the path of a file of the log; of others it is that below the directory of the backup.
const LOG: &str = "log";

/// See the module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inventory {
    /// Its backup.
    pub name: StoredName,
    /// The log that it was taken of.
    pub log: u128,
    /// When it was begun, Unix seconds: it has every moment from its base, which was written behind that, to its end.
    pub start_s: u64,
    /// Its files.
    pub files: Vec<StoredFile>,
}

/// A file of a backup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredFile {
    /// `log/NAME`, `storage/log/NAME` or `storage/values/NAME`.
    pub path: String,
    /// Its length.
    pub bytes: u64,
    /// Its pieces, ascending; where there are none it has zeroes.
    pub pieces: Vec<StoredPiece>,
}

/// A piece of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoredPiece {
    /// Where it begins in the file.
    pub offset: u64,
    /// Its length.
    pub bytes: u64,
    /// Its checksum.
    pub sum: u32,
}

impl Inventory {
    /// All pieces, with the places of their files.
    pub(super) fn pieces(&self) -> impl Iterator<Item = (u32, &StoredPiece)> {
        (0..).zip(&self.files).flat_map(|(number, file)| file.pieces.iter().map(move |piece| (number, piece)))
    }

    /// Whether it has data of storage-dir.
    #[must_use]
    pub fn has_storage(&self) -> bool {
        self.files.iter().any(|file| !file.is_of_log())
    }

    /// Bytes of the pieces.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.pieces().map(|(_, piece)| piece.bytes).sum()
    }

    /// As it lies in its object.
    #[must_use]
    pub fn encode(&self) -> String {
        let Self { name, log, start_s, files } = self;
        let mut text = format!("{FIRST_LINE}\nname {name}\nlog {log:032x}\nstart {start_s}\n");
        for StoredFile { path, bytes, pieces } in files {
            let _ = writeln!(text, "file {bytes} {path}");
            for StoredPiece { offset, bytes, sum } in pieces {
                let _ = writeln!(text, "piece {offset} {bytes} {sum:08x}");
            }
        }
        let _ = writeln!(text, "sum {:08x}", sum(text.as_bytes()));
        text
    }

    /// Reads that of a backup.
    ///
    /// # Errors
    /// When it is not what [`Self::encode`] makes.
    pub fn decode(name: StoredName, bytes: &[u8]) -> Result<Self, String> {
        let read = Self::parse(bytes).filter(|inventory| inventory.name == name);
        read.ok_or_else(|| format!("{} is no inventory, or one of a later version of the program", name.inventory()))
    }

    fn parse(bytes: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(bytes).ok()?;
        let body = &text[..text.strip_suffix('\n')?.rfind('\n')? + 1];
        if text[body.len()..] != format!("sum {:08x}\n", sum(body.as_bytes())) {
            return None;
        }
        let mut lines = body.lines();
        if lines.next() != Some(FIRST_LINE) {
            return None;
        }
        let name = StoredName::parse(lines.next()?.strip_prefix("name ")?)?;
        let log = u128::from_str_radix(lines.next()?.strip_prefix("log ")?, 16).ok()?;
        let start_s = lines.next()?.strip_prefix("start ")?.parse().ok()?;
        let mut files: Vec<StoredFile> = Vec::new();
        for line in lines {
            let mut words = line.splitn(4, ' ');
            match (words.next()?, words.next()?.parse::<u64>().ok()?, words.next()?, words.next()) {
                ("file", bytes, path, None) if is_path(path) => {
                    files.push(StoredFile { path: path.to_owned(), bytes, pieces: Vec::new() });
                }
                ("piece", offset, bytes, Some(sum)) => files.last_mut()?.add(StoredPiece {
                    offset,
                    bytes: bytes.parse().ok()?,
                    sum: u32::from_str_radix(sum, 16).ok()?,
                })?,
                _ => return None,
            }
        }
        Some(Self { name, log, start_s, files })
    }
}

impl StoredFile {
    /// Whether it lies in the directory of the log.
    #[must_use]
    pub fn is_of_log(&self) -> bool {
        self.log_name().is_some()
    }

    /// Its name in the directory of the log, if it is of that.
    pub(super) fn log_name(&self) -> Option<&str> {
        self.path.strip_prefix(LOG)?.strip_prefix('/')
    }

    /// Its path below the directory of the storage, if it is of that.
    pub(super) fn storage_path(&self) -> Option<&str> {
        self.path.strip_prefix("storage/")
    }

    /// None: it does not lie behind those before, in the file.
    fn add(&mut self, piece: StoredPiece) -> Option<()> {
        let end = self.pieces.last().map_or(0, |last| last.offset + last.bytes);
        let fits = piece.offset >= end && piece.offset.checked_add(piece.bytes)? <= self.bytes;
        fits.then(|| self.pieces.push(piece))
    }
}

/// The path of a file of the log in an inventory.
pub(super) fn log_path(name: &str) -> String {
    format!("{LOG}/{name}")
}

/// Whether a path leads nowhere but to where backups have files.
pub(super) fn is_path(path: &str) -> bool {
    let name = ["log/", "storage/log/", "storage/values/"].iter().find_map(|folder| path.strip_prefix(folder));
    name.is_some_and(|name| {
        !name.is_empty() && !name.starts_with('.') && name.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'/')
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn inventory() -> Inventory {
        let name = StoredName { end_s: 1_795_845_103, lsn: 8192, owner: 0xAB, number: 7 };
        let piece = |offset, bytes| StoredPiece { offset, bytes, sum: 0xCD };
        let file = |path: &str, bytes, pieces| StoredFile { path: path.to_owned(), bytes, pieces };
        let files = vec![
            file("log/MANIFEST", 9, vec![piece(0, 9)]),
            file("storage/log/0.segment", 300, vec![piece(0, 100), piece(200, 100)]),
        ];
        Inventory { name, log: 0x0102, start_s: 1_795_845_003, files }
    }

    #[test]
    fn the_text_is_pinned() {
        let golden = "almandine backup 1\nname 001795845103-000000008192-00000000000000ab-00000007\n\
            log 00000000000000000000000000000102\nstart 1795845003\nfile 9 log/MANIFEST\npiece 0 9 000000cd\n\
            file 300 storage/log/0.segment\npiece 0 100 000000cd\npiece 200 100 000000cd\n";
        assert_eq!(inventory().encode(), format!("{golden}sum {:08x}\n", sum(golden.as_bytes())));
        assert!(inventory().has_storage() && inventory().bytes() == 209);
    }

    #[test]
    fn it_is_read_as_written_and_no_other_text_passes() {
        let (own, text) = (inventory(), inventory().encode());
        assert_eq!(Inventory::decode(own.name, text.as_bytes()).unwrap(), own);
        assert!(Inventory::decode(StoredName { number: 8, ..own.name }, text.as_bytes()).is_err());
        for len in 0..text.len() {
            assert!(Inventory::decode(own.name, &text.as_bytes()[..len]).is_err(), "{len}");
            for bit in 0..8 {
                let mut bytes = text.clone().into_bytes();
                bytes[len] ^= 1 << bit;
                assert!(Inventory::decode(own.name, &bytes).is_err(), "byte {len}, bit {bit}");
            }
        }
    }

    #[test]
    fn no_path_leads_out_and_no_pieces_overlap() {
        for path in ["log/../x", "log/", "/etc/x", "storage/x", "storage/log/../../x", "log/.x", "log/a b", "x"] {
            assert!(!is_path(path), "{path}");
            let mut own = inventory();
            own.files[0].path = path.to_owned();
            assert!(Inventory::decode(own.name, own.encode().as_bytes()).is_err(), "{path}");
        }
        for (offset, bytes) in [(99, 100), (201, 100), (u64::MAX, 2)] {
            let mut own = inventory();
            (own.files[1].pieces[1].offset, own.files[1].pieces[1].bytes) = (offset, bytes);
            assert!(Inventory::decode(own.name, own.encode().as_bytes()).is_err(), "{offset}");
        }
    }
}
