//! The names of backups in object storage, and of their objects.

use std::fmt;

pub(super) const INVENTORY: &str = "backup-";
const PIECE: &str = "piece-";

/// The name of a backup.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct StoredName {
    /// When it was sealed, Unix seconds.
    pub end_s: u64,
    /// Where its log ends.
    pub lsn: u64,
    /// The directory of the log that it was taken of.
    pub owner: u64,
    /// Backups of its owner, with this one: clocks may be set back, and this goes on.
    pub number: u64,
}

impl StoredName {
    /// As a user names it; none where that is no name of a backup.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let mut words = text.split('-');
        let mut word = || words.next();
        let (end_s, lsn, owner, number) = (word()?, word()?, word()?, word()?);
        let owner = u64::from_str_radix(owner, 16).ok()?;
        let name = Self { end_s: end_s.parse().ok()?, lsn: lsn.parse().ok()?, owner, number: number.parse().ok()? };
        (name.to_string() == text).then_some(name)
    }

    pub(super) fn inventory(&self) -> String {
        format!("{INVENTORY}{self}")
    }

    pub(super) fn piece(&self, file: u32, offset: u64) -> String {
        format!("{PIECE}{self}-{file:06}-{offset:012}")
    }

    /// Of which backup, file and place a name is.
    pub(super) fn of_piece(name: &str) -> Option<(Self, (u32, u64))> {
        let (before, offset) = name.strip_prefix(PIECE)?.rsplit_once('-')?;
        let (own, file) = before.rsplit_once('-')?;
        let (own, file, offset) = (Self::parse(own)?, file.parse().ok()?, offset.parse().ok()?);
        (own.piece(file, offset) == name).then_some((own, (file, offset)))
    }
}

impl fmt::Display for StoredName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { end_s, lsn, owner, number } = self;
        write!(f, "{end_s:012}-{lsn:012}-{owner:016x}-{number:08}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The names are fixed: backups outlive the program.
    #[test]
    fn names_are_pinned_and_read_as_written() {
        let name = StoredName { end_s: 1_795_845_103, lsn: 123_456, owner: 0x0123_4567_89AB_CDEF, number: 7 };
        assert_eq!(name.to_string(), "001795845103-000000123456-0123456789abcdef-00000007");
        assert_eq!(StoredName::parse(&name.to_string()), Some(name));
        assert_eq!(name.inventory(), format!("backup-{name}"));
        assert_eq!(name.piece(2, 8 << 20), format!("piece-{name}-000002-000008388608"));
        assert_eq!(StoredName::of_piece(&name.piece(2, 8 << 20)), Some((name, (2, 8 << 20))));
        let other = "1795845103-000000123456-0123456789abcdef-00000007";
        for text in ["", other, "001795845103-000000123456-0123456789abcdef", &format!("{name}-"), &format!("{name}x")] {
            assert_eq!(StoredName::parse(text), None, "{text}");
        }
        for text in ["piece-", &format!("piece-{name}-2-8388608"), &format!("piece-{name}-000002"), &name.inventory()] {
            assert_eq!(StoredName::of_piece(text), None, "{text}");
        }
    }
}
