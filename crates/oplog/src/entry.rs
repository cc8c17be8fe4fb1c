//! Entries: what a unit of work did, as bytes.
//!
//! ```text
//! entry        | operation, 4 bits, and flags, 4 bits | contents | key | what the operation has |
//! Set        1 | …, flags: 1 made its key, 2 an image | kind 1 | attributes | value |
//! Write      2 | …                                    | offset | bytes |
//! Attributes 3 | …                                    | attributes |
//! Remove     4 | …, flags: why, 0 asked, 1 expired, 2 evicted, 3 damaged |
//! Edit       5 | …                                    | kind 1 | edits |
//! Expire     6 | …                                    | kind 1 | elements |
//! Database   7 | operation | contents | database |
//! Lost       8 | operation | contents |
//! Functions  9 | operation, flags: what changed | version | libraries |
//! attributes   | 1 expires, 2 a tag, 4 edited | milliseconds since 1970, zigzag | tag |
//! ```
//!
//! Numbers without a width are varints: seven bits to a byte, the lowest first, the eighth bit says that more follow. Keys,
//! values, bytes, edits and elements stand behind their lengths. *Contents* names what a database holds from one FLUSHDB to the
//! next, never the database. A value is what lies in a record, or an image: the parts of an object, each behind its length in
//! four bytes. Of the libraries of functions an entry has 0 all texts that there are, 1 those that were loaded, each in place of
//! the one of its name, or 2 the names of those that were deleted, each behind its length in four bytes. Their version grows by one
//! with each change, and changes count in its order, which is not that of units. What edits and elements mean is their type's.
//!
//! Decoding takes any bytes: what is no entry is none, nothing panics, and nothing is allocated.

/// Longest varint of 64 bits.
const VARINT_BYTES_MAX: usize = 10;
/// Highest kind of a value.
const KIND_MAX: u8 = 5;

const SET: u8 = 1;
const WRITE: u8 = 2;
const ATTRIBUTES: u8 = 3;
const REMOVE: u8 = 4;
const EDIT: u8 = 5;
const EXPIRE: u8 = 6;
const DATABASE: u8 = 7;
const LOST: u8 = 8;
const FUNCTIONS: u8 = 9;

/// What was done to one key, or to a database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogEntry<'e> {
    /// What the key belongs to; of libraries of functions their version.
    pub contents: u64,
    /// The key; none of a database or of what is lost.
    pub key: &'e [u8],
    /// What was done.
    pub operation: Operation<'e>,
}

/// What goes with a value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Attributes {
    /// When it expires, in milliseconds since the Unix epoch.
    pub expiry_ms: Option<i64>,
    /// Its entity tag.
    pub etag: Option<u64>,
    /// Whether it was built or changed in part.
    pub edited: bool,
}

/// A value as an entry has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogValue<'e> {
    /// As it lies in a record.
    Bytes(&'e [u8]),
    /// The parts of an object, each behind its length.
    Image(&'e [u8]),
}

/// Why a key is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// A client asked for it.
    Asked,
    /// It was past its time.
    Expired,
    /// To make room.
    Evicted,
    /// Its bytes on the device were damaged.
    Damaged,
}

/// What was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation<'e> {
    /// The key has this value from now on, whatever it had.
    Set {
        /// Its type.
        kind: u8,
        /// The value.
        value: LogValue<'e>,
        /// What goes with it.
        attributes: Attributes,
        /// Whether there was no such key.
        made: bool,
    },
    /// Bytes of a string were written; a gap between its end and the offset was filled with zeroes. Everything else stays.
    Write {
        /// Where.
        offset: u64,
        /// What.
        bytes: &'e [u8],
    },
    /// The value stays, and this goes with it.
    Attributes(Attributes),
    /// The key is gone.
    Remove(Reason),
    /// Elements of a collection were changed.
    Edit {
        /// The type.
        kind: u8,
        /// What was done, in the words of the type.
        edits: &'e [u8],
    },
    /// Elements of a collection were past their time.
    Expire {
        /// The type.
        kind: u8,
        /// Each behind its length in four bytes.
        elements: &'e [u8],
    },
    /// A database consists of these contents from now on.
    Database(u16),
    /// A record of these contents, or of any where they are 0, was given up whose key cannot be read.
    Lost,
    /// Libraries of functions were changed.
    Functions {
        /// What has changed.
        form: LibraryForm,
        /// Texts, or names of those that were deleted, as [`parts`] reads them.
        libraries: &'e [u8],
    },
}

