//! The sequential model: what commands answer, which clients wait, and which are served when a list is ready.

use std::collections::{HashSet, VecDeque};

use super::command::{Command, Element, End, KEYS, Key, NAMES, name};
use crate::Value;
use crate::history::expiry::{self, Expiry};

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Content {
    /// Never without elements.
    List(VecDeque<Element>),
    Text,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Stored {
    content: Content,
    expiry: Option<Expiry>,
}

/// All keys of a group, their waiters, and the clients whose commands have ended.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct State {
    keys: [Option<Stored>; KEYS],
    /// Numbers of commands that wait, in the order in which they began to.
    pub(super) waiting: Vec<usize>,
    /// Clients whose commands have ended and have not returned yet, a bit each.
    pub(super) ended: u64,
}

/// Bounds of the time at which something happened.
#[derive(Clone, Copy, Debug)]
pub(super) struct Moment {
    pub(super) called_ns: u64,
    pub(super) returned_ns: u64,
}

/// A command that waits, as the client that serves it sees it.
pub(super) struct Waiter<'h> {
    pub(super) client: usize,
    pub(super) command: &'h Command,
    /// What it was answered, in normal form; `None` when it is unknown.
    pub(super) reply: Option<&'h Value>,
}

fn error(word: &str) -> Value {
    Value::Error(word.as_bytes().to_vec())
}

fn bulk(element: Element) -> Value {
    Value::Bulk(element.to_string().into_bytes())
}

impl State {
    pub(super) fn new() -> Self {
        Self { keys: [const { None }; KEYS], waiting: Vec::new(), ended: 0 }
    }

    /// The states in which something may begin: some keys have expired by then, others may have.
    pub(super) fn beginnings(&self, moment: Moment) -> Vec<Self> {
        let expiry = |key: usize| Some((key, self.keys[key].as_ref()?.expiry?));
        let time_ns = moment.called_ns..moment.returned_ns;
        expiry::beginnings(self, time_ns, (0..KEYS).filter_map(expiry), |state, key| state.keys[key] = None)
    }

    /// Runs a command that does not wait, or that may not. Its answer.
    pub(super) fn run(&mut self, command: &Command, moment: Moment) -> Value {
        match command.blocks() {
            true => self.attempt(command, command.awaited()).unwrap_or(Value::Null),
            false => self.command(command, moment).unwrap_or_else(|error| error),
        }
    }

    /// Tries a command that may wait, on some of its keys. None while there is nothing for it.
    pub(super) fn attempt(&mut self, command: &Command, keys: &[Key]) -> Option<Value> {
        for key in keys {
            match self.list(*key) {
                Ok(None) => {}
                Ok(Some(_)) => return Some(self.take(command, *key).unwrap_or_else(|error| error)),
                Err(error) => return Some(error),
            }
        }
        None
    }

    /// What a command that may wait does with a key that has elements.
    fn take(&mut self, command: &Command, key: Key) -> Result<Value, Value> {
        let name = Value::Bulk(name(key).as_bytes().to_vec());
        Ok(match command {
            Command::BlockingPop(_, end) => Value::Array(vec![name, self.pop(key, *end)?]),
            Command::BlockingPopMany(_, end, count) => {
                let mut elements = Vec::new();
                while elements.len() < *count && self.list(key)?.is_some() {
                    elements.push(self.pop(key, *end)?);
                }
                Value::Array(vec![name, Value::Array(elements)])
            }
            Command::BlockingMove(from, to, take, put) => self.transfer(*from, *to, *take, *put)?,
            other => unreachable!("{other:?} does not wait"),
        })
    }

