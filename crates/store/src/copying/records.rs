//! Copies of records, one behind the other: what a walk has met, or what was saved for one.
//!
//! ```text
//! copy | flags 1 | kind 1 | heat 1 | 0 1 | namespace 2 | 0 2 | bytes of the key 4 | of the value 4 |
//!      | expiry 8, if it has one | tag 8, if it has one | sequence 8, generation 8, if it has them | key | value
//! ```
//! In the machine's order of bytes: nothing of it leaves the process.

use crate::changes::Body;
use crate::record::heap::SharedValue;
use crate::record::put::Put;
use crate::record::{Header, Kind, Record};
use crate::session::View;

/// Bytes for which a container that is emptied keeps its memory.
const BYTES_KEPT: usize = 1 << 20;
/// Bytes as which a snapshot of an object counts: what is copied of it is one path for each change.
const SNAPSHOT_BYTES: usize = 4096;
/// Bytes of the part of a head that each copy has, and of the whole of it at most.
const HEAD_BYTES: usize = 16;
const HEAD_BYTES_MAX: usize = HEAD_BYTES + 4 * size_of::<u64>();

const IS_ABSENT: u8 = 1;
const IS_SHARED: u8 = 2;
const HAS_EXPIRY: u8 = 4;
const HAS_ETAG: u8 = 8;
const IS_EDITED: u8 = 16;
const HAS_NUMBERS: u8 = 32;

/// Copies of records. Large values are counted references: strings as they are, objects as snapshots.
#[derive(Debug, Default)]
pub struct Records {
    /// The copies.
    bytes: Vec<u8>,
    /// Their large values, in their order.
    shared: Vec<SharedValue>,
    len: usize,
    /// Keys whose records were not copied, because they stay on the device.
    cold: Vec<ColdKey>,
}

/// A key whose record is on the device only, as a base of the operation log keeps it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ColdKey {
    /// Where its record is.
    pub address: u64,
    /// The low bits of its hash, as far as they are known.
    pub hash: u64,
    /// How many are.
    pub known_bits: u32,
    /// How warm it was.
    pub heat: u64,
    /// A copy of it was in memory.
    pub was_copied: bool,
}

/// A record's copy.
#[derive(Clone, Copy, Debug)]
pub struct RecordCopy<'r> {
    /// The namespace.
    pub namespace: u16,
    /// The key.
    pub key: &'r [u8],
    /// What the value is.
    pub kind: Kind,
    /// The value.
    pub value: Body<'r>,
    /// What goes with it.
    pub put: Put,
    /// How warm the key was, by the rule of that time ([`crate::HeatRule`]).
    pub heat: u64,
    /// The sequence of the last effect on the key, or on a neighbour ([`crate::Change::sequence`]); 0 in copies of one moment.
    pub sequence: u64,
    /// The contents that the key belongs to ([`crate::Change::generation`]); 0 in copies of one moment.
    pub generation: u64,
}

/// What is copied beside a record's bytes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Beside {
    pub(crate) heat: u64,
    pub(crate) sequence: u64,
    pub(crate) generation: u64,
}

/// A place between two copies.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RecordsEnd {
    bytes: usize,
    shared: usize,
    len: usize,
    cold: usize,
}

/// The part of a copy before its key.
struct Head {
    bytes: [u8; HEAD_BYTES_MAX],
    len: usize,
}

impl Head {
    #[inline]
    fn new(namespace: u16, kind: Kind, heat: u8, key: usize, value: usize) -> Self {
        debug_assert_ne!(namespace, 0, "INV-NS-1: zero names no namespace");
        debug_assert!(u32::try_from(key.max(value)).is_ok(), "INV-COPY-1: longer values are shared");
        let mut bytes = [0; HEAD_BYTES_MAX];
        (bytes[1], bytes[2]) = (kind as u8, heat);
        bytes[4..6].copy_from_slice(&namespace.to_ne_bytes());
        bytes[8..12].copy_from_slice(&(key as u32).to_ne_bytes());
        bytes[12..16].copy_from_slice(&(value as u32).to_ne_bytes());
        Self { bytes, len: HEAD_BYTES }
    }

