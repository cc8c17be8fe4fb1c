//! Ids as arguments.

use almandine_datatypes::stream::StreamId;
use almandine_handler::{CommandError, errors};

/// An id, `-` or `+`. An id without a number has `missing` for it.
pub(super) fn parse(text: &[u8], missing: u64) -> Result<StreamId, CommandError> {
    match text {
        b"-" => Ok(StreamId::MIN),
        b"+" => Ok(StreamId::MAX),
        _ => strict(text, missing),
    }
}

/// An id, neither `-` nor `+`.
pub(super) fn strict(text: &[u8], missing: u64) -> Result<StreamId, CommandError> {
    StreamId::parse(text, missing).ok_or(errors::stream::NOT_AN_ID)
}

/// Several of them.
pub(super) fn all<'a>(texts: impl Iterator<Item = &'a [u8]>) -> Result<Vec<StreamId>, CommandError> {
    texts.map(|text| strict(text, 0)).collect()
}

/// Where a range begins. With `(` before it: behind that id.
pub(super) fn start(text: &[u8]) -> Result<StreamId, CommandError> {
    match text {
        [b'(', rest @ ..] if !rest.is_empty() => strict(rest, 0)?.next().ok_or(errors::stream::START_BEHIND_LAST),
        _ => parse(text, 0),
    }
}

/// Where a range ends. With `(` before it: before that id.
pub(super) fn end(text: &[u8]) -> Result<StreamId, CommandError> {
    match text {
        [b'(', rest @ ..] if !rest.is_empty() => strict(rest, u64::MAX)?.previous().ok_or(errors::stream::END_BEFORE_FIRST),
        _ => parse(text, u64::MAX),
    }
}

/// A count, of which negative ones are none.
pub(super) fn count(text: &[u8]) -> Result<u64, CommandError> {
    Ok(almandine_handler::number::integer(text)?.max(0).unsigned_abs())
}
