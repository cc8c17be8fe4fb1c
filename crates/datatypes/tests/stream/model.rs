//! A naive stream, and the comparison with ours.

use std::collections::BTreeMap;

use almandine_base::object::Object;
use almandine_datatypes::stream::{Group, Keep, NodeLimits, Pending, StreamEntry, StreamId, StreamObject, Trim, UNOWNED};
use almandine_testkit::random::Random;

/// Fields with values.
pub(crate) type Pairs = Vec<(Vec<u8>, Vec<u8>)>;

#[derive(Clone, Debug, Default)]
pub(crate) struct ModelGroup {
    pub(crate) last_id: StreamId,
    pub(crate) read: Option<u64>,
    /// Seen, active.
    pub(crate) consumers: BTreeMap<Vec<u8>, (u64, Option<u64>)>,
    /// Owner, or none; time; deliveries.
    pub(crate) pending: BTreeMap<StreamId, (Option<Vec<u8>>, u64, u64)>,
}

/// A node of Redis: its entries, and how many it ever had.
#[derive(Clone, Debug, Default)]
pub(crate) struct Node {
    pub(crate) entries: BTreeMap<StreamId, Pairs>,
    pub(crate) total: usize,
    pub(crate) last: StreamId,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Model {
    pub(crate) nodes: Vec<Node>,
    pub(crate) last_id: StreamId,
    pub(crate) max_deleted: StreamId,
    pub(crate) added: u64,
    pub(crate) groups: BTreeMap<Vec<u8>, ModelGroup>,
}

impl Model {
    pub(crate) fn entries(&self) -> impl DoubleEndedIterator<Item = (&StreamId, &Pairs)> {
        self.nodes.iter().flat_map(|node| &node.entries)
    }

    pub(crate) fn len(&self) -> u64 {
        self.nodes.iter().map(|node| node.entries.len() as u64).sum()
    }

    /// Nodes are full by their entries only.
    pub(crate) fn append(&mut self, id: StreamId, pairs: Pairs, entries_max: usize) {
        if self.nodes.last().is_none_or(|node| node.total >= entries_max) {
            self.nodes.push(Node::default());
        }
        let node = self.nodes.last_mut().unwrap();
        node.entries.insert(id, pairs);
        (node.total, node.last) = (node.total + 1, id);
        (self.last_id, self.added) = (id, self.added + 1);
    }

    pub(crate) fn remove(&mut self, id: StreamId) -> bool {
        let removed = self.nodes.iter_mut().any(|node| node.entries.remove(&id).is_some());
        self.nodes.retain(|node| !node.entries.is_empty());
        if removed {
            self.max_deleted = self.max_deleted.max(id);
        }
        removed
    }