    /// Serves everybody whose keys are ready, in all orders of ready keys: the first waiter of each key before its others. Adds
    /// the states that agree with what waiters were answered.
    pub(super) fn serve<'h>(self, waiter: impl Fn(usize) -> Waiter<'h>, moment: Moment, states: &mut Vec<Self>) {
        let mut seen = HashSet::new();
        let mut open = vec![self];
        while let Some(state) = open.pop() {
            if !seen.insert(state.clone()) {
                continue;
            }
            for state in state.beginnings(moment) {
                let mut ready = false;
                for key in (0..KEYS).filter(|key| matches!(state.list(*key), Ok(Some(_)))) {
                    let Some(place) = state.waiting.iter().position(|number| waiter(*number).command.awaited().contains(&key))
                    else {
                        continue;
                    };
                    ready = true;
                    let mut next = state.clone();
                    let Waiter { client, command, reply } = waiter(next.waiting.remove(place));
                    let answer = next.attempt(command, &[key]);
                    if reply.is_none() || reply == answer.as_ref() {
                        next.ended |= 1 << client;
                        open.push(next);
                    }
                }
                if !ready {
                    states.push(state);
                }
            }
        }
    }

    fn list(&self, key: Key) -> Result<Option<&VecDeque<Element>>, Value> {
        match &self.keys[key] {
            None => Ok(None),
            Some(Stored { content: Content::List(list), .. }) => Ok(Some(list)),
            Some(_) => Err(error("WRONGTYPE")),
        }
    }

    fn push(&mut self, key: Key, end: End, element: Element) -> Result<(), Value> {
        let stored = self.keys[key].get_or_insert_with(|| Stored { content: Content::List(VecDeque::new()), expiry: None });
        let Content::List(list) = &mut stored.content else { return Err(error("WRONGTYPE")) };
        match end {
            End::Left => list.push_front(element),
            End::Right => list.push_back(element),
        }
        Ok(())
    }

    fn pop(&mut self, key: Key, end: End) -> Result<Value, Value> {
        let Some(Stored { content, .. }) = &mut self.keys[key] else { return Ok(Value::Null) };
        let Content::List(list) = content else { return Err(error("WRONGTYPE")) };
        let element = match end {
            End::Left => list.pop_front(),
            End::Right => list.pop_back(),
        };
        if list.is_empty() {
            self.keys[key] = None;
        }
        Ok(element.map_or(Value::Null, bulk))
    }

    fn transfer(&mut self, from: Key, to: Key, take: End, put: End) -> Result<Value, Value> {
        if self.list(from)?.is_none() {
            return Ok(Value::Null);
        }
        self.list(to)?;
        // A list of one element that is moved onto itself stays where it is, with its expiry.
        let expiry = self.keys[from].as_ref().and_then(|stored| stored.expiry);
        let element = self.pop(from, take)?;
        let Value::Bulk(text) = &element else { return Ok(element) };
        let number = String::from_utf8_lossy(text).parse().expect("the number of an element");
        let lone = from == to && self.keys[from].is_none();
        self.push(to, put, number)?;
        if let Some(stored) = self.keys[to].as_mut().filter(|_| lone) {
            stored.expiry = expiry;
        }
        Ok(element)
    }

    fn command(&mut self, command: &Command, moment: Moment) -> Result<Value, Value> {
        Ok(match command {
            Command::Push(key, end, elements) => {
                self.list(*key)?;
                elements.iter().try_for_each(|element| self.push(*key, *end, *element))?;
                self.length(*key)?
            }
            Command::Pop(key, end) => self.pop(*key, *end)?,
            Command::Move(from, to, take, put) => self.transfer(*from, *to, *take, *put)?,
            Command::Length(key) => self.length(*key)?,
            Command::Range(key) => Value::Array(self.list(*key)?.into_iter().flatten().copied().map(bulk).collect()),
            Command::Del(key) => Value::Integer(i64::from(self.keys[*key].take().is_some())),
            Command::Set(key) => {
                self.keys[*key] = Some(Stored { content: Content::Text, expiry: None });
                Value::ok()
            }
            Command::Expire(key, ms) => {
                let expiry = Expiry::after(*ms, moment.called_ns..moment.returned_ns);
                let stored = self.keys[*key].as_mut();
                Value::Integer(i64::from(stored.map(|stored| stored.expiry = Some(expiry)).is_some()))
            }
            Command::Rename(from, to) => {
                let stored = self.keys[*from].take().ok_or_else(|| error("ERR"))?;
                self.keys[*to] = Some(stored);
                Value::ok()
            }
            Command::Copy(from, to) => match self.keys[*from].clone() {
                Some(stored) => {
                    self.keys[*to] = Some(stored);
                    Value::Integer(1)
                }
                None => Value::Integer(0),
            },
            Command::MoveDatabase(key) => {
                let to = (key + NAMES.len()) % KEYS;
                let moves = self.keys[*key].is_some() && self.keys[to].is_none();
                if moves {
                    self.keys[to] = self.keys[*key].take();
                }
                Value::Integer(i64::from(moves))
            }
            Command::Restore(key, elements, _) => {
                let content = Content::List(elements.iter().copied().collect());
                self.keys[*key] = Some(Stored { content, expiry: None });
                Value::ok()
            }
            Command::Swap => {
                let (first, second) = self.keys.split_at_mut(NAMES.len());
                first.swap_with_slice(second);
                Value::ok()
            }
            other => unreachable!("{other:?} may wait"),
        })
    }

    fn length(&self, key: Key) -> Result<Value, Value> {
        Ok(Value::Integer(self.list(key)?.map_or(0, VecDeque::len) as i64))
    }
}
