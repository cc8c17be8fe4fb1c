//! Every command of redis-server, described with our types, must give redis-server's own COMMAND INFO and COMMAND DOCS.
//!
//! The specs are built from the documentation alone (arguments, group, flags). What does not follow from it (key positions of a few
//! commands, arities, categories) is listed here; the lists are the reference for which specs must state them.

#![expect(clippy::unwrap_used, reason = "a test that fails says where")]

use std::collections::{BTreeMap, BTreeSet};

use almandine_command_spec::describe::{self, Data};
use almandine_command_spec::{Access, Arg, ArgKind, Begin, Category, CommandSpec, Deprecated, Find, Group, KeySpec, Keys, Traits};
use almandine_testkit::Redis;
use serde_json::Value;

/// Commands whose key positions do not follow from their arguments.
const KEYS_STATED: &[&str] = &[
    "georadius",
    "georadiusbymember",
    "lcs",
    "migrate",
    "sort",
    "sort_ro",
    "spublish",
    "ssubscribe",
    "sunsubscribe",
    "xread",
    "xreadgroup",
];
/// Commands whose arity does not follow from their arguments.
const ARITY_STATED: &[&str] = &[
    "command",
    "command|getkeys",
    "command|getkeysandflags",
    "debug",
    "geohash",
    "geopos",
    "pfmerge",
    "psync",
    "quit",
    "replconf",
];
/// Commands that are filed in other categories than their group's.
const CATEGORIES_STATED: &[&str] = &[
    "asking",
    "command",
    "command|count",
    "command|docs",
    "command|getkeys",
    "command|getkeysandflags",
    "command|help",
    "command|info",
    "command|list",
    "dbsize",
    "flushall",
    "flushdb",
    "info",
    "keys",
    "lastsave",
    "migrate",
    "pubsub|help",
    "readonly",
    "readwrite",
    "restore",
    "restore-asking",
    "role",
    "sort",
    "sort_ro",
    "swapdb",
    "wait",
];

fn ask(oracle: &Redis, command: &[&str]) -> Value {
    let text = oracle.ask_json(command);
    serde_json::from_str(&text).unwrap_or_else(|e| panic!("{e}: {text}"))
}

fn json(data: &Data) -> Value {
    match data {
        Data::Text(text) | Data::Status(text) => Value::from(text.as_ref()),
        Data::Integer(value) => Value::from(*value),
        Data::Array(items) | Data::Set(items) => items.iter().map(json).collect(),
        Data::Map(pairs) => Value::Object(pairs.iter().map(|(name, data)| (name.to_string(), json(data))).collect()),
    }
}

fn leak<T>(items: Vec<T>) -> &'static [T] {
    Box::leak(items.into_boxed_slice())
}

fn text(value: &Value) -> &'static str {
    Box::leak(value.as_str().unwrap_or_default().to_owned().into_boxed_str())
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn strings(value: &Value) -> Vec<&'static str> {
    list(value).iter().map(text).collect()
}

fn integer(value: &Value) -> i16 {
    i16::try_from(value.as_i64().unwrap()).unwrap()
}

const ACCESSES: [Access; 13] = [
    Access::Read,
    Access::Inspect,
    Access::Overwrite,
    Access::Create,
    Access::Remove,
    Access::Update,
    Access::ReadUpdate,
    Access::Insert,
    Access::ReadInsert,
    Access::Delete,
    Access::Take,
    Access::ReadRepair,
    Access::NotKey,
];

const GROUPS: [Group; 16] = [
    Group::Generic,
    Group::String,
    Group::List,
    Group::Set,
    Group::SortedSet,
    Group::Hash,
    Group::PubSub,
    Group::Transactions,
    Group::Connection,
    Group::Server,
    Group::Scripting,
    Group::HyperLogLog,
    Group::Cluster,
    Group::Geo,
    Group::Stream,
    Group::Bitmap,
];

