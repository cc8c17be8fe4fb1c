//! Classes of keyspace events, and the letters that stand for them in `notify-keyspace-events`.

use std::fmt;

/// A set of classes, and of the channels that events are published to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Classes(u32);

macro_rules! classes {
    ($($(#[$doc:meta])* $name:ident = $letter:literal $bit:literal;)+) => {
        impl Classes {
            $($(#[$doc])* pub const $name: Self = Self(1 << $bit);)+

            /// Letter and class, in the order in which they are written.
            const LETTERS: &'static [(char, Self)] = &[$(($letter, Self::$name)),+];
        }
    };
}

classes! {
    /// Commands on keys of any type.
    GENERIC = 'g' 2;
    /// Commands on strings.
    STRING = '$' 3;
    /// Commands on lists.
    LIST = 'l' 4;
    /// Commands on sets.
    SET = 's' 5;
    /// Commands on hashes.
    HASH = 'h' 6;
    /// Commands on sorted sets.
    SORTED_SET = 'z' 7;
    /// Keys that expire.
    EXPIRED = 'x' 8;
    /// Keys that are evicted.
    EVICTED = 'e' 9;
    /// Commands on streams.
    STREAM = 't' 10;
    /// Values of modules, which there are none of.
    MODULE = 'd' 13;
    /// Keys that are made.
    NEW = 'n' 14;
    /// Values that replace another.
    OVERWRITTEN = 'o' 15;
    /// Values that replace one of another type.
    TYPE_CHANGED = 'c' 16;
    /// Channels named by the key.
    KEYSPACE = 'K' 0;
    /// Channels named by the event.
    KEYEVENT = 'E' 1;
    /// Reads that find no key.
    MISS = 'm' 11;
    /// Channels named by the key, with elements in the message.
    SUBKEYSPACE = 'S' 19;
    /// Channels named by the event, with key and elements in the message.
    SUBKEYEVENT = 'T' 20;
    /// Channels named by key and element.
    SUBKEYSPACE_ITEM = 'I' 21;
    /// Channels named by event and key, with elements in the message.
    SUBKEYSPACE_EVENT = 'V' 22;
}

impl Classes {
    /// What the letter `A` stands for: each class but those of misses, of new keys and of what is overwritten.
    pub const ALL: Self = Self(0x7fc | Self::MODULE.0);

    /// Channels whose messages name elements.
    pub const SUBKEYS: Self =
        Self(Self::SUBKEYSPACE.0 | Self::SUBKEYEVENT.0 | Self::SUBKEYSPACE_ITEM.0 | Self::SUBKEYSPACE_EVENT.0);

    /// Channels of any kind.
    pub const CHANNELS: Self = Self(Self::KEYSPACE.0 | Self::KEYEVENT.0 | Self::SUBKEYS.0);

    /// Letters that the parameter takes, as its error tells them.
    pub const LETTERS_TAKEN: &'static str = "Ag$lshzxeKEtmdnocSTIV";

    /// The set that letters name; none if one of them is no class.
    #[must_use]
    pub fn parse(letters: &str) -> Option<Self> {
        let class = |letter| match letter {
            'A' => Some(Self::ALL),
            _ => Self::LETTERS.iter().find(|(known, _)| *known == letter).map(|(_, class)| *class),
        };
        letters.chars().try_fold(Self::default(), |all, letter| Some(all.union(class(letter)?)))
    }

    /// Both sets.
    #[must_use]
    pub const fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Whether any class of `other` is in it.
    #[inline]
    #[must_use]
    pub const fn any(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    /// Whether events of a class are told with the elements that they are about.
    #[inline]
    #[must_use]
    pub const fn names_elements(self, class: Self) -> bool {
        self.any(class) && self.any(Self::SUBKEYS)
    }

    /// Whether there is none.
    #[inline]
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The set, if any event of it is published anywhere; else the empty one.
    #[must_use]
    pub const fn published(self) -> Self {
        let classes = self.0 & !Self::CHANNELS.0;
        if classes != 0 && self.any(Self::CHANNELS) { self } else { Self(0) }
    }

    /// One bit for each.
    #[must_use]
    pub const fn bits(self) -> u32 {
        self.0
    }

    /// The set of [`Classes::bits`].
    #[must_use]
    pub const fn from_bits(bits: u32) -> Self {
        Self(bits)
    }
}

impl fmt::Display for Classes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all = self.0 & Self::ALL.0 == Self::ALL.0;
        if all {
            f.write_str("A")?;
        }
        let rest = if all { self.0 & !Self::ALL.0 } else { self.0 };
        let letters = Self::LETTERS.iter().filter(|(_, class)| rest & class.0 != 0);
        letters.map(|(letter, _)| *letter).try_for_each(|letter| fmt::Write::write_char(f, letter))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_are_classes_and_back() {
        let shown = |letters: &str| Classes::parse(letters).map(|classes| classes.to_string());
        for (letters, canonical) in [
            ("", ""),
            ("KEA", "AKE"),
            ("Eg$lshzxetd", "AE"),
            ("xEK", "xKE"),
            ("KEAn", "AnKE"),
            ("mnocKA", "AnocKm"),
            ("VITShg", "ghSTIV"),
        ] {
            assert_eq!(shown(letters).as_deref(), Some(canonical), "{letters}");
            assert_eq!(shown(canonical).as_deref(), Some(canonical));
        }
        assert_eq!(shown("Kq"), None);
        let mut taken: Vec<char> = Classes::LETTERS_TAKEN.chars().collect();
        let mut known: Vec<char> = Classes::LETTERS.iter().map(|(letter, _)| *letter).chain(['A']).collect();
        taken.sort_unstable();
        known.sort_unstable();
        assert_eq!(taken, known);
    }

    #[test]
    fn nothing_is_published_without_a_channel_and_a_class() {
        let published = |letters: &str| !Classes::parse(letters).unwrap_or_default().published().is_empty();
        assert!(!published("") && !published("A") && !published("KE") && !published("STIV"));
        assert!(published("Kx") && published("Em") && published("Sh"));
    }
}
