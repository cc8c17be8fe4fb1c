//! What the server must hold: a record per key, and whether a reply agrees with it.
//!
//! Each key belongs to one connection, so that its commands have one order, and the last acknowledged value is known. The
//! only uncertainty is time: a key falls due somewhere between the sending of the command that set the time and its reply,
//! plus the time. Within that interval both answers are right, but a key that was once seen gone must stay gone.

use crate::pipe::Answer;
use almandine_bench::generate::random::{Random, mix};

/// The server's clock may be read less often than ours, and commands take it from the start of their batch.
pub(super) const SLACK_MS: u64 = 250;

/// What is done to a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Act {
    Get,
    /// SET, with PX when `life_ms` is above 0.
    Set {
        number: u32,
        len: u32,
        life_ms: u64,
    },
    /// APPEND of bytes `from..from + len` of value `number`.
    Append {
        number: u32,
        from: u32,
        len: u32,
    },
    /// PEXPIRE.
    Expire {
        life_ms: u64,
    },
    Delete,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum State {
    #[default]
    Absent,
    Present,
    /// There may be a value that is not known; the next SET or DEL ends this.
    Unknown,
}

/// One key.
#[derive(Debug, Clone, Copy, Default)]
struct Record {
    state: State,
    /// Which of the key's values it is.
    number: u32,
    len: u32,
    /// When it is due at the earliest and at the latest; 0: never.
    due: (u64, u64),
}

/// Whether a key must be there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Presence {
    Sure,
    Gone,
    Either,
}

/// When a batch was sent and when its last reply had come, in milliseconds since the start.
#[derive(Debug, Clone, Copy)]
pub(super) struct Span {
    pub(super) sent: u64,
    pub(super) got: u64,
}

/// Every key.
#[derive(Debug)]
pub(super) struct Model {
    records: Vec<Record>,
    next: u32,
    expected: Vec<u8>,
}

/// Keys and bytes that must be there.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Live {
    pub(super) keys: u64,
    /// Keys that may be there or not.
    pub(super) uncertain: u64,
    /// Bytes of values.
    pub(super) value_bytes: u64,
}

impl Model {
    pub(super) fn new(keys: u64) -> Self {
        Self { records: vec![Record::default(); keys as usize], next: 1, expected: Vec::new() }
    }

    /// Number of keys.
    pub(super) fn keys(&self) -> u64 {
        self.records.len() as u64
    }

    /// A value that no key has had.
    pub(super) fn new_number(&mut self) -> u32 {
        self.next = self.next.wrapping_add(1);
        self.next
    }

    /// How to lengthen the value of a key by `len` bytes; `None` when it is not certain what it will be then.
    pub(super) fn append(&mut self, key: u64, len: u32, now: u64) -> Option<Act> {
        // A batch may take long: what is due soon is not certain.
        const SOON_MS: u64 = 5_000;
        let record = self.records[key as usize];
        match record.presence(Span { sent: now, got: now + SOON_MS }) {
            Presence::Sure => Some(Act::Append { number: record.number, from: record.len, len }),
            Presence::Gone => Some(Act::Append { number: self.new_number(), from: 0, len }),
            Presence::Either => None,
        }
    }

