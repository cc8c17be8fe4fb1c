//! The model of collections: what an operation answers and leaves behind.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use super::collection::{MEMBERS, Operation, STREAM_MAX, member, no_group};
use super::command::Key;
use super::model::{Content, State, bulk, error, wrong_type};
use crate::Value;

type Bytes = Arc<[u8]>;

/// A stream whose ids are 1-0, 1-1 and so on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Stream {
    entries: BTreeMap<u64, Bytes>,
    /// The number that the next entry gets.
    next: u64,
    group: Option<Group>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Group {
    /// Entries below it were delivered.
    from: u64,
    pending: BTreeSet<u64>,
}

/// A way to find a type in a content, and to make one of it.
pub(super) trait Collection: Clone + Default {
    fn of(content: &Content) -> Option<&Self>;
    fn content(self) -> Content;
    /// Whether a key with it goes.
    fn is_gone(&self) -> bool;
}

macro_rules! collection {
    ($type:ty, $variant:ident, $gone:expr) => {
        impl Collection for $type {
            fn of(content: &Content) -> Option<&Self> {
                if let Content::$variant(own) = content { Some(own) } else { None }
            }
            fn content(self) -> Content {
                Content::$variant(self)
            }
            fn is_gone(&self) -> bool {
                let gone: fn(&Self) -> bool = $gone;
                gone(self)
            }
        }
    };
}

collection!(BTreeSet<usize>, Set, BTreeSet::is_empty);
collection!(VecDeque<Bytes>, List, VecDeque::is_empty);
collection!(BTreeMap<usize, i64>, SortedSet, BTreeMap::is_empty);
collection!(Stream, Stream, |_| false);

fn count(number: usize) -> Value {
    Value::Integer(number as i64)
}

fn text(text: &str) -> Value {
    Value::Bulk(text.as_bytes().to_vec())
}

/// Members in the order of their scores.
fn ordered(set: &BTreeMap<usize, i64>) -> Vec<(i64, usize)> {
    let mut all: Vec<(i64, usize)> = set.iter().map(|(member, score)| (*score, *member)).collect();
    all.sort_unstable();
    all
}

fn scored(all: &[(i64, usize)]) -> Value {
    Value::Array(all.iter().flat_map(|(score, at)| [text(&member(*at)), text(&score.to_string())]).collect())
}

fn id(number: u64) -> Value {
    text(&format!("1-{number}"))
}

fn entry(number: u64, value: &Bytes) -> Value {
    Value::Array(vec![id(number), Value::Array(vec![text("f"), bulk(Some(value))])])
}

fn push(list: &mut VecDeque<Bytes>, left: bool, element: Bytes) {
    if left { list.push_front(element) } else { list.push_back(element) }
}

fn pop(list: &mut VecDeque<Bytes>, left: bool) -> Option<Bytes> {
    if left { list.pop_front() } else { list.pop_back() }
}

impl State {
    /// The collection of a key, if that is one of its type or none.
    fn open<C: Collection>(&self, key: Key) -> Result<Option<C>, Value> {
        self.content(key).map(|content| C::of(content).cloned().ok_or_else(wrong_type)).transpose()
    }

    /// Gives a key another content, which keeps its expiry; or removes it.
    fn close<C: Collection>(&mut self, key: Key, collection: C) {
        if collection.is_gone() {
            self.remove(key);
        } else {
            self.change(key, collection.content());
        }
    }

    /// Gives a key a content whatever it had, or removes it.
    fn store<C: Collection>(&mut self, key: Key, collection: C) {
        self.remove(key);
        if !collection.is_gone() {
            self.change(key, collection.content());
        }
    }

    /// Runs an operation. Its answer.
    pub(super) fn operation(&mut self, operation: &Operation) -> Result<Value, Value> {
        use Operation as O;
        match operation {
            O::SAdd(..) | O::SRem(..) | O::SMove(..) | O::SUnionStore(..) | O::SMembers(_) => self.set_operation(operation),
            O::Push(..) | O::Pop(..) | O::LMove(..) | O::LRange(_) => self.list_operation(operation),
            O::ZAdd(..) | O::ZPopMin(_) | O::ZRangeStore(..) | O::ZRange(_) => self.sorted_set_operation(operation),
            _ => self.stream_operation(operation),
        }
    }

    fn set_operation(&mut self, operation: &Operation) -> Result<Value, Value> {
        let mut set: BTreeSet<usize> = match operation {
            // Whether there is a source is looked at before the types are.
            Operation::SMove(from, ..) if self.content(*from).is_none() => return Ok(count(0)),
            operation => self.open(operation.key())?.unwrap_or_default(),
        };
        Ok(match operation {
            Operation::SAdd(key, members) => {
                let new = members.iter().filter(|member| set.insert(**member)).count();
                if new > 0 {
                    self.close(*key, set);
                }
                count(new)
            }
            Operation::SRem(key, member) => {
                let was = set.remove(member);
                if was {
                    self.close(*key, set);
                }
                Value::Integer(i64::from(was))
            }
            Operation::SMove(from, to, member) => {
                let mut other: BTreeSet<usize> = self.open(*to)?.unwrap_or_default();
                let was = set.remove(member);
                if was {
                    self.close(*from, set);
                    if other.insert(*member) {
                        self.close(*to, other);
                    }
                }
                Value::Integer(i64::from(was))
            }
            Operation::SUnionStore(to, other) => {
                set.extend(self.open::<BTreeSet<usize>>(*other)?.unwrap_or_default());
                let len = set.len();
                self.store(*to, set);
                count(len)
            }
            _ => Value::Array((0..MEMBERS).map(|member| Value::Integer(i64::from(set.contains(&member)))).collect()),
        })
    }