/// How an entry says which libraries of functions there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum LibraryForm {
    /// By all their texts.
    All = 0,
    /// By the texts of those that were loaded, each in place of the one of its name.
    Loaded = 1,
    /// By the names of those that were deleted.
    Deleted = 2,
}

impl LogEntry<'_> {
    /// Bytes that its encoding does not exceed.
    #[inline(always)]
    #[must_use]
    pub fn bytes_max(&self) -> usize {
        let payload = match self.operation {
            Operation::Set { value: LogValue::Bytes(bytes) | LogValue::Image(bytes), .. }
            | Operation::Write { bytes, .. }
            | Operation::Edit { edits: bytes, .. }
            | Operation::Expire { elements: bytes, .. }
            | Operation::Functions { libraries: bytes, .. } => bytes.len(),
            Operation::Attributes(_) | Operation::Remove(_) | Operation::Database(_) | Operation::Lost => 0,
        };
        NUMBERS_BYTES_MAX + self.key.len() + payload
    }

    /// Appends the entry to `out`. Where the operation is known, little of it is left.
    #[inline(always)]
    pub fn encode(&self, out: &mut impl Sink) {
        let (operation, flags) = match self.operation {
            Operation::Set { made, value, .. } => (SET, u8::from(made) | u8::from(matches!(value, LogValue::Image(_))) << 1),
            Operation::Write { .. } => (WRITE, 0),
            Operation::Attributes(_) => (ATTRIBUTES, 0),
            Operation::Remove(reason) => (REMOVE, reason as u8),
            Operation::Edit { .. } => (EDIT, 0),
            Operation::Expire { .. } => (EXPIRE, 0),
            Operation::Database(_) => (DATABASE, 0),
            Operation::Lost => (LOST, 0),
            Operation::Functions { form, .. } => (FUNCTIONS, form as u8),
        };
        let mut head = Few { out, bytes: 0, len: 0 };
        if let Operation::Set { kind, value: LogValue::Bytes(value), attributes, .. } = self.operation
            && let Some(contents) = Short::of(self.contents)
            && attributes.is_plain()
        {
            let made = flags & 1 != 0;
            let set = PlainSet { contents: self.contents, key: self.key, kind, edited: attributes.edited, made, value };
            if set.encode(contents, head.out) {
                return;
            }
        }
        head.push(operation | flags << 4);
        head.number(self.contents);
        if !matches!(self.operation, Operation::Database(_) | Operation::Lost | Operation::Functions { .. }) {
            head.bytes(self.key);
        }
        match self.operation {
            Operation::Set { kind, value: LogValue::Bytes(value) | LogValue::Image(value), attributes, .. } => {
                head.push(kind);
                attributes.encode(&mut head);
                head.bytes(value);
            }
            Operation::Write { offset, bytes: written } => {
                head.number(offset);
                head.bytes(written);
            }
            Operation::Attributes(attributes) => attributes.encode(&mut head),
            Operation::Edit { kind, edits } | Operation::Expire { kind, elements: edits } => {
                head.push(kind);
                head.bytes(edits);
            }
            Operation::Database(database) => head.number(u64::from(database)),
            Operation::Functions { libraries, .. } => head.bytes(libraries),
            Operation::Remove(_) | Operation::Lost => {}
        }
        head.flush();
    }
}

/// What nearly all entries are: a key has a value that lies in its record, and what goes with it are flags.
#[derive(Clone, Copy, Debug)]
pub struct PlainSet<'e> {
    /// What the key belongs to.
    pub contents: u64,
    /// The key.
    pub key: &'e [u8],
    /// The type of the value.
    pub kind: u8,
    /// Whether the value was built or changed in part.
    pub edited: bool,
    /// Whether there was no such key.
    pub made: bool,
    /// The value.
    pub value: &'e [u8],
}

