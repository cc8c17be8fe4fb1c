//! The geo family: positions on Earth, which are scores of a sorted set.
//!
//! Adding positions and asking for them is here. Searches are in [`search`] (GEOSEARCH) and [`radius`] (the older commands):
//! [`query`] reads what is asked for, [`hits`] finds it, [`answer`] answers or stores it.

mod answer;
mod arguments;
mod hits;
mod query;
mod radius;
mod search;

use almandine_base::events::Classes;
use almandine_command_spec::{Access, Arg, CommandSpec, Group, Traits};
use almandine_datatypes::geo::{Point, distance, text};
use almandine_datatypes::packed::Due;
use almandine_handler::{Command, CommandError, Handler, Options, Outcome, ReadCall, Word, WriteCall};
use almandine_keyspace::types::sorted_set::{SortedSets, Update};
use almandine_resp::{ProtocolVersion, Reply};

use crate::look::look;
use crate::sorted_set;
use crate::traits::{SLOW_READ, SLOW_WRITE};
use arguments::{point, unit};

/// The family.
pub const COMMANDS: &[&Command] = &[
    &GEOADD,
    &GEODIST,
    &GEOHASH,
    &GEOPOS,
    &search::GEOSEARCH,
    &search::GEOSEARCHSTORE,
    &radius::GEORADIUS,
    &radius::GEORADIUS_RO,
    &radius::GEORADIUSBYMEMBER,
    &radius::GEORADIUSBYMEMBER_RO,
];

/// What most specs of the family have in common.
const GEO: CommandSpec = CommandSpec { since: "3.2.0", group: Group::Geo, ..CommandSpec::BLANK };

const UNIT: Arg = Arg::one_of(
    "unit",
    &[Arg::pure_token("m", "M"), Arg::pure_token("km", "KM"), Arg::pure_token("ft", "FT"), Arg::pure_token("mi", "MI")],
);

const GEOADD: Command = Command {
    spec: CommandSpec {
        name: "GEOADD",
        id: 860,
        complexity: "O(log(N)) for each item added, where N is the number of elements in the sorted set.",
        summary: "Adds one or more members to a geospatial index. The key is created if it doesn't exist.",
        args: &[
            Arg::key("key", Access::Update),
            Arg::one_of("condition", &[Arg::pure_token("nx", "NX"), Arg::pure_token("xx", "XX")]).optional().since("6.2.0"),
            Arg::pure_token("change", "CH").optional().since("6.2.0"),
            Arg::block("data", &[Arg::double("longitude"), Arg::double("latitude"), Arg::value("member")]).multiple(),
        ],
        traits: SLOW_WRITE,
        history: &[("6.2.0", "Added the `CH`, `NX` and `XX` options.")],
        ..GEO
    },
    run: Handler::Write(geoadd),
};

fn geoadd(call: &mut WriteCall<'_>) -> Outcome {
    let mut options = Options::after(call.args, 2);
    let (mut absent, mut present, mut with_changed) = (false, false, false);
    while let Some(word) = options.peek().map(Word) {
        match word {
            w if w.is("NX") => absent = true,
            w if w.is("XX") => present = true,
            w if w.is("CH") => with_changed = true,
            _ => break,
        }
        options.next();
    }
    let places = call.args.slice_from(options.position());
    if places.is_empty() || !places.len().is_multiple_of(3) || (absent && present) {
        return Err(CommandError::Syntax.into());
    }
    for at in (0..places.len()).step_by(3) {
        point(places.at(at), places.at(at + 1))?;
    }
    let (key, limits) = (call.key(1), sorted_set::limits(call.context.settings()));
    let mut set = call.keys.write_as::<SortedSets>(key, limits)?;
    let (mut added, mut changed) = (0, 0);
    for at in (0..places.len()).step_by(3) {
        let (position, member) = (point(places.at(at), places.at(at + 1))?, places.at(at + 2));
        if (absent || present) && set.look().score(member)?.is_some() == absent {
            continue;
        }
        match set.set(member, position.score(), Due::Never)? {
            Update::Added => added += 1,
            Update::Changed => changed += 1,
            Update::Same => {}
        }
    }
    set.commit()?;
    if added + changed > 0 {
        call.event(Classes::SORTED_SET, "zadd", key);
    }
    call.reply.unsigned(if with_changed { added + changed } else { added });
    Ok(())
}

