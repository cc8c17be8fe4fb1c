//! Effects, replayed: whatever clients do on several workers, its effects in any interleaving of their keys give the same keys again; and so do
//! a copy that was taken while they wrote and the effects behind it. Faults are found by the same.
//!
//! Commands run as in the server, without sockets.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::thread;

use almandine_base::Output;
use almandine_base::object::{ImageCursor, Object};
use almandine_call::Table;
use almandine_config::{Config, Startup};
use almandine_datatypes::stream::StreamObject;
use almandine_io::clock;
use almandine_io::socket::Address;
use almandine_keyspace::{Accessor, Body, Change, Effect, Keyspace, Kind, Metadata, Options, Put};
use almandine_net::{Peer, Service};
use almandine_node::Node;
use almandine_session::Sessions;
use almandine_testkit::random::Random;

const WORKERS: usize = 3;
const DATABASES: u16 = 3;
/// Databases of the copy: one for each generation.
const GENERATIONS: usize = 4000;

/// An effect that outlives its note.
#[derive(Clone)]
struct Kept {
    generation: u64,
    key: Vec<u8>,
    sequence: u64,
    ends_group: bool,
    effect: Owned,
}

#[derive(Clone)]
enum Owned {
    Set(Kind, OwnedBody, Put),
    Write(usize, Vec<u8>),
    Put(Put),
    Remove,
    Edit(Kind, Vec<u8>),
    Expire(Kind, Vec<u8>),
    Database(u16),
}

#[derive(Clone)]
enum OwnedBody {
    Bytes(Vec<u8>),
    Shared(almandine_keyspace::SharedValue),
}

impl Kept {
    fn of(change: &Change<'_>) -> Self {
        let effect = match change.effect.expect("effects are wanted") {
            Effect::Set { kind, value: Body::Bytes(bytes), put } => Owned::Set(kind, OwnedBody::Bytes(bytes.to_vec()), put),
            Effect::Set { kind, value: Body::Shared(value), put } => Owned::Set(kind, OwnedBody::Shared(value.clone()), put),
            Effect::Write { offset, bytes } => Owned::Write(offset, bytes.to_vec()),
            Effect::Put(put) => Owned::Put(put),
            Effect::Remove => Owned::Remove,
            Effect::Edit { kind, edits } => Owned::Edit(kind, edits.to_vec()),
            Effect::Expire { kind, elements } => Owned::Expire(kind, elements.to_vec()),
            Effect::Database(db) => Owned::Database(db),
        };
        let Change { generation, key, sequence, ends_group, .. } = *change;
        Self { generation, key: key.to_vec(), sequence, ends_group, effect }
    }

    fn effect(&self) -> Effect<'_> {
        match &self.effect {
            Owned::Set(kind, OwnedBody::Bytes(bytes), put) => Effect::Set { kind: *kind, value: Body::Bytes(bytes), put: *put },
            Owned::Set(kind, OwnedBody::Shared(value), put) => Effect::Set { kind: *kind, value: Body::Shared(value), put: *put },
            Owned::Write(offset, bytes) => Effect::Write { offset: *offset, bytes },
            Owned::Put(put) => Effect::Put(*put),
            Owned::Remove => Effect::Remove,
            Owned::Edit(kind, edits) => Effect::Edit { kind: *kind, edits },
            Owned::Expire(kind, elements) => Effect::Expire { kind: *kind, elements },
            Owned::Database(db) => Effect::Database(*db),
        }
    }
}

/// A value as it is compared.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Seen {
    kind: Kind,
    string: Vec<u8>,
    /// Fields with values and expiries.
    fields: BTreeMap<Vec<u8>, (Vec<u8>, Option<u64>)>,
    /// Of a set, and the name of its encoding.
    members: (BTreeSet<Vec<u8>>, &'static str),
    expiry_ms: Option<i64>,
    etag: Option<u64>,
    /// The image of a stream; of none, no bytes.
    stream: Vec<u8>,
}

type Contents = BTreeMap<(u16, Vec<u8>), Seen>;