impl PlainSet<'_> {
    /// Bytes that its encoding does not exceed.
    #[inline(always)]
    pub(crate) fn bytes_max(&self) -> usize {
        NUMBERS_BYTES_MAX + self.key.len() + self.value.len()
    }

    /// The numbers of its encoding. None: its key or value is long.
    #[inline(always)]
    pub(crate) fn numbers(&self, contents: Short) -> Option<PlainNumbers> {
        let len = Short::of(self.value.len() as u64)?;
        (self.key.len() < 0x80).then_some(PlainNumbers { contents, len })
    }

    /// Bytes of its encoding.
    #[inline(always)]
    pub(crate) fn bytes(&self, PlainNumbers { contents, len }: PlainNumbers) -> usize {
        4 + contents.len + len.len + self.key.len() + self.value.len()
    }

    /// Appends the entry to `out`, put together in registers. False, and nothing is appended: its key or value is long.
    #[inline(always)]
    pub(crate) fn encode(&self, contents: Short, out: &mut impl Sink) -> bool {
        self.numbers(contents).map(|numbers| self.write(numbers, out)).is_some()
    }

    /// Appends the entry, whose numbers these are, to `out`.
    #[inline(always)]
    pub(crate) fn write(&self, PlainNumbers { contents, len }: PlainNumbers, out: &mut impl Sink) {
        let first = u64::from(SET | u8::from(self.made) << 4);
        let flags = u64::from(self.edited) << 2;
        out.few(first | contents.bytes << 8 | (self.key.len() as u64) << (8 + 8 * contents.len), 2 + contents.len);
        out.many(self.key);
        out.few(u64::from(self.kind) | flags << 8 | len.bytes << 16, 2 + len.len);
        out.many(self.value);
    }
}

/// The numbers of a plain entry, as it has them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PlainNumbers {
    contents: Short,
    /// The length of the value.
    len: Short,
}

impl<'e> LogEntry<'e> {
    /// The first entry of some bytes, and what follows it. None: they do not begin with an entry.
    #[must_use]
    pub fn split(bytes: &'e [u8]) -> Option<(Self, &'e [u8])> {
        let mut rest = Bytes(bytes);
        let first = rest.byte()?;
        let (operation, flags) = (first & 0xF, first >> 4);
        let contents = rest.number()?;
        let key = if matches!(operation, DATABASE | LOST | FUNCTIONS) { &[][..] } else { rest.bytes()? };
        let operation = match (operation, flags) {
            (SET, 0..=3) => {
                let (kind, attributes, bytes) = (rest.kind()?, rest.attributes()?, rest.bytes()?);
                let value = if flags & 2 == 0 { LogValue::Bytes(bytes) } else { LogValue::Image(bytes) };
                Operation::Set { kind, value, attributes, made: flags & 1 != 0 }
            }
            (WRITE, 0) => Operation::Write { offset: rest.number()?, bytes: rest.bytes()? },
            (ATTRIBUTES, 0) => Operation::Attributes(rest.attributes()?),
            (REMOVE, 0) => Operation::Remove(Reason::Asked),
            (REMOVE, 1) => Operation::Remove(Reason::Expired),
            (REMOVE, 2) => Operation::Remove(Reason::Evicted),
            (REMOVE, 3) => Operation::Remove(Reason::Damaged),
            (EDIT, 0) => Operation::Edit { kind: rest.kind()?, edits: rest.bytes()? },
            (EXPIRE, 0) => Operation::Expire { kind: rest.kind()?, elements: rest.bytes()? },
            (DATABASE, 0) => Operation::Database(u16::try_from(rest.number()?).ok()?),
            (LOST, 0) => Operation::Lost,
            (FUNCTIONS, 0) => Operation::Functions { form: LibraryForm::All, libraries: rest.bytes()? },
            (FUNCTIONS, 1) => Operation::Functions { form: LibraryForm::Loaded, libraries: rest.bytes()? },
            (FUNCTIONS, 2) => Operation::Functions { form: LibraryForm::Deleted, libraries: rest.bytes()? },
            _ => return None,
        };
        Some((Self { contents, key, operation }, rest.0))
    }
}