    fn list_operation(&mut self, operation: &Operation) -> Result<Value, Value> {
        let mut list: VecDeque<Bytes> = self.open(operation.key())?.unwrap_or_default();
        Ok(match operation {
            Operation::Push(key, left, value) => {
                push(&mut list, *left, value.as_slice().into());
                let len = list.len();
                self.close(*key, list);
                count(len)
            }
            Operation::Pop(key, left) => {
                let Some(element) = pop(&mut list, *left) else { return Ok(Value::NullBulk) };
                self.close(*key, list);
                bulk(Some(&element))
            }
            Operation::LMove(from, to, left, to_left) => {
                if list.is_empty() {
                    return Ok(Value::NullBulk);
                }
                let other: Option<VecDeque<Bytes>> = self.open(*to)?;
                let Some(element) = pop(&mut list, *left) else { return Ok(Value::NullBulk) };
                if from == to {
                    push(&mut list, *to_left, Arc::clone(&element));
                } else {
                    let mut other = other.unwrap_or_default();
                    push(&mut other, *to_left, Arc::clone(&element));
                    self.close(*to, other);
                }
                self.close(*from, list);
                bulk(Some(&element))
            }
            _ => Value::Array(list.iter().map(|element| bulk(Some(element))).collect()),
        })
    }

    fn sorted_set_operation(&mut self, operation: &Operation) -> Result<Value, Value> {
        if let Operation::ZRangeStore(to, from) = operation {
            let set: BTreeMap<usize, i64> = self.open(*from)?.unwrap_or_default();
            let stored: BTreeMap<usize, i64> = ordered(&set).into_iter().take(2).map(|(score, member)| (member, score)).collect();
            let len = stored.len();
            self.store(*to, stored);
            return Ok(count(len));
        }
        let mut set: BTreeMap<usize, i64> = self.open(operation.key())?.unwrap_or_default();
        let all = ordered(&set);
        Ok(match operation {
            Operation::ZAdd(key, score, member) => {
                let before = set.insert(*member, *score);
                if before != Some(*score) {
                    self.close(*key, set);
                }
                Value::Integer(i64::from(before.is_none()))
            }
            Operation::ZPopMin(key) => {
                let Some(first) = all.first() else { return Ok(Value::Array(Vec::new())) };
                set.remove(&first.1);
                self.close(*key, set);
                scored(&all[..1])
            }
            _ => scored(&all),
        })
    }

    fn stream_operation(&mut self, operation: &Operation) -> Result<Value, Value> {
        let key = operation.key();
        let mut stream: Stream = self.open(key)?.unwrap_or_default();
        Ok(match operation {
            Operation::XAdd(_, value) => {
                let number = stream.next;
                stream.entries.insert(number, value.as_slice().into());
                stream.next += 1;
                while stream.entries.len() > STREAM_MAX {
                    stream.entries.pop_first();
                }
                self.close(key, stream);
                id(number)
            }
            Operation::XDel(_, number) => {
                let was = stream.entries.remove(number).is_some();
                if was {
                    self.close(key, stream);
                }
                Value::Integer(i64::from(was))
            }
            Operation::XGroup(_) => {
                if stream.group.is_some() {
                    return Err(error("BUSYGROUP Consumer Group name already exists"));
                }
                stream.group = Some(Group::default());
                self.close(key, stream);
                Value::ok()
            }
            Operation::XRange(_) => Value::Array(stream.entries.iter().map(|(number, value)| entry(*number, value)).collect()),
            Operation::XAck(_, number) => {
                let was = stream.group.as_mut().is_some_and(|group| group.pending.remove(number));
                if was {
                    self.close(key, stream);
                }
                Value::Integer(i64::from(was))
            }
            _ => {
                let Some(group) = &mut stream.group else { return Err(no_group()) };
                if *operation == Operation::XPending(key) {
                    return Ok(summary(&group.pending));
                }
                let next = stream.entries.range(group.from..).next().map(|(number, value)| (*number, Arc::clone(value)));
                let Some((number, value)) = next else { return Ok(Value::NullArray) };
                group.from = number + 1;
                group.pending.insert(number);
                self.close(key, stream);
                Value::Array(vec![entry(number, &value)])
            }
        })
    }
}

/// What XPENDING answers of a group with one consumer.
fn summary(pending: &BTreeSet<u64>) -> Value {
    let end = |number: Option<&u64>| number.map_or(Value::NullBulk, |number| id(*number));
    let consumer = Value::Array(vec![text("c"), text(&pending.len().to_string())]);
    let consumers = if pending.is_empty() { Value::NullArray } else { Value::Array(vec![consumer]) };
    Value::Array(vec![count(pending.len()), end(pending.first()), end(pending.last()), consumers])
}
