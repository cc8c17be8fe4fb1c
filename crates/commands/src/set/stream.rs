//! Replies with all of a large set, made from a snapshot while they are sent.

use almandine_base::output::{Broken, Stream};
use almandine_keyspace::types::set::SetSnapshot;
use almandine_resp::Reply;
use almandine_resp::reply::write_header;

/// The rest of a reply.
struct SetStream {
    snapshot: SetSnapshot,
    /// The place of the next member; None behind the last one.
    next: Option<usize>,
}

impl Stream for SetStream {
    fn next(&mut self, limit: usize, out: &mut Vec<u8>) -> Result<bool, Broken> {
        let Some(from) = self.next else { return Ok(false) };
        let begin = out.len();
        let visited = self.snapshot.visit_from(from, |member| {
            write_member(member, out);
            out.len() - begin < limit
        });
        self.next = visited.map_err(|_| Broken)?;
        Ok(self.next.is_some())
    }
}

/// A member as a string of a reply.
pub(super) fn write_member(member: &[u8], out: &mut Vec<u8>) {
    write_header(out, b'$', member.len());
    out.extend_from_slice(member);
    out.extend_from_slice(b"\r\n");
}

/// Answers a large set by a stream.
pub(super) fn begin(reply: &mut Reply<'_>, snapshot: SetSnapshot) {
    reply.set(snapshot.len());
    reply.out.end_with(Box::new(SetStream { snapshot, next: Some(0) }));
}