/// The entries of a unit, in their order; the last item is an error where bytes are left that are no entry.
pub fn entries(mut bytes: &[u8]) -> impl Iterator<Item = Result<LogEntry<'_>, NoEntry>> {
    std::iter::from_fn(move || {
        if bytes.is_empty() {
            return None;
        }
        let Some((entry, rest)) = LogEntry::split(bytes) else {
            bytes = &[];
            return Some(Err(NoEntry));
        };
        bytes = rest;
        Some(Ok(entry))
    })
}

/// Bytes that are no entry, or one of a later version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoEntry;

impl std::fmt::Display for NoEntry {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("bytes of a unit of work are no entry that this version knows")
    }
}

impl std::error::Error for NoEntry {}

/// The parts of an image.
pub fn parts(mut image: &[u8]) -> impl Iterator<Item = Option<&[u8]>> {
    std::iter::from_fn(move || {
        if image.is_empty() {
            return None;
        }
        let part = image.split_first_chunk().and_then(|(len, rest)| rest.split_at_checked(u32::from_le_bytes(*len) as usize));
        image = part.map_or(&[], |(_, rest)| rest);
        Some(part.map(|(part, _)| part))
    })
}

impl Attributes {
    #[inline(always)]
    fn flags(self) -> u8 {
        u8::from(self.expiry_ms.is_some()) | u8::from(self.etag.is_some()) << 1 | u8::from(self.edited) << 2
    }

    /// Whether its flags are all that there is to it.
    #[inline(always)]
    fn is_plain(self) -> bool {
        self.expiry_ms.is_none() && self.etag.is_none()
    }

    #[inline(always)]
    fn encode(self, head: &mut Few<'_, impl Sink>) {
        head.push(self.flags());
        if let Some(expiry_ms) = self.expiry_ms {
            head.number(((expiry_ms << 1) ^ (expiry_ms >> 63)).cast_unsigned());
        }
        if let Some(etag) = self.etag {
            head.number(etag);
        }
    }
}

/// Takes the bytes of entries.
pub trait Sink {
    /// Takes at most eight bytes, the first in the lowest place; those above are zeroes.
    fn few(&mut self, bytes: u64, count: usize);

    /// Takes bytes.
    fn many(&mut self, bytes: &[u8]);
}

impl Sink for Vec<u8> {
    #[inline]
    fn few(&mut self, bytes: u64, count: usize) {
        self.extend_from_slice(&bytes.to_le_bytes()[..count]);
    }

    #[inline]
    fn many(&mut self, bytes: &[u8]) {
        self.extend_from_slice(bytes);
    }
}

/// The most that numbers and flags of an entry take: operation, contents, length of the key; kind, attributes with two numbers,
/// length of the value.
const NUMBERS_BYTES_MAX: usize = 3 + 5 * VARINT_BYTES_MAX;

/// A number of up to 28 bits as a varint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Short {
    bytes: u64,
    len: usize,
}

impl Short {
    #[inline(always)]
    pub(crate) fn of(number: u64) -> Option<Self> {
        if number < 0x80 { Some(Self { bytes: number, len: 1 }) } else { Self::of_more(number) }
    }

    fn of_more(number: u64) -> Option<Self> {
        let len = (70 - (number | 1).leading_zeros() as usize) / 7;
        let spread = number & 0x7F | number << 1 & 0x7F00 | number << 2 & 0x7F_0000 | number << 3 & 0x7F00_0000;
        let more = 0x0080_8080 & ((1 << (8 * (len.min(4) - 1))) - 1);
        (number < 1 << 28).then_some(Self { bytes: spread | more, len })
    }
}

/// Few bytes that are put together in a register.
struct Few<'o, S> {
    out: &'o mut S,
    bytes: u64,
    len: usize,
}

