//! Messages of publish/subscribe, written to the connections of this worker that listen.

use almandine_base::limits::REPLY_COPY_BYTES_MAX;
use almandine_call::Context;
use almandine_net::{ConnectionId, Control};
use almandine_node::pubsub::{Publication, Topic};
use almandine_resp::ProtocolVersion;
use almandine_resp::reply::write_header;
use bytes::Bytes;

use crate::connection::Connection;

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
        write_header(&mut head, b'*', words.len() + 1);
        for word in words {
            write_header(&mut head, b'$', word.len());
            head.extend_from_slice(word);
            head.extend_from_slice(b"\r\n");
        }
        write_header(&mut head, b'$', payload.len());
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

/// Writes a message to all who listen.
pub(crate) fn deliver(publication: &Publication, context: &Context, control: &mut dyn Control<Connection>) {
    let subscribers = context.subscribers.borrow();
    let Publication { shard, channel, payload, patterns } = publication;
    let (word, topic): (&[u8], _) = if *shard { (b"smessage", Topic::Shard) } else { (b"message", Topic::Channel) };
    let mut listeners = subscribers.listeners(topic, channel).peekable();
    if listeners.peek().is_some() {
        Encoded::new(&[word, channel], payload).send(listeners, control);
    }
    for pattern in patterns {
        let mut listeners = subscribers.listeners(Topic::Pattern, pattern).peekable();
        if listeners.peek().is_some() {
            Encoded::new(&[b"pmessage", pattern, channel], payload).send(listeners, control);
        }
    }
}

/// Closes all who listen to a message that was dropped, because too much waited for this worker.
#[cold]
pub(crate) fn close_listeners(publication: &Publication, context: &Context, control: &mut dyn Control<Connection>) {
    let subscribers = context.subscribers.borrow();
    let topic = if publication.shard { Topic::Shard } else { Topic::Channel };
    let mut missed: Vec<ConnectionId> = subscribers.listeners(topic, &publication.channel).collect();
    for pattern in &publication.patterns {
        missed.extend(subscribers.listeners(Topic::Pattern, pattern));
    }
    drop(subscribers);
    for id in missed {
        control.kill(id, false);
    }
}
