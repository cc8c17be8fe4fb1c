//! Keyspace events as messages: which channels an event goes to, and what is said there.
//!
//! The latch of a key is held while its events are posted, so the messages about a key are in all mailboxes in the order of its
//! changes (INV-EVENT-1). Other users of the key wait while a few messages are posted, as long as events are on and a client
//! listens.

use almandine_base::events::Classes;
use almandine_keyspace::KeyEvent;

use super::PubSub;

/// Separates a key from an element in the name of a channel, so no key with it has such channels.
const ITEM_SEPARATOR: u8 = b'\n';

impl PubSub {
    /// Sends an event to the listeners of its channels, in Redis' order.
    pub fn publish_event(&self, event: &KeyEvent<'_>) {
        if self.channels(false) == 0 && self.patterns() == 0 {
            return;
        }
        let KeyEvent { published, db, key, name, .. } = *event;
        let channel = |kind: &str, rest: &[&[u8]]| {
            let mut channel = format!("__{kind}@{db}__:").into_bytes();
            rest.iter().for_each(|part| channel.extend_from_slice(part));
            channel
        };
        let name = name.as_bytes();
        if published.any(Classes::KEYSPACE) {
            self.publish(false, &channel("keyspace", &[key]), name);
        }
        if published.any(Classes::KEYEVENT) {
            self.publish(false, &channel("keyevent", &[name]), key);
        }
        if !published.any(Classes::SUBKEYS) || event.elements().next().is_none() {
            return;
        }
        let mut elements = Vec::new();
        for element in event.elements() {
            elements.extend_from_slice(if elements.is_empty() { b"" } else { b"," });
            append_counted(&mut elements, element);
        }
        if published.any(Classes::SUBKEYSPACE) {
            self.publish(false, &channel("subkeyspace", &[key]), &[name, b"|", &elements].concat());
        }
        if published.any(Classes::SUBKEYEVENT) {
            let mut message = Vec::with_capacity(key.len() + elements.len() + 24);
            append_counted(&mut message, key);
            message.push(b'|');
            message.extend_from_slice(&elements);
            self.publish(false, &channel("subkeyevent", &[name]), &message);
        }
        if published.any(Classes::SUBKEYSPACE_ITEM) && !key.contains(&ITEM_SEPARATOR) {
            for element in event.elements() {
                self.publish(false, &channel("subkeyspaceitem", &[key, &[ITEM_SEPARATOR], element]), name);
            }
        }
        if published.any(Classes::SUBKEYSPACE_EVENT) {
            self.publish(false, &channel("subkeyspaceevent", &[name, b"|", key]), &elements);
        }
    }
}

/// Appends a text behind its length.
fn append_counted(out: &mut Vec<u8>, text: &[u8]) {
    out.extend_from_slice(text.len().to_string().as_bytes());
    out.push(b':');
    out.extend_from_slice(text);
}
