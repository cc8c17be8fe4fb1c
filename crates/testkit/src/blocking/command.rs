//! What clients of a history send: commands on a group's lists, transactions of them, and what ends the waiting of others.

use crate::scripted::Script;
use crate::{Random, Value};

/// Names of a group's keys, each in both of its databases.
pub(super) const NAMES: [&str; 3] = ["a", "b", "c"];
/// Keys of a group.
pub(super) const KEYS: usize = 2 * NAMES.len();
/// A key: its name's number, behind it that of its database.
pub(super) type Key = usize;
/// An element, by a number that occurs once in a run.
pub(super) type Element = u32;

/// One end of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The head.
    Left,
    /// The tail.
    Right,
}

impl End {
    fn random(random: &mut Random) -> Self {
        *random.pick(&[Self::Left, Self::Right])
    }

    fn word(self) -> &'static str {
        match self {
            Self::Left => "LEFT",
            Self::Right => "RIGHT",
        }
    }

    fn letter(self) -> &'static str {
        &self.word()[..1]
    }
}

/// One command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// LPUSH, RPUSH
    Push(Key, End, Vec<Element>),
    /// LPOP, RPOP
    Pop(Key, End),
    /// LMOVE: from, to, and the ends of both
    Move(Key, Key, End, End),
    /// LLEN
    Length(Key),
    /// LRANGE of all
    Range(Key),
    /// DEL
    Del(Key),
    /// SET, so that the key is no list
    Set(Key),
    /// PEXPIRE, in milliseconds
    Expire(Key, u64),
    /// RENAME
    Rename(Key, Key),
    /// COPY … REPLACE, to either database
    Copy(Key, Key),
    /// MOVE to the other database
    MoveDatabase(Key),
    /// RESTORE of a list with these elements, by its payload
    Restore(Key, Vec<Element>, Vec<u8>),
    /// SWAPDB of the group's databases
    Swap,
    /// BLPOP, BRPOP
    BlockingPop(Vec<Key>, End),
    /// BLMPOP, with COUNT
    BlockingPopMany(Vec<Key>, End, usize),
    /// BLMOVE; BRPOPLPUSH where the ends are its
    BlockingMove(Key, Key, End, End),
}

impl Command {
    /// A random one that does not wait, on keys of a database. `element` gives numbers of elements. A
    /// list that is restored has no payload yet.
    pub(super) fn random(db: usize, random: &mut Random, element: &mut impl FnMut() -> Element) -> Self {
        let key = random_key(db, random);
        let other = random_key(db, random);
        let end = End::random(random);
        match random.below(100) {
            0..40 => {
                let count = if random.chance(60) { 1 } else { 2 + random.below(4) };
                Self::Push(key, end, (0..count).map(|_| element()).collect())
            }
            40..48 => Self::Pop(key, end),
            48..58 => Self::Move(key, other, end, End::random(random)),
            58..62 => Self::Length(key),
            62..68 => Self::Range(key),
            68..73 => Self::Del(key),
            73 => Self::Set(key),
            74..79 => Self::Expire(key, 1 + random.below(8) as u64),
            79..86 => Self::Rename(key, other),
            86..90 => Self::Copy(key, if random.chance(50) && key != other { other } else { (key + NAMES.len()) % KEYS }),
            90..93 => Self::MoveDatabase(key),
            93..97 => Self::Restore(key, (0..1 + random.below(3)).map(|_| element()).collect(), Vec::new()),
            _ => Self::Swap,
        }
    }

    /// A random one that waits while there is nothing; a move only where the server has them.
    pub(super) fn random_blocking(db: usize, moves: bool, random: &mut Random) -> Self {
        let end = End::random(random);
        let mut keys = vec![random_key(db, random)];
        if random.chance(30) {
            keys.push(random_key(db, random));
        }
        match random.below(if moves { 10 } else { 7 }) {
            0..5 => Self::BlockingPop(keys, end),
            5 | 6 => Self::BlockingPopMany(keys, end, 1 + random.below(3)),
            _ => Self::BlockingMove(keys[0], random_key(db, random), end, End::random(random)),
        }
    }

    /// Whether it may wait.
    pub(super) fn blocks(&self) -> bool {
        !self.awaited().is_empty()
    }

