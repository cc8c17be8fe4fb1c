//! Answering what a search has found, or storing it.

use almandine_base::events::Classes;
use almandine_datatypes::geo::integer_of_score;
use almandine_handler::{Outcome, ReadCall, Stop, WriteCall};
use almandine_keyspace::types::sorted_set::{NewSortedSet, SortedSet, SortedSets};
use almandine_keyspace::{Key, Kind, Put, Reader};
use almandine_resp::{Args, Reply};

use super::hits::{Hit, NoHits, hits};
use super::query::{Form, Query};
use super::{reply_distance, reply_position};
use crate::result::{self, Stored};
use crate::sorted_set;

/// A search that answers.
pub(super) fn answer(call: &mut ReadCall<'_>, form: Form) -> Outcome {
    let (args, key) = (call.args, call.key(form.source()));
    let found = search(&mut call.keys, key, args, form, &mut call.reply)?;
    call.looked_up(key, found);
    Ok(())
}

/// A search that answers or stores, as its arguments say.
pub(super) fn answer_or_store(call: &mut WriteCall<'_>, form: Form) -> Outcome {
    let (args, key) = (call.args, call.key(form.source()));
    let mut new = call.keys.new_value::<SortedSets>(sorted_set::limits(call.context.settings()));
    let WriteCall { keys, reply, .. } = call;
    let looked = keys.read_as::<SortedSets, _>(key, |set| Ok(fill(set, args, form, &mut new, reply)))?;
    call.looked_up(key, looked.is_some());
    let destination = match looked {
        Some(destination) => destination?,
        None => {
            let query = Query::read(args, form, None)?;
            if query.destination.is_none() {
                call.reply.array(0);
            }
            query.destination
        }
    };
    let event = if form == Form::SearchStore { "geosearchstore" } else { "georadiusstore" };
    destination.map_or(Ok(()), |destination| store(call, destination, new, event))
}

/// Answers what is found in the sorted set at a key. Whether there is one.
fn search(keys: &mut Reader<'_>, key: Key<'_>, args: Args<'_>, form: Form, reply: &mut Reply<'_>) -> Result<bool, Stop> {
    let mut attempt = keys.read_as::<SortedSets, _>(key, |set| Ok(find(set, args, form, reply, false)))?;
    if let Some(Err(NoHits::TooMany)) = attempt {
        attempt = keys.read_whole_as::<SortedSets, _>(key, |set| Ok(find(set, args, form, reply, true)))?;
    }
    match attempt {
        Some(Ok(())) => Ok(true),
        // A look without a bound finds whatever there is.
        Some(Err(NoHits::TooMany)) => Err(Stop::Cold),
        Some(Err(NoHits::Failed(error))) => Err(error),
        None => {
            Query::read(args, form, None)?;
            reply.array(0);
            Ok(false)
        }
    }
}

fn find(set: &SortedSet<'_>, args: Args<'_>, form: Form, reply: &mut Reply<'_>, patient: bool) -> Result<(), NoHits> {
    let mut query = Query::read(args, form, Some(set))?;
    let hits = match query.shape.take() {
        Some(shape) => hits(set, &query, shape, patient)?,
        None => Vec::new(),
    };
    write(reply, &query, &hits);
    Ok(())
}

/// Answers what is found, or puts it into a new sorted set and says where that is to be stored.
fn fill(
    set: &SortedSet<'_>,
    args: Args<'_>,
    form: Form,
    new: &mut NewSortedSet,
    reply: &mut Reply<'_>,
) -> Result<Option<usize>, Stop> {
    let mut query = Query::read(args, form, Some(set))?;
    let hits = match query.shape.take().map(|shape| hits(set, &query, shape, true)) {
        None | Some(Err(NoHits::TooMany)) => Vec::new(),
        Some(Ok(hits)) => hits,
        Some(Err(NoHits::Failed(error))) => return Err(error),
    };
    if query.destination.is_none() {
        write(reply, &query, &hits);
        return Ok(None);
    }
    for hit in &hits {
        new.set(hit.member, if query.stores_distance { hit.found.distance / query.unit.metres() } else { hit.score })?;
    }
    Ok(query.destination)
}

/// Puts the result to its key, or removes that when there is none, and answers its size.
fn store(call: &mut WriteCall<'_>, destination: usize, new: NewSortedSet, event: &'static str) -> Outcome {
    let (destination, len) = (call.key(destination), new.len());
    let stored = Stored { kind: Kind::SortedSet, class: Classes::SORTED_SET, event };
    result::store(call, destination, len, stored, |keys| {
        keys.put_value(destination, new, Put::default())?;
        keys.count_changes(len as i64 - 1);
        Ok(())
    })
}

fn write(reply: &mut Reply<'_>, query: &Query, hits: &[Hit<'_>]) {
    let metres = query.unit.metres();
    let more = usize::from(query.with_distance) + usize::from(query.with_hash) + usize::from(query.with_position);
    reply.array(hits.len());
    for hit in hits {
        if more > 0 {
            reply.array(1 + more);
        }
        reply.bulk(hit.member);
        if query.with_distance {
            reply_distance(reply, hit.found.distance / metres);
        }
        if query.with_hash {
            reply.integer(integer_of_score(hit.score));
        }
        if query.with_position {
            reply_position(reply, hit.found.point);
        }
    }
}
