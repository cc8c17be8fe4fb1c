//! Objects on a device: they come back whole whatever their size, damage of any piece is found, and their space comes back.

#![cfg(not(loom))]

use almandine_base::object::{Damaged, ImageCursor, Kind, Missing, Object, Types};
use almandine_device::{Device, MemoryDevice};
use almandine_io::storage::Buffer;
use almandine_store::{Fetcher, HeapValue, Options, Put, Session, Slot, Stage, Storage, Store};
use std::any::Any;
use std::sync::Arc;
use std::time::{Duration, Instant};

#[path = "support/encrypted.rs"]
mod encrypted;

use encrypted::ciphers;

const PIECE: usize = 256 << 10;
const PIECE_CONTENTS: usize = PIECE - 16;
/// Bytes of an element.
const ELEMENT: usize = 1000;
const LONG: Duration = Duration::from_secs(30);

/// Bytes in elements, the last of which may be shorter.
#[derive(Clone, Default)]
struct Pile {
    elements: Vec<Vec<u8>>,
    parts: u32,
}

impl Pile {
    fn new(len: usize, seed: u8) -> Self {
        let bytes: Vec<u8> = (0..len).map(|at| (at / 3) as u8 ^ seed).collect();
        Self { elements: bytes.chunks(ELEMENT).map(<[u8]>::to_vec).collect(), parts: 0 }
    }
}

impl Object for Pile {
    fn kind(&self) -> Kind {
        Kind::Hash
    }

    fn elements(&self) -> usize {
        self.elements.len()
    }

    fn memory(&self) -> usize {
        size_of::<Self>() + self.elements.iter().map(Vec::len).sum::<usize>()
    }

    fn snapshot(&self) -> Box<dyn Object> {
        Box::new(self.clone())
    }

    fn write_part(&self, cursor: ImageCursor, limit: usize, out: &mut Vec<u8>) -> Result<Option<ImageCursor>, Missing> {
        let begin = out.len();
        out.extend_from_slice(&cursor.part.to_le_bytes());
        out.push(0);
        let mut next = cursor.position as usize;
        while next < self.elements.len() && out.len() - begin < limit {
            out.extend_from_slice(&self.elements[next]);
            next += 1;
        }
        out[begin + 4] = u8::from(next == self.elements.len());
        Ok((next < self.elements.len()).then_some(ImageCursor { position: next as u64, part: cursor.part + 1 }))
    }

    fn read_part(&mut self, part: &[u8]) -> Result<bool, Damaged> {
        let (number, rest) = part.split_first_chunk::<4>().ok_or(Damaged)?;
        let (last, bytes) = rest.split_first().ok_or(Damaged)?;
        if u32::from_le_bytes(*number) != self.parts {
            return Err(Damaged);
        }
        self.parts += 1;
        self.elements.extend(bytes.chunks(ELEMENT).map(<[u8]>::to_vec));
        Ok(*last == 1)
    }

    fn next_due(&self) -> Option<u64> {
        None
    }

    fn expire(&mut self, _: u64, _: usize, _: &mut dyn FnMut(&[u8])) -> Result<usize, Missing> {
        Ok(0)
    }

    fn drop_step(&mut self, limit: usize) -> bool {
        self.elements.truncate(self.elements.len().saturating_sub(limit));
        self.elements.is_empty()
    }

    fn prefetch(&self, _: u32, _: u64, _: &mut dyn FnMut(*const u8)) {}
}

struct Piles;

impl Types for Piles {
    fn empty(&self, kind: Kind) -> Option<Box<dyn Object>> {
        (kind == Kind::Hash).then(|| Box::new(Pile::default()) as _)
    }

    fn next_due(&self, _: Kind, _: &[u8]) -> Option<u64> {
        None
    }

    fn expire(&self, _: Kind, _: &[u8], _: u64, _: &mut Vec<u8>, _: &mut dyn FnMut(&[u8])) -> usize {
        0
    }
}

struct Rig {
    store: Store,
    session: Session,
    namespace: u16,
    fetcher: Fetcher,
    values: Arc<MemoryDevice>,
}

impl Rig {
    fn new() -> Self {
        let values = Arc::new(MemoryDevice::new());
        let storage = Storage { pages: Arc::new(MemoryDevice::new()), values: Arc::clone(&values) as _, ciphers: ciphers() };
        let options =
            Options { memory_bytes_max: 1 << 30, storage: Some(storage), types: Some(Arc::new(Piles)), ..Options::default() };
        let store = Store::open(options).expect("a store");
        store.settings().set_budget(256 << 20);
        let session = store.session().expect("a session");
        let namespace = store.allocate_namespace().expect("a namespace");
        Self { store, session, namespace, fetcher: Fetcher::default(), values }
    }

