//! Index entries: an address, what the index remembers of the key's hash, and how warm the record is.
//!
//! ```text
//! | heat 3 | tag 13 | address 48 |      0 = empty; the address counts words of 8 bytes
//! ```
//!
//! A bucket of level `l` holds keys whose low `l` hash bits agree. A tag holds the hash bits from `l` on, under a leading one
//! that says how many are known: twelve when the entry is made. Splitting a bucket uses up the lowest known bit, merging two
//! puts one back, so the index can be resized without a look at the records, which may be on a device (ADR 19). Where the
//! record is in memory the tag is renewed on the way.

use almandine_io::memory::HUGE_PAGE_BYTES;

/// Hash bits that a whole tag knows; few in builds for simulations, so that an index of some thousand keys uses them up.
const KNOWN_BITS: u32 = if HUGE_PAGE_BYTES < 256 << 10 { 3 } else { 12 };
const ADDRESS_BITS: u32 = 48;
const TAG_BITS: u32 = KNOWN_BITS + 1;
const TAG_MASK: u64 = ((1 << TAG_BITS) - 1) << ADDRESS_BITS;
const HEAT_SHIFT: u32 = ADDRESS_BITS + TAG_BITS;

/// Largest heat.
pub(crate) const HEAT_MAX: u64 = 7;

/// What a key's entry shows of its hash in a bucket of some level: a whole tag, in place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tag(u64);

impl Tag {
    #[inline]
    pub(crate) fn new(hash: u64, level: u32) -> Self {
        debug_assert!(level < u64::BITS, "a hash has as many bits as the deepest level uses");
        let known = (hash >> level) & ((1 << KNOWN_BITS) - 1);
        Self((known | 1 << KNOWN_BITS) << ADDRESS_BITS)
    }
}

/// A tagged address: what a bucket cell holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry(pub(crate) u64);

impl Entry {
    pub(crate) const EMPTY: Self = Self(0);
    const ADDRESS_MASK: u64 = (1 << ADDRESS_BITS) - 1;

    pub(crate) fn new(tag: Tag, address: u64) -> Self {
        debug_assert!(address != 0 && address <= Self::ADDRESS_MASK);
        Self(tag.0 | address)
    }

    /// An entry of whose key's hash, from the bucket's level on, the low `known` bits are known.
    pub(crate) fn known(hash: u64, known: u32, address: u64) -> Self {
        debug_assert!(address != 0 && address <= Self::ADDRESS_MASK);
        let known = known.min(KNOWN_BITS);
        Self((hash & ((1 << known) - 1) | 1 << known) << ADDRESS_BITS | address)
    }

    /// The bits of the hash that it knows, from its bucket's level on.
    pub(crate) fn known_hash(self) -> u64 {
        debug_assert_ne!(self, Self::EMPTY, "INV-INDEX-3: an empty entry knows nothing");
        (self.0 & TAG_MASK) >> ADDRESS_BITS & !(1 << self.known_bits())
    }

    #[inline]
    pub(crate) fn address(self) -> u64 {
        self.0 & Self::ADDRESS_MASK
    }

    /// The entry for another record of the same key, as warm as this one.
    pub(crate) fn at(self, tag: Tag, address: u64) -> Self {
        debug_assert_ne!(self, Self::EMPTY, "INV-LOG-1: an entry moves; none begins so");
        Self(Self::new(tag, address).0 | self.0 & !(TAG_MASK | Self::ADDRESS_MASK))
    }

    /// Whether the entry has exactly this tag. Never true of an empty one.
    #[inline]
    pub(crate) fn has(self, tag: Tag) -> bool {
        (self.0 ^ tag.0) & TAG_MASK == 0
    }

    /// Whether all hash bits that the entry knows are those of `tag`. Never true of an empty one.
    #[inline]
    pub(crate) fn may_be(self, tag: Tag) -> bool {
        let own = (self.0 & TAG_MASK) >> ADDRESS_BITS;
        let known = (1u64 << own.max(1).ilog2()) - 1;
        own != 0 && (own ^ tag.0 >> ADDRESS_BITS) & known == 0
    }

    /// [`Entry::has`], or [`Entry::may_be`] in a bucket with short tags.
    #[inline]
    pub(crate) fn matches(self, tag: Tag, short: bool) -> bool {
        if short { self.may_be(tag) } else { self.has(tag) }
    }