impl<S: Sink> Few<'_, S> {
    #[inline(always)]
    fn push(&mut self, byte: u8) {
        if self.len == size_of::<u64>() {
            self.flush();
        }
        self.bytes |= u64::from(byte) << (8 * self.len);
        self.len += 1;
    }

    #[inline(always)]
    fn number(&mut self, mut number: u64) {
        while number >= 0x80 {
            self.push(number as u8 | 0x80);
            number >>= 7;
        }
        self.push(number as u8);
    }

    /// Bytes behind their length.
    #[inline(always)]
    fn bytes(&mut self, bytes: &[u8]) {
        self.number(bytes.len() as u64);
        self.flush();
        self.out.many(bytes);
    }

    /// Gives them away, and begins anew.
    #[inline(always)]
    fn flush(&mut self) {
        self.out.few(self.bytes, self.len);
        (self.bytes, self.len) = (0, 0);
    }
}

/// Bytes that are taken from the front.
struct Bytes<'b>(&'b [u8]);

impl<'b> Bytes<'b> {
    fn byte(&mut self) -> Option<u8> {
        let (&first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(first)
    }

    fn number(&mut self) -> Option<u64> {
        let mut number = 0;
        for at in 0..VARINT_BYTES_MAX {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7F);
            // Of the tenth byte one bit is left; and a number has one form.
            if at == VARINT_BYTES_MAX - 1 && bits > 1 || at > 0 && byte == 0 {
                return None;
            }
            number |= bits << (7 * at);
            if byte & 0x80 == 0 {
                return Some(number);
            }
        }
        None
    }

    fn bytes(&mut self) -> Option<&'b [u8]> {
        let len = usize::try_from(self.number()?).ok()?;
        let (bytes, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(bytes)
    }

    fn kind(&mut self) -> Option<u8> {
        self.byte().filter(|kind| *kind <= KIND_MAX)
    }

    fn attributes(&mut self) -> Option<Attributes> {
        let flags = self.byte().filter(|flags| *flags < 8)?;
        let mut attributes = Attributes { edited: flags & 4 != 0, ..Attributes::default() };
        if flags & 1 != 0 {
            let zigzag = self.number()?;
            attributes.expiry_ms = Some((zigzag >> 1).cast_signed() ^ -(zigzag & 1).cast_signed());
        }
        if flags & 2 != 0 {
            attributes.etag = Some(self.number()?);
        }
        Some(attributes)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn all() -> Vec<LogEntry<'static>> {
        let attributes = Attributes { expiry_ms: Some(1_700_000_000_000), etag: Some(300), edited: true };
        let set = |value, attributes, made| Operation::Set { kind: 0, value, attributes, made };
        let operations = [
            set(LogValue::Bytes(b"value"), Attributes::default(), true),
            set(LogValue::Image(b"\x01\0\0\0p"), attributes, false),
            Operation::Write { offset: 129, bytes: b"xy" },
            Operation::Attributes(Attributes { expiry_ms: Some(-1), ..Attributes::default() }),
            Operation::Attributes(Attributes { expiry_ms: Some(i64::MIN), etag: Some(u64::MAX), edited: false }),
            Operation::Remove(Reason::Asked),
            Operation::Remove(Reason::Expired),
            Operation::Remove(Reason::Evicted),
            Operation::Remove(Reason::Damaged),
            Operation::Edit { kind: 2, edits: b"edits" },
            Operation::Expire { kind: 4, elements: b"\x01\0\0\0e" },
        ];
        let keyed = operations.map(|operation| LogEntry { contents: 65_537, key: b"key", operation });
        let forms = [LibraryForm::All, LibraryForm::Loaded, LibraryForm::Deleted];
        let functions = forms.map(|form| Operation::Functions { form, libraries: b"\x01\0\0\0x" });
        let unkeyed = [Operation::Database(15), Operation::Lost].into_iter().chain(functions);
        keyed.into_iter().chain(unkeyed.map(|operation| LogEntry { contents: 3, key: b"", operation })).collect()
    }

    fn encoded(entry: &LogEntry<'_>) -> Vec<u8> {
        let mut bytes = Vec::new();
        entry.encode(&mut bytes);
        bytes
    }