/// The keys of some databases, as they are at a time.
fn contents(accessor: &mut Accessor, dbs: &[u16], now_ms: i64) -> Contents {
    let mut all = Contents::new();
    accessor.begin_batch(now_ms);
    for &db in dbs {
        for key in keys(accessor, db) {
            if let Some(seen) = seen(accessor, db, &key).0 {
                all.insert((db, key), seen);
            }
        }
    }
    accessor.end_batch();
    all
}

fn keys(accessor: &mut Accessor, db: u16) -> BTreeSet<Vec<u8>> {
    let (mut keys, mut cursor) = (BTreeSet::new(), 0);
    loop {
        cursor = accessor.reader(db).scan(cursor, 100, &mut |key, _| {
            keys.insert(key.to_vec());
        });
        if cursor == 0 {
            return keys;
        }
    }
}

/// A key's value, and the sequence of the last effect that it has.
fn seen(accessor: &mut Accessor, db: u16, name: &[u8]) -> (Option<Seen>, u64) {
    let mut reader = accessor.reader(db);
    reader.lock_shared(&[(db, name)]);
    let key = reader.key(name);
    let sequence = reader.last_sequence(key);
    let Some(metadata) = reader.metadata(key) else { return (None, sequence) };
    let Metadata { kind, expiry_ms, etag, .. } = metadata;
    let (string, stream) = (Vec::new(), Vec::new());
    let mut seen = Seen { kind, string, fields: BTreeMap::new(), members: Default::default(), expiry_ms, etag, stream };
    if metadata.kind == Kind::Hash {
        let fields = reader.read_hash(key, |hash| {
            hash.try_iter().map(|entry| entry.map(|e| (e.field.to_vec(), (e.value.to_vec(), e.due)))).collect::<Result<_, _>>()
        });
        // All of its fields may be past their time.
        let Some(fields) = fields.unwrap() else { return (None, sequence) };
        seen.fields = fields;
    } else if metadata.kind == Kind::SortedSet {
        let members = reader.read_sorted_set(key, |set| {
            set.iter()
                .map(|entry| entry.map(|e| (e.member.to_vec(), (e.score.to_bits().to_le_bytes().to_vec(), e.due))))
                .collect::<Result<_, _>>()
        });
        let Some(members) = members.unwrap() else { return (None, sequence) };
        seen.fields = members;
    } else if metadata.kind == Kind::Set {
        let members = reader.read_set(key, |set| {
            let all: Result<BTreeSet<Vec<u8>>, _> = set.try_iter().map(|member| member.map(|member| member.to_vec())).collect();
            Ok((all?, set.encoding().name()))
        });
        seen.members = members.unwrap().unwrap_or_default();
    } else if metadata.kind == Kind::Stream {
        let image = reader.read_stream(key, |stream| {
            let mut image = Vec::new();
            stream.write_part(ImageCursor::default(), usize::MAX, &mut image)?;
            Ok(image)
        });
        seen.stream = image.unwrap().unwrap();
    } else {
        seen.string = reader.read(key).unwrap().to_vec();
    }
    (Some(seen), sequence)
}

/// A second keyspace, of which each generation is a database.
struct Copy {
    accessor: Accessor,
    generations: BTreeMap<u64, u16>,
    databases: BTreeMap<u16, u64>,
    /// Up to which effect each key has been copied.
    copied: BTreeMap<(u64, Vec<u8>), u64>,
}

impl Copy {
    fn new(databases: BTreeMap<u16, u64>) -> Self {
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
        let replayed = self.accessor.writer(db).replay(&kept.key, &effect);
        assert!(replayed.is_ok(), "{replayed:?} {effect:?} on {}", String::from_utf8_lossy(&kept.key));
        self.accessor.end_batch();
    }

