//! What happened in a run: a hash over all of it, and the last events in words.
//!
//! Two runs of one seed have the same hash; where they do not, something reached around the simulation.

use std::collections::{BTreeMap, VecDeque};
use std::fmt::Write;

use almandine_base::points::Witness;

use super::choice::mix;

/// Events that are kept, unless a run asks for more.
const KEPT: usize = 200;

/// One event.
#[derive(Clone, Debug)]
pub(super) struct Note {
    pub(super) now_ns: u64,
    /// The thread that did it; none when no thread did.
    pub(super) thread: Option<usize>,
    pub(super) what: &'static str,
    /// What the words speak of: a thread, an offset, a number of bytes.
    pub(super) numbers: [u64; 2],
}

/// A hash of bytes.
pub(super) fn hash(bytes: &[u8]) -> u64 {
    let word = |bytes: &[u8]| bytes.iter().fold(0, |word, byte| word << 8 | u64::from(*byte));
    bytes.chunks(8).fold(bytes.len() as u64, |hash, bytes| mix(hash ^ word(bytes)).wrapping_add(0x9E37_79B9_7F4A_7C15))
}

/// What threads came to, by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Inner points.
    pub points: BTreeMap<&'static str, u64>,
    /// What has happened that a night must have seen.
    pub happened: BTreeMap<&'static str, u64>,
}

/// What became of the request of a client of a node, and when: no two are of one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Witnessed {
    /// Virtual time.
    pub now_ns: u64,
    /// The node that serves the client.
    pub node: u32,
    /// The node's number of the client.
    pub client: u64,
    /// What became of it.
    pub what: Witness,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Trace {
    pub(super) counts: Counts,
    /// In its order.
    pub(super) witnessed: Vec<Witnessed>,
    hash: u64,
    events: u64,
    last: VecDeque<Note>,
    /// How many of the last events are kept.
    pub(super) kept: usize,
}

impl Default for Trace {
    fn default() -> Self {
        Self { counts: Counts::default(), witnessed: Vec::new(), hash: 0, events: 0, last: VecDeque::new(), kept: KEPT }
    }
}

impl Trace {
    pub(super) fn note(&mut self, note: Note) {
        let Note { now_ns, thread, what, numbers } = note;
        let mut add = |number: u64| self.hash = mix(self.hash ^ number).wrapping_add(0x9E37_79B9_7F4A_7C15);
        add(now_ns);
        add(thread.map_or(u64::MAX, |thread| thread as u64));
        let word = |bytes: &[u8]| bytes.iter().fold(0, |word, byte| word << 8 | u64::from(*byte));
        what.as_bytes().chunks(8).for_each(|bytes| add(word(bytes)));
        numbers.into_iter().for_each(add);
        self.events += 1;
        if self.last.len() >= self.kept {
            self.last.pop_front();
        }
        self.last.push_back(note);
    }

    /// Of all events.
    pub(super) fn hash(&self) -> u64 {
        self.hash
    }

    /// How many there were.
    pub(super) fn events(&self) -> u64 {
        self.events
    }

    /// The last events, one a line: time in seconds, thread, event, numbers.
    pub(super) fn words(&self, name: impl Fn(usize) -> String) -> String {
        let mut words = String::new();
        for Note { now_ns, thread, what, numbers: [a, b] } in &self.last {
            let (seconds, rest) = (now_ns / 1_000_000_000, now_ns % 1_000_000_000);
            let name = thread.map_or_else(|| "world".to_owned(), &name);
            let _ = writeln!(words, "{seconds}.{rest:09} {name}: {what} {a} {b}");
        }
        words
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note(now_ns: u64, what: &'static str) -> Note {
        Note { now_ns, thread: Some(1), what, numbers: [3, 4] }
    }

    #[test]
    fn order_words_and_numbers_count() {
        let hash = |notes: &[Note]| {
            let mut trace = Trace::default();
            notes.iter().cloned().for_each(|note| trace.note(note));
            trace.hash()
        };
        let (a, b) = (note(1, "a"), note(1, "b"));
        assert_eq!(hash(&[a.clone(), b.clone()]), hash(&[a.clone(), b.clone()]));
        let others =
            [hash(&[b.clone(), a.clone()]), hash(&[note(2, "a"), b.clone()]), hash(&[a.clone(), Note { numbers: [4, 3], ..b }])];
        assert!(others.iter().all(|other| *other != hash(&[a.clone(), note(1, "b")])));
    }

    #[test]
    fn the_last_events_are_told() {
        let mut trace = Trace::default();
        (0..KEPT as u64 + 5).for_each(|i| trace.note(note(i * 1_000_000_000, "sleeps")));
        let words = trace.words(|thread| format!("worker {thread}"));
        assert_eq!((words.lines().count(), trace.events()), (KEPT, KEPT as u64 + 5));
        assert_eq!(words.lines().next(), Some("5.000000000 worker 1: sleeps 3 4"));
    }
}
