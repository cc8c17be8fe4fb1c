//! Finds a command by name: case-insensitive, without allocation, in a few nanoseconds.
//!
//! A name of up to 16 bytes is folded, with its length, into two words that hold all of its bytes, so that comparing them compares
//! the names; only longer names are compared byte by byte. The slots are open-addressed and hold 16-bit indexes: the part that
//! every look-up touches stays within a few cache lines.

/// Marks an empty slot.
const EMPTY: u16 = u16::MAX;

/// An index from names to positions in the list it was made of.
#[derive(Clone, Debug)]
pub struct Table {
    slots: Box<[u16]>,
    shift: u32,
    entries: Box<[Entry]>,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    folded: Folded,
    name: &'static str,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Folded {
    low: u64,
    high: u64,
    len: usize,
}

impl Table {
    /// A table of `names`; a name's index is its position.
    ///
    /// # Panics
    /// When a name occurs twice, or there are 65,535 names or more.
    pub fn new(names: impl IntoIterator<Item = &'static str>) -> Self {
        let entries: Box<[Entry]> = names.into_iter().map(|name| Entry { folded: Folded::of(name.as_bytes()), name }).collect();
        assert!(entries.len() < usize::from(EMPTY), "too many names");
        let size = (entries.len() * 4).next_power_of_two().max(2);
        let mut table = Self { slots: vec![EMPTY; size].into(), shift: 64 - size.trailing_zeros(), entries };
        for index in 0..table.entries.len() {
            let name = table.entries[index].name;
            assert!(table.lookup(name.as_bytes()).is_none(), "the name {name} occurs twice");
            let mut slot = table.entries[index].folded.slot(table.shift);
            while table.slots[slot] != EMPTY {
                slot = (slot + 1) & (size - 1);
            }
            table.slots[slot] = index as u16;
        }
        table
    }

    /// The index of `name` in any case.
    #[inline]
    #[must_use]
    pub fn lookup(&self, name: &[u8]) -> Option<usize> {
        let folded = Folded::of(name);
        let mut slot = folded.slot(self.shift);
        loop {
            let index = self.slots[slot];
            if index == EMPTY {
                return None;
            }
            let entry = &self.entries[usize::from(index)];
            if entry.folded == folded && (name.len() <= 16 || entry.name.as_bytes().eq_ignore_ascii_case(name)) {
                return Some(usize::from(index));
            }
            slot = (slot + 1) & (self.slots.len() - 1);
        }
    }

    /// Number of names.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there are no names.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}

impl Folded {
    /// Two overlapping reads cover every byte of a name of up to 16 bytes.
    #[inline]
    fn of(name: &[u8]) -> Self {
        let len = name.len();
        let (low, high) = match (name.first_chunk::<8>(), name.last_chunk::<8>()) {
            (Some(first), Some(last)) => (u64::from_le_bytes(*first), u64::from_le_bytes(*last)),
            _ => (short(name), 0),
        };
        Self { low: upper(low), high: upper(high), len }
    }

    #[inline]
    fn slot(self, shift: u32) -> usize {
        let mixed = (self.low ^ self.high.rotate_left(29) ^ self.len as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (mixed >> shift) as usize
    }
}

/// All bytes of a name shorter than 8.
#[inline]
fn short(name: &[u8]) -> u64 {
    match (name.first_chunk::<4>(), name.last_chunk::<4>(), name) {
        (Some(first), Some(last), _) => u64::from(u32::from_le_bytes(*first)) | u64::from(u32::from_le_bytes(*last)) << 32,
        (_, _, [a, .., b]) => u64::from(*a) | u64::from(*b) << 8 | u64::from(name[name.len() / 2]) << 16,
        (_, _, [a]) => u64::from(*a),
        _ => 0,
    }
}

/// Capitals of eight ASCII bytes at once; bytes outside a–z stay.
#[inline]
const fn upper(word: u64) -> u64 {
    const ONES: u64 = 0x0101_0101_0101_0101;
    let low = word & (0x7f * ONES);
    let above_z = low + (0x7f - b'z' as u64) * ONES;
    let from_a = low + (0x80 - b'a' as u64) * ONES;
    let lower = !word & (0x80 * ONES) & (from_a ^ above_z);
    word ^ (lower >> 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn upper_agrees_with_the_standard_library_for_every_byte() {
        for byte in 0..=255_u8 {
            let word = u64::from_le_bytes([byte, b'a', byte, b'Z', byte, 0, 255, byte]);
            let mut expected = word.to_le_bytes();
            expected.make_ascii_uppercase();
            assert_eq!(upper(word).to_le_bytes(), expected);
        }
    }

    #[test]
    fn finds_every_name_in_any_case_and_nothing_else() {
        let names =
            ["GET", "SET", "GETSET", "MGET", "DEL", "EXPIRETIME", "PEXPIRETIME", "GEORADIUSBYMEMBER_RO", "GEORADIUSBYMEMBER", "X"];
        let table = Table::new(names);
        assert_eq!(table.len(), names.len());
        for (index, name) in names.iter().enumerate() {
            assert_eq!(table.lookup(name.as_bytes()), Some(index));
            assert_eq!(table.lookup(name.to_lowercase().as_bytes()), Some(index));
            for cut in 0..name.len() {
                let mut other = name.as_bytes().to_vec();
                other[cut] ^= 0x80;
                assert_eq!(table.lookup(&other), None);
                other.truncate(cut);
                assert_eq!(table.lookup(&other).is_some(), names.iter().any(|n| n.as_bytes() == other));
            }
        }
        assert_eq!(table.lookup(b"GET\0"), None);
        assert_eq!(table.lookup(b"GEORADIUSBYMEMXER_RO"), None);
        assert_eq!(Table::new([]).lookup(b"GET"), None);
    }
}
