//! A second keyspace, which effects are replayed in.

use std::collections::{BTreeMap, VecDeque};

use almandine_keyspace::{Accessor, DumpedKey, Dumping, Keyspace, Options};
use almandine_oplog::{LogEntry, LogKeys, Operation, entry::entries};
use almandine_recovery::base::{BaseDatabases, BaseHead, BaseItem, BaseReader, BaseWriter, load};
use almandine_recovery::redo::LogLanes;
use almandine_testkit::random::Random;

use crate::kept::{Kept, Owned};
use crate::logged::Unit;
use crate::rig::{DATABASES, Rig};
use crate::seen::{Contents, Names, contents_of, enter, keys, seen};

/// Databases of the copy: one for each generation.
const GENERATIONS: usize = 4000;

/// A second keyspace, of which each generation is a database.
pub(crate) struct Copy {
    accessor: Accessor,
    generations: BTreeMap<u64, u16>,
    databases: BTreeMap<u16, u64>,
    /// Up to which effect each key has been copied.
    copied: BTreeMap<(u64, Vec<u8>), u64>,
}

impl Copy {
    pub(crate) fn new(databases: BTreeMap<u16, u64>) -> Self {
        let store = almandine_store::Options { background: false, ..Default::default() };
        let keyspace = Keyspace::open(Options { databases: GENERATIONS, store, ..Options::default() }).unwrap();
        Self { accessor: keyspace.accessor().unwrap(), generations: BTreeMap::new(), databases, copied: BTreeMap::new() }
    }

    fn db_of(&mut self, generation: u64) -> u16 {
        let next = self.generations.len() as u16;
        *self.generations.entry(generation).or_insert(next)
    }

    fn replay(&mut self, kept: &Kept) {
        let db = self.db_of(kept.generation);
        if self.copied.get(&(kept.generation, kept.key.clone())).is_some_and(|copied| kept.sequence <= *copied) {
            return;
        }
        let effect = kept.effect();
        self.accessor.begin_batch(0);
        let replayed = {
            let key = self.accessor.key(db, &kept.key);
            self.accessor.writer(db).replay(key, &effect)
        };
        assert!(replayed.is_ok(), "{replayed:?} {effect:?} on {}", String::from_utf8_lossy(&kept.key));
        self.accessor.end_batch();
    }

    /// Replays effects, those of each key in their order, the keys as it comes.
    pub(crate) fn replay_all(&mut self, all: &[Kept], random: &mut Random) {
        let mut by_key: BTreeMap<(u64, &[u8]), Vec<&Kept>> = BTreeMap::new();
        let mut of_databases: Vec<&Kept> = Vec::new();
        for kept in all {
            match kept.effect {
                Owned::Database(_) | Owned::Lost => of_databases.push(kept),
                _ => by_key.entry((kept.generation, &kept.key)).or_default().push(kept),
            }
        }
        of_databases.sort_by_key(|kept| kept.sequence);
        for kept in of_databases {
            if let Owned::Database(db) = kept.effect {
                self.databases.insert(db, kept.generation);
            }
        }
        let mut queues: Vec<VecDeque<&Kept>> = by_key.into_values().map(VecDeque::from).collect();
        queues.iter_mut().for_each(|queue| queue.make_contiguous().sort_by_key(|kept| kept.sequence));
        while !queues.is_empty() {
            let at = random.below(queues.len());
            match queues[at].pop_front() {
                Some(kept) => self.replay(kept),
                None => drop(queues.swap_remove(at)),
            }
        }
    }

    /// The keys of each database at a time.
    pub(crate) fn contents(&mut self, now_ms: i64) -> Contents {
        self.contents_of(now_ms, &keys)
    }

    /// As [`Copy::contents`], of the keys that `named` names.
    pub(crate) fn contents_of(&mut self, now_ms: i64, named: Names<'_>) -> Contents {
        let mut all = Contents::new();
        for (db, generation) in self.databases.clone() {
            let own = self.db_of(generation);
            let found = contents_of(&mut self.accessor, &[own], now_ms, named);
            all.extend(found.into_iter().map(|((_, key), seen)| ((db, key), seen)));
        }
        all
    }

