//! A sorted set as bytes: the header of a packed hash, and up to [`ELEMENTS_MAX`] of its entries, ascending by score and then by
//! member; an entry's field is the member, its value the score.

use super::score;
use crate::packed::entry::{Extent, FieldEntry, Head};
use crate::packed::header::{HEADER_MAX_BYTES, HashEncoding, Header};
use crate::packed::iter::PackedIter;
use crate::packed::{ELEMENTS_MAX, Full, PACKED_MAX_BYTES};
use almandine_base::steps;

/// What OBJECT ENCODING names a sorted set. It follows Redis' thresholds and says nothing of how the bytes lie.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum SortedSetEncoding {
    /// `listpack`.
    #[default]
    ListPack = 0,
    /// `skiplist`.
    SkipList = 2,
}

/// From which size on a sorted set has which encoding.
#[derive(Clone, Copy, Debug)]
pub struct SortedSetLimits {
    /// `zset-max-listpack-entries`.
    pub entries: usize,
    /// `zset-max-listpack-value`: bytes of a member.
    pub value: usize,
}

impl SortedSetEncoding {
    /// The encoding with this number; all but 0 are skip lists.
    #[must_use]
    pub fn from_number(number: u8) -> Self {
        if number == 0 { Self::ListPack } else { Self::SkipList }
    }

    /// As OBJECT ENCODING names it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::ListPack => "listpack",
            Self::SkipList => "skiplist",
        }
    }

    /// The encoding after a new `member` has made the sorted set one of `len` members.
    #[must_use]
    pub fn after(self, member: &[u8], len: usize, limits: SortedSetLimits) -> Self {
        if len > limits.entries || member.len() > limits.value { Self::SkipList } else { self }
    }
}

/// A member with its score.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scored<'a> {
    /// The member.
    pub member: &'a [u8],
    /// Its score; never NaN.
    pub score: f64,
    /// When the member expires, in milliseconds since 1970.
    pub due: Option<u64>,
}

impl<'a> From<FieldEntry<'a>> for Scored<'a> {
    fn from(entry: FieldEntry<'a>) -> Self {
        Self { member: entry.field, score: score::decode(entry.value), due: entry.due }
    }
}

impl<'a> Scored<'a> {
    /// What orders the member whose entry begins at `at`. None if there is no whole one.
    #[inline]
    pub(crate) fn key_at(bytes: &'a [u8], at: usize) -> Option<(u64, &'a [u8])> {
        let Extent { head, field, value } = Extent::at(bytes, at)?;
        let end = at + head + field;
        let member = bytes.get(at + head..end)?;
        Some((score::key(score::decode_before(bytes, end + value, value)), member))
    }

    /// What orders members.
    pub(crate) fn key(&self) -> (u64, &[u8]) {
        (score::key(self.score), self.member)
    }
}

/// What setting a score has done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Update {
    /// The member is new.
    Added,
    /// It has another score now.
    Changed,
    /// It had an equal score, and has it still: of the two zeroes that which was there.
    Same,
}

/// A view on the bytes of a packed sorted set.
#[derive(Clone, Copy, Debug)]
pub struct PackedSortedSet<'a> {
    bytes: &'a [u8],
    header: Header,
    /// Where the entries begin.
    start: usize,
}

/// An entry with its place.
#[derive(Clone, Copy, Debug)]
struct Found<'a> {
    offset: usize,
    size: usize,
    entry: Scored<'a>,
}

impl<'a> PackedSortedSet<'a> {
    /// A view on bytes; any bytes will do, no bytes at all are an empty sorted set.
    #[must_use]
    pub fn new(bytes: &'a [u8]) -> Self {
        let (header, start) = Header::parse(bytes);
        Self { bytes, header, start }
    }

