//! Publish/subscribe: the commands. Messages get to their listeners by the workers' mailboxes ([`almandine_instance::pubsub`]).

use almandine_command_spec::{Access, Arg, CommandSpec, Group, KeySpec, Keys, Traits};
use almandine_datatypes::glob::{self, Case};
use almandine_handler::{AdminCall, Command, Handler, Outcome, ReadCall, errors, help, pubsub};
use almandine_instance::pubsub::Topic;

/// The family.
pub(crate) const COMMANDS: &[&Command] = &[
    &PUBLISH,
    &SPUBLISH,
    &SUBSCRIBE,
    &UNSUBSCRIBE,
    &PSUBSCRIBE,
    &PUNSUBSCRIBE,
    &SSUBSCRIBE,
    &SUNSUBSCRIBE,
    &PUBSUB,
    &CHANNELS,
    &HELP,
    &NUMPAT,
    &NUMSUB,
    &SHARDCHANNELS,
    &SHARDNUMSUB,
];

const PUBLISHES: Traits =
    Traits { publishes: true, pubsub: true, loading: true, stale: true, fast: true, may_replicate: true, ..Traits::NONE };

const PUBLISH: Command = Command {
    spec: CommandSpec {
        name: "PUBLISH",
        id: 940,
        since: "2.0.0",
        complexity: "O(N+M) where N is the number of clients subscribed to the receiving channel and M is the total number of \
            subscribed patterns (by any client).",
        summary: "Posts a message to a channel.",
        group: Group::PubSub,
        args: &[Arg::value("channel"), Arg::value("message")],
        traits: PUBLISHES,
        ..CommandSpec::BLANK
    },
    run: Handler::Read(|call| publish(call, false)),
};

const SPUBLISH: Command = Command {
    spec: CommandSpec {
        name: "SPUBLISH",
        id: 941,
        since: "7.0.0",
        complexity: "O(N) where N is the number of clients subscribed to the receiving shard channel.",
        summary: "Post a message to a shard channel",
        group: Group::PubSub,
        args: &[Arg::key("shardchannel", Access::NotKey), Arg::value("message")],
        traits: PUBLISHES,
        ..CommandSpec::BLANK
    },
    run: Handler::Read(|call| publish(call, true)),
};

fn publish(call: &mut ReadCall<'_>, shard: bool) -> Outcome {
    let receivers = call.context.instance.pubsub.publish(shard, call.args.at(1), call.args.at(2));
    call.reply.unsigned(receivers);
    Ok(())
}

const SUBSCRIBES: Traits = Traits { pubsub: true, noscript: true, loading: true, stale: true, subscribed: true, ..Traits::NONE };

/// What the commands that change subscriptions have in common.
const SUBSCRIPTION: CommandSpec = CommandSpec {
    since: "2.0.0",
    complexity: "O(N) where N is the number of channels to subscribe to.",
    group: Group::PubSub,
    traits: SUBSCRIBES,
    ..CommandSpec::BLANK
};

const SUBSCRIBE: Command = Command {
    spec: CommandSpec {
        name: "SUBSCRIBE",
        id: 942,
        traits: Traits { subscribes: true, ..SUBSCRIBES },
        summary: "Listens for messages published to channels.",
        args: &[Arg::value("channel").multiple()],
        ..SUBSCRIPTION
    },
    run: Handler::Admin(|call| subscribe(call, Topic::Channel, "subscribe")),
};

const UNSUBSCRIBE: Command = Command {
    spec: CommandSpec {
        name: "UNSUBSCRIBE",
        id: 943,
        complexity: "O(N) where N is the number of channels to unsubscribe.",
        summary: "Stops listening to messages posted to channels.",
        args: &[Arg::value("channel").optional().multiple()],
        ..SUBSCRIPTION
    },
    run: Handler::Admin(|call| unsubscribe(call, Topic::Channel, "unsubscribe")),
};

