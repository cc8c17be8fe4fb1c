//! What COMMAND INFO and COMMAND DOCS say about a command, as plain data that any reply encoding can write.
//!
//! Shapes and order are those of redis-server 7.0, so that clients that parse them by position work.

use std::borrow::Cow;

use crate::arg::{Arg, ArgKind};
use crate::keys::{Begin, Find, KeySpec};
use crate::spec::CommandSpec;

type Text = Cow<'static, str>;

/// A reply in the abstract. RESP2 writes maps as flat arrays and sets as arrays.
#[derive(Clone, Debug, PartialEq)]
pub enum Data {
    /// A bulk string.
    Text(Text),
    /// A simple string.
    Status(Text),
    /// An integer.
    Integer(i64),
    /// An array.
    Array(Vec<Data>),
    /// A set.
    Set(Vec<Data>),
    /// A map, in order.
    Map(Vec<(Text, Data)>),
}

fn text(text: &'static str) -> Data {
    Data::Text(Cow::Borrowed(text))
}

fn statuses(words: impl Iterator<Item = &'static str>) -> Data {
    Data::Set(words.map(|word| Data::Status(Cow::Borrowed(word))).collect())
}

/// The name as replies write it.
#[must_use]
pub fn name(spec: &CommandSpec) -> String {
    spec.name.to_ascii_lowercase()
}

/// The element of a COMMAND or COMMAND INFO reply: name, arity, flags, first, last, step, categories, tips, key specs, subcommands.
#[must_use]
pub fn info(spec: &CommandSpec) -> Data {
    let shape = spec.shape();
    Data::Array(vec![
        Data::Text(Cow::Owned(name(spec))),
        Data::Integer(i64::from(shape.arity)),
        statuses(spec.traits.names(shape.movable)),
        Data::Integer(i64::from(shape.first)),
        Data::Integer(i64::from(shape.last)),
        Data::Integer(i64::from(shape.step)),
        statuses(shape.categories.iter().map(crate::Category::name)),
        Data::Set(spec.tips.iter().map(|tip| text(tip)).collect()),
        Data::Set(shape.key_specs().iter().map(key_spec).collect()),
        Data::Set(spec.subcommands.iter().map(|sub| info(sub)).collect()),
    ])
}

fn key_spec(spec: &KeySpec) -> Data {
    let mut map = Vec::with_capacity(4);
    if !spec.notes.is_empty() {
        map.push((Cow::Borrowed("notes"), text(spec.notes)));
    }
    let step = |kind: &'static str, fields: &[(&'static str, Data)]| {
        let fields = fields.iter().map(|(name, data)| (Cow::Borrowed(*name), data.clone())).collect();
        Data::Map(vec![(Cow::Borrowed("type"), text(kind)), (Cow::Borrowed("spec"), Data::Map(fields))])
    };
    let integer = |value: i16| Data::Integer(i64::from(value));
    map.push((Cow::Borrowed("flags"), statuses(spec.flags())));
    let begin = match spec.begin {
        Begin::Index(index) => step("index", &[("index", integer(index))]),
        Begin::Keyword { word, from } => step("keyword", &[("keyword", text(word)), ("startfrom", integer(from))]),
        Begin::Unknown => step("unknown", &[]),
    };
    map.push((Cow::Borrowed("begin_search"), begin));
    let find = match spec.find {
        Find::Range { last, step: keys, limit } => {
            step("range", &[("lastkey", integer(last)), ("keystep", integer(keys)), ("limit", integer(limit))])
        }
        Find::KeyNum { count, first, step: keys } => {
            step("keynum", &[("keynumidx", integer(count)), ("firstkey", integer(first)), ("keystep", integer(keys))])
        }
        Find::Unknown => step("unknown", &[]),
    };
    map.push((Cow::Borrowed("find_keys"), find));
    Data::Map(map)
}

/// The value that COMMAND DOCS gives for the command.
#[must_use]
pub fn docs(spec: &CommandSpec) -> Data {
    let mut map = vec![
        (Cow::Borrowed("summary"), text(spec.summary)),
        (Cow::Borrowed("since"), text(spec.since)),
        (Cow::Borrowed("group"), text(spec.group.name())),
        (Cow::Borrowed("complexity"), text(spec.complexity)),
    ];
    if spec.complexity.is_empty() {
        map.pop();
    }
    let flags = [("deprecated", spec.deprecated.is_some()), ("syscmd", spec.traits.system)];
    if flags.iter().any(|flag| flag.1) {
        map.push((Cow::Borrowed("doc_flags"), statuses(flags.into_iter().filter(|flag| flag.1).map(|flag| flag.0))));
    }
    if let Some(deprecated) = spec.deprecated {
        map.push((Cow::Borrowed("deprecated_since"), text(deprecated.since)));
        map.push((Cow::Borrowed("replaced_by"), text(deprecated.replaced_by)));
    }
    if !spec.history.is_empty() {
        let history = spec.history.iter().map(|(version, change)| Data::Array(vec![text(version), text(change)]));
        map.push((Cow::Borrowed("history"), Data::Set(history.collect())));
    }
    if !spec.args.is_empty() {
        map.push((Cow::Borrowed("arguments"), arguments(spec.args, &mut 0)));
    }
    if spec.is_container() {
        let subcommands = spec.subcommands.iter().map(|sub| (Cow::Owned(name(sub)), docs(sub)));
        map.push((Cow::Borrowed("subcommands"), Data::Map(subcommands.collect())));
    }
    Data::Map(map)
}

/// `keys` counts the key specs, one for each key argument unless the argument says otherwise.
fn arguments(args: &[Arg], keys: &mut u8) -> Data {
    Data::Array(args.iter().map(|arg| argument(arg, keys)).collect())
}

fn argument(arg: &Arg, keys: &mut u8) -> Data {
    let mut map = vec![(Cow::Borrowed("name"), text(arg.name)), (Cow::Borrowed("type"), text(arg.kind.name()))];
    let optional_text = |name: &'static str, value: &'static str, map: &mut Vec<_>| {
        if !value.is_empty() {
            map.push((Cow::Borrowed(name), text(value)));
        }
    };
    optional_text("display_text", arg.display, &mut map);
    let index = match (arg.key_spec, arg.kind) {
        (Some(index), _) => Some(index),
        (None, ArgKind::Key(_)) => {
            *keys += 1;
            Some(*keys - 1)
        }
        _ => None,
    };
    if let Some(index) = index {
        map.push((Cow::Borrowed("key_spec_index"), Data::Integer(i64::from(index))));
    }
    if matches!(arg.kind, ArgKind::PureToken) {
        map.push((Cow::Borrowed("token"), text(arg.token)));
    } else {
        optional_text("token", arg.token, &mut map);
    }
    optional_text("since", arg.since, &mut map);
    optional_text("deprecated_since", arg.deprecated_since, &mut map);
    let flags = [("optional", arg.optional), ("multiple", arg.multiple), ("multiple_token", arg.multiple_token)];
    if flags.iter().any(|flag| flag.1) {
        map.push((Cow::Borrowed("flags"), statuses(flags.into_iter().filter(|flag| flag.1).map(|flag| flag.0))));
    }
    if let ArgKind::OneOf(args) | ArgKind::Block(args) = arg.kind {
        map.push((Cow::Borrowed("arguments"), arguments(args, keys)));
    }
    Data::Map(map)
}