    #[inline]
    fn flag(&mut self, flag: u8, words: &[u64]) {
        debug_assert_eq!(self.bytes[0] & flag, 0, "INV-COPY-1: a flag is said once");
        self.bytes[0] |= flag;
        for word in words {
            self.bytes[self.len..self.len + 8].copy_from_slice(&word.to_ne_bytes());
            self.len += 8;
        }
    }
}

/// Copies a record whose bucket is latched by `put`. Returns its value if that is large, with the bytes that it takes.
#[inline]
pub(super) fn encode(
    namespace: u16,
    key: &[u8],
    (record, header): (Record, Header),
    beside: Beside,
    mut put: impl FnMut(&[u8]),
) -> Option<(SharedValue, usize)> {
    debug_assert!(beside.heat <= u64::from(u8::MAX), "heat stays in its bits");
    let view = View::latched(record, header);
    let shared = view.shared();
    let value = if shared.is_some() { &[][..] } else { view.bytes().unwrap_or_default() };
    let mut head = Head::new(namespace, view.kind(), beside.heat as u8, key.len(), value.len());
    if shared.is_some() {
        head.flag(IS_SHARED, &[]);
    }
    if view.is_edited() {
        head.flag(IS_EDITED, &[]);
    }
    if let Some(expiry_ms) = view.expiry_ms() {
        head.flag(HAS_EXPIRY, &[expiry_ms.cast_unsigned()]);
    }
    if let Some(etag) = view.etag() {
        head.flag(HAS_ETAG, &[etag]);
    }
    if (beside.sequence, beside.generation) != (0, 0) {
        head.flag(HAS_NUMBERS, &[beside.sequence, beside.generation]);
    }
    debug_assert!(head.len <= HEAD_BYTES_MAX, "INV-COPY-1: a head has its room");
    put(&head.bytes[..head.len]);
    put(key);
    put(value);
    shared.map(|value| {
        let bytes = value.memory_bytes();
        let held = if value.as_object().is_some() { SNAPSHOT_BYTES.min(bytes) } else { bytes };
        (value, held)
    })
}

/// Notes by `put` that a key has no record.
pub(super) fn encode_absent(namespace: u16, key: &[u8], mut put: impl FnMut(&[u8])) {
    let mut head = Head::new(namespace, Kind::String, 0, key.len(), 0);
    head.flag(IS_ABSENT, &[]);
    put(&head.bytes[..head.len]);
    put(key);
}

