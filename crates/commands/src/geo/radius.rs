//! GEORADIUS and GEORADIUSBYMEMBER, which GEOSEARCH has replaced, and their forms that cannot store.

use almandine_command_spec::{Access, Arg, Begin, CommandSpec, Deprecated, Find, KeySpec, Keys};
use almandine_handler::{Command, Handler, Word};

use super::answer::{answer, answer_or_store};
use super::query::Form;
use super::search::{ORDER, WITHCOORD, WITHDIST, WITHHASH};
use super::{GEO, UNIT};
use crate::traits::{SLOW_READ, SLOW_WRITE};

const COMPLEXITY: &str = "O(N+log(M)) where N is the number of elements inside the bounding box of the circular area delimited \
                          by center and radius and M is the number of items inside the index.";

const KEY: Arg = Arg::key("key", Access::Read);
const LONGITUDE: Arg = Arg::double("longitude");
const LATITUDE: Arg = Arg::double("latitude");
const MEMBER: Arg = Arg::value("member");
const RADIUS: Arg = Arg::double("radius");
/// COUNT, whose ANY came later.
const COUNT_SINCE: Arg =
    Arg::block("count-block", &[Arg::integer("count").token("COUNT"), Arg::pure_token("any", "ANY").optional().since("6.2.0")])
        .optional();
const COUNT: Arg =
    Arg::block("count-block", &[Arg::integer("count").token("COUNT"), Arg::pure_token("any", "ANY").optional()]).optional();
const STORE: Arg = Arg::one_of(
    "store",
    &[
        Arg::key("storekey", Access::Overwrite).display("key").token("STORE").key_spec(1),
        Arg::key("storedistkey", Access::Overwrite).display("key").token("STOREDIST").key_spec(2),
    ],
)
.optional();

/// The key that is searched, and the one behind either word, from an argument on.
const fn keys(from: i16) -> [KeySpec; 3] {
    const FIND: Find = Find::Range { last: 0, step: 1, limit: 0 };
    [
        KeySpec::one(1, Access::Read),
        KeySpec::new(Begin::Keyword { word: "STORE", from }, FIND, Access::Overwrite),
        KeySpec::new(Begin::Keyword { word: "STOREDIST", from }, FIND, Access::Overwrite),
    ]
}
/// Where the options of GEORADIUS begin.
const OPTIONS: usize = 6;
/// Where those of GEORADIUSBYMEMBER do.
const OPTIONS_BY_MEMBER: usize = 5;
const KEYS: [KeySpec; 3] = keys(OPTIONS as i16);
const KEYS_BY_MEMBER: [KeySpec; 3] = keys(OPTIONS_BY_MEMBER as i16);

/// The key, then the destination of the last STORE or STOREDIST from an argument on.
fn next_key<'a, const FROM: usize>(count: usize, arg: &dyn Fn(usize) -> &'a [u8], after: usize) -> Option<(usize, Access)> {
    match after {
        0 => Some((1, Access::Read)),
        1 => {
            let (mut at, mut destination) = (FROM, None);
            while at + 1 < count {
                let word = Word(arg(at));
                if word.is("STORE") || word.is("STOREDIST") {
                    at += 1;
                    destination = Some((at, Access::Overwrite));
                }
                at += 1;
            }
            destination
        }
        _ => None,
    }
}

pub(super) const GEORADIUS: Command = Command {
    spec: CommandSpec {
        name: "GEORADIUS",
        id: 866,
        complexity: COMPLEXITY,
        summary: "Queries a geospatial index for members within a distance from a coordinate, optionally stores the result.",
        args: &[KEY, LONGITUDE, LATITUDE, RADIUS, UNIT, WITHCOORD, WITHDIST, WITHHASH, COUNT_SINCE, ORDER, STORE],
        traits: SLOW_WRITE,
        keys: Keys::Computed(&KEYS, next_key::<OPTIONS>),
        history: &[("6.2.0", "Added the `ANY` option for `COUNT`."), ("7.0.0", "Added support for uppercase unit names.")],
        deprecated: Some(Deprecated {
            since: "6.2.0",
            replaced_by: "`GEOSEARCH` and `GEOSEARCHSTORE` with the `BYRADIUS` argument",
        }),
        ..GEO
    },
    run: Handler::Write(|call| answer_or_store(call, Form::Radius { stores: true })),
};

