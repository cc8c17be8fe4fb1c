//! Copies of records, one behind the other: what a walk has met, or what was saved for one.

use crate::changes::Body;
use crate::record::heap::SharedValue;
use crate::record::key::Key;
use crate::record::put::Put;
use crate::record::{Header, Kind, Record};
use crate::session::View;
use std::ops::Range;

/// Bytes for which a container that is emptied keeps its memory.
const BYTES_KEPT: usize = 1 << 20;
/// Bytes as which a snapshot of an object counts: what is copied of it is one path for each change.
const SNAPSHOT_BYTES: usize = 4096;

/// Copies of records. Large values are counted references: strings as they are, objects as snapshots.
#[derive(Debug, Default)]
pub struct Records {
    items: Vec<Item>,
    /// Keys and values, one behind the other.
    bytes: Vec<u8>,
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

#[derive(Debug)]
struct Item {
    key: Range<usize>,
    /// None: there was no record.
    value: Option<Value>,
    put: Put,
    sequence: u64,
    generation: u64,
    namespace: u16,
    kind: Kind,
    heat: u8,
}

#[derive(Debug)]
enum Value {
    Bytes(Range<usize>),
    Shared(SharedValue),
}

/// What is copied beside a record's bytes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Beside {
    pub(crate) heat: u64,
    pub(crate) sequence: u64,
    pub(crate) generation: u64,
}

impl Records {
    /// How many there are, keys without a record included.
    #[must_use]
    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// All of them, in order.
    pub fn iter(&self) -> impl Iterator<Item = RecordCopy<'_>> {
        self.items.iter().filter_map(|item| {
            let value = match item.value.as_ref()? {
                Value::Bytes(range) => Body::Bytes(&self.bytes[range.clone()]),
                Value::Shared(value) => Body::Shared(value),
            };
            let Item { namespace, kind, put, sequence, generation, .. } = *item;
            let heat = u64::from(item.heat);
            Some(RecordCopy { namespace, key: self.key(item), kind, value, put, heat, sequence, generation })
        })
    }

    /// Lets go of all of them.
    pub fn clear(&mut self) {
        self.items.clear();
        self.items.shrink_to(BYTES_KEPT / size_of::<Item>());
        self.bytes.clear();
        self.bytes.shrink_to(BYTES_KEPT);
    }

    /// Bytes of memory that they take, about.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.items.capacity() * size_of::<Item>() + self.bytes.capacity()
    }

    /// Bytes of keys and small values.
    pub(crate) fn bytes_len(&self) -> usize {
        self.bytes.len()
    }

    /// Copies a record whose bucket is latched. Returns the bytes that it takes beside this container.
    pub(crate) fn push(&mut self, namespace: u16, key: &[u8], record: Record, header: Header, beside: Beside) -> usize {
        debug_assert_ne!(namespace, 0, "INV-NS-1: zero names no namespace");
        debug_assert!(beside.heat <= u64::from(u8::MAX), "heat stays in its bits");
        let view = View::latched(record, header);
        let mut held = 0;
        let key = self.keep(key);
        let value = match view.shared() {
            Some(value) => {
                held = if value.as_object().is_some() { SNAPSHOT_BYTES.min(value.memory_bytes()) } else { value.memory_bytes() };
                Value::Shared(value)
            }
            None => Value::Bytes(self.keep(view.bytes().unwrap_or_default())),
        };
        let put = Put { expiry_ms: view.expiry_ms(), etag: view.etag(), edited: view.is_edited() };
        let Beside { heat, sequence, generation } = beside;
        let (kind, heat) = (view.kind(), heat as u8);
        self.items.push(Item { namespace, kind, key, value: Some(value), put, heat, sequence, generation });
        held
    }

    /// Notes that a key has no record.
    pub(crate) fn push_absent(&mut self, key: &Key<'_>) {
        let namespace = key.namespace;
        debug_assert_ne!(namespace, 0, "INV-NS-1: zero names no namespace");
        let key = self.keep(key.bytes);
        let (kind, put) = (Kind::String, Put::default());
        self.items.push(Item { namespace, kind, key, value: None, put, heat: 0, sequence: 0, generation: 0 });
    }

    /// Whether the record with this number is of this key.
    pub(crate) fn is_of(&self, at: usize, namespace: u16, key: &[u8]) -> bool {
        self.items.get(at).is_some_and(|item| item.namespace == namespace && self.key(item) == key)
    }

    /// Lets go of those from this position on.
    pub(crate) fn truncate(&mut self, len: usize) {
        debug_assert!(len <= self.items.len(), "INV-COPY-1: what was copied is taken back, never made up");
        if let Some(item) = self.items.get(len) {
            self.bytes.truncate(item.key.start);
            self.items.truncate(len);
        }
    }

    /// Takes all of another container over.
    pub(crate) fn append(&mut self, other: Self) {
        let offset = self.bytes.len();
        debug_assert!(other.items.last().is_none_or(|last| last.key.end <= other.bytes.len()), "INV-COPY-1: a copy has its bytes");
        if offset == 0 && self.items.is_empty() {
            *self = other;
            return;
        }
        self.bytes.extend_from_slice(&other.bytes);
        let moved = |range: Range<usize>| range.start + offset..range.end + offset;
        self.items.extend(other.items.into_iter().map(|item| {
            let value = item.value.map(|value| match value {
                Value::Bytes(range) => Value::Bytes(moved(range)),
                shared @ Value::Shared(_) => shared,
            });
            Item { key: moved(item.key), value, ..item }
        }));
    }

    fn key(&self, item: &Item) -> &[u8] {
        debug_assert!(item.key.end <= self.bytes.len(), "INV-COPY-1: a copy has its bytes");
        &self.bytes[item.key.clone()]
    }

    fn keep(&mut self, bytes: &[u8]) -> Range<usize> {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(bytes);
        start..self.bytes.len()
    }
}
