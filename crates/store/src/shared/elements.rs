//! Elements of collections that expire, whether they are packed or an object.

use super::Shared;
use crate::record::heap;
use crate::record::{Header, Kind, Record};

impl Shared {
    /// When the first element of a value expires, in milliseconds since the Unix epoch. The record's bucket is latched, or the
    /// record is staged.
    pub(crate) fn next_due(&self, record: Record, header: Header) -> Option<i64> {
        let kind = header.kind();
        if kind == Kind::String {
            return None;
        }
        let due = if header.has(Header::HEAP_VALUE) {
            // SAFETY: by the caller's promise the record keeps its reference, and no thread changes the value.
            unsafe { heap::value(record.value_handle(header)) }.as_object()?.next_due()
        } else {
            // SAFETY: by the caller's promise no thread changes the record.
            self.options.types.as_ref()?.next_due(kind, unsafe { record.value(header) })
        };
        due.and_then(|due| i64::try_from(due).ok())
    }

    /// The earlier one of a record's own expiry and that of its first element.
    pub(crate) fn first_due(&self, record: Record, header: Header) -> Option<i64> {
        [record.expiry(header), self.next_due(record, header)].into_iter().flatten().min()
    }
}
