//! The connections of one worker that listen, by what they listen to.

use std::collections::{BTreeSet, HashMap};

use bytes::Bytes;

use super::{Topic, shrinks_to};

/// Listeners by name; those of one name in the order in which they connected.
type Listeners = HashMap<Bytes, BTreeSet<u64>>;

/// One worker's listeners.
#[derive(Debug, Default)]
pub struct Subscribers {
    channels: Listeners,
    patterns: Listeners,
    shards: Listeners,
}

impl Subscribers {
    fn of(&mut self, topic: Topic) -> &mut Listeners {
        match topic {
            Topic::Channel => &mut self.channels,
            Topic::Pattern => &mut self.patterns,
            Topic::Shard => &mut self.shards,
        }
    }

    /// A connection listens.
    pub fn add(&mut self, topic: Topic, name: &Bytes, connection: u64) {
        self.of(topic).entry(name.clone()).or_default().insert(connection);
    }

    /// A connection does not listen any more.
    pub fn remove(&mut self, topic: Topic, name: &[u8], connection: u64) {
        let listeners = self.of(topic);
        if let Some(connections) = listeners.get_mut(name) {
            connections.remove(&connection);
            if connections.is_empty() {
                listeners.remove(name);
                if let Some(capacity) = shrinks_to(listeners.len(), listeners.capacity()) {
                    listeners.shrink_to(capacity);
                }
            }
        }
    }

    /// The listeners of a name.
    pub fn listeners(&self, topic: Topic, name: &[u8]) -> impl Iterator<Item = u64> {
        let listeners = match topic {
            Topic::Channel => &self.channels,
            Topic::Pattern => &self.patterns,
            Topic::Shard => &self.shards,
        };
        listeners.get(name).into_iter().flatten().copied()
    }
}
