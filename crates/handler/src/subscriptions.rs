//! The names that a connection listens to.

use std::collections::BTreeSet;

use almandine_instance::pubsub::Topic;
use bytes::Bytes;

use crate::client::NAME_OVERHEAD;

/// A connection's subscriptions; there is one at least.
#[derive(Debug, Default)]
pub struct Subscriptions {
    pub(crate) channels: BTreeSet<Bytes>,
    pub(crate) patterns: BTreeSet<Bytes>,
    pub(crate) shards: BTreeSet<Bytes>,
    /// Bytes of the names.
    pub(crate) name_bytes: usize,
}

impl Subscriptions {
    pub(crate) fn of(&mut self, topic: Topic) -> &mut BTreeSet<Bytes> {
        match topic {
            Topic::Channel => &mut self.channels,
            Topic::Pattern => &mut self.patterns,
            Topic::Shard => &mut self.shards,
        }
    }

    /// Bytes of memory that the names take, about.
    pub(crate) fn memory_bytes(&self) -> usize {
        let names = self.channels.len() + self.patterns.len() + self.shards.len();
        size_of::<Self>() + self.name_bytes + names * NAME_OVERHEAD
    }

    /// The names of one kind.
    pub(crate) fn names(&self, topic: Topic) -> impl Iterator<Item = &[u8]> {
        let names = match topic {
            Topic::Channel => &self.channels,
            Topic::Pattern => &self.patterns,
            Topic::Shard => &self.shards,
        };
        names.iter().map(|name| &name[..])
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.channels.is_empty() && self.patterns.is_empty() && self.shards.is_empty()
    }

    /// The number that a reply about a subscription ends with: shard channels are counted by themselves.
    pub(crate) fn counted_with(&self, topic: Topic) -> usize {
        if topic == Topic::Shard { self.shards.len() } else { self.channels.len() + self.patterns.len() }
    }
}
