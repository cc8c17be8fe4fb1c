//! Keyspace events of commands: their keys are latched from the first look to the last event (INV-EVENT-1).
//!
//! A command that writes holds its keys' latches anyway, but for one of a single verb, and a read mostly holds none. While
//! events are told, both do: what they state is told before the latches are released, so no event of another command on the key
//! comes between or too early. Reads latch exclusively then, because a key that has expired is removed, which is an event,
//! before the miss that follows.

use almandine_base::events::Classes;
use almandine_base::step;
use almandine_handler::{Dispatch, Flags, Stop};
use almandine_keyspace::Reader;

/// Whether a command that reads takes the latches of the keys that it declares: for the misses that it tells, or, of several
/// keys, for those that have expired.
#[cold]
pub(crate) fn latches_read(dispatch: &Dispatch, keys: &Reader<'_>, together: bool) -> bool {
    let tells = keys.published().any(Classes::MISS) || (together && keys.published().any(Classes::EXPIRED));
    tells && !dispatch.flags.any(Flags::SELF_LOCKING.with(Flags::ANY_KEY))
}

/// Whether a command that latches its keys by itself is one of a single verb, which would release its latch before its events
/// are told.
#[cold]
pub(crate) fn latches_write(dispatch: &Dispatch) -> bool {
    let is_single = dispatch.key != 0 && !dispatch.flags.any(Flags::ANY_KEY.with(Flags::OTHER_DATABASE));
    step!(LatchForEvents, is_single, else false)
}

/// Tells the events of a command, while its keys are latched still; of one that runs again, only what the store did. A command
/// that waits runs again if it `reads`; one that writes has changed what it has told.
#[cold]
pub(crate) fn end(keys: &mut Reader<'_>, stop: Option<&Stop>, reads: bool) {
    step!(LatchForEvents);
    let again = matches!(stop, Some(Stop::Cold | Stop::Unplanned | Stop::Held | Stop::Computing))
        || reads && matches!(stop, Some(Stop::Waiting(_)));
    keys.events().end(again);
}
