//! The units that clients send: what is in them, and how they go over the wire.

use super::collection::{Kind, Operation};
use crate::scripted::Script;
use crate::{Random, Value};

/// Databases of a group; each has every name.
pub(super) const DATABASES: usize = 2;
/// Names of a group's keys.
pub(super) const NAMES: usize = 2;
/// A key: its name's number, behind it that of its database.
pub(super) type Key = usize;
/// Keys of a group.
pub(super) const KEYS: usize = DATABASES * NAMES;
/// Fields of a hash.
const FIELDS: usize = 3;

/// The database of a key.
#[must_use]
pub(super) fn database(key: Key) -> usize {
    key / NAMES
}

/// What the server and the run have beside strings without expiry.
#[derive(Clone, Copy, Debug, Default)]
pub struct Features {
    /// The server has hashes.
    pub hashes: bool,
    /// Keys expire.
    pub expiry: bool,
    /// The keys are mostly collections of this type; if none, strings and hashes.
    pub collections: Option<Kind>,
}

/// One command of a unit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// GET
    Get(Key),
    /// SET, with the milliseconds after which it expires
    Set(Key, Vec<u8>, Option<u64>),
    /// APPEND
    Append(Key, Vec<u8>),
    /// INCR
    Incr(Key),
    /// GETDEL
    GetDel(Key),
    /// PEXPIRE
    Expire(Key, u64),
    /// PERSIST
    Persist(Key),
    /// DEL of all keys of a database
    Del(usize),
    /// MGET of all keys of a database
    MGet(usize),
    /// MSET of all keys of a database
    MSet(usize, Vec<u8>),
    /// MSETNX of all keys of a database
    MSetNx(usize, Vec<u8>),
    /// RENAME within a database
    Rename(Key, Key),
    /// COPY … REPLACE, to any database
    Copy(Key, Key),
    /// MOVE to the other database
    Move(Key),
    /// HSET of a field
    HSet(Key, usize, Vec<u8>),
    /// HGET
    HGet(Key, usize),
    /// HINCRBY by one
    HIncr(Key, usize),
    /// HDEL
    HDel(Key, usize),
    /// HMGET of all fields
    HMGet(Key),
    /// On a collection
    Of(Operation),
}

impl Command {
    /// A random one on keys of a database; `stamp` occurs in no other command.
    pub fn random(db: usize, stamp: &str, features: Features, random: &mut Random) -> Self {
        let key = db * NAMES + random.below(NAMES);
        let other = db * NAMES + (key + 1) % NAMES;
        let value = |random: &mut Random| {
            // In its record, in a long one, seldom on the heap.
            let len = [0, 0, 0, 40, 900][random.below(5)] + if random.chance(3) { 20_000 } else { 0 };
            [stamp.as_bytes(), &vec![b'.'; len]].concat()
        };
        let ttl = |random: &mut Random| 2 + random.below(30) as u64;
        if let Some(kind) = features.collections
            && random.chance(90)
        {
            return match random.below(24) {
                0 => Self::Del(db),
                1 => Self::Rename(key, other),
                2 => Self::Copy(key, if random.chance(50) { other } else { (key + NAMES) % KEYS }),
                3 => Self::Move(key),
                4 if features.expiry => Self::Expire(key, ttl(random)),
                _ => Self::Of(Operation::random(kind, (key, other), value(random), random)),
            };
        }
        if features.hashes && random.chance(35) {
            let field = random.below(FIELDS);
            return match random.below(10) {
                0..3 => Self::HSet(key, field, value(random)),
                3 | 4 => Self::HGet(key, field),
                5 | 6 => Self::HIncr(key, field),
                7 => Self::HDel(key, field),
                _ => Self::HMGet(key),
            };
        }
        if features.expiry && random.chance(30) {
            return match random.below(5) {
                0..3 => Self::Set(key, value(random), Some(ttl(random))),
                3 => Self::Expire(key, ttl(random)),
                _ => Self::Persist(key),
            };
        }
        match random.below(100) {
            0..18 => Self::Get(key),
            18..30 => Self::Set(key, value(random), None),
            30..36 => Self::Append(key, stamp.as_bytes().to_vec()),
            36..44 => Self::Incr(key),
            44..47 => Self::GetDel(key),
            47..51 => Self::Del(db),
            51..68 => Self::MGet(db),
            68..80 => Self::MSet(db, value(random)),
            80..84 => Self::MSetNx(db, value(random)),
            84..90 => Self::Rename(key, other),
            90..95 => Self::Copy(key, if random.chance(50) { other } else { (key + NAMES) % KEYS }),
            95..98 => Self::Move(key),
            _ => Self::Set(key, random.below(1000).to_string().into_bytes(), None),
        }
    }

