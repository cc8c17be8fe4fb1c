//! The sequential model: what a unit answers and leaves behind.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use super::command::{Command, DATABASES, KEYS, Key, NAMES, Unit, database};
use super::contents::Stream;
use crate::Value;
use crate::history::expiry::{self, Expiry};
use crate::scripted;

type Bytes = Arc<[u8]>;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Content {
    Text(Bytes),
    Hash(BTreeMap<usize, Bytes>),
    Set(BTreeSet<usize>),
    List(VecDeque<Bytes>),
    SortedSet(BTreeMap<usize, i64>),
    Stream(Stream),
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Stored {
    content: Content,
    expiry: Option<Expiry>,
}

/// What one client watches on its connection to a database.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct Watched {
    watches: bool,
    /// One of the keys has changed since.
    changed: bool,
}

/// All keys of a group, and the clients that watch them.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct State {
    keys: Vec<Option<Stored>>,
    /// By client and database.
    watched: Vec<[Watched; DATABASES]>,
}

/// When an operation was sent and when its answer was there.
#[derive(Clone, Copy, Debug)]
pub(super) struct Moment {
    pub(super) client: usize,
    pub(super) called_ns: u64,
    /// No later than this it took effect.
    pub(super) returned_ns: u64,
}

pub(super) fn error(text: &str) -> Value {
    Value::Error(text.as_bytes().to_vec())
}

pub(super) fn wrong_type() -> Value {
    error("WRONGTYPE Operation against a key holding the wrong kind of value")
}

pub(super) fn bulk(bytes: Option<&Bytes>) -> Value {
    bytes.map_or(Value::NullBulk, |bytes| Value::Bulk(bytes.to_vec()))
}

fn number(bytes: Option<&Bytes>) -> Option<i64> {
    bytes.map_or(Some(0), |bytes| std::str::from_utf8(bytes).ok()?.parse().ok())
}

impl State {
    pub(super) fn new(clients: usize) -> Self {
        Self { keys: vec![None; KEYS], watched: vec![[Watched::default(); DATABASES]; clients] }
    }

    /// The states in which a unit may begin: some keys have expired by then, others may have.
    pub(super) fn beginnings(&self, moment: Moment) -> Vec<Self> {
        let expiry = |key: usize| Some((key, self.keys[key].as_ref()?.expiry?));
        let time_ns = moment.called_ns..moment.returned_ns;
        expiry::beginnings(self, time_ns, (0..KEYS).filter_map(expiry), |state, key| state.put(key, None))
    }

    /// Gives a key another value, or none, which is a change.
    fn put(&mut self, key: Key, stored: Option<Stored>) {
        self.keys[key] = stored;
        self.touch(key);
    }

    fn touch(&mut self, key: Key) {
        self.watched.iter_mut().map(|watched| &mut watched[database(key)]).for_each(|watched| watched.changed |= watched.watches);
    }

    /// A unit is refused.
    pub(super) fn refuse(&mut self, unit: &Unit, client: usize) {
        if matches!(unit, Unit::Exec(_) | Unit::Mixed(..)) {
            self.watched[client][unit.database()] = Watched::default();
        }
    }

    /// Runs a unit. Its answer.
    pub(super) fn run(&mut self, unit: &Unit, moment: Moment) -> Value {
        match unit {
            Unit::One(command) => self.command(command, moment),
            Unit::Watch(db) => {
                self.watched[moment.client][*db].watches = true;
                Value::ok()
            }
            Unit::Unwatch(db) => {
                self.watched[moment.client][*db] = Watched::default();
                Value::ok()
            }
            Unit::Script(_, commands) => {
                scripted::told(Value::Array(commands.iter().map(|command| self.command(command, moment)).collect()))
            }
            Unit::Exec(commands) | Unit::Mixed(_, commands) => {
                let watched = std::mem::take(&mut self.watched[moment.client][unit.database()]);
                if watched.changed {
                    return Value::NullArray;
                }
                let answer = |(number, command)| match (unit.script_of(number), self.command(command, moment)) {
                    (Some(_), answer) => scripted::told(answer),
                    (None, answer) => answer,
                };
                Value::Array(commands.iter().enumerate().map(answer).collect())
            }
        }
    }

    fn text(&self, key: Key) -> Result<Option<&Bytes>, Value> {
        match &self.keys[key] {
            None => Ok(None),
            Some(Stored { content: Content::Text(text), .. }) => Ok(Some(text)),
            Some(_) => Err(wrong_type()),
        }
    }

    fn hash(&self, key: Key) -> Result<Option<&BTreeMap<usize, Bytes>>, Value> {
        match &self.keys[key] {
            None => Ok(None),
            Some(Stored { content: Content::Hash(fields), .. }) => Ok(Some(fields)),
            Some(_) => Err(wrong_type()),
        }
    }

    pub(super) fn content(&self, key: Key) -> Option<&Content> {
        self.keys[key].as_ref().map(|stored| &stored.content)
    }

    /// Removes a key, which is a change if there is one.
    pub(super) fn remove(&mut self, key: Key) {
        if self.keys[key].is_some() {
            self.put(key, None);
        }
    }

    fn set(&mut self, key: Key, text: &[u8], expiry: Option<Expiry>) {
        self.put(key, Some(Stored { content: Content::Text(text.into()), expiry }));
    }