const GEODIST: Command = Command {
    spec: CommandSpec {
        name: "GEODIST",
        id: 861,
        complexity: "O(1)",
        summary: "Returns the distance between two members of a geospatial index.",
        args: &[Arg::key("key", Access::Read), Arg::value("member1"), Arg::value("member2"), UNIT.optional()],
        traits: Traits { element_pair: true, ..SLOW_READ },
        arity: -4,
        ..GEO
    },
    run: Handler::Read(geodist),
};

fn geodist(call: &mut ReadCall<'_>) -> Outcome {
    let args = call.args;
    let metres = match args.len() {
        4 => 1.0,
        5 => unit(args.at(4))?.metres(),
        _ => return Err(CommandError::Syntax.into()),
    };
    let found = look::<SortedSets, _>(call, |set, reply| {
        let (one, other) = (set.score(args.at(2))?, set.score(args.at(3))?);
        match one.zip(other) {
            Some((one, other)) => reply_distance(reply, distance(Point::of_score(one), Point::of_score(other)) / metres),
            None => reply.null(),
        }
        Ok(())
    })?;
    if found.is_none() {
        call.reply.null();
    }
    Ok(())
}

const GEOHASH: Command = Command {
    spec: CommandSpec {
        name: "GEOHASH",
        id: 862,
        complexity: "O(1) for each member requested.",
        summary: "Returns members from a geospatial index as geohash strings.",
        args: &[Arg::key("key", Access::Read), Arg::value("member").optional().multiple()],
        traits: Traits { element: true, ..SLOW_READ },
        ..GEO
    },
    run: Handler::Read(|call| {
        each_member(call, |reply, position| match position {
            Some(position) => reply.bulk(&text::hash(position)),
            None => reply.null(),
        })
    }),
};

const GEOPOS: Command = Command {
    spec: CommandSpec {
        name: "GEOPOS",
        id: 863,
        complexity: "O(1) for each member requested.",
        summary: "Returns the longitude and latitude of members from a geospatial index.",
        args: &[Arg::key("key", Access::Read), Arg::value("member").optional().multiple()],
        traits: Traits { element: true, ..SLOW_READ },
        ..GEO
    },
    run: Handler::Read(|call| {
        each_member(call, |reply, position| match position {
            Some(position) => reply_position(reply, position),
            None => reply.null_array(),
        })
    }),
};

/// Answers something of each member's position, in an array.
fn each_member(call: &mut ReadCall<'_>, answer: impl Fn(&mut Reply<'_>, Option<Point>)) -> Outcome {
    let members = call.args.slice_from(2);
    let found = look::<SortedSets, _>(call, |set, reply| {
        reply.array(members.len());
        for member in members.iter() {
            answer(reply, set.score(member)?.map(Point::of_score));
        }
        Ok(())
    })?;
    if found.is_none() {
        call.reply.array(members.len());
        members.iter().for_each(|_| answer(&mut call.reply, None));
    }
    Ok(())
}

/// Answers a distance: a text in either protocol.
fn reply_distance(reply: &mut Reply<'_>, distance: f64) {
    let mut digits = Vec::with_capacity(24);
    text::write_distance(distance, &mut digits);
    reply.bulk(&digits);
}

/// Answers longitude and latitude.
fn reply_position(reply: &mut Reply<'_>, position: Point) {
    reply.array(2);
    let mut digits = Vec::with_capacity(32);
    for degrees in [position.longitude, position.latitude] {
        digits.clear();
        if reply.version() == ProtocolVersion::Resp2 {
            text::write_coordinate(degrees, &mut digits);
            reply.bulk(&digits);
        } else {
            digits.push(b',');
            text::write_coordinate(degrees, &mut digits);
            digits.extend_from_slice(b"\r\n");
            reply.raw(&digits);
        }
    }
}