    /// The keys that it waits for.
    pub(super) fn awaited(&self) -> &[Key] {
        match self {
            Self::BlockingPop(keys, _) | Self::BlockingPopMany(keys, ..) => keys,
            Self::BlockingMove(from, ..) => std::slice::from_ref(from),
            _ => &[],
        }
    }

    /// The database that it is sent to.
    pub(super) fn database(&self) -> usize {
        match self {
            Self::Push(key, ..)
            | Self::Pop(key, _)
            | Self::Move(key, ..)
            | Self::Length(key)
            | Self::Range(key)
            | Self::Del(key)
            | Self::Set(key)
            | Self::Expire(key, _)
            | Self::Rename(key, _)
            | Self::Copy(key, _)
            | Self::MoveDatabase(key)
            | Self::Restore(key, ..)
            | Self::BlockingMove(key, ..) => database(*key),
            Self::BlockingPop(keys, _) | Self::BlockingPopMany(keys, ..) => database(keys[0]),
            Self::Swap => 0,
        }
    }

    /// Its words; of those that wait, with a timeout in milliseconds. `first_db` is the number of the group's first database.
    pub(super) fn words(&self, timeout_ms: u64, first_db: usize) -> Vec<Vec<u8>> {
        let timeout = || format!("{}.{:03}", timeout_ms / 1000, timeout_ms % 1000);
        let mut words: Vec<Vec<u8>> = Vec::new();
        let mut say = |more: &[&str]| words.extend(more.iter().map(|word| word.as_bytes().to_vec()));
        match self {
            Self::Push(key, end, elements) => {
                say(&[&format!("{}PUSH", end.letter()), name(*key)]);
                words.extend(elements.iter().map(|element| text(*element)));
            }
            Self::Pop(key, end) => say(&[&format!("{}POP", end.letter()), name(*key)]),
            Self::Move(from, to, take, put) => say(&["LMOVE", name(*from), name(*to), take.word(), put.word()]),
            Self::Length(key) => say(&["LLEN", name(*key)]),
            Self::Range(key) => say(&["LRANGE", name(*key), "0", "-1"]),
            Self::Del(key) => say(&["DEL", name(*key)]),
            Self::Set(key) => say(&["SET", name(*key), "text"]),
            Self::Expire(key, ms) => say(&["PEXPIRE", name(*key), &ms.to_string()]),
            Self::Rename(from, to) => say(&["RENAME", name(*from), name(*to)]),
            Self::Copy(from, to) => {
                say(&["COPY", name(*from), name(*to), "DB", &(first_db + database(*to)).to_string(), "REPLACE"]);
            }
            Self::MoveDatabase(key) => say(&["MOVE", name(*key), &(first_db + 1 - database(*key)).to_string()]),
            Self::Restore(key, _, payload) => {
                say(&["RESTORE", name(*key), "0"]);
                words.extend([payload.clone(), b"REPLACE".to_vec()]);
            }
            Self::Swap => say(&["SWAPDB", &first_db.to_string(), &(first_db + 1).to_string()]),
            Self::BlockingPop(keys, end) => {
                say(&[&format!("B{}POP", end.letter())]);
                say(&keys.iter().map(|key| name(*key)).collect::<Vec<_>>());
                say(&[&timeout()]);
            }
            Self::BlockingPopMany(keys, end, count) => {
                say(&["BLMPOP", &timeout(), &keys.len().to_string()]);
                say(&keys.iter().map(|key| name(*key)).collect::<Vec<_>>());
                say(&[end.word(), "COUNT", &count.to_string()]);
            }
            Self::BlockingMove(from, to, End::Right, End::Left) => say(&["BRPOPLPUSH", name(*from), name(*to), &timeout()]),
            Self::BlockingMove(from, to, take, put) => {
                say(&["BLMOVE", name(*from), name(*to), take.word(), put.word(), &timeout()]);
            }
        }
        words
    }
}

fn random_key(db: usize, random: &mut Random) -> Key {
    // One key is the busiest, so that several wait for it.
    let name = [0, 0, 1, 2][random.below(4)];
    db * NAMES.len() + name
}

