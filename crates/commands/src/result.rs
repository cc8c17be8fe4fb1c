//! How commands store a result: as the value of a key, whatever that had, or as no key at all.

use almandine_base::events::Classes;
use almandine_handler::{Outcome, WriteCall};
use almandine_keyspace::{Key, Kind, Refusal, Writer};

/// The type of a result, and the event of storing it.
#[derive(Clone, Copy)]
pub(crate) struct Stored {
    pub(crate) kind: Kind,
    pub(crate) class: Classes,
    pub(crate) event: &'static str,
}

/// Has `put` store a result of `len` elements or bytes at a key that is latched, or removes the key when there are none, and
/// answers the length.
pub(crate) fn store(
    call: &mut WriteCall<'_>,
    destination: Key<'_>,
    len: usize,
    stored: Stored,
    put: impl FnOnce(&mut Writer<'_>) -> Result<(), Refusal>,
) -> Outcome {
    if len == 0 {
        if call.keys.delete(destination)? {
            call.event(Classes::GENERIC, "del", destination);
        }
    } else {
        let before = call.replaces(destination)?;
        put(&mut call.keys)?;
        call.replaced(destination, before, stored.kind);
        call.event(stored.class, stored.event, destination);
    }
    call.reply.unsigned(len as u64);
    Ok(())
}