    /// How many members there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.header.count
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.header.count == 0
    }

    /// What OBJECT ENCODING names.
    #[must_use]
    pub fn encoding(&self) -> SortedSetEncoding {
        SortedSetEncoding::from_number(self.header.encoding as u8)
    }

    /// The earliest expiry of a member, in milliseconds since 1970.
    #[must_use]
    pub fn next_due(&self) -> Option<u64> {
        self.header.due
    }

    /// A member.
    #[must_use]
    pub fn find(&self, member: &[u8]) -> Option<Scored<'a>> {
        self.iter().find(|entry| entry.member == member)
    }

    /// The member of a rank, from 0 on.
    #[must_use]
    pub fn nth(&self, rank: usize) -> Option<Scored<'a>> {
        self.iter().nth(rank)
    }

    /// All members, ascending by score and then by member.
    #[must_use]
    pub fn iter(&self) -> PackedIter<'a, Scored<'a>> {
        PackedIter::new(self.bytes, self.start, self.header.count)
    }

    /// All members, descending.
    #[must_use]
    pub fn iter_back(&self) -> PackedSortedSetBackwards<'a> {
        let (mut offsets, mut left) = ([0; ELEMENTS_MAX], 0);
        for (place, found) in offsets.iter_mut().zip(self.places()) {
            // A packed collection is shorter than 64 KiB.
            *place = found.offset as u16;
            left += 1;
        }
        PackedSortedSetBackwards { bytes: self.bytes, offsets, left }
    }

    fn places(&self) -> impl Iterator<Item = Found<'a>> + use<'a> {
        let mut iter = self.iter();
        std::iter::from_fn(move || {
            let offset = iter.offset;
            iter.next().map(|entry| Found { offset, size: iter.offset - offset, entry })
        })
    }

    /// The bytes of members that ascend. None: they are too many or too large to be packed.
    #[must_use]
    pub fn pack(members: impl Iterator<Item = Scored<'a>>) -> Option<Vec<u8>> {
        let (mut entries, mut header) = (Vec::new(), Header::default());
        for entry in members {
            header.count += 1;
            header.due = header.due.into_iter().chain(entry.due).min();
            let (head, score) = (head(&entry), score::encode(entry.score, score::len(entry.score)));
            [head.bytes(), entry.member, score.as_slice()].into_iter().for_each(|part| entries.extend_from_slice(part));
            if header.count > ELEMENTS_MAX || entries.len() + HEADER_MAX_BYTES > PACKED_MAX_BYTES {
                return None;
            }
        }
        Some([header.encode().bytes(), &entries].concat())
    }

    /// Gives a member a score, which is not NaN.
    ///
    /// # Errors
    /// [`Full`]: the result would not be a packed sorted set; nothing has changed.
    pub fn set(bytes: &mut Vec<u8>, member: &[u8], score: f64) -> Result<Update, Full> {
        debug_assert!(!score.is_nan(), "a score is a number");
        let set = PackedSortedSet::new(bytes);
        let found = set.places().find(|found| found.entry.member == member);
        if found.is_some_and(|found| found.entry.score == score) {
            return Ok(Update::Same);
        }
        let new = Scored { member, score, due: found.and_then(|found| found.entry.due) };
        let size = head(&new).bytes().len() + member.len() + score::len(score);
        let (old, count) = (found.map_or(0, |found| found.size), set.len() + usize::from(found.is_none()));
        if count > ELEMENTS_MAX || set.bytes.len().max(2) - old + size > PACKED_MAX_BYTES {
            return Err(Full);
        }
        let header = Header { count, ..set.header };
        let offset = found.map(|found| found.offset);
        if let Some(Found { offset, size, .. }) = found {
            bytes.drain(offset..offset + size);
        }
        let before = Header { count: header.count - 1, ..header };
        write_header(bytes, before);
        let set = PackedSortedSet::new(bytes);
        let at = set.places().find(|found| found.entry.key() > new.key()).map_or(set.bytes.len(), |found| found.offset);
        insert(bytes, at, &new);
        write_header(bytes, header);
        Ok(if offset.is_some() { Update::Changed } else { Update::Added })
    }

    /// Gives a member another expiry, or none. Says whether there is such a member.
    ///
    /// # Errors
    /// [`Full`]: the result would not be a packed sorted set; nothing has changed.
    pub fn set_due(bytes: &mut Vec<u8>, member: &[u8], due: Option<u64>) -> Result<bool, Full> {
        let set = PackedSortedSet::new(bytes);
        let Some(Found { offset, size, entry }) = set.places().find(|found| found.entry.member == member) else { return Ok(false) };
        // FieldEntry and header may grow by an expiry each.
        if due.is_some() && bytes.len() + 12 > PACKED_MAX_BYTES {
            return Err(Full);
        }
        let mut copy = Vec::with_capacity(size + 6);
        insert(&mut copy, 0, &Scored { due, ..entry });
        let header = set.header;
        bytes.splice(offset..offset + size, copy);
        write_header(bytes, header);
        Ok(true)
    }

    /// Removes a member, and gives its score. None if there is no such member. A sorted set without members is the caller's to
    /// remove.
    pub fn remove(bytes: &mut Vec<u8>, member: &[u8]) -> Option<f64> {
        let set = PackedSortedSet::new(bytes);
        let Found { offset, size, entry } = set.places().find(|found| found.entry.member == member)?;
        let (score, header) = (entry.score, Header { count: set.len() - 1, ..set.header });
        bytes.drain(offset..offset + size);
        write_header(bytes, header);
        Some(score)
    }

    /// Lets OBJECT ENCODING name another encoding.
    pub fn set_encoding(bytes: &mut Vec<u8>, encoding: SortedSetEncoding) {
        let header = Header { encoding: HashEncoding::from_number(encoding as u8), ..PackedSortedSet::new(bytes).header };
        write_header(bytes, header);
    }

    /// Appends to `out` a packed sorted set of those members that `keep` keeps, and says how many went.
    pub fn retain(&self, mut keep: impl FnMut(&Scored<'a>) -> bool, out: &mut Vec<u8>) -> usize {
        let mut bytes = Vec::with_capacity(self.bytes.len());
        let mut header = Header { count: 0, ..self.header };
        write_header(&mut bytes, Header { due: None, ..header });
        for entry in self.iter().filter(|entry| keep(entry)) {
            header.count += 1;
            let end = bytes.len();
            insert(&mut bytes, end, &entry);
        }
        write_header(&mut bytes, header);
        out.append(&mut bytes);
        self.len() - header.count
    }

    /// Whether the bytes are what this module writes: for what comes from a file or the network.
    #[must_use]
    pub fn is_sound(&self) -> bool {
        let mut copy = Vec::new();
        self.retain(|_| true, &mut copy);
        let distinct = self.iter().enumerate().all(|(i, entry)| self.iter().take(i).all(|other| other.member != entry.member));
        let is_ordered = self.iter().zip(self.iter().skip(1)).all(|(one, next)| one.key() < next.key());
        copy == self.bytes && is_ordered && distinct && self.iter().count() == self.len() && self.len() <= ELEMENTS_MAX
    }
}

