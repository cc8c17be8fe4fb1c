//! What the commands of the family have in common: the first key as a stream, to be read or to be changed.

use almandine_base::events::Classes;
use almandine_command_spec::{CommandSpec, Group};
use almandine_config::Settings;
use almandine_datatypes::stream::{NodeLimits, StreamObject};
use almandine_handler::{Outcome, ReadCall, Stop, WriteCall};
use almandine_keyspace::Refusal;
use almandine_keyspace::types::stream::{StreamMut, Streams};
use almandine_resp::Reply;

use crate::look;

/// What most specs of the family have in common.
pub(super) const STREAM: CommandSpec = CommandSpec { since: "5.0.0", group: Group::Stream, ..CommandSpec::BLANK };

/// Shows the stream at the first key to `look`. None if there is none.
pub(super) fn look<'c, R>(
    call: &mut ReadCall<'c>,
    look: impl FnOnce(&StreamObject, &mut Reply<'c>) -> Result<R, Refusal>,
) -> Result<Option<R>, Stop> {
    look_at(call, 1, look)
}

/// As [`look`], at the key of this argument.
pub(super) fn look_at<'c, R>(
    call: &mut ReadCall<'c>,
    position: usize,
    look: impl FnOnce(&StreamObject, &mut Reply<'c>) -> Result<R, Refusal>,
) -> Result<Option<R>, Stop> {
    look::look_at::<Streams, R>(call, position, |stream, reply| look((*stream)?, reply))
}

/// As [`look_at`], for a look at many entries.
pub(super) fn look_at_all<'c, R>(
    call: &mut ReadCall<'c>,
    position: usize,
    look: impl FnOnce(&StreamObject, &mut Reply<'c>) -> Result<R, Refusal>,
) -> Result<Option<R>, Stop> {
    look::look_at_all::<Streams, R>(call, position, |stream, reply| look((*stream)?, reply))
}

/// How large a node of a stream gets, as Redis would have it.
#[must_use]
pub fn limits(settings: &Settings) -> NodeLimits {
    let size = |limit: u64| usize::try_from(limit).unwrap_or(usize::MAX);
    NodeLimits { bytes: size(settings.values.stream_node_bytes_max), entries: size(settings.values.stream_node_entries_max) }
}

/// The first key as a stream to be changed.
pub(super) fn change<'s>(call: &'s mut WriteCall<'_>) -> Result<StreamMut<'s>, Stop> {
    let key = call.key(1);
    Ok(call.keys.write_as::<Streams>(key, ())?)
}

/// States that there is no such key as the first one, for a command that looks at it as those that read do.
pub(super) fn tell_miss(call: &mut WriteCall<'_>) -> Outcome {
    let key = call.key(1);
    if call.keys.published().any(Classes::MISS) && !call.keys.exists(key)? {
        call.event(Classes::MISS, "keymiss", key);
    }
    Ok(())
}

/// Whether a command on entries that exist has any: the first key as a stream to be changed, or None.
pub(super) fn change_existing<'s>(call: &'s mut WriteCall<'_>) -> Result<Option<StreamMut<'s>>, Stop> {
    let stream = change(call)?;
    Ok(stream.existed().then_some(stream))
}