const PSUBSCRIBE: Command = Command {
    spec: CommandSpec {
        name: "PSUBSCRIBE",
        id: 944,
        traits: Traits { subscribes_patterns: true, ..SUBSCRIBES },
        complexity: "O(N) where N is the number of patterns to subscribe to.",
        summary: "Listens for messages published to channels that match one or more patterns.",
        args: &[Arg::pattern("pattern").multiple()],
        ..SUBSCRIPTION
    },
    run: Handler::Admin(|call| subscribe(call, Topic::Pattern, "psubscribe")),
};

const PUNSUBSCRIBE: Command = Command {
    spec: CommandSpec {
        name: "PUNSUBSCRIBE",
        id: 945,
        complexity: "O(N) where N is the number of patterns to unsubscribe.",
        summary: "Stops listening to messages published to channels that match one or more patterns.",
        args: &[Arg::pattern("pattern").optional().multiple()],
        ..SUBSCRIPTION
    },
    run: Handler::Admin(|call| unsubscribe(call, Topic::Pattern, "punsubscribe")),
};

const SSUBSCRIBE: Command = Command {
    spec: CommandSpec {
        name: "SSUBSCRIBE",
        id: 946,
        traits: Traits { subscribes: true, ..SUBSCRIBES },
        since: "7.0.0",
        complexity: "O(N) where N is the number of shard channels to subscribe to.",
        summary: "Listens for messages published to shard channels.",
        args: &[Arg::key("shardchannel", Access::NotKey).multiple()],
        ..SUBSCRIPTION
    },
    run: Handler::Admin(|call| subscribe(call, Topic::Shard, "ssubscribe")),
};

const SUNSUBSCRIBE: Command = Command {
    spec: CommandSpec {
        name: "SUNSUBSCRIBE",
        id: 947,
        since: "7.0.0",
        complexity: "O(N) where N is the number of shard channels to unsubscribe.",
        summary: "Stops listening to messages posted to shard channels.",
        args: &[Arg::value("shardchannel").optional().multiple()],
        keys: Keys::Specs(&[KeySpec::range(1, -1, 1, Access::NotKey)]),
        ..SUBSCRIPTION
    },
    run: Handler::Admin(|call| unsubscribe(call, Topic::Shard, "sunsubscribe")),
};

fn subscribe(call: &mut AdminCall<'_>, topic: Topic, word: &str) -> Outcome {
    for name in call.args.slice_from(1).iter() {
        pubsub::subscribe(call.client, call.context, topic, name);
        confirm(call, topic, word, Some(name));
    }
    Ok(())
}

fn unsubscribe(call: &mut AdminCall<'_>, topic: Topic, word: &str) -> Outcome {
    for name in call.args.slice_from(1).iter() {
        pubsub::unsubscribe(call.client, call.context, topic, name);
        confirm(call, topic, word, Some(name));
    }
    if call.args.len() > 1 {
        return Ok(());
    }
    let mut any = false;
    while let Some(name) = pubsub::first(call.client, topic) {
        pubsub::unsubscribe(call.client, call.context, topic, &name);
        confirm(call, topic, word, Some(&name));
        any = true;
    }
    if !any {
        confirm(call, topic, word, None);
    }
    Ok(())
}

fn confirm(call: &mut AdminCall<'_>, topic: Topic, word: &str, name: Option<&[u8]>) {
    let count = pubsub::count(call.client, topic);
    call.client.writes_messages = true;
    let reply = &mut call.reply;
    reply.push(3);
    reply.bulk(word.as_bytes());
    match name {
        Some(name) => reply.bulk(name),
        None => reply.null(),
    }
    reply.unsigned(count as u64);
}