fn head(entry: &Scored) -> Head {
    Head::new(entry.member.len(), score::len(entry.score), entry.due)
}

fn insert(bytes: &mut Vec<u8>, at: usize, entry: &Scored) {
    let (head, score) = (head(entry), score::encode(entry.score, score::len(entry.score)));
    bytes.splice(at..at, [head.bytes(), entry.member, score.as_slice()].into_iter().flatten().copied());
}

/// Replaces the header; its expiry becomes that which the entries say.
fn write_header(bytes: &mut Vec<u8>, header: Header) {
    let (_, start) = Header::parse(bytes);
    let entries = PackedIter::<Scored<'_>>::new(bytes, start, header.count);
    let due = entries.filter_map(|entry| entry.due).min();
    bytes.splice(..start, Header { due, ..header }.encode().bytes().iter().copied());
}

/// The members of a packed sorted set, descending.
#[derive(Clone, Debug)]
pub struct PackedSortedSetBackwards<'a> {
    bytes: &'a [u8],
    offsets: [u16; ELEMENTS_MAX],
    left: usize,
}

impl<'a> Iterator for PackedSortedSetBackwards<'a> {
    type Item = Scored<'a>;

    fn next(&mut self) -> Option<Scored<'a>> {
        steps::take(1);
        self.left = self.left.checked_sub(1)?;
        FieldEntry::parse(self.bytes, usize::from(self.offsets[self.left])).map(|(entry, _)| entry.into())
    }
}
