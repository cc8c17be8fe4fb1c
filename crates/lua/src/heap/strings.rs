//! Strings: short ones are interned when they are made; long ones, and those that a run is given, when they become a key of a
//! table.
//!
//! So tables compare keys by reference, and a string that is only passed on is never hashed. The hash is seeded.

use super::slab::Slab;
use crate::value::StringRef;

/// Longest string that is interned at once.
const SHORT_MAX: usize = 40;
const NONE: u32 = u32::MAX;
/// Buckets that a region leaves to the next one at most, unless older strings need more.
const BUCKETS_KEPT: usize = 8192;
/// What an object costs beside its bytes.
pub(super) const OVERHEAD: usize = size_of::<LuaString>() + 1;

/// Copies `N` to `2 N` bytes: the first `N` and the last ones.
#[inline(always)]
fn copy_ends<const N: usize>(to: &mut [u8; SHORT_MAX], from: &[u8]) {
    if let (Some(first), Some(last)) = (from.first_chunk::<N>(), from.last_chunk::<N>()) {
        to[..N].copy_from_slice(first);
        to[from.len() - N..from.len()].copy_from_slice(last);
    }
}

/// The bytes of a string. Those of a short one are in its slot: making and dropping it takes no memory from the allocator.
#[derive(Debug)]
enum Bytes {
    Short { length: u8, bytes: [u8; SHORT_MAX] },
    Long(Box<[u8]>),
}

impl Bytes {
    /// Fills those of an empty string.
    #[inline]
    fn fill(&mut self, bytes: &[u8]) {
        let Self::Short { bytes: own, length: own_length } = self else { return };
        let length = bytes.len();
        *own_length = length as u8;
        // No copying of a length that is not known: the parts overlap.
        match bytes {
            [] => {}
            [first, ..] if length < 4 => {
                own[0] = *first;
                own[length / 2] = bytes[length / 2];
                own[length - 1] = bytes[length - 1];
            }
            _ if length < 8 => copy_ends::<4>(own, bytes),
            _ if length <= 16 => copy_ends::<8>(own, bytes),
            _ if length <= 32 => copy_ends::<16>(own, bytes),
            _ => own[..length].copy_from_slice(bytes),
        }
    }

    #[inline]
    fn as_slice(&self) -> &[u8] {
        match self {
            Self::Short { length, bytes } => &bytes[..usize::from(*length)],
            Self::Long(bytes) => bytes,
        }
    }

    /// What they take beside the slot.
    fn size(&self) -> usize {
        if let Self::Long(bytes) = self { bytes.len() } else { 0 }
    }
}

impl Default for Bytes {
    fn default() -> Self {
        Self::Short { length: 0, bytes: [0; SHORT_MAX] }
    }
}

/// As long as a cache line. It is not aligned to one: allocators grow what is in place only where no more than theirs is asked for.
#[derive(Debug)]
struct LuaString {
    bytes: Bytes,
    hash: u32,
    /// Next of the bucket, for interned strings.
    next: u32,
    /// Of a string that was not interned when it was made: the interned one of equal bytes, once it has been asked for.
    canonical: u32,
    interned: bool,
    /// It was not interned when it was made, whatever its length: its equality is that of its bytes.
    late: bool,
}

const _: () = assert!(size_of::<LuaString>() <= 64);

impl LuaString {
    fn new(bytes: Bytes, hash: u32, late: bool) -> Self {
        Self { bytes, hash, next: NONE, canonical: NONE, interned: false, late }
    }

    fn canonical(&self) -> Option<StringRef> {
        (self.canonical != NONE).then_some(StringRef(self.canonical))
    }
}

impl Default for LuaString {
    fn default() -> Self {
        Self::new(Bytes::default(), 0, false)
    }
}

#[derive(Debug)]
pub(super) struct Strings {
    items: Slab<LuaString>,
    buckets: Vec<u32>,
    interned: usize,
    /// How many were when the region began.
    interned_before: usize,
    seed: u64,
}

impl Strings {
    pub(super) fn new(seed: u64) -> Self {
        Self { items: Slab::new(), buckets: vec![NONE; 256], interned: 0, interned_before: 0, seed }
    }

    #[inline]
    pub(super) fn bytes(&self, string: StringRef) -> &[u8] {
        self.items.get(string.index()).bytes.as_slice()
    }

    /// The string of these bytes, and how many bytes of memory were taken for it.
    pub(super) fn make(&mut self, bytes: &[u8]) -> (StringRef, usize) {
        if bytes.len() > SHORT_MAX {
            return self.make_long(bytes.into());
        }
        let hash = self.hash(bytes);
        if let Some(found) = self.find(bytes, hash) {
            return (self.reference(found), 0);
        }
        let index = self.insert_short(bytes, hash, false);
        self.link(index);
        (StringRef::short(index), OVERHEAD)
    }

    /// The same for bytes that are likely to be passed on only: they are not hashed.
    pub(super) fn make_late(&mut self, bytes: &[u8]) -> (StringRef, usize) {
        if bytes.len() > SHORT_MAX {
            return self.make_long(bytes.into());
        }
        (StringRef::long(self.insert_short(bytes, 0, true)), OVERHEAD)
    }

    #[inline]
    fn insert_short(&mut self, bytes: &[u8], hash: u32, late: bool) -> usize {
        // Filled in its place: what was just written in small pieces is slow to copy in larger ones.
        let index = self.items.insert_default();
        let item = self.items.get_mut(index);
        (item.hash, item.late) = (hash, late);
        item.bytes.fill(bytes);
        index
    }