    /// Does something in a batch, with what it needs from the device. None: that cannot be read.
    fn batch<R>(&mut self, mut work: impl FnMut(&mut Session, u16) -> Result<R, Missing>) -> Option<R> {
        let mut stage = Stage::default();
        for _ in 0..100 {
            self.session.enter(0);
            self.session.staging().attach(stage);
            let result = work(&mut self.session, self.namespace);
            stage = self.session.staging().detach();
            self.session.leave();
            let cold = self.session.cold();
            match result {
                Ok(result) => return Some(result),
                Err(Missing::Cold) => cold.stage_blocking(&mut cold.take_wanted(), &mut stage, &mut self.fetcher),
                Err(_) => return None,
            }
        }
        panic!("cold for ever");
    }

    fn set(&mut self, name: &str, pile: &Pile) {
        let set = self.batch(|session, namespace| {
            let key = session.key(namespace, name.as_bytes());
            let value = Arc::new(HeapValue::object(pile.snapshot()));
            Ok(match session.entry_to_replace(key)? {
                Slot::Vacant(entry) => entry.insert_shared(Kind::Hash, value, Put::default()).is_ok(),
                Slot::Occupied(mut entry) => entry.replace_shared(Kind::Hash, value, Put::default()).is_ok(),
            })
        });
        assert_eq!(set, Some(true));
    }

    /// The elements of an object. None: it cannot be read.
    fn get(&mut self, name: &str) -> Option<Vec<Vec<u8>>> {
        let read = |session: &mut Session, namespace: u16| {
            let key = session.key(namespace, name.as_bytes());
            let elements = |object: &dyn Object| (object as &dyn Any).downcast_ref::<Pile>().map(|pile| pile.elements.clone());
            Ok(session.read(key, |view| view.object().and_then(elements))?.flatten())
        };
        self.batch(read).map(|found| found.expect("an object"))
    }

    fn make_cold(&self) {
        assert!(self.store.empty_memory(LONG), "all leaves memory");
    }
}

/// Lengths for images that end near the borders of pieces.
fn lengths() -> impl Iterator<Item = usize> {
    let near = |pieces: usize| (0..40).map(move |before| (pieces * PIECE_CONTENTS + 11).saturating_sub(before * 3));
    [0, 1, ELEMENT, 70_000, 10 * PIECE].into_iter().chain((1..=3).flat_map(near))
}

#[test]
fn objects_of_all_sizes_come_back() {
    let mut rig = Rig::new();
    for (number, len) in lengths().enumerate() {
        rig.set(&number.to_string(), &Pile::new(len, number as u8));
    }
    rig.make_cold();
    let reads = rig.store.figures().tier().expect("a device").reads;
    for (number, len) in lengths().enumerate() {
        assert_eq!(rig.get(&number.to_string()), Some(Pile::new(len, number as u8).elements), "{len} bytes");
    }
    assert!(rig.store.figures().tier().expect("a device").reads > reads, "they were on the device");
}

#[test]
fn damage_of_any_piece_is_found() {
    let mut rig = Rig::new();
    let pile = Pile::new(3 * PIECE + 5000, 7);
    rig.set("pile", &pile);
    rig.make_cold();
    assert_eq!(rig.get("pile").as_ref(), Some(&pile.elements));
    // The only value begins where the device does.
    for piece in 0..4 {
        for at in [0, 5, 9, 16, 4090] {
            let offset = (piece * PIECE) as u64;
            let mut block = Buffer::new(4096);
            rig.values.read(offset, &mut block).expect("a block");
            block[at] ^= 1;
            rig.values.write(offset, &block).expect("room");
            assert_eq!(rig.get("pile"), None, "INV-TIER-3: piece {piece}, byte {at}");
            block[at] ^= 1;
            rig.values.write(offset, &block).expect("room");
        }
    }
    assert_eq!(rig.get("pile"), Some(pile.elements));
}

#[test]
fn compaction_moves_objects_and_frees_their_space() {
    const PILES: usize = 8;
    let mut rig = Rig::new();
    rig.store.settings().set_compaction(0.3, 1 << 40);
    let name = |number: usize| format!("pile:{number}");
    let len = |number: usize| 700_000 + number * 100_000;
    // The first ones stay, the others are set anew again and again.
    for round in 0..20 {
        for number in if round == 0 { 0 } else { PILES / 2 }..PILES {
            rig.set(&name(number), &Pile::new(len(number), (number * 20 + round) as u8));
        }
        rig.make_cold();
    }
    let live: u64 = (0..PILES).map(|number| len(number) as u64).sum();
    let deadline = Instant::now() + LONG;
    while rig.values.used_bytes() > 3 * live {
        assert!(Instant::now() < deadline, "{} bytes for {live}", rig.values.used_bytes());
        std::thread::sleep(Duration::from_millis(10));
    }
    assert!(rig.store.figures().tier().expect("a device").pages_compacted > 0);
    rig.make_cold();
    for number in 0..PILES {
        let round = if number < PILES / 2 { 0 } else { 19 };
        assert_eq!(rig.get(&name(number)), Some(Pile::new(len(number), (number * 20 + round) as u8).elements));
    }
}
