//! OBJECT: how a value is stored, in the words of Redis, whose names for encodings tools know.

use almandine_command_spec::{Access, Arg, CommandSpec, Traits};
use almandine_config::choices::{EncodingNames, EvictionPolicy};
use almandine_datatypes::number::parse_i64;
use almandine_handler::{Command, CommandError, Handler, Outcome, ReadCall, Stop, errors, help};
use almandine_keyspace::types::hash::Hashes;
use almandine_keyspace::types::list::Lists;
use almandine_keyspace::types::set::Sets;
use almandine_keyspace::types::sorted_set::SortedSets;
use almandine_keyspace::{Key, Kind, Metadata, Missing, Reader, Refusal, frequency};

use crate::traits::READ;

/// Longest string that Redis stores together with its object.
const EMBEDDED_BYTES_MAX: usize = 44;

pub(super) const OBJECT: Command = Command {
    spec: CommandSpec {
        name: "OBJECT",
        id: 221,
        since: "2.2.3",
        complexity: "Depends on subcommand.",
        summary: "A container for object introspection commands.",
        subcommands: &[&ENCODING.spec, &FREQ.spec, &HELP.spec, &IDLETIME.spec, &REFCOUNT.spec],
        ..CommandSpec::BLANK
    },
    run: Handler::Container,
};

/// What the subcommands about a key have in common.
const SUBCOMMAND: CommandSpec = CommandSpec {
    since: "2.2.3",
    args: &[Arg::key("key", Access::Inspect)],
    traits: Traits { fast: false, ..READ },
    tips: &["nondeterministic_output"],
    ..CommandSpec::BLANK
};

pub(super) const ENCODING: Command = Command {
    spec: CommandSpec {
        name: "OBJECT|ENCODING",
        id: 222,
        summary: "Returns the internal encoding of a Redis object.",
        ..SUBCOMMAND
    },
    run: Handler::Read(encoding),
};

fn encoding(call: &mut ReadCall<'_>) -> Outcome {
    let key = call.key(2);
    let encoding = encoding_of(&mut call.keys, key, call.context.settings().values.encoding_names)?;
    // A look at metadata tells no miss.
    call.context.statistics().looked_up(encoding.is_some());
    match encoding {
        None => call.reply.null(),
        Some(encoding) => call.reply.bulk(encoding.as_bytes()),
    }
    Ok(())
}

/// The name of the encoding that Redis would choose for a key's value. None: there is no such key.
///
/// # Errors
/// When what says it is not in memory.
pub fn encoding_of(keys: &mut Reader<'_>, key: Key<'_>, names: EncodingNames) -> Result<Option<&'static str>, Stop> {
    let (kind, name) = match encoding_by_kind(keys, key)? {
        Some(encoding) => encoding,
        None => return Ok(None),
    };
    Ok(Some(match (names, kind, name) {
        (EncodingNames::Before72, Kind::List, "listpack") => "quicklist",
        (EncodingNames::Before72, Kind::Set, "listpack") => "hashtable",
        _ => name,
    }))
}

/// The type of a key's value, and the name of its encoding as of Redis 7.2.
fn encoding_by_kind(keys: &mut Reader<'_>, key: Key<'_>) -> Result<Option<(Kind, &'static str)>, Stop> {
    // A key that becomes one of another type between two looks at it is looked at again.
    loop {
        let Some(metadata) = keys.metadata(key)? else { return Ok(None) };
        let kind = metadata.kind;
        let name = match kind {
            Kind::String if metadata.edited => Ok(Some("raw")),
            Kind::String => match keys.read(key)? {
                Some(value) if value.kind() != Kind::String => Err(Refusal::WrongKind),
                value => Ok(value.map(|value| string_encoding(&value))),
            },
            Kind::Hash => keys.read_as::<Hashes, _>(key, |hash| Ok(hash.encoding().name())),
            Kind::List => keys.read_as::<Lists, _>(key, |list| Ok(list.encoding().name())),
            Kind::Set => keys.read_as::<Sets, _>(key, |set| Ok(set.encoding().name())),
            Kind::SortedSet => keys.read_as::<SortedSets, _>(key, |set| Ok(set.encoding().name())),
            Kind::Stream => Ok(Some("stream")),
        };
        match name {
            Err(Refusal::WrongKind) => {}
            name => return Ok(name?.map(|name| (kind, name))),
        }
    }
}