fn key_spec(value: &Value) -> KeySpec {
    let flags = strings(&value["flags"]);
    let (incomplete, variable) = (flags.contains(&"incomplete"), flags.contains(&"variable_flags"));
    let plain: Vec<_> = flags.into_iter().filter(|flag| !["incomplete", "variable_flags"].contains(flag)).collect();
    let access = ACCESSES.into_iter().find(|access| access.flags() == plain).unwrap_or_else(|| panic!("no access is {plain:?}"));
    let (begin, find) = (&value["begin_search"], &value["find_keys"]);
    let (b, f) = (&begin["spec"], &find["spec"]);
    let begin = match begin["type"].as_str().unwrap() {
        "index" => Begin::Index(integer(&b["index"])),
        "keyword" => Begin::Keyword { word: text(&b["keyword"]), from: integer(&b["startfrom"]) },
        _ => Begin::Unknown,
    };
    let find = match find["type"].as_str().unwrap() {
        "range" => Find::Range { last: integer(&f["lastkey"]), step: integer(&f["keystep"]), limit: integer(&f["limit"]) },
        "keynum" => Find::KeyNum { count: integer(&f["keynumidx"]), first: integer(&f["firstkey"]), step: integer(&f["keystep"]) },
        _ => Find::Unknown,
    };
    KeySpec { begin, find, access, incomplete, variable, notes: text(&value["notes"]) }
}

fn args(value: &Value, specs: &[KeySpec]) -> &'static [Arg] {
    let mut counted = false;
    let mut out = Vec::new();
    for value in list(value).iter().rev() {
        let inner = args(&value["arguments"], specs);
        let index = value["key_spec_index"].as_u64();
        let kind = match value["type"].as_str().unwrap() {
            "key" => ArgKind::Key(specs[index.unwrap() as usize].access),
            "integer" if counted => ArgKind::KeyCount,
            "integer" => ArgKind::Integer,
            "double" => ArgKind::Double,
            "pattern" => ArgKind::Pattern,
            "unix-time" => ArgKind::UnixTime,
            "pure-token" => ArgKind::PureToken,
            "oneof" => ArgKind::OneOf(inner),
            "block" => ArgKind::Block(inner),
            _ => ArgKind::String,
        };
        let spec = index.map(|i| specs[i as usize]);
        counted = spec.is_some_and(|spec| matches!(spec.find, Find::KeyNum { .. }));
        let flags = strings(&value["flags"]);
        out.push(Arg {
            name: text(&value["name"]),
            display: text(&value["display_text"]),
            kind,
            token: text(&value["token"]),
            optional: flags.contains(&"optional"),
            multiple: flags.contains(&"multiple"),
            multiple_token: flags.contains(&"multiple_token"),
            since: text(&value["since"]),
            deprecated_since: text(&value["deprecated_since"]),
            variable: spec.is_some_and(|spec| spec.variable),
            notes: spec.map_or("", |spec| spec.notes),
            key_spec: index.map(|i| i as u8),
        });
    }
    out.reverse();
    leak(out)
}

fn traits(flags: &[&str]) -> Traits {
    let has = |name: &str| flags.contains(&name);
    Traits {
        write: has("write"),
        readonly: has("readonly"),
        denyoom: has("denyoom"),
        admin: has("admin"),
        pubsub: has("pubsub"),
        noscript: has("noscript"),
        blocking: has("blocking"),
        loading: has("loading"),
        stale: has("stale"),
        skip_monitor: has("skip_monitor"),
        skip_slowlog: has("skip_slowlog"),
        asking: has("asking"),
        fast: has("fast"),
        no_auth: has("no_auth"),
        no_mandatory_keys: has("no_mandatory_keys"),
        no_async_loading: has("no_async_loading"),
        no_multi: has("no_multi"),
        allow_busy: has("allow_busy"),
        ..Traits::NONE
    }
}

#[derive(Default)]
struct Stated {
    keys: BTreeSet<String>,
    arity: BTreeSet<String>,
    categories: BTreeSet<String>,
}