    #[test]
    fn entries_come_back() {
        let (all, mut bytes) = (all(), Vec::new());
        all.iter().for_each(|entry| entry.encode(&mut bytes));
        assert_eq!(entries(&bytes).collect::<Result<Vec<_>, _>>().as_deref(), Ok(&all[..]));
    }

    #[test]
    fn numbers_of_all_lengths_have_one_form() {
        for bits in 0..64u32 {
            for number in [(1u64 << bits) - 1, 1 << bits, (1 << bits) + 1] {
                let mut out = Vec::new();
                let mut few = Few { out: &mut out, bytes: 0, len: 0 };
                few.number(number);
                few.flush();
                assert_eq!(Bytes(&out).number(), Some(number));
                let brief = Short::of(number).map(|Short { bytes, len }| bytes.to_le_bytes()[..len].to_vec());
                assert_eq!(brief, (number < 1 << 28).then_some(out), "{number}");
            }
        }
    }

    /// The bytes that `docs/FORMATS.md` shows.
    #[test]
    fn the_format_is_the_documented_one() {
        let all = all();
        assert_eq!(encoded(&all[0]), b"\x11\x81\x80\x04\x03key\0\0\x05value");
        assert_eq!(encoded(&all[1]), b"\x21\x81\x80\x04\x03key\0\x07\x80\xA0\xAB\xFE\xF9\x62\xAC\x02\x05\x01\0\0\0p");
        assert_eq!(encoded(&all[2]), b"\x02\x81\x80\x04\x03key\x81\x01\x02xy");
        assert_eq!(encoded(&all[6]), b"\x14\x81\x80\x04\x03key");
        assert_eq!(encoded(&all[9]), b"\x05\x81\x80\x04\x03key\x02\x05edits");
        assert_eq!((encoded(&all[11]), encoded(&all[12])), (b"\x07\x03\x0F".to_vec(), b"\x08\x03".to_vec()));
        // The first form is that of logs of earlier versions.
        for (entry, first) in all[13..].iter().zip([0x09, 0x19, 0x29]) {
            assert_eq!(encoded(entry), [first, 3, 5, 1, 0, 0, 0, b'x']);
        }
    }

    #[test]
    fn what_is_cut_or_changed_is_another_entry_or_none() {
        for entry in all() {
            let bytes = encoded(&entry);
            assert!(bytes.len() <= entry.bytes_max());
            for len in 0..bytes.len() {
                assert_eq!(LogEntry::split(&bytes[..len]), None, "{entry:?} cut at {len}");
            }
            for at in 0..bytes.len() {
                for bit in 0..8 {
                    let mut changed = bytes.clone();
                    changed[at] ^= 1 << bit;
                    let other = LogEntry::split(&changed).map(|(other, _)| other);
                    assert_ne!(other, Some(entry), "bit {bit} of byte {at} means nothing");
                    if let Some((other, rest)) = LogEntry::split(&changed) {
                        assert_eq!(encoded(&other), changed[..changed.len() - rest.len()], "an entry has one form");
                    }
                }
            }
        }
    }

    #[test]
    fn hostile_bytes_are_no_entries() {
        let mut random = 1u64;
        for _ in 0..200_000 {
            let mut bytes = [0; 24];
            for byte in &mut bytes {
                random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                *byte = (random >> 56) as u8 & if random & 1 << 40 == 0 { 0x0F } else { 0xFF };
            }
            assert!(entries(&bytes).count() <= bytes.len());
        }
        let mut endless = vec![WRITE, 1, 1, b'k'];
        endless.extend_from_slice(&[0xFF; 11]);
        assert_eq!(LogEntry::split(&endless), None);
        assert_eq!(entries(&[0x0F]).collect::<Vec<_>>(), [Err(NoEntry)]);
    }

    #[test]
    fn parts_of_an_image_are_whole_or_none() {
        let image = [&2u32.to_le_bytes()[..], b"ab", &0u32.to_le_bytes()].concat();
        assert_eq!(parts(&image).collect::<Vec<_>>(), [Some(&b"ab"[..]), Some(b"")]);
        assert_eq!(parts(&image[..5]).collect::<Vec<_>>(), [None]);
    }
}