    /// A random one that only reads.
    pub fn random_read(db: usize, features: Features, random: &mut Random) -> Self {
        let key = db * NAMES + random.below(NAMES);
        if let Some(kind) = features.collections {
            return Self::Of(Operation::look(kind, key));
        }
        match random.below(if features.hashes { 3 } else { 2 }) {
            0 => Self::Get(key),
            1 => Self::MGet(db),
            _ => Self::HMGet(key),
        }
    }

    /// The database that it is sent to.
    #[must_use]
    pub fn database(&self) -> usize {
        match self {
            Self::Del(db) | Self::MGet(db) | Self::MSet(db, _) | Self::MSetNx(db, _) => *db,
            Self::Get(key)
            | Self::Set(key, ..)
            | Self::Append(key, _)
            | Self::Incr(key)
            | Self::GetDel(key)
            | Self::Expire(key, _)
            | Self::Persist(key)
            | Self::Rename(key, _)
            | Self::Copy(key, _)
            | Self::Move(key)
            | Self::HSet(key, ..)
            | Self::HGet(key, _)
            | Self::HIncr(key, _)
            | Self::HDel(key, _)
            | Self::HMGet(key) => database(*key),
            Self::Of(operation) => database(operation.key()),
        }
    }

    /// What of its reply is compared.
    #[must_use]
    pub fn told(&self, reply: Value) -> Value {
        if let Self::Of(operation) = self { operation.told(reply) } else { reply }
    }

    /// Its words, for keys of these names, in databases from `first_db` on.
    #[must_use]
    pub fn words(&self, names: &[String], first_db: usize) -> Vec<Vec<u8>> {
        let name = |key: &Key| names[*key % NAMES].clone().into_bytes();
        let word = |word: &str| word.as_bytes().to_vec();
        let field = |field: &usize| format!("f{field}").into_bytes();
        let all = |first: &str| std::iter::once(word(first)).chain((0..NAMES).map(|key| name(&key))).collect();
        let pairs = |first: &str, value: &Vec<u8>| {
            std::iter::once(word(first)).chain((0..NAMES).flat_map(|key| [name(&key), value.clone()])).collect()
        };
        let db = |db: usize| (first_db + db).to_string().into_bytes();
        match self {
            Self::Get(key) => vec![word("GET"), name(key)],
            Self::Set(key, value, None) => vec![word("SET"), name(key), value.clone()],
            Self::Set(key, value, Some(ms)) => vec![word("SET"), name(key), value.clone(), word("PX"), ms.to_string().into_bytes()],
            Self::Append(key, value) => vec![word("APPEND"), name(key), value.clone()],
            Self::Incr(key) => vec![word("INCR"), name(key)],
            Self::GetDel(key) => vec![word("GETDEL"), name(key)],
            Self::Expire(key, ms) => vec![word("PEXPIRE"), name(key), ms.to_string().into_bytes()],
            Self::Persist(key) => vec![word("PERSIST"), name(key)],
            Self::Del(_) => all("DEL"),
            Self::MGet(_) => all("MGET"),
            Self::MSet(_, value) => pairs("MSET", value),
            Self::MSetNx(_, value) => pairs("MSETNX", value),
            Self::Rename(from, to) => vec![word("RENAME"), name(from), name(to)],
            Self::Copy(from, to) if database(*from) == database(*to) => vec![word("COPY"), name(from), name(to), word("REPLACE")],
            Self::Copy(from, to) => vec![word("COPY"), name(from), name(to), word("DB"), db(database(*to)), word("REPLACE")],
            Self::Move(key) => vec![word("MOVE"), name(key), db((database(*key) + 1) % DATABASES)],
            Self::HSet(key, at, value) => vec![word("HSET"), name(key), field(at), value.clone()],
            Self::HGet(key, at) => vec![word("HGET"), name(key), field(at)],
            Self::HIncr(key, at) => vec![word("HINCRBY"), name(key), field(at), word("1")],
            Self::HDel(key, at) => vec![word("HDEL"), name(key), field(at)],
            Self::HMGet(key) => [word("HMGET"), name(key)].into_iter().chain((0..FIELDS).map(|at| field(&at))).collect(),
            Self::Of(operation) => operation.words(names),
        }
    }
}