/// The encoding of a string that was set as a whole.
fn string_encoding(value: &[u8]) -> &'static str {
    match value {
        integer if parse_i64(integer).is_some() => "int",
        short if short.len() <= EMBEDDED_BYTES_MAX => "embstr",
        _ => "raw",
    }
}

pub(super) const REFCOUNT: Command = Command {
    spec: CommandSpec {
        name: "OBJECT|REFCOUNT",
        id: 226,
        summary: "Returns the reference count of a value of a key.",
        ..SUBCOMMAND
    },
    run: Handler::Read(|call| about_key(call, |_| Ok(1))),
};

pub(super) const FREQ: Command = Command {
    spec: CommandSpec {
        name: "OBJECT|FREQ",
        id: 223,
        since: "4.0.0",
        summary: "Returns the logarithmic access frequency counter of a Redis object.",
        ..SUBCOMMAND
    },
    run: Handler::Read(|call| {
        let tracked = tracks_frequency(call);
        about_use(call, tracked, errors::generic::FREQUENCY_NOT_TRACKED, |call| {
            let key = call.key(2);
            let steps = call.keys.heat().frequency(key)?.unwrap_or(0);
            Ok(frequency::of_steps(steps).into())
        })
    }),
};

pub(super) const IDLETIME: Command = Command {
    spec: CommandSpec {
        name: "OBJECT|IDLETIME",
        id: 225,
        summary: "Returns the time since the last access to a Redis object.",
        ..SUBCOMMAND
    },
    run: Handler::Read(|call| {
        let tracked = !tracks_frequency(call);
        about_use(call, tracked, errors::generic::IDLE_TIME_NOT_TRACKED, |call| {
            let key = call.key(2);
            Ok(call.keys.heat().idle_ms(key)?.unwrap_or(0) / 1000)
        })
    }),
};

/// Whether the eviction policy counts accesses, which it does instead of remembering the last one.
fn tracks_frequency(call: &ReadCall<'_>) -> bool {
    matches!(call.context.settings().memory.maxmemory_policy, EvictionPolicy::AllkeysLfu | EvictionPolicy::VolatileLfu)
}

/// Answers a number about the use of the key, or why there is none.
fn about_use(
    call: &mut ReadCall<'_>,
    tracked: bool,
    untracked: CommandError,
    number: impl FnOnce(&mut ReadCall<'_>) -> Result<i64, Missing>,
) -> Outcome {
    let found = if tracked { Some(number(call)?) } else { None };
    about_key(call, |_| found.ok_or(untracked))
}

/// Answers a number about the key, or null when there is none.
fn about_key(call: &mut ReadCall<'_>, number: impl FnOnce(Metadata) -> Result<i64, CommandError>) -> Outcome {
    let key = call.key(2);
    let metadata = call.keys.metadata(key)?;
    call.context.statistics().looked_up(metadata.is_some());
    match metadata {
        None => call.reply.null(),
        Some(metadata) => call.reply.integer(number(metadata)?),
    }
    Ok(())
}

pub(super) const HELP: Command = help::command("OBJECT|HELP", 224, CommandSpec { since: "6.2.0", ..CommandSpec::BLANK });

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_are_integers_embedded_or_raw() {
        let of = |value: &str| string_encoding(value.as_bytes());
        assert_eq!([of("0"), of("-9223372036854775808")], ["int"; 2]);
        assert_eq!([of(""), of("+1"), of("01"), of("9223372036854775808"), of(&"x".repeat(44))], ["embstr"; 5]);
        assert_eq!(of(&"x".repeat(45)), "raw");
    }
}
