//! Values as they are compared and copied.

use almandine_keyspace::types::set::{Set, Sets};
use almandine_keyspace::types::sorted_set::{SortedSet, SortedSets};
use almandine_keyspace::types::stream::Streams;
use std::collections::{BTreeMap, BTreeSet};

use almandine_base::object::{ImageCursor, Object};
use almandine_datatypes::packed::Due;
use almandine_datatypes::set::SetLimits;
use almandine_datatypes::sorted_set::SortedSetLimits;
use almandine_datatypes::stream::StreamObject;
use almandine_keyspace::types::hash::{Hash, HashLimits, Hashes};
use almandine_keyspace::types::list::{List, ListLimits, Lists};
use almandine_keyspace::{Accessor, Body, CopiedKey, Effect, Kind, Metadata, Put, Refusal};

/// A value as it is compared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    content: Content,
    /// The bytes of what is packed; none of an object.
    packed: Vec<u8>,
    expiry_ms: Option<i64>,
    etag: Option<u64>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Content {
    String(Vec<u8>),
    /// Fields with values and expiries.
    Hash(BTreeMap<Vec<u8>, (Vec<u8>, Option<u64>)>),
    /// Members, and the name of the encoding.
    Set(BTreeSet<Vec<u8>>, &'static str),
    /// Members with the bits of scores and expiries.
    SortedSet(BTreeMap<Vec<u8>, (u64, Option<u64>)>),
    /// Elements, and the name of the encoding.
    List(Vec<Vec<u8>>, &'static str),
    /// The image.
    Stream(Vec<u8>),
}

impl Seen {
    /// The number that a string is.
    pub(crate) fn number(&self) -> i64 {
        let Content::String(text) = &self.content else { panic!("no string: {self:?}") };
        std::str::from_utf8(text).unwrap().parse().unwrap()
    }

    /// Without the bytes of what is packed.
    pub(crate) fn without_packed(&mut self) {
        self.packed.clear();
    }

    /// Without the count that a HyperLogLog keeps of itself, of which no effect tells: it follows from the rest.
    fn without_derived(&mut self) {
        if let Content::String(bytes) = &mut self.content
            && bytes.starts_with(b"HYLL")
            && let Some(count) = bytes.get_mut(8..16)
        {
            count.fill(0);
            self.packed.clear();
        }
    }

    /// Without its form and the name of its encoding, which a copy that is filled element by element finds anew.
    pub(crate) fn without_form(&mut self) {
        self.without_packed();
        if let Content::Set(_, name) | Content::List(_, name) = &mut self.content {
            *name = "";
        }
    }
}

/// Names of keys of a database.
pub(crate) type Names<'n> = &'n dyn Fn(&mut Accessor, u16) -> BTreeSet<Vec<u8>>;
pub(crate) type Contents = BTreeMap<(u16, Vec<u8>), Seen>;

/// The keys of some databases, as they are at a time.
pub(crate) fn contents(accessor: &mut Accessor, dbs: &[u16], now_ms: i64) -> Contents {
    contents_of(accessor, dbs, now_ms, &keys)
}

/// The keys of some databases that `named` names, as they are at a time.
pub(crate) fn contents_of(accessor: &mut Accessor, dbs: &[u16], now_ms: i64, named: Names<'_>) -> Contents {
    let mut all = Contents::new();
    accessor.begin_batch(now_ms);
    for &db in dbs {
        for key in named(accessor, db) {
            if let Some(mut seen) = seen(accessor, db, &key).0 {
                seen.packed = accessor.writer(db).copy(db, &key).unwrap().unwrap().bytes().to_vec();
                seen.without_derived();
                all.insert((db, key), seen);
            }
        }
    }
    accessor.end_batch();
    all
}

pub(crate) fn keys(accessor: &mut Accessor, db: u16) -> BTreeSet<Vec<u8>> {
    let (mut keys, mut cursor) = (BTreeSet::new(), 0);
    loop {
        let scanned = accessor.reader(db).scan(cursor, 100, &mut |key, _| {
            keys.insert(key.to_vec());
        });
        cursor = scanned.cursor;
        if cursor == 0 {
            return keys;
        }
    }
}

/// A key's value, and the sequence of the last effect that it has.
pub(crate) fn seen(accessor: &mut Accessor, db: u16, name: &[u8]) -> (Option<Seen>, u64) {
    let mut reader = accessor.reader(db);
    reader.plan().lock_shared(&[(db, name)]);
    let key = reader.key(name);
    let sequence = reader.plan().last_sequence(key);
    let Some(Metadata { kind, expiry_ms, etag, .. }) = reader.metadata(key).unwrap() else { return (None, sequence) };
    // All fields of a hash, or members of a sorted set, may be past their time: then there is none.
    let content = match kind {
        Kind::Hash => reader.read_as::<Hashes, _>(key, hash).unwrap(),
        Kind::SortedSet => reader.read_as::<SortedSets, _>(key, sorted_set).unwrap(),
        Kind::Set => reader.read_as::<Sets, _>(key, set).unwrap(),
        Kind::List => reader.read_as::<Lists, _>(key, list).unwrap(),
        Kind::Stream => reader.read_as::<Streams, _>(key, |stream| self::stream((*stream)?)).unwrap(),
        Kind::String => Some(Content::String(reader.read(key).unwrap().unwrap().to_vec())),
    };
    (content.map(|content| Seen { content, packed: Vec::new(), expiry_ms, etag }), sequence)
}

/// A key of a copy of one moment; None: it had expired by then, or all of it.
pub(crate) fn copied(key: &CopiedKey<'_>, now_ms: i64) -> Option<Seen> {
    let value = key.value;
    let content = match value.kind {
        _ if key.expiry_ms.is_some_and(|at_ms| at_ms <= now_ms) => None,
        Kind::Hash => value.collection::<Hashes>().unwrap().map(|it| hash(&it).unwrap()),
        Kind::SortedSet => value.collection::<SortedSets>().unwrap().map(|it| sorted_set(&it).unwrap()),
        Kind::Set => value.collection::<Sets>().unwrap().map(|it| set(&it).unwrap()),
        Kind::List => value.collection::<Lists>().unwrap().map(|it| list(&it).unwrap()),
        Kind::Stream => value.collection::<Streams>().unwrap().map(|it| stream(it.unwrap()).unwrap()),
        Kind::String => Some(Content::String(value.string().unwrap().to_vec())),
    };
    content.map(|content| Seen { content, packed: Vec::new(), expiry_ms: key.expiry_ms, etag: key.etag })
}

fn hash(hash: &Hash<'_>) -> Result<Content, Refusal> {
    let all: Result<_, _> = hash.try_iter().map(|entry| entry.map(|e| (e.field.to_vec(), (e.value.to_vec(), e.due)))).collect();
    all.map(Content::Hash)
}

fn sorted_set(set: &SortedSet<'_>) -> Result<Content, Refusal> {
    let all: Result<_, _> = set.iter().map(|entry| entry.map(|e| (e.member.to_vec(), (e.score.to_bits(), e.due)))).collect();
    Ok(Content::SortedSet(all?))
}

fn set(set: &Set<'_>) -> Result<Content, Refusal> {
    let all: Result<_, _> = set.try_iter().map(|member| member.map(|member| member.to_vec())).collect();
    Ok(Content::Set(all?, set.encoding().name()))
}

fn list(list: &List<'_>) -> Result<Content, Refusal> {
    let all: Result<_, _> = list.try_iter().map(|element| element.map(|element| element.to_vec())).collect();
    Ok(Content::List(all?, list.encoding().name()))
}

fn stream(stream: &StreamObject) -> Result<Content, Refusal> {
    let mut image = Vec::new();
    stream.write_part(ImageCursor::default(), usize::MAX, &mut image)?;
    Ok(Content::Stream(image))
}

/// Gives a key that value.
pub(crate) fn enter(accessor: &mut Accessor, db: u16, name: &[u8], seen: &Seen) {
    let due = |due: Option<u64>| due.map_or(Due::Never, Due::At);
    let put = Put { expiry_ms: seen.expiry_ms, etag: seen.etag, edited: false };
    accessor.begin_batch(0);
    let mut writer = accessor.writer(db);
    let key = writer.key(name);
    match &seen.content {
        Content::String(bytes) => {
            let set = Effect::Set { kind: Kind::String, value: Body::Bytes(bytes), put };
            writer.replay(writer.key(name), &set).unwrap();
        }
        Content::Stream(image) => {
            let mut stream = StreamObject::new();
            assert_eq!(stream.read_part(image), Ok(true));
            let mut new = writer.new_value::<Streams>(());
            new.take(stream);
            writer.put_value(key, new, put).unwrap();
        }
        Content::Set(members, _) => {
            let mut set = writer.new_set(SetLimits { integers: 512, entries: 128, value: 64 });
            for member in members {
                set.add(member).unwrap();
            }
            writer.put_set(key, set, put).unwrap();
        }
        Content::List(elements, _) => {
            let mut list = writer.new_value::<Lists>(ListLimits::new(-2));
            elements.iter().for_each(|element| list.push(element).unwrap());
            writer.put_value::<Lists>(key, list, put).unwrap();
        }
        Content::SortedSet(members) => {
            let mut set = writer.write_as::<SortedSets>(key, SortedSetLimits { entries: 128, value: 64 }).unwrap();
            for (member, (score, time)) in members {
                set.set(member, f64::from_bits(*score), due(*time)).unwrap();
            }
            set.commit().unwrap();
            writer.replay(writer.key(name), &Effect::Put(put)).unwrap();
        }
        Content::Hash(fields) => {
            let mut hash = writer.write_as::<Hashes>(key, HashLimits { entries: 128, value: 64 }).unwrap();
            for (field, (value, time)) in fields {
                hash.set(field, value, due(*time)).unwrap();
            }
            hash.commit().unwrap();
            writer.replay(writer.key(name), &Effect::Put(put)).unwrap();
        }
    }
    drop(writer);
    accessor.end_batch();
}
