//! HRANDFIELD: fields at random, each as likely as any other.

use almandine_command_spec::{Access, Arg, CommandSpec};
use almandine_datatypes::packed::FieldEntry;
use almandine_handler::{Command, CommandError, Handler, Outcome, ReadCall};
use almandine_keyspace::Refusal;
use almandine_keyspace::types::hash::{Hash, Hashes};
use almandine_resp::{ProtocolVersion, Reply};

use super::access::HASH;
use crate::look::{look, look_at_all};
use crate::random::{Random, Sample, are_too_many, draw_each};
use crate::traits::SLOW_READ;

pub(super) const HRANDFIELD: Command = Command {
    spec: CommandSpec {
        name: "HRANDFIELD",
        id: 614,
        since: "6.2.0",
        complexity: "O(N) where N is the number of fields returned",
        summary: "Returns one or more random fields from a hash.",
        args: &[
            Arg::key("key", Access::Read),
            Arg::block("options", &[Arg::integer("count"), Arg::pure_token("withvalues", "WITHVALUES").optional()]).optional(),
        ],
        traits: SLOW_READ,
        tips: &["nondeterministic_output"],
        ..HASH
    },
    run: Handler::Read(hrandfield),
};

/// Looks for a field at random that may meet some past their time, before all fields are gone through for one.
const LOOKS_MAX: usize = 16;

fn hrandfield(call: &mut ReadCall<'_>) -> Outcome {
    let mut random = Random::new();
    if call.args.len() == 2 {
        let found = look::<Hashes, _>(call, |hash, reply| {
            match pick(hash, &mut random)? {
                Some(entry) => reply.bulk(entry.field),
                None => reply.null(),
            }
            Ok(())
        })?;
        if found.is_none() {
            call.reply.null();
        }
        return Ok(());
    }
    let (sample, now) = (Sample::parse(call.args, "WITHVALUES")?, call.now_ms().unsigned_abs());
    let Sample { size, with_values, .. } = sample;
    let found = if sample.independent {
        look::<Hashes, _>(call, |hash, reply| independent(hash, size, with_values, &mut random, reply))?
    } else {
        look_at_all::<Hashes, _>(call, 1, |hash, reply| different(hash, size, with_values, &mut random, now, reply).map(|()| true))?
    };
    match found {
        None => call.reply.array(0),
        Some(true) => {}
        Some(false) => return Err(CommandError::OutOfRange.into()),
    }
    Ok(())
}

/// Answers `count` different fields, or all.
fn different(
    hash: &Hash<'_>,
    count: usize,
    with_values: bool,
    random: &mut Random,
    now: u64,
    reply: &mut Reply<'_>,
) -> Result<(), Refusal> {
    let array = reply.begin();
    let mut len = 0;
    let mut answer = |entry: FieldEntry<'_>| len += write(reply, entry, with_values);
    if count >= hash.len() {
        for entry in hash.try_iter() {
            answer(entry?);
        }
    } else if hash.next_due().is_some_and(|due| due <= now) {
        // A sample would have some that are past their time.
        live_sample(hash, count, random)?.into_iter().for_each(answer);
    } else {
        hash.sample(count, &mut || random.next(), &mut answer)?;
    }
    array.end_array(reply, len);
    Ok(())
}

/// `count` different fields that are not past their time, or all of these: a reservoir that each takes a place in by chance.
fn live_sample<'h>(hash: &Hash<'h>, count: usize, random: &mut Random) -> Result<Vec<FieldEntry<'h>>, Refusal> {
    let mut sample = Vec::new();
    for (seen, entry) in hash.try_iter().enumerate() {
        let entry = entry?;
        if sample.len() < count {
            sample.push(entry);
        } else if let Some(place) = sample.get_mut(random.below(seen + 1)) {
            *place = entry;
        }
    }
    Ok(sample)
}

/// Answers `count` fields, each drawn from all of them. False if that is too much.
fn independent(
    hash: &Hash<'_>,
    count: usize,
    with_values: bool,
    random: &mut Random,
    reply: &mut Reply<'_>,
) -> Result<bool, Refusal> {
    if are_too_many(count) {
        return Ok(false);
    }
    let (array, mut len) = (reply.begin(), 0);
    let fits = draw_each(reply, count, |reply| {
        let picked = pick(hash, random)?;
        len += picked.map_or(0, |entry| write(reply, entry, with_values));
        Ok(picked.is_some())
    })?;
    array.end_array(reply, len);
    Ok(fits)
}

/// A field at random. None: all are past their time.
fn pick<'h>(hash: &Hash<'h>, random: &mut Random) -> Result<Option<FieldEntry<'h>>, Refusal> {
    for _ in 0..LOOKS_MAX {
        if let Some(entry) = hash.nth(random.below(hash.len()))? {
            return Ok(Some(entry));
        }
    }
    let mut picked = None;
    for (seen, entry) in hash.try_iter().enumerate() {
        let entry = entry?;
        // Reservoir of one: each is as likely.
        if random.below(seen + 1) == 0 {
            picked = Some(entry);
        }
    }
    Ok(picked)
}

/// Answers a field. How many elements of an array that is.
fn write(reply: &mut Reply<'_>, entry: FieldEntry<'_>, with_values: bool) -> usize {
    let in_pairs = with_values && reply.version() == ProtocolVersion::Resp3;
    if in_pairs {
        reply.array(2);
    }
    reply.bulk(entry.field);
    if with_values {
        reply.bulk(entry.value);
    }
    if with_values && !in_pairs { 2 } else { 1 }
}