/// What happens at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unit {
    /// A command by itself.
    One(Command),
    /// MULTI, these, EXEC; sent to the first one's database. With several databases it selects them, so that it runs alone.
    Exec(Vec<Command>),
    /// The same, in which the second one, the fourth and so on are each called by a script.
    Mixed(Script, Vec<Command>),
    /// A script that calls these, which are of one database.
    Script(Script, Vec<Command>),
    /// WATCH of all keys of a database. What is watched is forgotten by the next EXEC or [`Unit::Unwatch`].
    Watch(usize),
    /// UNWATCH
    Unwatch(usize),
}

impl Unit {
    /// The database to whose connection it is sent.
    #[must_use]
    pub fn database(&self) -> usize {
        match self {
            Self::One(command) => command.database(),
            Self::Exec(commands) | Self::Mixed(_, commands) | Self::Script(_, commands) => {
                commands.first().map_or(0, Command::database)
            }
            Self::Watch(db) | Self::Unwatch(db) => *db,
        }
    }

    /// The script that calls a command of a transaction.
    pub(super) fn script_of(&self, number: usize) -> Option<Script> {
        match self {
            Self::Mixed(script, _) if number % 2 == 1 => Some(*script),
            _ => None,
        }
    }

    /// What is sent. The last reply is the answer; of an array in it, only elements in places of [`Unit::answers`] are.
    #[must_use]
    pub fn words(&self, names: &[String], first_db: usize) -> Vec<Vec<Vec<u8>>> {
        let word = |word: &str| word.as_bytes().to_vec();
        let by_script = |script: Script, commands: &[Command]| {
            let commands: Vec<_> = commands.iter().map(|command| command.words(names, first_db)).collect();
            let keys: Vec<_> = names.iter().map(|name| name.clone().into_bytes()).collect();
            script.words(&commands, &keys)
        };
        match self {
            Self::One(command) => vec![command.words(names, first_db)],
            Self::Script(script, commands) => vec![by_script(*script, commands)],
            Self::Exec(commands) | Self::Mixed(_, commands) => {
                let mut sent = vec![vec![word("MULTI")]];
                let home = self.database();
                let mut db = home;
                for (number, command) in commands.iter().enumerate() {
                    if command.database() != db {
                        db = command.database();
                        sent.push(select(first_db + db));
                    }
                    sent.push(match self.script_of(number) {
                        Some(script) => by_script(script, std::slice::from_ref(command)),
                        None => command.words(names, first_db),
                    });
                }
                if db != home {
                    sent.push(select(first_db + home));
                }
                if runs_alone(commands) {
                    sent.push(vec![word("DBSIZE")]);
                }
                sent.push(vec![word("EXEC")]);
                sent
            }
            Self::Watch(_) => {
                vec![std::iter::once(word("WATCH")).chain(names.iter().map(|name| name.clone().into_bytes())).collect()]
            }
            Self::Unwatch(_) => vec![vec![word("UNWATCH")]],
        }
    }

    /// Which elements of EXEC's reply answer its commands; the others are of SELECT and DBSIZE.
    #[must_use]
    pub fn answers(&self) -> Vec<bool> {
        let commands = match self {
            Self::Exec(commands) | Self::Mixed(_, commands) => commands,
            Self::Script(_, commands) => return vec![true; commands.len()],
            _ => return Vec::new(),
        };
        let (mut answers, mut db) = (Vec::new(), self.database());
        for command in commands {
            if command.database() != db {
                db = command.database();
                answers.push(false);
            }
            answers.push(true);
        }
        if db != self.database() {
            answers.push(false);
        }
        if runs_alone(commands) {
            answers.push(false);
        }
        answers
    }
}

/// Whether a transaction has DBSIZE in it, which may touch any key: half of those over both databases run alone, the others are
/// planned.
fn runs_alone(commands: &[Command]) -> bool {
    commands.len().is_multiple_of(2) && commands.iter().any(|command| command.database() != commands[0].database())
}

/// SELECT of a database.
#[must_use]
pub(super) fn select(db: usize) -> Vec<Vec<u8>> {
    vec![b"SELECT".to_vec(), db.to_string().into_bytes()]
}
