//! Publish/subscribe: which workers have listeners of what, and how a message gets to all of them in one order.
//!
//! A channel belongs to a part of the registry, by its hash; a part has a mutex. A publisher holds it while it posts the message to
//! the workers that have listeners, so all listeners get the messages of a channel in one order. A worker posts to itself through
//! its mailbox, too. The registry knows workers and numbers only; the connections are each worker's own ([`Subscribers`]).

mod channels;
mod keyspace;
mod patterns;
mod payload;
mod subscribers;

pub use subscribers::Subscribers;

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, PoisonError};

use almandine_base::step;
use almandine_io::sync::RwLock;
use almandine_keyspace::holds_messages;
use bytes::Bytes;

use crate::messages::{Held, Message, Workers, hold, take_held};
use channels::{Channel, Channels, Part};
use patterns::Patterns;
use payload::Payloads;

/// Places that a table keeps in any case.
const CAPACITY_KEPT: usize = 64;

/// Patterns that a message which is held keeps: it is compared with more again.
const MATCHED_HELD_MAX: usize = 16;

/// The capacity that a table with `len` entries shrinks to: memory that a crowd has taken comes back when it leaves.
fn shrinks_to(len: usize, capacity: usize) -> Option<usize> {
    (capacity > CAPACITY_KEPT && len < capacity / 8).then_some((len * 2).max(CAPACITY_KEPT / 2))
}

/// What a subscription names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Topic {
    /// A channel.
    Channel,
    /// All channels that match a pattern.
    Pattern,
    /// A shard channel.
    Shard,
}

/// A message on its way to one worker's listeners.
#[derive(Debug)]
pub struct Publication {
    /// Whether the channel is a shard channel.
    pub shard: bool,
    /// The channel.
    pub channel: Bytes,
    /// The message.
    pub payload: Bytes,
    /// Patterns with listeners, on any worker, that match the channel.
    pub patterns: Box<[Bytes]>,
    /// Breaks of the log that all workers had heard of.
    pub breaks: u64,
}

impl Publication {
    /// What it adds to what waits for a worker.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.channel.len() + self.payload.len()
    }
}

/// How many listeners each worker has.
#[derive(Clone, Debug, Default)]
struct Counts(Vec<u32>);

impl Counts {
    fn add(&mut self, worker: usize) {
        if self.0.len() <= worker {
            self.0.resize(worker + 1, 0);
        }
        self.0[worker] += 1;
    }

    /// Returns whether no listener is left.
    fn subtract(&mut self, worker: usize) -> bool {
        if let Some(count) = self.0.get_mut(worker) {
            debug_assert!(*count > 0, "a listener leaves once");
            *count = count.saturating_sub(1);
        }
        self.0.iter().all(|count| *count == 0)
    }

    fn total(&self) -> u64 {
        self.0.iter().map(|count| u64::from(*count)).sum()
    }

    fn workers(&self) -> impl Iterator<Item = usize> {
        (0..).zip(&self.0).filter(|(_, count)| **count > 0).map(|(worker, _)| worker)
    }
}

/// Patterns that match a channel, and their listeners.
#[derive(Debug, Default)]
pub(crate) struct Matched {
    /// Of all patterns and their listeners at that moment.
    version: u64,
    patterns: Vec<Bytes>,
    workers: Vec<usize>,
    receivers: u64,
}

impl Matched {
    fn count(&mut self, counts: &Counts) {
        self.receivers += counts.total();
        for worker in counts.workers() {
            if !self.workers.contains(&worker) {
                self.workers.push(worker);
            }
        }
    }
}

/// The registry.
#[derive(Debug)]
pub struct PubSub {
    channels: Channels,
    shards: Channels,
    patterns: RwLock<Patterns>,
    /// How many patterns there are: publishers skip the lock while there are none.
    pattern_count: AtomicUsize,
    /// Connections with subscriptions.
    clients: AtomicUsize,
    payloads: Payloads,
    workers: Arc<Workers>,
}

impl PubSub {
    pub(crate) fn new(workers: Arc<Workers>) -> Self {
        Self {
            channels: Channels::default(),
            shards: Channels::default(),
            patterns: RwLock::default(),
            pattern_count: AtomicUsize::new(0),
            clients: AtomicUsize::new(0),
            payloads: Payloads::default(),
            workers,
        }
    }

    fn of(&self, shard: bool) -> &Channels {
        if shard { &self.shards } else { &self.channels }
    }

