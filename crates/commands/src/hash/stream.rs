//! Replies with all of a large hash, made from a snapshot while they are sent.

use almandine_base::output::{Broken, Stream};
use almandine_datatypes::packed::FieldEntry;
use almandine_handler::ReadCall;
use almandine_keyspace::Missing;
use almandine_keyspace::types::hash::{HashSnapshot, Hashes};
use almandine_resp::Reply;
use almandine_resp::reply::write_header;

/// What of each field is answered.
#[derive(Clone, Copy)]
pub(super) enum Part {
    Fields,
    Values,
    Both,
}

impl Part {
    /// Whether keys and values alternate.
    pub(super) fn is_pairs(self) -> bool {
        matches!(self, Self::Both)
    }

    /// The header of a reply about this number of fields.
    pub(super) fn header(self, reply: &mut Reply<'_>, fields: usize) {
        if self.is_pairs() { reply.map(fields) } else { reply.array(fields) }
    }

    /// The strings that a field gives.
    pub(super) fn of<'e>(self, entry: &FieldEntry<'e>) -> impl Iterator<Item = &'e [u8]> + use<'e> {
        let (first, second) = match self {
            Self::Fields => (entry.field, None),
            Self::Values => (entry.value, None),
            Self::Both => (entry.field, Some(entry.value)),
        };
        std::iter::once(first).chain(second)
    }
}

/// The rest of a reply.
struct HashStream {
    snapshot: HashSnapshot,
    part: Part,
    /// The place of the next field; None behind the last one.
    next: Option<usize>,
}

impl Stream for HashStream {
    fn next(&mut self, limit: usize, out: &mut Vec<u8>) -> Result<bool, Broken> {
        let Some(from) = self.next else { return Ok(false) };
        let (begin, part) = (out.len(), self.part);
        let visited = self.snapshot.visit_from(from, |entry| {
            for text in part.of(&entry) {
                write_header(out, b'$', text.len());
                out.extend_from_slice(text);
                out.extend_from_slice(b"\r\n");
            }
            out.len() - begin < limit
        });
        self.next = visited.map_err(|_| Broken)?;
        Ok(self.next.is_some())
    }
}

/// Answers all of the first key by a stream, if it is a large hash still.
pub(super) fn begin(call: &mut ReadCall<'_>, part: Part) -> Result<bool, Missing> {
    let key = call.key(1);
    let Some(snapshot) = call.keys.snapshot_as::<Hashes>(key)? else { return Ok(false) };
    part.header(&mut call.reply, snapshot.len());
    call.reply.out.end_with(Box::new(HashStream { snapshot, part, next: Some(0) }));
    Ok(true)
}
