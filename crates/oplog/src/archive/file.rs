//! Files of an archive, and the names of their pieces.

/// A file of an archive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ArchivedFile {
    Base {
        number: u64,
        part: u32,
        owner: u64,
    },
    Segment {
        number: u64,
        owner: u64,
    },
    Page {
        number: u64,
        owner: u64,
    },
    /// Which pages a base names.
    Inventory {
        number: u64,
        owner: u64,
    },
}

impl ArchivedFile {
    /// The piece that begins at an offset.
    pub(crate) fn piece(self, offset: u64) -> String {
        match self {
            Self::Base { number, part, owner } => format!("base-{number:08}.{part}-{owner:016x}-{offset:012}"),
            Self::Segment { number, owner } => format!("log-{number:08}-{owner:016x}-{offset:012}"),
            Self::Page { number, owner } => format!("page-{number:010}-{owner:016x}-{offset:012}"),
            Self::Inventory { number, owner } => format!("inventory-{number:08}-{owner:016x}-{offset:012}"),
        }
    }

    /// The owner that has made it.
    pub(crate) fn owner(self) -> u64 {
        match self {
            Self::Base { owner, .. } | Self::Segment { owner, .. } | Self::Page { owner, .. } | Self::Inventory { owner, .. } => {
                owner
            }
        }
    }

    pub(crate) fn is_page(self) -> bool {
        matches!(self, Self::Page { .. })
    }

    /// Of which file a name is a piece, and where it begins.
    pub(super) fn of_piece(name: &str) -> Option<(Self, u64)> {
        let mut words = name.split('-');
        let (kind, number, owner, offset) = (words.next()?, words.next()?, words.next()?, words.next()?);
        let owner = u64::from_str_radix(owner, 16).ok()?;
        let file = match kind {
            "log" => Self::Segment { number: number.parse().ok()?, owner },
            "page" => Self::Page { number: number.parse().ok()?, owner },
            "inventory" => Self::Inventory { number: number.parse().ok()?, owner },
            "base" => {
                let (number, part) = number.split_once('.')?;
                Self::Base { number: number.parse().ok()?, part: part.parse().ok()?, owner }
            }
            _ => return None,
        };
        let offset = offset.parse().ok()?;
        (words.next().is_none() && file.piece(offset) == name).then_some((file, offset))
    }
}