pub(super) const GEORADIUS_RO: Command = Command {
    spec: CommandSpec {
        name: "GEORADIUS_RO",
        id: 867,
        since: "3.2.10",
        summary: "Returns members from a geospatial index that are within a distance from a coordinate.",
        args: &[KEY, LONGITUDE, LATITUDE, RADIUS, UNIT, WITHCOORD, WITHDIST, WITHHASH, COUNT_SINCE, ORDER],
        traits: SLOW_READ,
        keys: Keys::FromArgs,
        deprecated: Some(Deprecated { since: "6.2.0", replaced_by: "`GEOSEARCH` with the `BYRADIUS` argument" }),
        ..GEORADIUS.spec
    },
    run: Handler::Read(|call| answer(call, Form::Radius { stores: false })),
};

pub(super) const GEORADIUSBYMEMBER: Command = Command {
    spec: CommandSpec {
        name: "GEORADIUSBYMEMBER",
        id: 868,
        summary: "Queries a geospatial index for members within a distance from a member, optionally stores the result.",
        args: &[KEY, MEMBER, RADIUS, UNIT, WITHCOORD, WITHDIST, WITHHASH, COUNT, ORDER, STORE],
        keys: Keys::Computed(&KEYS_BY_MEMBER, next_key::<OPTIONS_BY_MEMBER>),
        deprecated: Some(Deprecated {
            since: "6.2.0",
            replaced_by: "`GEOSEARCH` and `GEOSEARCHSTORE` with the `BYRADIUS` and `FROMMEMBER` arguments",
        }),
        ..GEORADIUS.spec
    },
    run: Handler::Write(|call| answer_or_store(call, Form::RadiusByMember { stores: true })),
};

pub(super) const GEORADIUSBYMEMBER_RO: Command = Command {
    spec: CommandSpec {
        name: "GEORADIUSBYMEMBER_RO",
        id: 869,
        since: "3.2.10",
        summary: "Returns members from a geospatial index that are within a distance from a member.",
        args: &[KEY, MEMBER, RADIUS, UNIT, WITHCOORD, WITHDIST, WITHHASH, COUNT, ORDER],
        traits: SLOW_READ,
        keys: Keys::FromArgs,
        history: &[],
        deprecated: Some(Deprecated { since: "6.2.0", replaced_by: "`GEOSEARCH` with the `BYRADIUS` and `FROMMEMBER` arguments" }),
        ..GEORADIUS.spec
    },
    run: Handler::Read(|call| answer(call, Form::RadiusByMember { stores: false })),
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_destination_counts() {
        let destination = |words: &str| {
            let words: Vec<&[u8]> = words.split(' ').map(str::as_bytes).collect();
            let by_member = words[0] == b"georadiusbymember";
            let next = if by_member { next_key::<OPTIONS_BY_MEMBER> } else { next_key::<OPTIONS> };
            next(words.len(), &|at| words[at], 1).map(|(at, _)| at)
        };
        assert_eq!(destination("georadius k 1 2 3 m"), None);
        assert_eq!(destination("georadius k 1 2 3 m STORE a storedist b"), Some(9));
        assert_eq!(destination("georadius k 1 2 3 m STORE store count 1 STORE"), Some(7));
        assert_eq!(destination("georadiusbymember k m 3 m STORE a"), Some(6));
        // No unit: the word is in its place.
        assert_eq!(destination("georadius k 1 2 3 STORE a"), None);
    }
}