    /// A connection of a worker listens from now on; it has not yet.
    pub fn subscribe(&self, topic: Topic, name: &Bytes, worker: usize) {
        match topic {
            Topic::Channel | Topic::Shard => self.of(topic == Topic::Shard).add(name, worker),
            Topic::Pattern => {
                let mut patterns = self.patterns.write().unwrap_or_else(PoisonError::into_inner);
                patterns.add(name, worker);
                self.pattern_count.store(patterns.len(), Relaxed);
            }
        }
    }

    /// A connection of a worker that has listened does not any more.
    pub fn unsubscribe(&self, topic: Topic, name: &[u8], worker: usize) {
        match topic {
            Topic::Channel | Topic::Shard => self.of(topic == Topic::Shard).remove(name, worker),
            Topic::Pattern => {
                let mut patterns = self.patterns.write().unwrap_or_else(PoisonError::into_inner);
                patterns.remove(name, worker);
                self.pattern_count.store(patterns.len(), Relaxed);
            }
        }
    }

    /// A connection has its first subscription, or lost its last one.
    pub fn count_client(&self, listens: bool) {
        if listens {
            self.clients.fetch_add(1, Relaxed);
        } else {
            self.clients.fetch_sub(1, Relaxed);
        }
    }

    /// Sends a message to all listeners of a channel, or has it wait for the end of the unit of work that tells it. Returns their
    /// number.
    pub fn publish(&self, shard: bool, channel: &[u8], payload: &[u8]) -> u64 {
        if holds_messages() { self.hold(shard, channel, payload) } else { self.publish_now(shard, channel, payload) }
    }

    #[cold]
    fn hold(&self, shard: bool, channel: &[u8], payload: &[u8]) -> u64 {
        let mut receivers = self.of(shard).part(channel).channel().map_or(0, |found| found.counts.total());
        let matched = (!shard && self.pattern_count.load(Relaxed) > 0).then(|| self.matching(channel, None));
        receivers += matched.as_ref().map_or(0, |matched| matched.receivers);
        let matched = matched.filter(|matched| matched.patterns.len() <= MATCHED_HELD_MAX);
        let (channel, payload) = (Bytes::copy_from_slice(channel), Bytes::copy_from_slice(payload));
        if receivers > 0 && hold(Held::Publication { shard, channel, payload, matched }) {
            self.tell_held();
        }
        receivers
    }

    /// Sends what was held: the unit of work that has told it is published.
    pub(crate) fn tell_held(&self) {
        for held in take_held() {
            match held {
                Held::Publication { shard, channel, payload, matched } => {
                    let _ = self.publish_matched(shard, &channel, &payload, matched);
                }
                Held::Message { worker, message } => _ = self.workers.send(worker, message),
            }
        }
    }

    fn publish_now(&self, shard: bool, channel: &[u8], payload: &[u8]) -> u64 {
        self.publish_matched(shard, channel, payload, None)
    }

    #[inline]
    fn publish_matched(&self, shard: bool, channel: &[u8], payload: &[u8], matched: Option<Matched>) -> u64 {
        let part = self.of(shard).part(channel);
        if !shard && self.pattern_count.load(Relaxed) > 0 {
            let Some((publication, workers, receivers)) = self.gather(&part, channel, payload, matched) else { return 0 };
            step!(PostUnderLock, (), else drop(part));
            self.post(publication, workers.into_iter());
            return receivers;
        }
        let Some(Channel { name, counts }) = part.channel() else { return 0 };
        let (payload, breaks) = (self.payloads.share(payload), self.workers.breaks.heard_by_all());
        let publication = Publication { shard, channel: name.clone(), payload, patterns: Box::default(), breaks };
        self.post(publication, counts.workers());
        counts.total()
    }

    /// A message on a channel where there are patterns, the workers that it goes to, and the number of listeners; `None` without
    /// listeners.
    fn gather(
        &self,
        part: &Part<'_>,
        channel: &[u8],
        payload: &[u8],
        matched: Option<Matched>,
    ) -> Option<(Publication, Vec<usize>, u64)> {
        let (mut matched, found) = (self.matching(channel, matched), part.channel());
        if let Some(found) = found {
            matched.count(&found.counts);
        }
        let Matched { patterns, workers, receivers, .. } = matched;
        if workers.is_empty() {
            return None;
        }
        let channel = found.map_or_else(|| Bytes::copy_from_slice(channel), |found| found.name.clone());
        let (payload, breaks) = (self.payloads.share(payload), self.workers.breaks.heard_by_all());
        Some((Publication { shard: false, channel, payload, patterns: patterns.into(), breaks }, workers, receivers))
    }