    /// How many keys a database has.
    pub(crate) fn len(&mut self, db: u16) -> u64 {
        let own = self.databases.get(&db).copied().map(|generation| self.db_of(generation));
        own.map_or(0, |own| self.accessor.keyspace().dbsize(own))
    }
}

/// Copies all keys, each with the sequence of its last effect.
pub(crate) fn copy_keys(rig: &Rig, copy: &mut Copy) {
    let mut accessor = rig.keyspace.accessor().unwrap();
    // At time 0, as replaying: what expires goes with an effect. In one batch, within which no database gets other keys.
    accessor.begin_batch(0);
    for db in 0..DATABASES {
        let generation = accessor.changes().generation(db);
        for name in keys(&mut accessor, db) {
            let (value, sequence) = seen(&mut accessor, db, &name);
            if let Some(seen) = value {
                let db = copy.db_of(generation);
                enter(&mut copy.accessor, db, &name, &seen);
                copy.copied.insert((generation, name), sequence);
            }
        }
    }
    accessor.end_batch();
}

/// Copies all keys through the files of a base, which is written while clients write.
pub(crate) fn copy_base(rig: &Rig, copy: &mut Copy, mut rest: impl FnMut()) {
    const PARTS: u16 = 4;
    let mut accessor = rig.keyspace.accessor().unwrap();
    for part in 0..PARTS {
        let head = BaseHead { log: 1, base: 2, lsn: 3, seed: 4, part, parts: PARTS };
        let (mut walk, mut file) = (Dumping::part(part.into(), PARTS.into()), BaseWriter::new(Vec::new(), head).unwrap());
        let mut contents = BTreeMap::new();
        loop {
            rest();
            let mut visit = |key: DumpedKey<'_>| {
                contents.insert(key.contents, copy.db_of(key.contents));
                file.key(&key).unwrap();
            };
            if !walk.next(&mut accessor, &mut visit).unwrap() {
                break;
            }
        }
        let file = file.finish(&BaseDatabases::default()).unwrap();
        let mut reader = BaseReader::open(&file[..]).unwrap();
        while let Some(item) = reader.read_item().unwrap() {
            if let BaseItem::Key { contents, number, key, .. } = item {
                // A key may be there twice: the later one counts, which the walk cannot meet here.
                assert_eq!(copy.copied.insert((contents, key.to_vec()), number), None);
            }
        }
        let mut lanes = LogLanes::start(&mut copy.accessor, 2);
        load((&file[..], &LogKeys::NONE), head, &mut lanes, &contents).unwrap();
        lanes.end().unwrap();
    }
}

/// An entry with the number of its unit.
type Numbered<'u> = (u64, LogEntry<'u>);

impl Copy {
    /// Does the units of the operation log again, those of each key in the order of their numbers, the keys as it comes.
    pub(crate) fn redo_all(&mut self, units: &[Unit], random: &mut Random) {
        let mut by_key: BTreeMap<(u64, &[u8]), Vec<Numbered<'_>>> = BTreeMap::new();
        for Unit { number, bytes } in units {
            for entry in entries(bytes) {
                let entry = entry.expect("an entry");
                match entry.operation {
                    Operation::Database(db) => drop(self.databases.insert(db, entry.contents)),
                    _ => by_key.entry((entry.contents, entry.key)).or_default().push((*number, entry)),
                }
            }
        }
        let mut queues: Vec<VecDeque<Numbered<'_>>> = by_key.into_values().map(VecDeque::from).collect();
        while !queues.is_empty() {
            let at = random.below(queues.len());
            let Some((_, entry)) = queues[at].pop_front() else {
                queues.swap_remove(at);
                continue;
            };
            let db = self.db_of(entry.contents);
            self.accessor.begin_batch(0);
            let redone = {
                let key = self.accessor.key(db, entry.key);
                self.accessor.writer(db).redo(key, &entry)
            };
            assert!(redone.is_ok(), "{redone:?} {entry:?}");
            self.accessor.end_batch();
        }
    }
}
