//! Replies with a large part of a large list, made from a snapshot while they are sent.

use almandine_base::output::{Broken, Stream};
use almandine_handler::ReadCall;
use almandine_keyspace::Missing;
use almandine_keyspace::types::list::{ListSnapshot, Lists};
use almandine_resp::reply::write_header;

use super::access::range;

/// The rest of a reply.
struct ListStream {
    snapshot: ListSnapshot,
    /// The place of the next element.
    next: usize,
    /// The place behind the last one.
    end: usize,
}

impl Stream for ListStream {
    fn next(&mut self, limit: usize, out: &mut Vec<u8>) -> Result<bool, Broken> {
        let (begin, mut left) = (out.len(), self.end - self.next);
        if left > 0 {
            let visited = self.snapshot.visit_from(self.next, |element| {
                write_header(out, b'$', element.len());
                out.extend_from_slice(element);
                out.extend_from_slice(b"\r\n");
                left -= 1;
                left > 0 && out.len() - begin < limit
            });
            visited.map_err(|_| Broken)?;
            self.next = self.end - left;
        }
        Ok(left > 0)
    }
}

/// Answers a range of the first key by a stream, if it is a large list still.
pub(super) fn begin(call: &mut ReadCall<'_>, (start, stop): (i64, i64)) -> Result<bool, Missing> {
    let key = call.key(1);
    let Some(snapshot) = call.keys.snapshot_as::<Lists>(key)? else { return Ok(false) };
    let range = range(start, stop, snapshot.len());
    call.reply.array(range.len());
    call.reply.out.end_with(Box::new(ListStream { snapshot, next: range.start, end: range.end }));
    Ok(true)
}
