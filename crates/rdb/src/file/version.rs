//! Which server's numbering of types and opcodes a file follows: the magic says it, and the number when.

use super::fault::Fault;
use crate::value::footer;
use crate::value::hash::Dialect;

/// Bytes of magic and version.
pub(super) const MAGIC_BYTES: usize = 9;

const REDIS: &[u8] = b"REDIS";
const VALKEY: &[u8] = b"VALKEY";
/// The youngest version of Valkey that is known.
const VERSION_VALKEY_MAX: u16 = 81;

/// The version of a file that is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileVersion {
    dialect: Dialect,
    number: u16,
}

impl FileVersion {
    /// The version that a file's first bytes say. With `any`, numbers that are not known yet are taken for the youngest known one.
    pub(super) fn parse(magic: [u8; MAGIC_BYTES], any: bool) -> Result<Self, Fault> {
        let (dialect, digits) = if let Some(digits) = magic.strip_prefix(VALKEY) {
            (Dialect::Valkey, digits)
        } else {
            (Dialect::Redis, magic.strip_prefix(REDIS).ok_or(Fault::NoSnapshot)?)
        };
        if !digits.iter().all(u8::is_ascii_digit) {
            return Err(Fault::NoSnapshot);
        }
        let number = digits.iter().fold(0, |number, digit| number * 10 + u16::from(digit - b'0'));
        let known = match dialect {
            Dialect::Redis => 1..=footer::VERSION_REDIS_MAX,
            Dialect::Valkey => footer::VERSION_VALKEY_9..=VERSION_VALKEY_MAX,
        };
        if !known.contains(&number) && (!any || number < *known.start()) {
            return Err(Fault::Version { dialect, number });
        }
        Ok(Self { dialect, number: number.min(*known.end()) })
    }

    /// Its number.
    #[must_use]
    pub fn number(self) -> u16 {
        self.number
    }

    /// Whose numbering it is.
    #[must_use]
    pub fn dialect(self) -> Dialect {
        self.dialect
    }
}

/// A version that is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WriteVersion {
    /// For Redis 7.0 and younger, and all of Valkey.
    Redis10,
    /// For Redis 7.2 and younger, and all of Valkey.
    #[default]
    Redis11,
    /// For Redis 7.4 and younger.
    Redis12,
    /// For Valkey 9 and younger.
    Valkey80,
}

impl WriteVersion {
    /// Its number.
    #[must_use]
    pub fn number(self) -> u16 {
        match self {
            Self::Redis10 => footer::VERSION_REDIS_7_0,
            Self::Redis11 => footer::VERSION_REDIS_7_2,
            Self::Redis12 => footer::VERSION_REDIS_7_4,
            Self::Valkey80 => footer::VERSION_VALKEY_9,
        }
    }

    /// Whose numbering it is.
    #[must_use]
    pub fn dialect(self) -> Dialect {
        if self == Self::Valkey80 { Dialect::Valkey } else { Dialect::Redis }
    }

    /// Whether all servers that take such a file know what came with version `number` of Redis.
    #[must_use]
    pub fn has(self, number: u16) -> bool {
        // Valkey left Redis' numbering behind 11.
        number <= if self == Self::Valkey80 { footer::VERSION_REDIS_7_2 } else { self.number() } || number == self.number()
    }

    pub(super) fn magic(self) -> [u8; MAGIC_BYTES] {
        match self {
            Self::Redis10 => *b"REDIS0010",
            Self::Redis11 => *b"REDIS0011",
            Self::Redis12 => *b"REDIS0012",
            Self::Valkey80 => *b"VALKEY080",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_magic_decides_whose_version_it_is() {
        let parse = |magic: &[u8; 9], any| FileVersion::parse(*magic, any).map(|version| (version.dialect, version.number)).ok();
        for (magic, version) in [
            (b"REDIS0001", Some((Dialect::Redis, 1))),
            (b"REDIS0015", Some((Dialect::Redis, 15))),
            (b"VALKEY080", Some((Dialect::Valkey, 80))),
            (b"VALKEY081", Some((Dialect::Valkey, 81))),
            (b"REDIS0000", None),
            (b"REDIS0016", None),
            (b"REDIS0080", None),
            (b"VALKEY011", None),
            (b"VALKEY082", None),
            (b"REDIS00x1", None),
            (b"REDISx001", None),
            (b"ALMANDINE", None),
        ] {
            assert_eq!(parse(magic, false), version, "{}", magic.escape_ascii());
        }
        assert_eq!(parse(b"REDIS0090", true), Some((Dialect::Redis, 15)));
        assert_eq!(parse(b"VALKEY999", true), Some((Dialect::Valkey, 81)));
        assert_eq!(parse(b"VALKEY011", true), None);
    }

    #[test]
    fn what_is_written_is_known() {
        for version in [WriteVersion::Redis10, WriteVersion::Redis11, WriteVersion::Redis12, WriteVersion::Valkey80] {
            let read = FileVersion::parse(version.magic(), false).unwrap();
            assert_eq!((read.number(), read.dialect()), (version.number(), version.dialect()));
            assert!(version.has(10) && version.has(version.number()) && !version.has(13));
        }
        assert!(!WriteVersion::Redis10.has(11) && WriteVersion::Redis12.has(12) && !WriteVersion::Valkey80.has(12));
    }
}