    /// Replays effects, those of each key in their order, the keys as it comes.
    fn replay_all(&mut self, all: &[Kept], random: &mut Random) {
        let mut by_key: BTreeMap<(u64, &[u8]), Vec<&Kept>> = BTreeMap::new();
        let mut of_databases: Vec<&Kept> = Vec::new();
        for kept in all {
            match kept.effect {
                Owned::Database(_) => of_databases.push(kept),
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
    fn contents(&mut self, now_ms: i64) -> Contents {
        let mut all = Contents::new();
        for (db, generation) in self.databases.clone() {
            let own = self.db_of(generation);
            all.extend(contents(&mut self.accessor, &[own], now_ms).into_iter().map(|((_, key), seen)| ((db, key), seen)));
        }
        all
    }
}

/// Workers with clients.
struct Rig {
    keyspace: Arc<Keyspace>,
    node: Arc<Node>,
    table: &'static Table,
    /// What was handed over, batch by batch.
    kept: Arc<Mutex<Vec<Kept>>>,
    /// Batches hold it shared: who has it alone finds all effects handed over.
    between_batches: RwLock<()>,
}

impl Rig {
    fn new() -> Self {
        // Its background is a thread of the proof, which is between two of its steps, too, where the keys are compared.
        let store = almandine_store::Options { background: false, ..Default::default() };
        let keyspace = Keyspace::open(Options { databases: usize::from(DATABASES), store, ..Options::default() }).unwrap();
        let kept: Arc<Mutex<Vec<Kept>>> = Arc::default();
        let sink = Arc::clone(&kept);
        keyspace.on_effects(move |changes| {
            let all: Vec<Kept> = changes.iter().map(|change| Kept::of(&change)).collect();
            sink.lock().unwrap_or_else(PoisonError::into_inner).extend(all);
        });
        let Ok(Startup::Run(config)) = Config::load(&["--protected-mode".to_owned(), "no".to_owned()]) else {
            panic!("a configuration")
        };
        let table = Table::new(&[almandine_commands::COMMANDS, almandine_admin::COMMANDS].concat(), &[]).unwrap();
        let node = Node::new(*config, Arc::clone(&keyspace), WORKERS, table.rows().len(), "0".repeat(40));
        Self { keyspace, node: Arc::new(node), table, kept, between_batches: RwLock::new(()) }
    }

    /// One worker with one client, which sends so many pipelines, or until it is told to stop.
    fn run(&self, worker: usize, pipelines: usize, seed: u64, stop: &AtomicBool) {
        let mut sessions = Sessions::new(Arc::clone(&self.node), self.table, self.keyspace.accessor().unwrap(), worker);
        let local = Address::Ip("127.0.0.1:6379".parse().unwrap());
        let peer = Peer { remote: local.clone(), local, endpoint: 0, worker, descriptor: 0 };
        let (mut out, mut random) = (Output::new(), Random::new(seed));
        let mut connection = sessions.open(worker as u64 + 1, &peer, &mut out).unwrap();
        for pipeline in 0..pipelines {
            if stop.load(Ordering::Relaxed) {
                break;
            }
            let mut input = Vec::new();
            // Long batches, so that they meet.
            for number in 0..1 + random.below(40) {
                command(&mut random, &format!("{seed}.{pipeline}.{number}"), &mut input);
            }
            out.clear();
            // What has to wait for the background is sent again.
            while self.between(|| sessions.receive(&mut connection, &input, &mut out).consumed) == 0 {
                thread::yield_now();
            }
        }
        sessions.close(connection);
    }

    /// The background, until it is told to stop.
    fn maintain(&self, stop: &AtomicBool) {
        while !stop.load(Ordering::Relaxed) {
            self.between(|| self.keyspace.maintain(clock::unix_ms()));
            thread::yield_now();
        }
    }

    /// A batch.
    fn between<R>(&self, batch: impl FnOnce() -> R) -> R {
        let _shared = self.between_batches.read().unwrap_or_else(PoisonError::into_inner);
        batch()
    }

    fn generations(&self) -> BTreeMap<u16, u64> {
        let accessor = self.keyspace.accessor().unwrap();
        (0..DATABASES).map(|db| (db, accessor.generation(db))).collect()
    }

    fn kept(&self) -> MutexGuard<'_, Vec<Kept>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What there is between two batches: the effects so far, and the keys that they have led to.
    fn cut(&self) -> (usize, i64, Contents) {
        let _alone = self.between_batches.write().unwrap();
        let now_ms = clock::unix_ms();
        let mut accessor = self.keyspace.accessor().unwrap();
        let dbs: Vec<u16> = (0..DATABASES).collect();
        let contents = contents(&mut accessor, &dbs, now_ms);
        (self.kept().len(), now_ms, contents)
    }
}

/// A command on streams.
fn stream_command(random: &mut Random, unique: &str, number: &str) -> String {
    let stream = |random: &mut Random| format!("x{}", random.below(3));
    let entry = |random: &mut Random| format!("{}-{}", random.below(40), random.below(2));
    let consumer = |random: &mut Random| format!("g{} c{}", random.below(2), random.below(3));
    match random.below(22) {
        0..4 => format!("XADD {} * f {unique} g {number}", stream(random)),
        4 => format!("XADD {} MAXLEN {} * f {unique}", stream(random), random.below(30)),
        5 => format!("XADD {} MAXLEN ~ 3 {} g {number}", stream(random), entry(random)),
        6 => format!("XADD {} IDMP p{} {number} * f {unique}", stream(random), random.below(3)),
        7 => format!("XDEL {} {} {}", stream(random), entry(random), entry(random)),
        8 => format!("XTRIM {} MINID {}", stream(random), entry(random)),
        9 => format!("XGROUP CREATE {} g{} 0 MKSTREAM", stream(random), random.below(2)),
        10 if random.chance(20) => format!("XGROUP DESTROY {} g{}", stream(random), random.below(2)),
        11 => format!("XGROUP SETID {} g{} {}", stream(random), random.below(2), entry(random)),
        12 => format!("XGROUP DELCONSUMER {} {}", stream(random), consumer(random)),
        13 | 14 => format!("XREADGROUP GROUP {} COUNT {} STREAMS {} >", consumer(random), random.below(9), stream(random)),
        15 => format!("XREADGROUP GROUP {} CLAIM 1 STREAMS {} >", consumer(random), stream(random)),
        16 => format!("XREADGROUP GROUP {} COUNT 3 STREAMS {} 0", consumer(random), stream(random)),
        17 => format!("XAUTOCLAIM {} {} 0 0 COUNT 4", stream(random), consumer(random)),
        18 => format!("XCLAIM {} {} 0 {} FORCE", stream(random), consumer(random), entry(random)),
        19 => format!("XACKDEL {} g0 DELREF IDS 1 {}", stream(random), entry(random)),
        20 => format!("XNACK {} g1 FAIL IDS 2 {} {} FORCE", stream(random), entry(random), entry(random)),
        _ => match random.below(4) {
            0 => format!("XSETID {} 9000000000000-{}", stream(random), random.below(9)),
            1 => format!("COPY {} {} REPLACE", stream(random), stream(random)),
            2 => format!("XCFGSET {} IDMP-MAXSIZE {}", stream(random), random.between(1, 4)),
            _ => format!("DEL {}", stream(random)),
        },
    }
}

/// Appends a command, or a transaction, to a pipeline.
fn command(random: &mut Random, unique: &str, input: &mut Vec<u8>) {
    let key = |random: &mut Random| format!("k{}", random.below(12));
    let hash = |random: &mut Random| format!("h{}", random.below(4));
    let field = |random: &mut Random| format!("f{}", random.below(40));
    let (one, other) = (key(random), key(random));
    let ttl = random.between(1, 60).to_string();
    let number = random.between(-5, 300).to_string();
    let long = "x".repeat(20_000 + random.below(20_000));
    let text = match random.below(88) {
        48..60 => sorted_set_command(random, unique, &ttl),
        62..74 => set_command(random, &one),
        74..88 => stream_command(random, unique, &number),
        0 => format!("SELECT {}", random.below(usize::from(DATABASES))),
        1 if random.chance(4) => "FLUSHDB".to_owned(),
        2 if random.chance(1) => "FLUSHALL".to_owned(),
        3 if random.chance(20) => format!("SWAPDB {} {}", random.below(3), random.below(3)),
        4 => format!("SET {one} {unique} PX {ttl}"),
        5 => format!("SET {one} {unique} KEEPTTL"),
        6 => format!("SET {one} {number} PX 100000"),
        7 => format!("SET {one} {long}"),
        8 => format!("SETNX {one} {unique}"),
        9 => format!("GETDEL {one}"),
        10 => format!("GETEX {one} PX {ttl}"),
        11 => format!("GETEX {one} PERSIST"),
        12 | 13 => format!("APPEND {one} {unique}"),
        14 => format!("SETRANGE {one} {} abc", random.below(50_000)),
        15 => format!("SETBIT {one} {} 1", random.below(400)),
        16 => format!("INCRBY {one} {number}"),
        17 => format!("INCRBYFLOAT {one} 0.5"),
        18 => format!("BITFIELD {one} SET u8 {} 65 INCRBY i5 {} 3", random.below(300), random.below(300)),
        19 => format!("BITOP XOR {one} {one} {other}"),
        20 => format!("DEL {one} {other}"),
        21 => format!("PEXPIRE {one} {ttl}"),
        22 => format!("PEXPIRE {one} 100000"),
        23 => format!("PERSIST {one}"),
        24 => format!("RENAME {one} {other}"),
        25 => format!("RENAMENX {one} {other}"),
        26 => format!("COPY {one} {other} REPLACE"),
        27 => format!("COPY {} {} DB {} REPLACE", hash(random), hash(random), random.below(3)),
        28 => format!("MOVE {one} {}", random.below(3)),
        29 => format!("MSET {one} {unique} {other} {number} {one} {number}"),
        30 => format!("MSETNX {one} {unique} {other} {number}"),
        31 => format!("SETWITHETAG {one} {unique}"),
        32 => format!("SETIFGREATER {one} {unique} {}", random.below(20)),
        33 => format!("SETIFMATCH {one} {unique} {}", random.below(5)),
        34 => format!("RENAME {} {}", hash(random), if random.chance(10) { one } else { hash(random) }),
        35 => format!("PEXPIRE {} {}", hash(random), if random.chance(5) { ttl } else { "100000".to_owned() }),
        36 => format!("HDEL {} {} {} {}", hash(random), field(random), field(random), field(random)),
        37 => format!("HINCRBY {} n {number}", hash(random)),
        38 => format!("HPEXPIRE {} {ttl} FIELDS 2 {} {}", hash(random), field(random), field(random)),
        39 => format!("HPERSIST {} FIELDS 2 {} {}", hash(random), field(random), field(random)),
        40 => format!("HSETEX {} PX {ttl} FIELDS 1 {} {unique}", hash(random), field(random)),
        41 if random.chance(20) => format!("DEL {}", hash(random)),
        // Long enough for an object.
        42 | 43 => format!("HSET {} {} {}", hash(random), field(random), "y".repeat(1_500)),
        44 => {
            let (a, b) = (random.below(3), random.below(3));
            format!("MULTI\nSET t{a} {unique}\nHSET {} tx {unique}\nDEL {other}\nSET t{b} {unique}\nEXEC", hash(random))
        }
        45 if random.chance(3) => format!("MULTI\nSET t0 {unique}\nSWAPDB 0 1\nFLUSHDB\nSET t1 {unique}\nEXEC"),
        _ => format!("HSET {} {} {unique} {} {number}", hash(random), field(random), field(random)),
    };
    push(&text, input);
}

/// A command on sets, which are packed and objects by turns.
fn set_command(random: &mut Random, string: &str) -> String {
    let set = |random: &mut Random| format!("s{}", random.below(4));
    let member = |random: &mut Random| {
        let bound = *random.pick(&[9, 90, 900]);
        let number = random.below(bound).to_string();
        if random.chance(30) { format!("m{number}") } else { number }
    };
    let (one, other, another) = (set(random), set(random), set(random));
    let most = *random.pick(&[4, 400]);
    let some = (0..1 + random.below(30)).map(|_| member(random)).collect::<Vec<_>>().join(" ");
    match random.below(16) {
        0..5 => format!("SADD {one} {some}"),
        5 => format!("SADD {one} {}{}", "z".repeat(1_500), random.below(12)),
        6 | 7 => format!("SREM {one} {some}"),
        8 => format!("SPOP {one}"),
        9 => format!("SPOP {one} {}", random.below(most)),
        10 | 11 => format!("SMOVE {one} {other} {}", member(random)),
        12 => format!("SUNIONSTORE {one} {other} {another}"),
        13 => format!("SDIFFSTORE {one} {other} {another}"),
        14 => format!("SINTERSTORE {} {other} {another}", if random.chance(10) { string } else { &one }),
        _ => format!("RENAME {one} {other}"),
    }
}

/// Appends lines of commands as they go over the wire.
fn push(text: &str, input: &mut Vec<u8>) {
    for line in text.split('\n') {
        let words: Vec<&str> = line.split(' ').collect();
        input.extend_from_slice(format!("*{}\r\n", words.len()).as_bytes());
        words.iter().for_each(|word| input.extend_from_slice(format!("${}\r\n{word}\r\n", word.len()).as_bytes()));
    }
}

/// A command on sorted sets: one in four with members that make objects of them.
fn sorted_set_command(random: &mut Random, unique: &str, ttl: &str) -> String {
    let key = |random: &mut Random| format!("z{}", random.below(4));
    let member = |random: &mut Random| {
        let number = random.below(60);
        if random.chance(25) { format!("m{number}{}", "y".repeat(1_500)) } else { format!("m{number}") }
    };
    let (one, other, name) = (key(random), key(random), member(random));
    let (score, low) = (random.between(-20, 20), random.between(-20, 20));
    match random.below(24) {
        0 => format!("ZREM {one} {name} {}", member(random)),
        1 => format!("ZINCRBY {one} {score} {name}"),
        2 => format!("ZADD {one} GT CH {score} {name} {low} {}", member(random)),
        3 => format!("ZPEXPIRE {one} {ttl} MEMBERS 2 {name} {}", member(random)),
        4 => format!("ZPEXPIRE {one} 100000 MEMBERS 1 {name}"),
        5 => format!("ZPERSIST {one} MEMBERS 2 {name} {}", member(random)),
        6 => format!("ZPOPMIN {one} {}", random.below(3)),
        7 => format!("ZPOPMAX {one} {}", random.below(3)),
        8 => format!("ZMPOP 2 {one} {other} MAX"),
        9 => format!("ZREMRANGEBYSCORE {one} {low} {}", low + 1),
        10 => format!("ZREMRANGEBYRANK {one} 3 {}", 3 + random.below(4)),
        11 if random.chance(30) => format!("ZUNIONSTORE {one} 2 {one} {other}"),
        12 if random.chance(30) => format!("ZINTERSTORE {one} 2 {one} {other} AGGREGATE MIN"),
        13 if random.chance(30) => format!("ZDIFFSTORE {one} 2 {one} {other}"),
        14 if random.chance(30) => format!("ZRANGESTORE {one} {other} 0 {}", random.below(90)),
        15 if random.chance(20) => format!("DEL {one}"),
        16 => format!("COPY {one} {other} REPLACE"),
        17 => format!("MULTI\nSET t0 {unique}\nZADD {one} {score} {name}\nZREM {one} {}\nSET t1 {unique}\nEXEC", member(random)),
        _ => format!("ZADD {one} {score} {name} {low} {}", member(random)),
    }
}

/// INV-EFFECT-1: effects of all keys from the beginning, in several interleavings.
fn effects_lead_to_the_same_keys(seed: u64) {
    let rig = Rig::new();
    rig.keyspace.note_effects(true);
    let before = rig.generations();
    let (never, stop) = (AtomicBool::new(false), AtomicBool::new(false));
    let run = &|worker: usize| rig.run(worker, 400, seed * 100 + worker as u64, &never);
    thread::scope(|scope| {
        scope.spawn(|| rig.maintain(&stop));
        let stopping = Stopping(&stop);
        let workers: Vec<_> = (0..WORKERS).map(|worker| scope.spawn(move || run(worker))).collect();
        workers.into_iter().for_each(|worker| worker.join().unwrap());
        drop(stopping);
    });
    let (len, now_ms, expected) = rig.cut();
    let kept = rig.kept()[..len].to_vec();
    check_groups(&kept);
    assert!(kept.len() > 5_000, "{} effects", kept.len());
    for round in 0..2 {
        let mut copy = Copy::new(before.clone());
        copy.replay_all(&kept, &mut Random::new(seed + round));
        compare(&expected, &copy.contents(now_ms));
    }
}

/// What a transaction sets is in one group.
fn check_groups(kept: &[Kept]) {
    let (mut group, mut groups) = (0, BTreeMap::new());
    for kept in kept {
        // Nothing else sets these keys.
        if let Owned::Set(_, OwnedBody::Bytes(bytes), _) = &kept.effect
            && kept.key.starts_with(b"t")
        {
            assert_eq!(*groups.entry(bytes.clone()).or_insert(group), group, "a transaction in two groups");
        }
        group += usize::from(kept.ends_group);
    }
    assert!(groups.len() > 20, "only {} transactions", groups.len());
    assert!(kept.last().is_none_or(|last| last.ends_group), "the last unit of work has ended");
}

fn compare(expected: &Contents, found: &Contents) {
    for (key, value) in expected {
        assert_eq!(Some(value), found.get(key), "{} {}", key.0, String::from_utf8_lossy(&key.1));
    }
    let more: Vec<_> = found.keys().filter(|key| !expected.contains_key(*key)).collect();
    assert!(more.is_empty(), "too much: {more:?}");
}

/// INV-EFFECT-1: a copy that is taken key by key while clients write, and the effects from then on up to a moment between two units of work.
fn a_copy_and_later_effects_are_the_keys(seed: u64) {
    let rig = Rig::new();
    let (stop, started) = (AtomicBool::new(false), AtomicUsize::new(0));
    thread::scope(|scope| {
        scope.spawn(|| rig.maintain(&stop));
        for worker in 0..WORKERS {
            let (rig, stop, started) = (&rig, &stop, &started);
            scope.spawn(move || {
                rig.run(worker, 20, seed * 100 + worker as u64, stop);
                started.fetch_add(1, Ordering::Relaxed);
                rig.run(worker, usize::MAX, seed * 100 + 50 + worker as u64, stop);
            });
        }
        let stopping = Stopping(&stop);
        while started.load(Ordering::Relaxed) < WORKERS {
            thread::yield_now();
        }
        let mut random = Random::new(seed);
        let before = {
            let _alone = rig.between_batches.write().unwrap();
            rig.keyspace.note_effects(true);
            rig.generations()
        };
        let mut copy = Copy::new(before);
        copy_keys(&rig, &mut copy);
        // Many, for who takes part in them has just met.
        let cuts: Vec<_> = (0..60)
            .map(|_| {
                let effects = rig.kept().len();
                while rig.kept().len() < effects + 200 {
                    thread::yield_now();
                }
                rig.cut()
            })
            .collect();
        drop(stopping);
        let kept = rig.kept().clone();
        let mut done = 0;
        for (len, now_ms, expected) in cuts {
            copy.replay_all(&kept[done..len], &mut random);
            compare(&unnamed(expected), &unnamed(copy.contents(now_ms)));
            done = len;
        }
    });
}

/// Without the names of encodings, which a copy that is filled member by member finds anew.
fn unnamed(mut contents: Contents) -> Contents {
    contents.values_mut().for_each(|seen| seen.members.1 = "");
    contents
}

/// Lets workers end, also when a proof fails.
struct Stopping<'s>(&'s AtomicBool);

impl Drop for Stopping<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Copies all keys, each with the sequence of its last effect.
fn copy_keys(rig: &Rig, copy: &mut Copy) {
    let mut accessor = rig.keyspace.accessor().unwrap();
    // At time 0, as replaying: what expires goes with an effect. In one batch, within which nobody gives databases other keys.
    accessor.begin_batch(0);
    for db in 0..DATABASES {
        let generation = accessor.generation(db);
        for name in keys(&mut accessor, db) {
            let (value, sequence) = seen(&mut accessor, db, &name);
            if let Some(seen) = value {
                enter(copy, generation, &name, &seen);
                copy.copied.insert((generation, name), sequence);
            }
        }
    }
    accessor.end_batch();
}

fn enter(copy: &mut Copy, generation: u64, name: &[u8], seen: &Seen) {
    let db = copy.db_of(generation);
    let put = Put { expiry_ms: seen.expiry_ms, etag: seen.etag, edited: false };
    copy.accessor.begin_batch(0);
    let mut writer = copy.accessor.writer(db);
    if seen.kind == Kind::Stream {
        let mut stream = StreamObject::new();
        assert_eq!(stream.read_part(&seen.stream), Ok(true));
        let key = writer.key(name);
        writer.put_stream(key, stream, put).unwrap();
    } else if seen.kind == Kind::String {
        let set = Effect::Set { kind: Kind::String, value: Body::Bytes(&seen.string), put };
        writer.replay(name, &set).unwrap();
    } else if seen.kind == Kind::Set {
        let limits = almandine_datatypes::packed::SetLimits { integers: 512, entries: 128, value: 64 };
        let mut set = writer.new_set(limits);
        for member in &seen.members.0 {
            set.add(member).unwrap();
        }
        let key = writer.key(name);
        writer.put_set(key, set, put).unwrap();
    } else if seen.kind == Kind::SortedSet {
        let limits = almandine_datatypes::packed::SortedSetLimits { entries: 128, value: 64 };
        let key = writer.key(name);
        let mut set = writer.write_sorted_set(key, limits).unwrap();
        for (member, (score, due)) in &seen.fields {
            let score = f64::from_bits(u64::from_le_bytes(score[..].try_into().unwrap()));
            set.set(member, score, due.map_or(almandine_datatypes::packed::Due::Never, almandine_datatypes::packed::Due::At))
                .unwrap();
        }
        set.commit().unwrap();
        writer.replay(name, &Effect::Put(put)).unwrap();
    } else {
        let limits = almandine_keyspace::types::hash::HashLimits { entries: 128, value: 64 };
        let key = writer.key(name);
        let mut hash = writer.write_hash(key, limits).unwrap();
        for (field, (value, due)) in &seen.fields {
            hash.set(field, value, due.map_or(almandine_datatypes::packed::Due::Never, almandine_datatypes::packed::Due::At))
                .unwrap();
        }
        hash.commit().unwrap();
        writer.replay(name, &Effect::Put(put)).unwrap();
    }
    drop(writer);
    copy.accessor.end_batch();
}

fn seed() -> u64 {
    std::env::var("ALMANDINE_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1)
}

#[test]
fn effects_are_replayed() {
    effects_lead_to_the_same_keys(seed());
}

#[test]
fn a_copy_is_completed_by_effects() {
    a_copy_and_later_effects_are_the_keys(seed());
}

/// The control: processes in which a step is left out fail.
#[cfg(debug_assertions)]
#[test]
fn faults_are_found() {
    for (fault, proof) in [
        ("effect-outside-latch", "a_copy_is_completed_by_effects"),
        ("effect-not-noted", "effects_are_replayed"),
        ("group-ends-early", "effects_are_replayed"),
        ("effect-not-noted", "a_copy_is_completed_by_effects"),
    ] {
        let found = (1..=10).any(|seed| {
            let output = Command::new(std::env::current_exe().unwrap())
                .args(["--exact", proof])
                .env("ALMANDINE_FAULT", fault)
                .env("ALMANDINE_SEED", seed.to_string())
                .output()
                .unwrap();
            !output.status.success()
        });
        assert!(found, "{fault} is not found by {proof}");
    }
}
