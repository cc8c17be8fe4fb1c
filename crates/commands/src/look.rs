//! How the commands of a family begin that read one collection: a look at it, which counts as a look-up of its key.

use almandine_handler::{ReadCall, Stop};
use almandine_keyspace::Refusal;
use almandine_keyspace::types::Collection;
use almandine_resp::Reply;

/// Shows the collection at the first key to `look`. None if there is none.
pub(crate) fn look<'c, C: Collection, R>(
    call: &mut ReadCall<'c>,
    look: impl FnOnce(&C::View<'_>, &mut Reply<'c>) -> Result<R, Refusal>,
) -> Result<Option<R>, Stop> {
    look_at::<C, R>(call, 1, look)
}

/// As [`look`], at the key of this argument.
#[inline]
pub(crate) fn look_at<'c, C: Collection, R>(
    call: &mut ReadCall<'c>,
    position: usize,
    look: impl FnOnce(&C::View<'_>, &mut Reply<'c>) -> Result<R, Refusal>,
) -> Result<Option<R>, Stop> {
    let key = call.key(position);
    let ReadCall { keys, reply, .. } = call;
    let found = keys.read_as::<C, _>(key, |view| look(view, reply))?;
    call.looked_up(key, found.is_some());
    Ok(found)
}

/// As [`look_at`], for a look at many elements.
pub(crate) fn look_at_all<'c, C: Collection, R>(
    call: &mut ReadCall<'c>,
    position: usize,
    look: impl FnOnce(&C::View<'_>, &mut Reply<'c>) -> Result<R, Refusal>,
) -> Result<Option<R>, Stop> {
    let key = call.key(position);
    let ReadCall { keys, reply, .. } = call;
    let found = keys.read_whole_as::<C, _>(key, |view| look(view, reply))?;
    call.looked_up(key, found.is_some());
    Ok(found)
}