    /// Compares a reply with what it must be, and takes over what was done.
    pub(super) fn apply(&mut self, key: u64, act: Act, span: Span, answer: Answer<'_>) -> Result<(), String> {
        let record = self.records[key as usize];
        let presence = record.presence(span);
        let due = |life: u64| (span.sent + life, span.got + life);
        let (gone, here) = (presence == Presence::Gone, presence == Presence::Sure);
        let absent = Record::default();
        let after = match (act, answer) {
            (Act::Set { number, len, life_ms: 0 }, Answer::Status(b"OK")) => {
                Record { state: State::Present, number, len, due: (0, 0) }
            }
            (Act::Set { number, len, life_ms }, Answer::Status(b"OK")) => {
                Record { state: State::Present, number, len, due: due(life_ms) }
            }
            (Act::Get, Answer::Value(None)) if !here => absent,
            (Act::Get, Answer::Value(Some(_))) if !gone && record.state == State::Unknown => record,
            (Act::Get, Answer::Value(Some(value))) if !gone => {
                self.expected.clear();
                content(key, record.number, 0, record.len, &mut self.expected);
                if value != self.expected {
                    return Err(format!("{}, but the value is {}", record.describe(key, span), describe(value)));
                }
                record
            }
            (Act::Append { from, len, .. }, Answer::Integer(n)) if n == i64::from(from + len) && (from == 0 || !gone) => {
                let Act::Append { number, .. } = act else { return Ok(()) };
                let due = if gone { (0, 0) } else { record.due };
                Record { state: State::Present, number, len: from + len, due }
            }
            // It fell due before: what is there now is the end of a value.
            (Act::Append { len, .. }, Answer::Integer(n)) if n == i64::from(len) && !here => {
                Record { state: State::Unknown, ..absent }
            }
            (Act::Expire { life_ms }, Answer::Integer(1)) if !gone => Record { due: due(life_ms), ..record },
            (Act::Expire { .. }, Answer::Integer(0)) if !here => absent,
            (Act::Delete, Answer::Integer(1)) if !gone => absent,
            (Act::Delete, Answer::Integer(0)) if !here => absent,
            (_, answer) => {
                let said = match answer {
                    Answer::Value(Some(value)) => describe(value),
                    Answer::Error(text) => format!("the error {:?}", String::from_utf8_lossy(text)),
                    other => format!("{other:?}"),
                };
                return Err(format!("{}, but {act:?} was answered with {said}", record.describe(key, span)));
            }
        };
        self.records[key as usize] = after;
        Ok(())
    }

    /// What must be there now.
    pub(super) fn live(&self, now: u64) -> Live {
        let mut live = Live::default();
        for record in &self.records {
            match record.presence(Span { sent: now, got: now }) {
                Presence::Sure => {
                    live.keys += 1;
                    live.value_bytes += u64::from(record.len);
                }
                Presence::Either => live.uncertain += 1,
                Presence::Gone => {}
            }
        }
        live
    }
}

impl Record {
    fn presence(&self, span: Span) -> Presence {
        match self.state {
            State::Absent => Presence::Gone,
            State::Unknown => Presence::Either,
            State::Present if self.due == (0, 0) || span.got + SLACK_MS < self.due.0 => Presence::Sure,
            State::Present if span.sent > self.due.1 + SLACK_MS => Presence::Gone,
            State::Present => Presence::Either,
        }
    }

    fn describe(&self, key: u64, span: Span) -> String {
        let due = match self.due {
            (0, 0) => String::new(),
            (low, high) => format!(", due at {low}–{high} ms"),
        };
        let (number, len) = (self.number, self.len);
        match self.presence(span) {
            Presence::Gone => format!("at {}–{} ms key {key} must be gone{due}", span.sent, span.got),
            _ => format!("at {}–{} ms key {key} has value {number} of {len} B{due}", span.sent, span.got),
        }
    }
}

/// Appends bytes `from..to` of the value `number` of `key`: the number and the key, then noise.
pub(super) fn content(key: u64, number: u32, from: u32, to: u32, out: &mut Vec<u8>) {
    let start = out.len();
    let mut random = Random::new(mix(key), u64::from(number));
    let head = [u64::from(number), key];
    let words = head.into_iter().chain(std::iter::repeat_with(|| random.bits()));
    for word in words.take((to as usize).div_ceil(8)) {
        out.extend_from_slice(&word.to_le_bytes());
    }
    out.truncate(start + to as usize);
    out.drain(start..start + from as usize);
}

