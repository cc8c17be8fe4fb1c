//! The unit of work of a session that has changed something and has not ended.
//!
//! While the operation log wants it, each effect is encoded as it is told, under the latch, so that no copy of a value is needed.
//! The image of an object is written there, too, before the unit is published: what that takes is bounded by the object.

use crate::changes::events::Events;
use crate::changes::{Body, Effect, RemovalReason};
use crate::record::put::Put;
use almandine_base::object::{ImageCursor, Object};
use almandine_oplog::{Attributes, Draft, LibraryForm, LogEntry, LogValue, Operation, PlainSet, Reason, Rings};

/// Bytes of an image for which a session keeps its memory.
const BYTES_KEPT: usize = 64 * 1024;
/// Bytes after which a part of an image ends.
const PART_BYTES: usize = 64 << 10;
/// Keys for which a session keeps its memory.
const KEYS_KEPT: usize = 1 << 10;

/// Where the units of a thread are logged.
#[derive(Clone, Copy)]
pub(in crate::session) struct LogOf<'r> {
    pub(in crate::session) rings: &'r Rings,
    pub(in crate::session) thread: usize,
}

/// What a unit of work has done so far.
#[derive(Default)]
pub(in crate::session) struct OpenUnit {
    is_open: bool,
    /// Whether databases consist of something else.
    pub(in crate::session) databases: bool,
    /// Hashes of the keys that it has changed.
    pub(in crate::session) changed: Vec<u64>,
    /// The number of the session's last unit.
    pub(in crate::session) last: u64,
    /// What it did, as entries of the operation log.
    pub(in crate::session) draft: Draft,
    /// What befell the key of a unit of one verb: told when it is published.
    pub(in crate::session) events: Events,
    /// The image of an object, until it is in its entry.
    image: Vec<u8>,
}

impl OpenUnit {
    /// Whether it has changed anything.
    #[inline]
    pub(in crate::session) fn is_open(&self) -> bool {
        self.is_open
    }

    /// It has changed a key, whose bucket is latched exclusively.
    pub(in crate::session) fn note(&mut self, hash: u64) {
        self.is_open = true;
        if self.changed.last() != Some(&hash) {
            self.changed.push(hash);
        }
    }

    /// It has given a record up whose key is not known.
    pub(in crate::session) fn note_lost(&mut self) {
        self.is_open = true;
    }

    /// It has changed what databases consist of.
    pub(in crate::session) fn note_databases(&mut self) {
        (self.is_open, self.databases) = (true, true);
    }

    /// Appends what it has done to a key, or to a database, as an entry of the operation log.
    pub(in crate::session) fn append(
        &mut self,
        log: LogOf<'_>,
        (contents, key): (u64, &[u8]),
        effect: &Effect<'_>,
        made: bool,
        removal: Option<RemovalReason>,
    ) {
        debug_assert!(self.is_open, "INV-ORDER-1: what is logged belongs to a unit");
        let mut image = std::mem::take(&mut self.image);
        let value = match *effect {
            Effect::Set { value: Body::Bytes(bytes), .. } => LogValue::Bytes(bytes),
            Effect::Set { value: Body::Shared(value), .. } => match value.as_object() {
                None => LogValue::Bytes(AsRef::<[u8]>::as_ref(&**value)),
                Some(object) => {
                    write_image(object, &mut image);
                    LogValue::Image(&image)
                }
            },
            _ => LogValue::Bytes(&[]),
        };
        let operation = match *effect {
            Effect::Set { kind, put, .. } => Operation::Set { kind: kind as u8, value, attributes: attributes(put), made },
            Effect::Write { offset, bytes } => Operation::Write { offset: offset as u64, bytes },
            Effect::Put(put) => Operation::Attributes(attributes(put)),
            Effect::Remove => Operation::Remove(match removal {
                None => Reason::Asked,
                Some(RemovalReason::Expired) => Reason::Expired,
                Some(RemovalReason::Evicted) => Reason::Evicted,
                Some(RemovalReason::Damaged) => Reason::Damaged,
            }),
            Effect::Edit { kind, edits } => Operation::Edit { kind: kind as u8, edits },
            Effect::Expire { kind, elements } => Operation::Expire { kind: kind as u8, elements },
            Effect::Database(db) => Operation::Database(db),
            Effect::Lost => Operation::Lost,
        };
        self.draft.push_any(log.rings, log.thread, &LogEntry { contents, key, operation });
        image.clear();
        image.shrink_to(BYTES_KEPT);
        self.image = image;
    }

    /// Appends a change of the libraries of functions.
    pub(in crate::session) fn append_functions(&mut self, log: LogOf<'_>, version: u64, form: LibraryForm, libraries: &[u8]) {
        self.is_open = true;
        let entry = LogEntry { contents: version, key: &[], operation: Operation::Functions { form, libraries } };
        self.draft.push_any(log.rings, log.thread, &entry);
    }

    /// Appends an entry.
    pub(in crate::session) fn append_entry(&mut self, LogOf { rings, thread }: LogOf<'_>, entry: &LogEntry<'_>) {
        debug_assert!(self.is_open, "INV-ORDER-1: what is logged belongs to a unit");
        self.draft.push(rings, thread, entry);
    }

    /// Appends an entry of the usual kind; false: it is none, and nothing is appended.
    #[inline(always)]
    pub(in crate::session) fn append_plain(&mut self, LogOf { rings, thread }: LogOf<'_>, set: PlainSet<'_>) -> bool {
        debug_assert!(self.is_open, "INV-ORDER-1: what is logged belongs to a unit");
        self.draft.push_plain(rings, thread, set)
    }

    /// Publishes a unit of one entry of the usual kind, whose number `number` takes behind that of the session's last unit.
    /// False: it is none, and nothing has happened.
    #[inline(always)]
    pub(in crate::session) fn publish_plain(
        &mut self,
        LogOf { rings, thread }: LogOf<'_>,
        set: &PlainSet<'_>,
        number: impl FnOnce(u64) -> u64,
    ) -> bool {
        debug_assert!(!self.is_open, "INV-ORDER-1: a unit that has begun is published whole");
        let Self { draft, last, .. } = self;
        let taken = draft.publish_plain(rings, thread, set, || number(*last));
        *last = taken.unwrap_or(*last);
        taken.is_some()
    }

    /// It has ended.
    pub(in crate::session) fn end(&mut self) {
        debug_assert!(self.is_open, "INV-ORDER-1: a unit ends once");
        (self.is_open, self.databases) = (false, false);
        self.changed.clear();
        self.changed.shrink_to(KEYS_KEPT);
        self.draft.clear();
    }
}

fn attributes(put: Put) -> Attributes {
    let Put { expiry_ms, etag, edited } = put;
    Attributes { expiry_ms, etag, edited }
}

/// Appends the parts of an object's image, each behind its length.
fn write_image(object: &dyn Object, image: &mut Vec<u8>) {
    debug_assert!(image.is_empty(), "INV-EFFECT-1: an image is of one object");
    let mut cursor = Some(ImageCursor::default());
    while let Some(at) = cursor {
        let start = image.len();
        image.extend_from_slice(&[0; 4]);
        // Parts of objects are never missing yet.
        cursor = object.write_part(at, PART_BYTES, image).expect("an object in memory");
        let len = image.len() - start - 4;
        debug_assert!(u32::try_from(len).is_ok(), "a part is about as long as asked for, or one element");
        image[start..start + 4].copy_from_slice(&(len as u32).to_le_bytes());
    }
}