    /// As Redis documents it, entry after entry and node after node.
    pub(crate) fn trim(&mut self, trim: &Trim) -> u64 {
        let before = self.len();
        if trim.approximate {
            while let Some(node) = self.nodes.first() {
                let (len, entries) = (self.len(), node.entries.len() as u64);
                let goes = match trim.keep {
                    Keep::Newest(max) => len > max && len - entries >= max,
                    Keep::From(id) => node.last < id,
                };
                if !goes || trim.limit.is_some_and(|limit| before - len + entries > limit) {
                    break;
                }
                self.nodes.remove(0);
            }
            return before - self.len();
        }
        loop {
            let Some((id, _)) = self.entries().next().map(|(id, pairs)| (*id, pairs)) else { break };
            let goes = match trim.keep {
                Keep::Newest(max) => self.len() > max,
                Keep::From(from) => id < from,
            };
            if !goes {
                break;
            }
            self.nodes.iter_mut().for_each(|node| drop(node.entries.remove(&id)));
            self.nodes.retain(|node| !node.entries.is_empty());
        }
        before - self.len()
    }
}

pub(crate) fn owned(entry: StreamEntry) -> (StreamId, Pairs) {
    (entry.id, entry.fields.map(|(name, value)| (name.to_vec(), value.to_vec())).collect())
}

pub(crate) fn append(stream: &mut StreamObject, id: StreamId, pairs: &Pairs, limits: NodeLimits) {
    stream.append(id, pairs.iter().map(|(name, value)| (&name[..], &value[..])), limits);
}

fn owned_pending(group: &Group, pending: Pending) -> (StreamId, (Option<Vec<u8>>, u64, u64)) {
    assert!(pending.owner == UNOWNED || group.consumer(pending.owner).is_some());
    let owner = group.consumer(pending.owner).map(|consumer| consumer.name.to_vec());
    (pending.id, (owner, pending.time, pending.count))
}

pub(crate) fn assert_equal(stream: &StreamObject, model: &Model) {
    stream.check();
    assert_eq!((stream.len(), stream.elements() as u64), (model.len(), model.len()));
    assert_eq!((stream.last_id(), stream.max_deleted(), stream.entries_added()), (model.last_id, model.max_deleted, model.added));
    assert_eq!(stream.entries().radix_tree().unwrap().0, model.nodes.len());
    let all: Vec<(StreamId, Pairs)> = model.entries().map(|(id, pairs)| (*id, pairs.clone())).collect();
    let ours = stream.entries().range(StreamId::MIN, StreamId::MAX).unwrap().map(|entry| owned(entry.unwrap()));
    assert!(ours.eq(all.iter().cloned()), "entries differ");
    let ours = stream.entries().backwards(StreamId::MIN, StreamId::MAX).unwrap().map(|entry| owned(entry.unwrap()));
    assert!(ours.eq(all.iter().rev().cloned()), "entries differ backwards");
    assert_eq!(stream.entries().first().unwrap().map(owned), all.first().cloned());
    assert_eq!(stream.entries().last().map(owned), all.last().cloned());
    assert!(stream.groups().iter().map(Group::name).eq(model.groups.keys()));
    for (group, expected) in stream.groups().iter().zip(model.groups.values()) {
        assert_eq!((group.last_id(), group.entries_read()), (expected.last_id, expected.read));
        let consumers = group.consumers().map(|(_, consumer)| (consumer.name.to_vec(), (consumer.seen, consumer.active)));
        assert!(consumers.eq(expected.consumers.iter().map(|(name, times)| (name.clone(), *times))));
        let pending = group.pending_from(StreamId::MIN).map(|pending| owned_pending(group, pending.unwrap()));
        assert!(pending.eq(expected.pending.iter().map(|(id, pending)| (*id, pending.clone()))), "what is pending differs");
        let oldest = expected.pending.iter().min_by_key(|(id, (_, time, _))| (*time, **id)).map(|(id, _)| *id);
        assert_eq!(group.oldest_pending().unwrap().map(|pending| pending.id), oldest);
        let ends = expected.pending.keys().next().zip(expected.pending.keys().next_back()).map(|(one, other)| (*one, *other));
        assert_eq!(group.pending_ends().unwrap(), ends);
        for (number, consumer) in group.consumers() {
            let mine = expected.pending.iter().filter(|(_, (owner, ..))| owner.as_deref() == Some(&*consumer.name));
            assert!(group.owned_from(number, StreamId::MIN).map(Result::unwrap).eq(mine.clone().map(|(id, _)| *id)));
            assert_eq!(consumer.pending, mine.count() as u64);
        }
        let released = expected.pending.values().filter(|(owner, ..)| owner.is_none()).count();
        assert_eq!((group.pending(), group.released()), (expected.pending.len() as u64, released as u64));
    }
}

/// Fields of which most are the same, with values of bounded length.
pub(crate) fn any_pairs(random: &mut Random, bytes_max: usize) -> Pairs {
    let value = |random: &mut Random| match random.below(8) {
        0 => Vec::new(),
        1 => vec![b'v'; random.below(bytes_max)],
        2 => (random.bits() as i64 >> random.below(64)).to_string().into_bytes(),
        _ => vec![b'w'; random.below(20)],
    };
    match random.below(4) {
        0 => (0..1 + random.below(4)).map(|n| (vec![b'a' + n as u8; 1 + random.below(3)], value(random))).collect(),
        _ => [b"temperature".to_vec(), b"place".to_vec()].into_iter().map(|name| (name, value(random))).collect(),
    }
}

/// An id above another, near or far.
pub(crate) fn any_id_above(random: &mut Random, last: StreamId) -> StreamId {
    match random.below(4) {
        0 => StreamId::new(last.ms + 1 + random.below(1000) as u64, random.below(5) as u64),
        1 => StreamId::new(last.ms + 1 + (random.bits() >> 40), 0),
        _ => last.next().unwrap(),
    }
}
