//! Entries in replies.

use almandine_datatypes::stream::{StreamEntry, StreamId};
use almandine_resp::Reply;

/// Answers an id.
pub(super) fn write_id(reply: &mut Reply<'_>, id: StreamId) {
    reply.bulk(&id.text());
}

/// Answers an entry: its id, and its fields and values in turn.
pub(super) fn write_entry(reply: &mut Reply<'_>, entry: &StreamEntry<'_>) {
    reply.array(2);
    write_id(reply, entry.id);
    write_fields(reply, entry);
}

/// Answers the fields and values of an entry.
pub(super) fn write_fields(reply: &mut Reply<'_>, entry: &StreamEntry<'_>) {
    reply.array(2 * entry.fields.len());
    for (name, value) in entry.fields {
        reply.bulk(name);
        reply.bulk(value);
    }
}

/// Answers an entry that is gone: its id, and nothing.
pub(super) fn write_gone(reply: &mut Reply<'_>, id: StreamId) {
    reply.array(2);
    write_id(reply, id);
    reply.null_array();
}