    /// The patterns that match a channel: those that are known, where no client listens to others since.
    fn matching(&self, channel: &[u8], known: Option<Matched>) -> Matched {
        let patterns = self.patterns.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = known.filter(|known| known.version == patterns.version()) {
            return known;
        }
        let mut matched = Matched { version: patterns.version(), ..Matched::default() };
        patterns.each_match(channel, &mut |pattern, counts| {
            matched.patterns.push(pattern.clone());
            matched.count(counts);
        });
        matched
    }

    /// Posts a message to workers.
    fn post(&self, publication: Publication, workers: impl Iterator<Item = usize>) {
        let publication = Arc::new(publication);
        for worker in workers {
            if !self.workers.send(worker, Message::Publish(Arc::clone(&publication))) {
                // Its listeners would not know what they have missed.
                self.workers.send(worker, Message::Unheard(Arc::clone(&publication)));
            }
        }
    }

    /// The channels with listeners that `wanted` says, in any order.
    #[must_use]
    pub fn names(&self, shard: bool, wanted: impl Fn(&[u8]) -> bool) -> Vec<Bytes> {
        self.of(shard).names(wanted)
    }

    /// The number of listeners of a channel; listeners by pattern are not counted.
    #[must_use]
    pub fn listeners(&self, shard: bool, channel: &[u8]) -> u64 {
        self.of(shard).part(channel).channel().map_or(0, |channel| channel.counts.total())
    }

    /// How many channels have listeners.
    #[must_use]
    pub fn channels(&self, shard: bool) -> usize {
        self.of(shard).len()
    }

    /// How many patterns have listeners.
    #[must_use]
    pub fn patterns(&self) -> usize {
        self.pattern_count.load(Relaxed)
    }

    /// Bytes of large messages that wait to be sent to a listener.
    #[must_use]
    pub fn payload_bytes(&self) -> u64 {
        self.payloads.bytes()
    }

    /// How many connections have subscriptions.
    #[must_use]
    pub fn clients(&self) -> usize {
        self.clients.load(Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use almandine_base::steps;

    use super::*;
    use crate::messages::Mailbox;

    #[derive(Default)]
    struct Heard(Mutex<Vec<usize>>);

    impl Mailbox for Heard {
        fn send(&self, message: Message) -> bool {
            let Message::Publish(publication) = message else { return false };
            self.0.lock().unwrap().push(publication.patterns.len());
            true
        }
    }

    /// The count that PUBLISH of a unit is answered is of the patterns that the message goes to, unless others came meanwhile.
    #[test]
    fn a_held_message_is_compared_with_patterns_once() {
        let (workers, heard) = (Arc::<Workers>::default(), Arc::<Heard>::default());
        workers.install(vec![Arc::clone(&heard) as Arc<dyn Mailbox>]);
        let pubsub = PubSub::new(workers);
        let listen = |number: usize| pubsub.subscribe(Topic::Pattern, &Bytes::from(format!("*{}", "*".repeat(number))), 0);
        let taken = |work: &mut dyn FnMut()| {
            let before = steps::taken();
            work();
            steps::taken() - before
        };
        for (patterns, again) in [(1, 0), (MATCHED_HELD_MAX, 0), (MATCHED_HELD_MAX + 1, MATCHED_HELD_MAX + 1)] {
            (pubsub.patterns()..patterns).for_each(listen);
            let held = taken(&mut || assert_eq!(pubsub.hold(false, b"news", b"text"), patterns as u64));
            assert_eq!((held, taken(&mut || pubsub.tell_held())), (patterns as u64, again as u64));
        }
        // Between the two a client has left and another one has come.
        pubsub.unsubscribe(Topic::Pattern, b"*", 0);
        assert_eq!(pubsub.hold(false, b"news", b"text"), MATCHED_HELD_MAX as u64);
        pubsub.unsubscribe(Topic::Pattern, b"**", 0);
        assert_eq!(taken(&mut || pubsub.tell_held()), MATCHED_HELD_MAX as u64 - 1);
        assert_eq!(*heard.0.lock().unwrap(), [1, MATCHED_HELD_MAX, MATCHED_HELD_MAX + 1, MATCHED_HELD_MAX - 1]);
    }
}
