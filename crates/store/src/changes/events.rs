//! Events: what befalls a key, posted while its bucket is latched, so that every subscriber sees the events of a key in the
//! order of its changes (INV-EVENT-1).
//!
//! What the store does by itself it tells by itself: a key is made, expires, is evicted, loses elements that were past their
//! time. What a command does, its owner states ([`crate::Session::state_event`]). A session that holds latches, or is alone,
//! keeps both in one order until its owner says that they be told, which is before the latches are released
//! ([`crate::Session::tell_events`]). A session that latches one key for one verb tells at once, or, while units are logged, when
//! the verb's unit is published: what a process that is killed has told is in its rings.
//!
//! Without [`crate::Consumer::Events`], nothing of this happens.

use crate::changes::RemovalReason;
use crate::record::Kind;
use std::ops::Range;

/// Bytes of kept events for which a session keeps its memory.
const BYTES_KEPT: usize = 64 * 1024;

/// What befell a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event<'e> {
    /// It was made.
    Created,
    /// The store removed it.
    Removed(RemovalReason),
    /// Elements of it were past their time and were removed.
    ElementsExpired {
        /// Its type.
        kind: Kind,
        /// The elements, as [`crate::elements`] reads them.
        elements: &'e [u8],
        /// None was left, and the key went with them.
        emptied: bool,
    },
    /// What its owner states.
    Stated {
        /// A number that the owner knows.
        class: u32,
        /// What it is called.
        name: &'static str,
        /// Elements that it is about, as [`crate::elements`] reads them.
        elements: &'e [u8],
    },
}

/// Told of the namespace, the key, and what befell it.
pub(crate) type EventListener = Box<dyn Fn(u16, &[u8], Event<'_>) + Send + Sync>;

/// Events that are kept until they are told.
#[derive(Debug, Default)]
pub(crate) struct Events {
    kept: Vec<Kept>,
    bytes: Vec<u8>,
}

#[derive(Debug)]
struct Kept {
    namespace: u16,
    key: Range<usize>,
    elements: Range<usize>,
    what: What,
}

#[derive(Clone, Copy, Debug)]
enum What {
    Created,
    Removed(RemovalReason),
    ElementsExpired(Kind, bool),
    Stated(u32, &'static str),
}

impl Events {
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.kept.is_empty()
    }

    pub(crate) fn push(&mut self, namespace: u16, key: &[u8], event: Event<'_>) {
        debug_assert_ne!(namespace, 0, "INV-NS-1: zero names no namespace");
        let (what, elements) = match event {
            Event::Created => (What::Created, &[][..]),
            Event::Removed(reason) => (What::Removed(reason), &[][..]),
            Event::ElementsExpired { kind, elements, emptied } => (What::ElementsExpired(kind, emptied), elements),
            Event::Stated { class, name, elements } => (What::Stated(class, name), elements),
        };
        let (key, elements) = (self.keep(key), self.keep(elements));
        self.kept.push(Kept { namespace, key, elements, what });
    }

    fn keep(&mut self, bytes: &[u8]) -> Range<usize> {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(bytes);
        start..self.bytes.len()
    }

    /// Tells all of them, in their order; of a command that will begin anew, only what the store did.
    pub(crate) fn tell(&mut self, void: bool, listener: Option<&EventListener>) {
        for Kept { namespace, key, elements, what } in &self.kept {
            let elements = &self.bytes[elements.clone()];
            let event = match *what {
                What::Stated(..) if void => continue,
                What::Created => Event::Created,
                What::Removed(reason) => Event::Removed(reason),
                What::ElementsExpired(kind, emptied) => Event::ElementsExpired { kind, elements, emptied },
                What::Stated(class, name) => Event::Stated { class, name, elements },
            };
            if let Some(listener) = listener {
                listener(*namespace, &self.bytes[key.clone()], event);
            }
        }
        self.kept.clear();
        self.kept.shrink_to(BYTES_KEPT / size_of::<Kept>());
        self.bytes.clear();
        self.bytes.shrink_to(BYTES_KEPT);
    }

    /// Takes those out that say that a key was made, and tells each.
    pub(crate) fn take_created(&mut self, mut each: impl FnMut(&[u8])) {
        let bytes = &self.bytes;
        self.kept.retain(|kept| {
            let created = matches!(kept.what, What::Created);
            if created {
                each(&bytes[kept.key.clone()]);
            }
            !created
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{Arc, Mutex};

    #[test]
    fn events_are_told_in_order_and_of_a_void_command_only_what_the_store_did() {
        let told: Arc<Mutex<Vec<String>>> = Arc::default();
        let ear = Arc::clone(&told);
        let listener: EventListener = Box::new(move |namespace, key, event| {
            ear.lock().unwrap().push(format!("{namespace} {} {event:?}", String::from_utf8_lossy(key)));
        });
        let all = [
            Event::Removed(RemovalReason::Expired),
            Event::Stated { class: 4, name: "keymiss", elements: b"" },
            Event::Created,
            Event::ElementsExpired { kind: Kind::Hash, elements: b"e", emptied: true },
            Event::Stated { class: 8, name: "hset", elements: b"f" },
        ];
        for void in [false, true] {
            let mut events = Events::default();
            all.iter().for_each(|event| events.push(3, b"k", *event));
            events.tell(void, Some(&listener));
            assert!(events.is_empty() && events.bytes.is_empty());
            let expected = all.iter().filter(|event| !(void && matches!(event, Event::Stated { .. })));
            assert_eq!(
                std::mem::take(&mut *told.lock().unwrap()),
                expected.map(|event| format!("3 k {event:?}")).collect::<Vec<_>>()
            );
        }
        let mut events = Events::default();
        all.iter().for_each(|event| events.push(3, b"k", *event));
        let mut created = Vec::new();
        events.take_created(|key| created.push(key.to_vec()));
        assert_eq!((created, events.kept.len()), (vec![b"k".to_vec()], all.len() - 1));
    }
}