fn describe(value: &[u8]) -> String {
    let word = |at: usize| value.get(at..at + 8).and_then(|b| b.try_into().ok()).map(u64::from_le_bytes);
    match (word(0), word(8)) {
        (Some(number), Some(key)) => format!("{} B that begin like value {number} of key {key}", value.len()),
        _ => format!("{} B: {value:?}", value.len()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Span = Span { sent: 1000, got: 1010 };
    const OK: Answer<'_> = Answer::Status(b"OK");

    fn value(key: u64, number: u32, len: u32) -> Vec<u8> {
        let mut out = Vec::new();
        content(key, number, 0, len, &mut out);
        out
    }

    fn at(sent: u64) -> Span {
        Span { sent, got: sent + 5 }
    }

    #[test]
    fn values_are_prefixes_of_one_another_and_differ_by_key_and_number() {
        let long = value(3, 9, 1000);
        assert_eq!(value(3, 9, 77), &long[..77]);
        let mut tail = value(3, 9, 77);
        content(3, 9, 77, 1000, &mut tail);
        assert_eq!(tail, long);
        assert_ne!(value(3, 8, 50), value(3, 9, 50));
        assert_ne!(value(4, 9, 50), value(3, 9, 50));
    }

    #[test]
    fn lost_stale_and_foreign_values_are_violations() {
        let mut model = Model::new(10);
        model.apply(3, Act::Set { number: 7, len: 100, life_ms: 0 }, NOW, OK).unwrap();
        model.apply(3, Act::Get, NOW, Answer::Value(Some(&value(3, 7, 100)))).unwrap();
        for wrong in [None, Some(value(3, 6, 100)), Some(value(4, 7, 100)), Some(value(3, 7, 99))] {
            let answer = Answer::Value(wrong.as_deref());
            assert!(model.apply(3, Act::Get, NOW, answer).is_err(), "{wrong:?}");
        }
        assert!(model.apply(3, Act::Delete, NOW, Answer::Integer(0)).is_err());
        assert!(model.apply(3, Act::Get, NOW, Answer::Error(b"ERR io")).is_err());
        model.apply(3, Act::Delete, NOW, Answer::Integer(1)).unwrap();
        assert!(model.apply(3, Act::Get, NOW, Answer::Value(Some(&value(3, 7, 100)))).is_err());
        model.apply(3, Act::Get, NOW, Answer::Value(None)).unwrap();
    }

    #[test]
    fn keys_fall_due_in_an_interval_and_stay_gone() {
        let mut model = Model::new(10);
        model.apply(1, Act::Set { number: 7, len: 40, life_ms: 5000 }, NOW, OK).unwrap();
        let there = value(1, 7, 40);
        let (hit, miss) = (Answer::Value(Some(&there)), Answer::Value(None));
        assert!(model.apply(1, Act::Get, at(5000), miss).is_err(), "too early");
        model.apply(1, Act::Get, at(6000), hit).unwrap();
        assert!(model.apply(1, Act::Get, at(6500), hit).is_err(), "too late");
        model.apply(1, Act::Get, at(6000), miss).unwrap();
        assert!(model.apply(1, Act::Get, at(6000), hit).is_err(), "it came back");
        model.apply(1, Act::Set { number: 8, len: 40, life_ms: 0 }, at(7000), OK).unwrap();
        model.apply(1, Act::Expire { life_ms: 100 }, at(7000), Answer::Integer(1)).unwrap();
        assert_eq!(model.live(6000), Live { keys: 1, uncertain: 0, value_bytes: 40 });
        assert_eq!(model.live(7100), Live { keys: 0, uncertain: 1, value_bytes: 0 });
        assert_eq!(model.live(9000), Live::default());
    }

    #[test]
    fn appends_extend_the_same_value() {
        let mut model = Model::new(10);
        let first = model.append(2, 30, 1000).unwrap();
        model.apply(2, first, NOW, Answer::Integer(30)).unwrap();
        let second = model.append(2, 20, 1000).unwrap();
        let Act::Append { number, from: 30, len: 20 } = second else { panic!("{second:?}") };
        assert!(model.apply(2, second, NOW, Answer::Integer(20)).is_err(), "the value was lost");
        model.apply(2, second, NOW, Answer::Integer(50)).unwrap();
        model.apply(2, Act::Get, NOW, Answer::Value(Some(&value(2, number, 50)))).unwrap();
        model.apply(2, Act::Expire { life_ms: 3000 }, NOW, Answer::Integer(1)).unwrap();
        assert_eq!(model.append(2, 5, 1000), None, "it is due soon");
    }
}
