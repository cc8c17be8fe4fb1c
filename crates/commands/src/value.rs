//! Strings as commands read, answer and store them.

use std::borrow::Cow;

use almandine_base::events::Classes;
use almandine_handler::{CommandError, Outcome, WriteCall};
use almandine_keyspace::{Copies, Key, Kind, Occupied, Put, Value};
use almandine_resp::Reply;

/// The value, which must be a string when there is one.
pub(crate) fn string<'v, 'k>(value: Option<&'v Value<'k>>) -> Result<Option<&'v Value<'k>>, CommandError> {
    match value {
        Some(value) if value.kind() != Kind::String => Err(CommandError::WrongType),
        value => Ok(value),
    }
}

/// Expiry and entity tag of a value that gets other bytes.
pub(crate) fn kept(occupied: &Occupied<'_>) -> Put {
    Put { edited: false, ..occupied.put() }
}

pub(crate) fn is_string(kind: Kind) -> Result<(), CommandError> {
    if kind == Kind::String { Ok(()) } else { Err(CommandError::WrongType) }
}

/// A string as bulk, or null. A large one is not copied.
pub(crate) fn reply_value(reply: &mut Reply<'_>, value: Option<&Value<'_>>) {
    match value.map(|value| (value, value.shared())) {
        None => reply.null(),
        Some((_, Some(shared))) => reply.bulk_shared(shared),
        Some((value, None)) => reply.bulk(value),
    }
}

/// Sets a key to a string, whatever it was.
#[inline]
pub(crate) fn set(call: &mut WriteCall<'_>, key: Key<'_>, value: &[u8], put: Put) -> Outcome {
    if !call.keys.published().is_empty() {
        return set_telling(call, key, Cow::Borrowed(value), put);
    }
    Ok(call.keys.upsert(key, value, put)?)
}

/// As [`set`], of a value that may have been copied before the key was latched: see [`copy_large`].
pub(crate) fn set_copied(call: &mut WriteCall<'_>, key: Key<'_>, value: Cow<'_, [u8]>, put: Put) -> Outcome {
    if !call.keys.published().is_empty() {
        return set_telling(call, key, value, put);
    }
    upsert(call, key, value, put)
}

fn upsert(call: &mut WriteCall<'_>, key: Key<'_>, value: Cow<'_, [u8]>, put: Put) -> Outcome {
    match value {
        Cow::Borrowed(value) => call.keys.upsert(key, value, put)?,
        Cow::Owned(value) => call.keys.upsert_owned(key, value, put)?,
    }
    Ok(())
}

/// A value for a key that will be latched: a copy if it is large and `is_likely` says that it will be stored. Copying it under the
/// latch would hold others up.
pub(crate) fn copy_large<'v>(key: Key<'_>, value: &'v [u8], is_likely: impl FnOnce() -> bool) -> Cow<'v, [u8]> {
    let is_large = Copies::are_needed(std::iter::once((key.bytes, value)));
    if is_large && is_likely() { Cow::Owned(value.to_vec()) } else { Cow::Borrowed(value) }
}

/// As [`set`], while events are told.
#[cold]
fn set_telling(call: &mut WriteCall<'_>, key: Key<'_>, value: Cow<'_, [u8]>, put: Put) -> Outcome {
    let before = call.replaces(key)?;
    upsert(call, key, value, put)?;
    call.replaced(key, before, Kind::String);
    call.event(Classes::STRING, "set", key);
    Ok(())
}

/// As [`set`], with an expiry; when that has passed the key is gone at once. That is a change even if there was no key, and told
/// to connections that watch it.
pub(crate) fn set_expiring(call: &mut WriteCall<'_>, key: Key<'_>, value: Cow<'_, [u8]>, expiry_ms: i64) -> Outcome {
    if expiry_ms > call.now_ms() {
        set_copied(call, key, value, Put { expiry_ms: Some(expiry_ms), ..Put::default() })?;
        call.event(Classes::GENERIC, "expire", key);
        return Ok(());
    }
    let before = call.replaces(key)?;
    if !call.keys.delete(key)? {
        upsert(call, key, value, Put::default())?;
        call.keys.delete(key)?;
    }
    call.replaced(key, before, Kind::String);
    call.event(Classes::STRING, "set", key);
    call.event(Classes::GENERIC, "expire", key);
    call.keys.count_expired();
    call.event(Classes::EXPIRED, "expired", key);
    Ok(())
}

/// The bits of a value, which must be a string when there is one.
pub(crate) fn bits<'v>(value: Option<&'v Value<'_>>) -> Result<Option<&'v [u8]>, CommandError> {
    value.map(|value| is_string(value.kind()).map(|()| &**value)).transpose()
}