    /// Hash bits that the entry knows.
    pub(crate) fn known_bits(self) -> u32 {
        let tag = (self.0 & TAG_MASK) >> ADDRESS_BITS;
        debug_assert!(tag != 0, "an empty entry has no tag");
        tag.max(1).ilog2()
    }

    /// Whether bits have been used up.
    pub(crate) fn is_short(self) -> bool {
        self.known_bits() < KNOWN_BITS
    }

    /// The entry one level deeper, and the bit that decided its side. `None` when no bit is known.
    pub(crate) fn split(self) -> Option<(Self, bool)> {
        debug_assert_ne!(self, Self::EMPTY, "INV-INDEX-3: entries are dense");
        let tag = (self.0 & TAG_MASK) >> ADDRESS_BITS;
        (tag > 1).then(|| (self.with_tag(tag >> 1), tag & 1 != 0))
    }

    /// The entry one level up, coming from the side of `bit`.
    pub(crate) fn merge(self, bit: bool) -> Self {
        let tag = (self.0 & TAG_MASK) >> ADDRESS_BITS;
        debug_assert_ne!(tag, 0, "INV-INDEX-3: entries are dense");
        let longer = tag << 1 | u64::from(bit);
        // A whole tag stays whole: its highest known bit goes.
        self.with_tag(if longer >> TAG_BITS == 0 { longer } else { longer & ((1 << KNOWN_BITS) - 1) | 1 << KNOWN_BITS })
    }

    /// The same record and heat under a whole tag.
    pub(crate) fn renew(self, tag: Tag) -> Self {
        debug_assert_eq!(tag.0 & !TAG_MASK, 0, "a tag stays in its bits");
        debug_assert_ne!(self.address(), 0, "INV-INDEX-3: entries are dense");
        Self(self.0 & !TAG_MASK | tag.0)
    }

    fn with_tag(self, tag: u64) -> Self {
        debug_assert!(tag != 0 && tag >> TAG_BITS == 0, "a tag has a mark above the bits that are known, and stays in its bits");
        Self(self.0 & !TAG_MASK | tag << ADDRESS_BITS)
    }

    /// How often the record was used of late, 0 to [`HEAT_MAX`].
    #[inline]
    pub(crate) fn heat(self) -> u64 {
        self.0 >> HEAT_SHIFT
    }

    pub(crate) fn with_heat(self, heat: u64) -> Self {
        debug_assert!(heat <= HEAT_MAX);
        Self(self.0 & !(HEAT_MAX << HEAT_SHIFT) | heat << HEAT_SHIFT)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_tag_survives_splits_and_merges() {
        for hash in [0u64, 1, 0x0123_4567_89AB_CDEF, u64::MAX, 0xF0F0_1234_5555_0001] {
            for level in 10..30 {
                let mut entry = Entry::new(Tag::new(hash, level), 77).with_heat(5);
                assert!(entry.has(Tag::new(hash, level)) && entry.may_be(Tag::new(hash, level)) && !entry.is_short());
                for depth in 0..KNOWN_BITS {
                    let (deeper, side) = entry.split().unwrap();
                    assert_eq!(side, hash >> (level + depth) & 1 != 0, "the bit of the level decides");
                    assert_eq!(deeper.known_bits(), KNOWN_BITS - 1 - depth);
                    assert!(deeper.may_be(Tag::new(hash, level + depth + 1)));
                    assert_eq!(deeper.merge(side), entry, "a merge undoes a split");
                    entry = deeper;
                }
                assert_eq!((entry.split(), entry.address(), entry.heat()), (None, 77, 5));
                assert!(entry.may_be(Tag::new(!hash, 3)), "nothing known, anything possible");
            }
        }
    }

    #[test]
    fn different_known_bits_never_match_and_empty_matches_nothing() {
        let tag = Tag::new(0b0101, 0);
        assert!(!Entry::EMPTY.has(tag) && !Entry::EMPTY.may_be(tag) && !Entry::EMPTY.may_be(Tag::new(0, 0)));
        let other = Entry::new(Tag::new(0b1101, 0), 5);
        assert!(!other.has(tag) && !other.may_be(tag));
        let (deeper, _) = other.split().unwrap();
        assert!(!deeper.has(Tag::new(0b1101, 1)) && deeper.may_be(Tag::new(0b1101, 1)) && !deeper.may_be(Tag::new(0b0101, 1)));
        assert_eq!(deeper.renew(Tag::new(0b1101, 1)), Entry::new(Tag::new(0b1101, 1), 5));
    }
}
