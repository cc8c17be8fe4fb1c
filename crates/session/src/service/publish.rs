//! Messages of publish/subscribe, written to the connections of this worker that listen.

use std::sync::Arc;

use almandine_base::limits::REPLY_COPY_BYTES_MAX;
use almandine_handler::Context;
use almandine_instance::pubsub::{Publication, Topic};
use almandine_net::{ConnectionId, Control};
use almandine_resp::ProtocolVersion;
use almandine_resp::reply::write_header;
use bytes::Bytes;

use crate::state::connection::Connection;

/// Bytes of messages beyond which a burst is written.
const BURST_BYTES_MAX: usize = 64 * 1024;

/// A message as it is sent, but for its first byte, which says whether it is a push or an array.
struct Encoded {
    head: Vec<u8>,
    /// A payload that is too large to be copied for each listener; it is followed by an end of line.
    attached: Option<Bytes>,
}

impl Encoded {
    /// The strings that a message consists of, and its payload.
    fn new(words: &[&[u8]], payload: &Bytes) -> Self {
        let mut head = Vec::with_capacity(64 + words.iter().map(|word| word.len()).sum::<usize>());
        write_head(&mut head, words, payload.len());
        if payload.len() > REPLY_COPY_BYTES_MAX {
            return Self { head, attached: Some(payload.clone()) };
        }
        head.extend_from_slice(payload);
        head.extend_from_slice(b"\r\n");
        Self { head, attached: None }
    }

    fn send(&self, listeners: impl Iterator<Item = ConnectionId>, control: &mut dyn Control<Connection>) {
        for id in listeners {
            let Some((connection, out)) = control.connection(id) else { continue };
            let begin = out.bytes.len();
            out.bytes.extend_from_slice(&self.head);
            if connection.client.version == ProtocolVersion::Resp3 {
                out.bytes[begin] = b'>';
            }
            if let Some(payload) = &self.attached {
                out.attach(payload.clone());
                out.bytes.extend_from_slice(b"\r\n");
            }
        }
    }
}

/// Writes a message up to its payload.
fn write_head(out: &mut Vec<u8>, words: &[&[u8]], payload_bytes: usize) {
    write_header(out, b'*', words.len() + 1);
    for word in words {
        write_header(out, b'$', word.len());
        out.extend_from_slice(word);
        out.extend_from_slice(b"\r\n");
    }
    write_header(out, b'$', payload_bytes);
}

/// Messages of one channel that came one behind the other, as they are sent: each listener gets all of them at once.
#[derive(Default)]
pub(crate) struct Burst {
    /// The first one; they all have its channel.
    first: Option<Arc<Publication>>,
    bytes: Vec<u8>,
    /// Where each message begins.
    begins: Vec<usize>,
}

impl Burst {
    /// Takes a message, or writes it. What came before it is written before it.
    #[inline]
    pub(crate) fn deliver(&mut self, publication: Arc<Publication>, context: &Context, control: &mut dyn Control<Connection>) {
        if !self
            .first
            .as_ref()
            .is_some_and(|first| first.shard == publication.shard && is_same(&first.channel, &publication.channel))
            || self.bytes.len() > BURST_BYTES_MAX
        {
            self.flush(context, control);
        }
        // A subscriber of a channel and of a pattern gets each message twice, one behind the other.
        if publication.payload.len() > REPLY_COPY_BYTES_MAX || !publication.patterns.is_empty() {
            self.flush(context, control);
            return write(&publication, context, control);
        }
        self.begins.push(self.bytes.len());
        write_head(&mut self.bytes, &[word(&publication), &publication.channel], publication.payload.len());
        self.bytes.extend_from_slice(&publication.payload);
        self.bytes.extend_from_slice(b"\r\n");
        self.first.get_or_insert(publication);
    }

    /// Writes the messages that have not been yet.
    #[inline]
    pub(crate) fn flush(&mut self, context: &Context, control: &mut dyn Control<Connection>) {
        let Some(first) = self.first.take() else { return };
        for id in context.subscribers.borrow().listeners(topic(&first), &first.channel) {
            let Some((connection, out)) = control.connection(id) else { continue };
            let begin = out.bytes.len();
            out.bytes.extend_from_slice(&self.bytes);
            if connection.client.version == ProtocolVersion::Resp3 {
                self.begins.iter().for_each(|at| out.bytes[begin + at] = b'>');
            }
        }
        self.bytes.clear();
        self.begins.clear();
    }
}

/// Whether two names are equal. Those of a channel mostly are the registry's.
fn is_same(a: &Bytes, b: &Bytes) -> bool {
    (a.as_ptr() == b.as_ptr() && a.len() == b.len()) || a == b
}

fn topic(publication: &Publication) -> Topic {
    if publication.shard { Topic::Shard } else { Topic::Channel }
}

/// The first word of a message to the subscribers of its channel.
fn word(publication: &Publication) -> &'static [u8] {
    if publication.shard { b"smessage" } else { b"message" }
}

/// Writes a message to all subscribers.
#[cold]
fn write(publication: &Publication, context: &Context, control: &mut dyn Control<Connection>) {
    let subscribers = context.subscribers.borrow();
    let Publication { channel, payload, patterns, .. } = publication;
    let mut listeners = subscribers.listeners(topic(publication), channel).peekable();
    if listeners.peek().is_some() {
        Encoded::new(&[word(publication), channel], payload).send(listeners, control);
    }
    for pattern in patterns {
        let mut listeners = subscribers.listeners(Topic::Pattern, pattern).peekable();
        if listeners.peek().is_some() {
            Encoded::new(&[b"pmessage", pattern, channel], payload).send(listeners, control);
        }
    }
}

/// Closes the subscribers of a message that was dropped, because too much waited for this worker.
#[cold]
pub(crate) fn close_listeners(publication: &Publication, context: &Context, control: &mut dyn Control<Connection>) {
    let subscribers = context.subscribers.borrow();
    let mut missed: Vec<ConnectionId> = subscribers.listeners(topic(publication), &publication.channel).collect();
    for pattern in &publication.patterns {
        missed.extend(subscribers.listeners(Topic::Pattern, pattern));
    }
    drop(subscribers);
    for id in missed {
        control.kill(id, false);
    }
}
