//! Replies with many entries of a large stream, made from a snapshot while they are sent.

use almandine_base::output::{Broken, Stream};
use almandine_call::{CommandError, ReadCall};
use almandine_datatypes::stream::{Entry, StreamId};
use almandine_keyspace::types::stream::StreamSnapshot;
use almandine_resp::reply::write_header;

/// The rest of a reply.
struct EntryStream {
    snapshot: StreamSnapshot,
    /// The id of the next entry; None behind the last one.
    next: Option<StreamId>,
    end: StreamId,
    left: u64,
}

impl Stream for EntryStream {
    fn next(&mut self, limit: usize, out: &mut Vec<u8>) -> Result<bool, Broken> {
        let (Some(start), begin) = (self.next, out.len()) else { return Ok(false) };
        let entries = self.snapshot.object().map(|stream| stream.range(start, self.end));
        let Some(Ok(entries)) = entries else { return Err(Broken) };
        self.next = None;
        for entry in entries {
            let entry = entry.map_err(|_| Broken)?;
            if self.left == 0 {
                break;
            }
            if out.len() - begin >= limit {
                self.next = Some(entry.id);
                break;
            }
            write(out, &entry);
            self.left -= 1;
        }
        Ok(self.next.is_some())
    }
}

/// As [`super::reply::write_entry`], which is the same in both versions of the protocol.
fn write(out: &mut Vec<u8>, entry: &Entry<'_>) {
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
) -> Result<bool, CommandError> {
    if !call.reply.out.may_stream() || start > end {
        return Ok(false);
    }
    let key = call.key(1);
    let Some(snapshot) = call.keys.large_stream(key) else { return Ok(false) };
    let Some(stream) = snapshot.object() else { return Ok(false) };
    let in_range = |()| Ok::<_, almandine_keyspace::Refusal>(stream.rank_behind(end)?.saturating_sub(stream.rank(start)?));
    let len = in_range(())?.min(count.unwrap_or(u64::MAX));
    call.looked_up(true);
    call.reply.array(usize::try_from(len).unwrap_or(usize::MAX));
    call.reply.out.end_with(Box::new(EntryStream { snapshot, next: Some(start), end, left: len }));
    Ok(true)
}
