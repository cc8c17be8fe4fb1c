//! A hash as bytes: a header and up to [`ELEMENTS_MAX`] entries in the order in which their fields came.

use crate::packed::edit::{Edit, Splice};
use crate::packed::entry::{Extent, FieldEntry, Head};
use crate::packed::header::{HashEncoding, Header};
use crate::packed::iter::PackedIter;
use crate::packed::{Due, ELEMENTS_MAX, Full, PACKED_MAX_BYTES};

/// A view on the bytes of a packed hash.
#[derive(Clone, Copy, Debug)]
pub struct PackedHash<'a> {
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
    entry: FieldEntry<'a>,
}

impl<'a> PackedHash<'a> {
    /// A view on bytes; any bytes will do, no bytes at all are an empty hash.
    #[must_use]
    pub fn new(bytes: &'a [u8]) -> Self {
        let (header, start) = Header::parse(bytes);
        Self { bytes, header, start }
    }

    /// How many fields there are.
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
    pub fn encoding(&self) -> HashEncoding {
        self.header.encoding
    }

    /// The earliest expiry of a field, in milliseconds since 1970.
    #[must_use]
    pub fn next_due(&self) -> Option<u64> {
        self.header.due
    }

    /// The field's entry.
    #[must_use]
    pub fn find(&self, field: &[u8]) -> Option<FieldEntry<'a>> {
        self.look_up(field).map(|found| found.entry)
    }

    fn look_up(&self, field: &[u8]) -> Option<Found<'a>> {
        let mut offset = self.start;
        for _ in 0..self.header.count {
            let extent = Extent::at(self.bytes, offset)?;
            let field_at = offset + extent.head;
            if extent.field == field.len() && self.bytes.get(field_at..field_at + extent.field)? == field {
                let (entry, size) = FieldEntry::parse(self.bytes, offset)?;
                return Some(Found { offset, size, entry });
            }
            offset += extent.size();
        }
        None
    }

    /// The entry at a place of the order, from 0 on.
    #[must_use]
    pub fn nth(&self, index: usize) -> Option<FieldEntry<'a>> {
        self.iter().nth(index)
    }

    /// All entries, in order.
    #[must_use]
    pub fn iter(&self) -> PackedIter<'a, FieldEntry<'a>> {
        PackedIter::new(self.bytes, self.start, self.header.count)
    }

    /// Sets a field. Says whether the field is new.
    ///
    /// # Errors
    /// [`Full`]: the result would not be a packed hash.
    pub fn set<'b>(&self, field: &'b [u8], value: &'b [u8], due: Due) -> Result<(Edit<'b>, bool), Full> {
        let found = self.look_up(field);
        let before = found.and_then(|found| found.entry.due);
        let due = due.resolve(before);
        let head = Head::new(field.len(), value.len(), due);
        let splice = match found {
            Some(Found { offset, size, entry }) if head.bytes() == entry.head().bytes() => {
                Splice::new(offset + size - entry.value.len(), entry.value.len(), Head::EMPTY, [value, &[]])
            }
            Some(Found { offset, size, .. }) => Splice::new(offset, size, head, [field, value]),
            None => Splice::new(self.bytes.len(), 0, head, [field, value]),
        };
        let count = self.header.count + usize::from(found.is_none());
        let edit = self.with_header(splice, Header { count, due: self.due_after(field, before, due), ..self.header });
        let fits = count <= ELEMENTS_MAX && edit.new_len(self.bytes.len()) <= PACKED_MAX_BYTES;
        if fits { Ok((edit, found.is_none())) } else { Err(Full) }
    }

    /// Gives a field another expiry, or none. None if there is no such field; a field that has it already has an edit that changes
    /// nothing.
    ///
    /// # Errors
    /// [`Full`]: the result would not be a packed hash.
    pub fn set_due<'b>(&self, field: &[u8], due: Option<u64>) -> Option<Result<Edit<'b>, Full>> {
        let Found { offset, entry, .. } = self.look_up(field)?;
        let head = Head::new(entry.field.len(), entry.value.len(), due);
        let splice = Splice::new(offset, entry.head().bytes().len(), head, [&[], &[]]);
        let edit = self.with_header(splice, Header { due: self.due_after(field, entry.due, due), ..self.header });
        Some(if edit.new_len(self.bytes.len()) <= PACKED_MAX_BYTES { Ok(edit) } else { Err(Full) })
    }

    /// Removes a field, and gives its entry. None if there is no such field. A hash without fields is the caller's to remove.
    #[must_use]
    pub fn remove(&self, field: &[u8]) -> Option<(Edit<'static>, FieldEntry<'a>)> {
        let Found { offset, size, entry } = self.look_up(field)?;
        let header = Header { count: self.header.count - 1, due: self.due_after(field, entry.due, None), ..self.header };
        Some((self.with_header(Splice::new(offset, size, Head::EMPTY, [&[], &[]]), header), entry))
    }

    /// Lets OBJECT ENCODING name another encoding.
    #[must_use]
    pub fn set_encoding(&self, encoding: HashEncoding) -> Edit<'static> {
        let head = Header { encoding, ..self.header }.encode();
        Edit::one(Splice::new(0, self.start, head, [&[], &[]]))
    }

    /// Appends to `out` a packed hash of those entries that `keep` keeps, and says how many went. For the expiry of fields:
    /// `retain(|entry| entry.due.is_none_or(|due| due > now), out)`.
    pub fn retain(&self, mut keep: impl FnMut(&FieldEntry<'a>) -> bool, out: &mut Vec<u8>) -> usize {
        let mut header = Header { count: 0, due: None, ..self.header };
        let begin = out.len();
        out.resize(begin + self.start, 0);
        for entry in self.iter().filter(|entry| keep(entry)) {
            header.count += 1;
            header.due = earlier(header.due, entry.due);
            [entry.head().bytes(), entry.field, entry.value].iter().for_each(|piece| out.extend_from_slice(piece));
        }
        out.splice(begin..begin + self.start, header.encode().bytes().iter().copied());
        self.len() - header.count
    }

    /// Whether the bytes are what this module writes: for what comes from a file or the network.
    #[must_use]
    pub fn is_sound(&self) -> bool {
        let entries: usize = self.iter().map(|entry| entry.size()).sum();
        let due = self.iter().fold(None, |due, entry| earlier(due, entry.due));
        let distinct = self.iter().enumerate().all(|(i, entry)| self.iter().take(i).all(|other| other.field != entry.field));
        let whole = self.iter().count() == self.len() && self.start + entries == self.bytes.len();
        whole && due == self.header.due && self.len() <= ELEMENTS_MAX && distinct
    }

    /// The earliest expiry after the field's has changed.
    fn due_after(&self, field: &[u8], before: Option<u64>, after: Option<u64>) -> Option<u64> {
        if before.is_none() || before != self.header.due {
            return earlier(self.header.due, after);
        }
        self.iter().filter(|entry| entry.field != field).fold(after, |due, entry| earlier(due, entry.due))
    }

    fn with_header<'b>(&self, splice: Splice<'b>, header: Header) -> Edit<'b> {
        if header == self.header {
            return Edit::one(splice);
        }
        Edit::two(splice, Splice::new(0, self.start, header.encode(), [&[], &[]]))
    }
}

fn earlier(a: Option<u64>, b: Option<u64>) -> Option<u64> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (one, other) => one.or(other),
    }
}
