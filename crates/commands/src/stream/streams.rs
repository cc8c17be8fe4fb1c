//! Replies with many entries of a large stream, made from a snapshot while they are sent.

use almandine_base::object::Missing;
use almandine_base::output::{Broken, Stream};
use almandine_datatypes::stream::{StreamEntry, StreamId};
use almandine_handler::{ReadCall, Stop};
use almandine_keyspace::types::stream::{StreamSnapshot, Streams};
use almandine_resp::reply::write_header;

/// The rest of a reply.
struct EntryStream {
    snapshot: StreamSnapshot,
    /// The first and the last id of what is left.
    ids: (StreamId, StreamId),
    backwards: bool,
    left: u64,
}

impl Stream for EntryStream {
    fn next(&mut self, limit: usize, out: &mut Vec<u8>) -> Result<bool, Broken> {
        let (start, end) = self.ids;
        let stream = self.snapshot.object().ok_or(Broken)?;
        let stopped_at = if self.backwards {
            write_all(stream.entries().backwards(start, end).map_err(|_| Broken)?, &mut self.left, limit, out)?
        } else {
            write_all(stream.entries().range(start, end).map_err(|_| Broken)?, &mut self.left, limit, out)?
        };
        let Some(id) = stopped_at else { return Ok(false) };
        self.ids = if self.backwards { (start, id) } else { (id, end) };
        Ok(true)
    }
}

/// Appends at most `left` entries, until they are `limit` bytes. The id of the first one that is left out; None: there is none.
fn write_all<'e>(
    entries: impl Iterator<Item = Result<StreamEntry<'e>, Missing>>,
    left: &mut u64,
    limit: usize,
    out: &mut Vec<u8>,
) -> Result<Option<StreamId>, Broken> {
    let begin = out.len();
    for entry in entries {
        let entry = entry.map_err(|_| Broken)?;
        if *left == 0 {
            break;
        }
        if out.len() - begin >= limit {
            return Ok(Some(entry.id));
        }
        write(out, &entry);
        *left -= 1;
    }
    Ok(None)
}

/// As [`super::reply::write_entry`], which is the same in both versions of the protocol.
fn write(out: &mut Vec<u8>, entry: &StreamEntry<'_>) {
    let bulk = |out: &mut Vec<u8>, text: &[u8]| {
        write_header(out, b'$', text.len());
        out.extend_from_slice(text);
        out.extend_from_slice(b"\r\n");
    };
    write_header(out, b'*', 2);
    bulk(out, &entry.id.text());
    write_header(out, b'*', 2 * entry.fields.len());
    for (name, value) in entry.fields {
        bulk(out, name);
        bulk(out, value);
    }
}

/// Answers entries of the first key by a stream, if it is large. False: nothing was answered.
pub(super) fn stream_range(
    call: &mut ReadCall<'_>,
    (start, end): (StreamId, StreamId),
    count: Option<u64>,
    backwards: bool,
) -> Result<bool, Stop> {
    if !call.reply.out.may_stream() || start > end {
        return Ok(false);
    }
    let key = call.key(1);
    let Some(snapshot) = call.keys.snapshot_as::<Streams>(key)? else { return Ok(false) };
    let Some(stream) = snapshot.object() else { return Ok(false) };
    let in_range =
        |()| Ok::<_, almandine_keyspace::Refusal>(stream.entries().rank_behind(end)?.saturating_sub(stream.entries().rank(start)?));
    let len = in_range(())?.min(count.unwrap_or(u64::MAX));
    call.looked_up(key, true);
    call.reply.array(usize::try_from(len).unwrap_or(usize::MAX));
    call.reply.out.end_with(Box::new(EntryStream { snapshot, ids: (start, end), backwards, left: len }));
    Ok(true)
}
