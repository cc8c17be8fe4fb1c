//! What a connection listens to: its subscriptions, in step with those of its worker and of the instance.

use std::sync::atomic::Ordering::Relaxed;

use almandine_instance::pubsub::Topic;
use bytes::Bytes;

use crate::call::Context;
use crate::client::Client;

/// How many subscriptions a client has of the kind, as replies count them.
#[must_use]
pub fn count(client: &Client, topic: Topic) -> usize {
    client.subscriptions.as_ref().map_or(0, |subscriptions| subscriptions.counted_with(topic))
}

/// A client listens to a name from now on, if it has not.
pub fn subscribe(client: &mut Client, context: &Context, topic: Topic, name: &[u8]) {
    if client.subscriptions.is_none() {
        context.instance.pubsub.count_client(true);
    }
    let subscriptions = client.subscriptions.get_or_insert_default();
    if subscriptions.of(topic).contains(name) {
        return;
    }
    let name = Bytes::copy_from_slice(name);
    subscriptions.of(topic).insert(name.clone());
    subscriptions.name_bytes += name.len();
    context.subscribers.borrow_mut().add(topic, &name, client.shared.id);
    context.instance.pubsub.subscribe(topic, &name, context.worker);
    show(client);
}

/// A client does not listen to a name any more, if it has.
pub fn unsubscribe(client: &mut Client, context: &Context, topic: Topic, name: &[u8]) {
    let Some(subscriptions) = &mut client.subscriptions else { return };
    if subscriptions.of(topic).remove(name) {
        subscriptions.name_bytes -= name.len();
        leave(client, context, topic, name);
    }
    end_if_empty(client, context);
}

fn leave(client: &Client, context: &Context, topic: Topic, name: &[u8]) {
    context.instance.pubsub.unsubscribe(topic, name, context.worker);
    context.subscribers.borrow_mut().remove(topic, name, client.shared.id);
}

/// One name that a client listens to, if there is any.
#[must_use]
pub fn first(client: &mut Client, topic: Topic) -> Option<Bytes> {
    client.subscriptions.as_mut()?.of(topic).first().cloned()
}

/// A client listens to nothing any more.
pub fn unsubscribe_all(client: &mut Client, context: &Context) {
    let Some(mut subscriptions) = client.subscriptions.take() else { return };
    for topic in [Topic::Channel, Topic::Pattern, Topic::Shard] {
        subscriptions.of(topic).iter().for_each(|name| leave(client, context, topic, name));
    }
    context.instance.pubsub.count_client(false);
    show(client);
}

fn end_if_empty(client: &mut Client, context: &Context) {
    if client.subscriptions.as_ref().is_some_and(|subscriptions| subscriptions.is_empty()) {
        client.subscriptions = None;
        context.instance.pubsub.count_client(false);
    }
    show(client);
}

/// Lets others see how many there are.
fn show(client: &mut Client) {
    client.weigh();
    let shown = &client.shared.subscriptions;
    let (channels, patterns, shards) = client.subscriptions.as_ref().map_or((0, 0, 0), |subscriptions| {
        (subscriptions.channels.len(), subscriptions.patterns.len(), subscriptions.shards.len())
    });
    shown.channels.store(channels, Relaxed);
    shown.patterns.store(patterns, Relaxed);
    shown.shards.store(shards, Relaxed);
    shown.any.store(channels + patterns + shards > 0, Relaxed);
}