    /// Another content, of a key that keeps its expiry.
    pub(super) fn change(&mut self, key: Key, content: Content) {
        let expiry = self.keys[key].as_ref().and_then(|stored| stored.expiry);
        self.put(key, Some(Stored { content, expiry }));
    }

    fn command(&mut self, command: &Command, moment: Moment) -> Value {
        self.try_command(command, moment).unwrap_or_else(|error| error)
    }

    fn try_command(&mut self, command: &Command, moment: Moment) -> Result<Value, Value> {
        let after = |ms: u64| Expiry::after(ms, moment.called_ns..moment.returned_ns);
        Ok(match command {
            Command::Get(key) => bulk(self.text(*key)?),
            Command::Set(key, text, ms) => {
                self.set(*key, text, ms.map(after));
                Value::ok()
            }
            Command::Append(key, more) => {
                let text = [self.text(*key)?.map_or(&[][..], |text| text), more].concat();
                let len = text.len();
                self.change(*key, Content::Text(text.into()));
                Value::Integer(len as i64)
            }
            Command::Incr(key) => {
                let number = number(self.text(*key)?).ok_or_else(|| error("ERR value is not an integer or out of range"))? + 1;
                self.change(*key, Content::Text(number.to_string().into_bytes().into()));
                Value::Integer(number)
            }
            Command::GetDel(key) => {
                let answer = bulk(self.text(*key)?);
                if self.keys[*key].is_some() {
                    self.put(*key, None);
                }
                answer
            }
            Command::Expire(key, ms) => match self.keys[*key].clone() {
                Some(stored) => {
                    self.put(*key, Some(Stored { expiry: Some(after(*ms)), ..stored }));
                    Value::Integer(1)
                }
                None => Value::Integer(0),
            },
            Command::Persist(key) => match self.keys[*key].clone().filter(|stored| stored.expiry.is_some()) {
                Some(stored) => {
                    self.put(*key, Some(Stored { expiry: None, ..stored }));
                    Value::Integer(1)
                }
                None => Value::Integer(0),
            },
            Command::Rename(from, to) => {
                let stored = self.keys[*from].clone().ok_or_else(|| error("ERR no such key"))?;
                self.put(*from, None);
                self.put(*to, Some(stored));
                Value::ok()
            }
            Command::Copy(from, to) => match self.keys[*from].clone() {
                Some(stored) => {
                    self.put(*to, Some(stored));
                    Value::Integer(1)
                }
                None => Value::Integer(0),
            },
            Command::Move(key) => {
                let to = (key + NAMES) % KEYS;
                match self.keys[*key].clone().filter(|_| self.keys[to].is_none()) {
                    Some(stored) => {
                        self.put(*key, None);
                        self.put(to, Some(stored));
                        Value::Integer(1)
                    }
                    None => Value::Integer(0),
                }
            }
            Command::Del(db) | Command::MGet(db) | Command::MSet(db, _) | Command::MSetNx(db, _) => self.several(*db, command),
            Command::HSet(key, ..)
            | Command::HGet(key, _)
            | Command::HIncr(key, _)
            | Command::HDel(key, _)
            | Command::HMGet(key) => self.fields(*key, command)?,
            Command::Of(operation) => self.operation(operation)?,
        })
    }

    /// A command on all keys of a database.
    fn several(&mut self, db: usize, command: &Command) -> Value {
        let keys = db * NAMES..(db + 1) * NAMES;
        let exist = keys.clone().filter(|key| self.keys[*key].is_some()).count();
        match command {
            Command::Del(_) => {
                keys.for_each(|key| {
                    if self.keys[key].is_some() {
                        self.put(key, None);
                    }
                });
                Value::Integer(exist as i64)
            }
            Command::MSet(_, text) => {
                keys.for_each(|key| self.set(key, text, None));
                Value::ok()
            }
            Command::MSetNx(_, text) => {
                if exist == 0 {
                    keys.for_each(|key| self.set(key, text, None));
                }
                Value::Integer(i64::from(exist == 0))
            }
            _ => Value::Array(keys.map(|key| self.text(key).map_or(Value::NullBulk, bulk)).collect()),
        }
    }

    /// A command on a hash.
    fn fields(&mut self, key: Key, command: &Command) -> Result<Value, Value> {
        let mut fields = self.hash(key)?.cloned().unwrap_or_default();
        Ok(match command {
            Command::HSet(_, at, text) => {
                let new = fields.insert(*at, text.as_slice().into()).is_none();
                self.change(key, Content::Hash(fields));
                Value::Integer(i64::from(new))
            }
            Command::HIncr(_, at) => {
                let number = number(fields.get(at)).ok_or_else(|| error("ERR hash value is not an integer"))? + 1;
                fields.insert(*at, number.to_string().into_bytes().into());
                self.change(key, Content::Hash(fields));
                Value::Integer(number)
            }
            Command::HDel(_, at) => {
                let removed = fields.remove(at).is_some();
                if removed && fields.is_empty() {
                    self.put(key, None);
                } else if removed {
                    self.change(key, Content::Hash(fields));
                }
                Value::Integer(i64::from(removed))
            }
            Command::HGet(_, at) => bulk(fields.get(at)),
            _ => Value::Array((0..3).map(|at| bulk(fields.get(&at))).collect()),
        })
    }
}