fn spec(info: &Value, docs: &Value, stated: &mut Stated) -> CommandSpec {
    let name = info[0].as_str().unwrap();
    let specs: Vec<KeySpec> = list(&info[8]).iter().map(key_spec).collect();
    let subcommands = list(&info[9]).iter().map(|sub| {
        let docs = &docs["subcommands"][sub[0].as_str().unwrap()];
        &*Box::leak(Box::new(spec(sub, docs, stated)))
    });
    let mut spec = CommandSpec {
        name: Box::leak(name.to_ascii_uppercase().into_boxed_str()),
        since: text(&docs["since"]),
        complexity: text(&docs["complexity"]),
        summary: text(&docs["summary"]),
        group: GROUPS.into_iter().find(|group| group.name() == docs["group"]).unwrap(),
        args: args(&docs["arguments"], &specs),
        traits: traits(&strings(&info[2])),
        tips: leak(strings(&info[7])),
        history: leak(list(&docs["history"]).iter().map(|h| (text(&h[0]), text(&h[1]))).collect()),
        deprecated: docs["deprecated_since"]
            .as_str()
            .map(|_| Deprecated { since: text(&docs["deprecated_since"]), replaced_by: text(&docs["replaced_by"]) }),
        subcommands: leak(subcommands.collect()),
        ..CommandSpec::BLANK
    };
    let derived = std::panic::catch_unwind(|| spec.shape());
    if !derived.is_ok_and(|shape| shape.key_specs() == specs) {
        stated.keys.insert(name.to_owned());
        spec.keys = Keys::Specs(leak(specs));
    }
    let shape = spec.shape();
    if i64::from(shape.arity) != info[1].as_i64().unwrap() {
        stated.arity.insert(name.to_owned());
        spec.arity = integer(&info[1]);
    }
    let categories: Vec<Category> = list(&info[6]).iter().map(|c| *Category::ALL.iter().find(|a| a.name() == c).unwrap()).collect();
    if !shape.categories.iter().eq(categories.iter().copied()) {
        stated.categories.insert(name.to_owned());
        spec.categories = Some(leak(categories));
    }
    // A script function may touch other keys than those it declares, which no key spec says.
    spec.traits.system = strings(&docs["doc_flags"]).contains(&"syscmd");
    spec.traits.movablekeys = strings(&info[2]).contains(&"movablekeys") && !spec.shape().movable;
    spec
}

#[test]
fn every_command_of_redis_is_described_exactly() {
    let oracle = Redis::start(&[]);
    let (info, docs) = (ask(&oracle, &["COMMAND"]), ask(&oracle, &["COMMAND", "DOCS"]));
    std::panic::set_hook(Box::new(|_| {}));
    let mut stated = Stated::default();
    // Deriving keys that do not follow from the arguments panics, which is what is tried here.
    let mut specs = BTreeMap::new();
    for info in list(&info) {
        let name = info[0].as_str().unwrap();
        specs.insert(name, (spec(info, &docs[name], &mut stated), info));
    }
    let _ = std::panic::take_hook();
    assert!(specs.len() > 200);
    for (name, (spec, info)) in &specs {
        assert_eq!(json(&describe::info(spec)), **info);
        assert_eq!(json(&describe::docs(spec)), docs[name], "{name}");
    }
    assert!(specs.values().all(|(spec, _)| !spec.traits.movablekeys), "movablekeys follows from the key specs");
    assert!(stated.keys.iter().map(String::as_str).eq(KEYS_STATED.iter().copied()), "{:?}", stated.keys);
    assert!(stated.arity.iter().map(String::as_str).eq(ARITY_STATED.iter().copied()), "{:?}", stated.arity);
    assert!(stated.categories.iter().map(String::as_str).eq(CATEGORIES_STATED.iter().copied()), "{:?}", stated.categories);
}

#[test]
fn keys_of_calls_agree() {
    let oracle = Redis::start(&[]);
    let info = ask(&oracle, &["COMMAND"]);
    let docs = ask(&oracle, &["COMMAND", "DOCS"]);
    std::panic::set_hook(Box::new(|_| {}));
    for line in [
        "get a",
        "mset a 1 b 2 c 3",
        "bitop and d a b c",
        "rename a b",
        "copy a b",
        "object encoding a",
        "blpop a b c 0",
        "del a b",
        "zunionstore d 2 a b weights 1 2",
        "xread count 1 streams a b 0 0",
        "lmpop 2 a b left",
        "eval return 3 a b c x",
        "setex a 1 v",
        "migrate h 1 k 0 10",
        "pfcount a b",
        "xreadgroup group g c streams a $",
    ] {
        let words: Vec<&str> = line.split(' ').collect();
        let reply = ask(&oracle, &[&["COMMAND", "GETKEYSANDFLAGS"], &words[..]].concat());
        let entry = list(&info).iter().find(|i| i[0] == words[0]).unwrap();
        let mut spec = spec(entry, &docs[words[0]], &mut Stated::default());
        if spec.is_container() {
            spec = **spec.subcommands.iter().find(|sub| sub.own_name().eq_ignore_ascii_case(words[1])).unwrap();
        }
        let shape = spec.shape();
        let flags = shape.key_specs().iter().map(|s| (s.access, s.flags().collect::<Vec<_>>())).collect::<Vec<_>>();
        let keys: Value = shape
            .keys(words.len(), |i| words[i].as_bytes())
            .map(|(i, access)| {
                let flags = &flags.iter().find(|f| f.0 == access).unwrap().1;
                Value::from(vec![Value::from(words[i]), Value::from(flags.clone())])
            })
            .collect();
        assert_eq!(keys, reply, "{line}");
    }
}