const PUBSUB: Command = Command {
    spec: CommandSpec {
        name: "PUBSUB",
        id: 948,
        since: "2.8.0",
        complexity: "Depends on subcommand.",
        summary: "A container for Pub/Sub commands.",
        group: Group::PubSub,
        subcommands: &[&CHANNELS.spec, &HELP.spec, &NUMPAT.spec, &NUMSUB.spec, &SHARDCHANNELS.spec, &SHARDNUMSUB.spec],
        ..CommandSpec::BLANK
    },
    run: Handler::Container,
};

/// What the subcommands have in common.
const SUBCOMMAND: CommandSpec = CommandSpec {
    since: "2.8.0",
    group: Group::PubSub,
    traits: Traits { pubsub: true, loading: true, stale: true, ..Traits::NONE },
    ..CommandSpec::BLANK
};

const CHANNELS: Command = Command {
    spec: CommandSpec {
        name: "PUBSUB|CHANNELS",
        id: 949,
        complexity: "O(N) where N is the number of active channels, and assuming constant time pattern matching (relatively short \
            channels and patterns)",
        summary: "Returns the active channels.",
        args: &[Arg::pattern("pattern").optional()],
        ..SUBCOMMAND
    },
    run: Handler::Read(|call| channels(call, false)),
};

const SHARDCHANNELS: Command = Command {
    spec: CommandSpec {
        name: "PUBSUB|SHARDCHANNELS",
        id: 953,
        since: "7.0.0",
        complexity: "O(N) where N is the number of active shard channels, and assuming constant time pattern matching (relatively \
            short shard channels).",
        summary: "Returns the active shard channels.",
        args: &[Arg::pattern("pattern").optional()],
        ..SUBCOMMAND
    },
    run: Handler::Read(|call| channels(call, true)),
};

fn channels(call: &mut ReadCall<'_>, shard: bool) -> Outcome {
    if call.args.len() > 3 {
        return Err(errors::subcommand_syntax("PUBSUB", call.args.at(1)).into());
    }
    let pattern = call.args.get(2);
    let wanted = |name: &[u8]| pattern.is_none_or(|pattern| glob::matches(pattern, name, Case::Sensitive));
    let names = call.context.instance.pubsub.names(shard, wanted);
    call.reply.array(names.len());
    names.iter().for_each(|name| call.reply.bulk(name));
    Ok(())
}

const NUMSUB: Command = Command {
    spec: CommandSpec {
        name: "PUBSUB|NUMSUB",
        id: 952,
        complexity: "O(N) for the NUMSUB subcommand, where N is the number of requested channels",
        summary: "Returns a count of subscribers to channels.",
        args: &[Arg::value("channel").optional().multiple()],
        ..SUBCOMMAND
    },
    run: Handler::Read(|call| listeners(call, false)),
};

const SHARDNUMSUB: Command = Command {
    spec: CommandSpec {
        name: "PUBSUB|SHARDNUMSUB",
        id: 954,
        since: "7.0.0",
        complexity: "O(N) for the SHARDNUMSUB subcommand, where N is the number of requested shard channels",
        summary: "Returns the count of subscribers of shard channels.",
        args: &[Arg::value("shardchannel").optional().multiple()],
        ..SUBCOMMAND
    },
    run: Handler::Read(|call| listeners(call, true)),
};

fn listeners(call: &mut ReadCall<'_>, shard: bool) -> Outcome {
    let names = call.args.slice_from(2);
    call.reply.array(names.len() * 2);
    for name in names.iter() {
        call.reply.bulk(name);
        call.reply.unsigned(call.context.instance.pubsub.listeners(shard, name));
    }
    Ok(())
}

const NUMPAT: Command = Command {
    spec: CommandSpec { name: "PUBSUB|NUMPAT", id: 951, summary: "Returns a count of unique pattern subscriptions.", ..SUBCOMMAND },
    run: Handler::Read(|call| {
        call.reply.unsigned(call.context.instance.pubsub.patterns() as u64);
        Ok(())
    }),
};

const HELP: Command = help::command("PUBSUB|HELP", 950, CommandSpec { since: "6.2.0", categories: Some(&[]), ..SUBCOMMAND });