/// The database of a key, 0 or 1.
pub(super) fn database(key: Key) -> usize {
    key / NAMES.len()
}

/// The name of a key.
pub(super) fn name(key: Key) -> &'static str {
    NAMES[key % NAMES.len()]
}

/// An element as it is stored: its number, and some of them long.
pub(super) fn text(element: Element) -> Vec<u8> {
    let len = match element % 23 {
        0 => 3_000,
        1..4 => 70,
        _ => 0,
    };
    [element.to_string().as_bytes(), &vec![b'.'; len]].concat()
}

/// What is done at one moment, or what waits for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// A command by itself.
    One(Command),
    /// MULTI, these, EXEC. Nothing waits in there.
    Exec(Vec<Command>),
    /// A script that calls these, none of which may wait.
    Script(Script, Vec<Command>),
    /// MULTI, the first of these, a script that calls the others, EXEC.
    Mixed(Script, Vec<Command>),
    /// CLIENT UNBLOCK of a connection, with an error or as if its time were over.
    Unblock(u64, bool),
}

impl Action {
    /// The database that it is sent to.
    pub(super) fn database(&self) -> usize {
        match self {
            Self::One(command) => command.database(),
            Self::Exec(commands) | Self::Script(_, commands) | Self::Mixed(_, commands) => {
                commands.first().map_or(0, Command::database)
            }
            Self::Unblock(..) => 0,
        }
    }

    /// Whether it may wait.
    pub(super) fn blocks(&self) -> bool {
        matches!(self, Self::One(command) if command.blocks())
    }

    /// What is sent. The last reply is the answer.
    pub(super) fn words(&self, timeout_ms: u64, first_db: usize) -> Vec<Vec<Vec<u8>>> {
        let line = |line: String| line.split(' ').map(|word| word.as_bytes().to_vec()).collect();
        let commands = match self {
            Self::One(command) => vec![command.words(timeout_ms, first_db)],
            Self::Exec(commands) => {
                let commands = commands.iter().map(|command| command.words(timeout_ms, first_db));
                std::iter::once(line("MULTI".to_owned())).chain(commands).chain([line("EXEC".to_owned())]).collect()
            }
            Self::Script(script, commands) => {
                let commands: Vec<_> = commands.iter().map(|command| command.words(timeout_ms, first_db)).collect();
                vec![script.words(&commands, &NAMES.map(|name| name.as_bytes().to_vec()))]
            }
            Self::Mixed(script, commands) => {
                let commands: Vec<_> = commands.iter().map(|command| command.words(timeout_ms, first_db)).collect();
                let (first, others) = commands.split_first().expect("a transaction has commands");
                let eval = script.words(others, &NAMES.map(|name| name.as_bytes().to_vec()));
                vec![line("MULTI".to_owned()), first.clone(), eval, line("EXEC".to_owned())]
            }
            Self::Unblock(connection, with_error) => {
                vec![line(format!("CLIENT UNBLOCK {connection} {}", if *with_error { "ERROR" } else { "TIMEOUT" }))]
            }
        };
        std::iter::once(line(format!("SELECT {}", first_db + self.database()))).chain(commands).collect()
    }
}

/// What a transaction with a script has answered, as if its commands had been there by themselves.
pub(super) fn flat(action: &Action, reply: Value) -> Value {
    match (action, reply) {
        (Action::Mixed(..), Value::Array(mut items)) if matches!(items[..], [_, Value::Array(_)]) => {
            if let Some(Value::Array(others)) = items.pop() {
                items.extend(others);
            }
            Value::Array(items)
        }
        (_, reply) => reply,
    }
}

/// A reply as the model gives it: elements by number alone, one null, and of errors the first word.
pub(super) fn normal(reply: &Value) -> Value {
    match reply {
        reply if reply.is_null() => Value::Null,
        Value::Error(text) => Value::Error(text.split(|byte| *byte == b' ').next().unwrap_or_default().to_vec()),
        Value::Bulk(text) if text.first().is_some_and(u8::is_ascii_digit) => {
            Value::Bulk(text.iter().copied().take_while(u8::is_ascii_digit).collect())
        }
        Value::Array(items) => Value::Array(items.iter().map(normal).collect()),
        reply => reply.clone(),
    }
}