impl Records {
    /// How many there are, keys without a record included.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// All of them, in order, but for keys without a record.
    pub fn iter(&self) -> impl Iterator<Item = RecordCopy<'_>> {
        let (mut rest, mut shared) = (&self.bytes[..], self.shared.iter());
        std::iter::from_fn(move || {
            loop {
                let (head, behind) = rest.split_first_chunk::<HEAD_BYTES>()?;
                let (copy, behind) = decode(head, behind, &mut shared);
                rest = behind;
                if copy.is_some() {
                    return copy;
                }
            }
        })
    }

    /// Lets go of all of them.
    pub fn clear(&mut self) {
        self.truncate(RecordsEnd::default());
        self.shared.shrink_to(BYTES_KEPT / size_of::<SharedValue>());
        self.bytes.shrink_to(BYTES_KEPT);
    }

    /// Bytes of their keys and small values, and of what goes with them.
    pub(crate) fn bytes_len(&self) -> usize {
        self.bytes.len()
    }

    /// Copies a record whose bucket is latched.
    pub(crate) fn push(&mut self, namespace: u16, key: &[u8], record: Record, header: Header, beside: Beside) {
        let shared = encode(namespace, key, (record, header), beside, |bytes| self.bytes.extend_from_slice(bytes));
        self.shared.extend(shared.map(|(value, _)| value));
        self.len += 1;
        debug_assert!(self.shared.len() <= self.len, "INV-COPY-1: a copy has one value");
    }

    /// Keys whose records stay on the device.
    #[must_use]
    pub fn cold(&self) -> &[ColdKey] {
        &self.cold
    }

    /// Names a key whose record stays on the device.
    pub(crate) fn push_cold(&mut self, cold: ColdKey) {
        debug_assert!(cold.known_bits <= u64::BITS && cold.address != 0, "INV-LOG-1: no record is at address 0");
        self.cold.push(cold);
    }

    /// Behind the last one.
    pub(crate) fn end(&self) -> RecordsEnd {
        debug_assert!(self.bytes.len() >= self.len * HEAD_BYTES, "INV-COPY-1: a copy has its bytes");
        RecordsEnd { bytes: self.bytes.len(), shared: self.shared.len(), len: self.len, cold: self.cold.len() }
    }

    /// Lets go of those from this place on.
    pub(crate) fn truncate(&mut self, end: RecordsEnd) {
        debug_assert!(end.len <= self.len, "INV-COPY-1: what was copied is taken back, never made up");
        self.bytes.truncate(end.bytes);
        self.shared.truncate(end.shared);
        self.cold.truncate(end.cold);
        self.len = end.len;
    }

    /// Takes over bytes of copies; [`Records::extend_with`] follows when they are whole.
    pub(super) fn extend(&mut self, bytes: &[u8]) {
        debug_assert!(bytes.len() <= super::chunks::CHUNK_BYTES, "INV-COPY-1: what was saved comes by chunks");
        self.bytes.extend_from_slice(bytes);
    }

    /// Takes over the large values of this many copies whose bytes it has.
    pub(super) fn extend_with(&mut self, len: usize, shared: Vec<SharedValue>) {
        debug_assert!(shared.len() <= len, "INV-COPY-1: a copy has one value");
        self.shared.extend(shared);
        self.len += len;
    }
}

/// The copy with this head, or nothing for a key without a record, and what is behind it.
#[inline]
fn decode<'r>(
    head: &[u8; HEAD_BYTES],
    mut rest: &'r [u8],
    shared: &mut std::slice::Iter<'r, SharedValue>,
) -> (Option<RecordCopy<'r>>, &'r [u8]) {
    let length = |at: usize| u32::from_ne_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]) as usize;
    let mut word = || {
        let (word, behind) = rest.split_first_chunk::<8>().unwrap_or((&[0; 8], &[]));
        rest = behind;
        u64::from_ne_bytes(*word)
    };
    let has = |flag| head[0] & flag != 0;
    let expiry_ms = has(HAS_EXPIRY).then(&mut word).map(u64::cast_signed);
    let etag = has(HAS_ETAG).then(&mut word);
    let (sequence, generation) = if has(HAS_NUMBERS) { (word(), word()) } else { (0, 0) };
    debug_assert!(length(8) + length(12) <= rest.len(), "INV-COPY-1: a copy has its bytes");
    let (key, behind) = rest.split_at(length(8));
    let (value, behind) = behind.split_at(length(12));
    if has(IS_ABSENT) {
        return (None, behind);
    }
    let value = match has(IS_SHARED) {
        true => shared.next().map(Body::Shared),
        false => Some(Body::Bytes(value)),
    };
    debug_assert!(value.is_some(), "INV-COPY-1: a copy has its value");
    let (namespace, kind) = (u16::from_ne_bytes([head[4], head[5]]), Kind::of(head[1]));
    let put = Put { expiry_ms, etag, edited: has(IS_EDITED) };
    let heat = u64::from(head[2]);
    (value.map(|value| RecordCopy { namespace, key, kind, value, put, heat, sequence, generation }), behind)
}