    fn reference(&self, index: usize) -> StringRef {
        if self.items.get(index).late { StringRef::long(index) } else { StringRef::short(index) }
    }

    /// The same for bytes that are owned already.
    pub(super) fn make_owned(&mut self, bytes: Vec<u8>) -> (StringRef, usize) {
        if bytes.len() > SHORT_MAX { self.make_long(bytes.into_boxed_slice()) } else { self.make(&bytes) }
    }

    fn make_long(&mut self, bytes: Box<[u8]>) -> (StringRef, usize) {
        let size = bytes.len() + OVERHEAD;
        (StringRef::long(self.items.insert(LuaString::new(Bytes::Long(bytes), 0, true))), size)
    }

    /// The reference that stands for the string as a key.
    pub(super) fn canonical(&mut self, string: StringRef) -> StringRef {
        if !string.is_long() {
            return string;
        }
        if let Some(canonical) = self.items.get(string.index()).canonical() {
            return canonical;
        }
        let hash = self.hash(self.bytes(string));
        let found = self.find(self.bytes(string), hash).map(|found| self.reference(found));
        let canonical = found.unwrap_or(string);
        // A string that outlives the region must not refer to one that ends with it.
        let outlived = string.index() < self.items.watermark() && canonical.index() >= self.items.watermark();
        let item = self.items.get_mut(string.index());
        item.canonical = if outlived { NONE } else { canonical.0 };
        item.hash = hash;
        if found.is_none() {
            self.link(string.index());
        }
        canonical
    }

    fn find(&self, bytes: &[u8], hash: u32) -> Option<usize> {
        let mut index = self.buckets[hash as usize & (self.buckets.len() - 1)];
        while index != NONE {
            let item = self.items.get(index as usize);
            if item.hash == hash && *item.bytes.as_slice() == *bytes {
                return Some(index as usize);
            }
            index = item.next;
        }
        None
    }

    fn link(&mut self, index: usize) {
        if self.interned >= self.buckets.len() {
            self.grow();
        }
        let bucket = self.items.get(index).hash as usize & (self.buckets.len() - 1);
        let next = std::mem::replace(&mut self.buckets[bucket], index as u32);
        let item = self.items.get_mut(index);
        (item.next, item.interned) = (next, true);
        self.interned += 1;
    }

    fn unlink(&mut self, index: usize) {
        let item = self.items.get_mut(index);
        if !std::mem::replace(&mut item.interned, false) {
            return;
        }
        let (next, bucket) = (item.next, item.hash as usize & (self.buckets.len() - 1));
        self.interned -= 1;
        if self.buckets[bucket] == index as u32 {
            self.buckets[bucket] = next;
            return;
        }
        let mut at = self.buckets[bucket];
        while at != NONE {
            let item = self.items.get_mut(at as usize);
            if item.next == index as u32 {
                item.next = next;
                return;
            }
            at = item.next;
        }
    }

    fn grow(&mut self) {
        self.resize(self.buckets.len() * 2);
    }

    fn resize(&mut self, size: usize) {
        self.buckets.clear();
        self.buckets.resize(size, NONE);
        for index in 0..self.items.len() {
            let item = self.items.get_mut(index);
            if item.interned {
                item.next = std::mem::replace(&mut self.buckets[item.hash as usize & (size - 1)], index as u32);
            }
        }
    }

    /// A folded multiplication per eight bytes, seeded.
    fn hash(&self, bytes: &[u8]) -> u32 {
        const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
        let mut hash = self.seed ^ (bytes.len() as u64).wrapping_mul(FACTOR);
        let mut chunks = bytes.chunks_exact(8);
        for chunk in &mut chunks {
            let mut word = [0; 8];
            word.copy_from_slice(chunk);
            hash = fold(hash ^ u64::from_le_bytes(word), FACTOR ^ self.seed);
        }
        let mut word = [0; 8];
        word[..chunks.remainder().len()].copy_from_slice(chunks.remainder());
        fold(hash ^ u64::from_le_bytes(word), FACTOR) as u32
    }

    /// Marks a string and what stands for it.
    pub(super) fn mark(&mut self, string: StringRef) {
        if self.items.mark(string.index())
            && let Some(canonical) = self.items.get(string.index()).canonical()
        {
            self.items.mark(canonical.index());
        }
    }

    pub(super) fn is_alive(&self, string: StringRef) -> bool {
        self.items.is_alive(string.index())
    }

    /// Frees what is not marked; returns the bytes that came back.
    pub(super) fn sweep(&mut self) -> usize {
        let dead: Vec<usize> = self.items.unmarked().collect();
        let mut freed = 0;
        for index in dead {
            freed += self.items.get(index).bytes.size() + OVERHEAD;
            self.unlink(index);
        }
        self.items.sweep();
        freed
    }

    pub(super) fn len(&self) -> usize {
        self.items.len()
    }

    pub(super) fn begin_region(&mut self) {
        self.items.begin_region();
        self.interned_before = self.interned;
    }

    pub(super) fn cut(&mut self) {
        if self.interned != self.interned_before {
            for index in self.items.watermark()..self.items.len() {
                self.unlink(index);
            }
        }
        self.items.cut();
        if self.buckets.len() > BUCKETS_KEPT && self.buckets.len() > self.interned * 8 {
            self.resize(BUCKETS_KEPT.max(self.interned.next_power_of_two()));
            self.buckets.shrink_to_fit();
        }
    }
}

fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    (product as u64) ^ (product >> 64) as u64
}
