//! Counting replies as cheaply as possible.
//!
//! The client needs to know how many replies have arrived and how many of them are errors, not what they say. Replies of
//! one command nearly always begin with the same few bytes (`$8\r\n`, `+OK\r\n`), so the counter remembers the last
//! header per type: when the next eight bytes match it, the whole reply is skipped by its known length. Everything
//! else takes the general path, which understands all of RESP2 and RESP3 and may be cut at any byte. With
//! [`Counter::verify`] every reply takes the general path and is checked against the command it answers.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::generate::value::Text;

/// A set of reply types.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Kinds(u16);

impl Kinds {
    /// `+…`
    pub const SIMPLE: Self = Self(1);
    /// `-…` or `!…`
    pub const ERROR: Self = Self(2);
    /// `:…`
    pub const INTEGER: Self = Self(4);
    /// `$…` or `=…` that is not null.
    pub const BULK: Self = Self(8);
    /// `$-1`, `*-1` or `_`.
    pub const NULL: Self = Self(16);
    /// `*`, `%` or `~` with elements.
    pub const AGGREGATE: Self = Self(32);
    /// `,…`, `#…` or `(…`
    pub const DOUBLE: Self = Self(64);
    /// Anything that is not an error.
    pub const ANY: Self = Self(!2);

    /// Both sets.
    pub const fn or(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Whether every type of `other` is in this set.
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}

/// What has been counted.
#[derive(Debug, Clone, Default)]
pub struct Tally {
    /// Complete replies, errors included.
    pub replies: u64,
    /// Error replies, also inside aggregates.
    pub errors: u64,
    /// Nulls, also inside aggregates: keys or members that were not there.
    pub nulls: u64,
    /// Replies that `--verify` found wrong.
    pub mismatches: u64,
    /// The first error or mismatch, for the report.
    pub first_error: Option<String>,
}

impl Tally {
    /// Adds another tally.
    pub fn add(&mut self, other: &Self) {
        self.replies += other.replies;
        self.errors += other.errors;
        self.nulls += other.nulls;
        self.mismatches += other.mismatches;
        if self.first_error.is_none() {
            self.first_error.clone_from(&other.first_error);
        }
    }

    /// The error of a server that answers nothing else, once it has answered `least` times.
    pub fn check(&self, least: u64) -> Result<(), String> {
        // Errors are counted inside aggregates, too: there may be more of them than replies.
        if self.replies < least || self.errors < self.replies {
            return Ok(());
        }
        Err(format!("every reply is an error: {}", self.first_error.as_deref().unwrap_or_default()))
    }

    fn complain(&mut self, text: impl FnOnce() -> String) {
        if self.first_error.is_none() {
            self.first_error = Some(text());
        }
    }
}

/// What a correct reply to one operation looks like.
#[derive(Debug, Clone)]
pub struct Rule {
    /// Name of the operation.
    pub name: String,
    /// Allowed types.
    pub kinds: Kinds,
    /// Whether a bulk is a value of the workload with a length in this range.
    pub value: Option<(usize, usize)>,
}

#[derive(Debug)]
struct Verify {
    rules: Arc<[Rule]>,
    text: Arc<Text>,
    expected: VecDeque<u8>,
    body_at: usize,
}

/// A reply header seen before.
#[derive(Debug, Clone, Copy)]
struct Shape {
    header: u64,
    mask: u64,
    /// Bytes of the whole reply, or of the header line of an aggregate.
    bytes: usize,
    children: u64,
    nulls: u64,
}

/// Matches nothing: no header begins with a zero byte.
const NO_SHAPE: Shape = Shape { header: 0, mask: u64::MAX, bytes: 0, children: 0, nulls: 0 };

/// Longest header line that is carried over a cut.
const LINE_BYTES_MAX: usize = 64 << 10;

/// Counts the replies of one connection.
#[derive(Debug)]
pub struct Counter {
    /// Bytes of a bulk's body (with its line end) still to come.
    skip: usize,
    /// Elements of the current aggregate still to come; 0 between replies.
    remaining: u64,
    /// The current top-level aggregate is a push, which answers nothing.
    push: bool,
    /// The beginning of a header line whose end has not arrived.
    carry: Vec<u8>,
    shapes: [Shape; 4],
    verify: Option<Box<Verify>>,
}

impl Default for Counter {
    fn default() -> Self {
        Self { skip: 0, remaining: 0, push: false, carry: Vec::new(), shapes: [NO_SHAPE; 4], verify: None }
    }
}

impl Counter {
    /// A counter that checks each reply. [`Counter::expect`] must announce every command.
    pub fn verify(rules: Arc<[Rule]>, text: Arc<Text>) -> Self {
        let verify = Verify { rules, text, expected: VecDeque::new(), body_at: 0 };
        Self { verify: Some(Box::new(verify)), ..Self::default() }
    }

    /// Announces commands by their rule numbers. Without `verify`, does nothing.
    pub fn expect(&mut self, operations: &[u8]) {
        if let Some(verify) = &mut self.verify {
            verify.expected.extend(operations);
        }
    }

    /// Takes the next bytes of the stream and returns how many replies they completed.
    pub fn consume(&mut self, input: &[u8], tally: &mut Tally) -> Result<u64, String> {
        let before = tally.replies;
        let mut at = 0;
        if !self.carry.is_empty() {
            at = self.finish_carried_line(input, tally)?;
        }
        while at < input.len() {
            if self.skip > 0 {
                at += self.skip_body(&input[at..], tally);
                continue;
            }
            at += self.skip_known(&input[at..], tally);
            if at == input.len() {
                break;
            }
            let Some(end) = memchr::memchr(b'\n', &input[at..]) else {
                self.carry_over(&input[at..])?;
                break;
            };
            self.line(&input[at..=at + end], tally)?;
            at += end + 1;
        }
        Ok(tally.replies - before)
    }

    /// Skips replies whose headers are known. The hot loop: one load, compare and add per reply.
    fn skip_known(&mut self, input: &[u8], tally: &mut Tally) -> usize {
        let mut at = 0;
        let (mut replies, mut nulls, mut remaining) = (0, 0, self.remaining);
        while let Some(Ok(word)) = input.get(at..at + 8).map(<[u8; 8]>::try_from) {
            let shape = &self.shapes[usize::from(word[0] & 3)];
            if u64::from_le_bytes(word) & shape.mask != shape.header || shape.bytes > input.len() - at {
                break;
            }
            at += shape.bytes;
            remaining = remaining.saturating_sub(1) + shape.children;
            nulls += shape.nulls;
            replies += u64::from(remaining == 0);
        }
        if self.push && replies > 0 {
            self.push = false;
            replies -= 1;
        }
        self.remaining = remaining;
        tally.replies += replies;
        tally.nulls += nulls;
        at
    }

    fn skip_body(&mut self, input: &[u8], tally: &mut Tally) -> usize {
        let take = self.skip.min(input.len());
        if let Some(verify) = &mut self.verify {
            // The last two bytes of a body are its line end.
            let payload = take.min((self.skip).saturating_sub(2));
            if let Some(rule) = verify.expected.front().map(|&r| &verify.rules[usize::from(r)]) {
                let from = verify.body_at;
                let whole = verify.text.value(from + payload);
                if rule.value.is_some() && whole.get(from..).is_some_and(|expected| expected != &input[..payload]) {
                    tally.mismatches += 1;
                    tally.complain(|| format!("{}: the value differs from what was stored", rule.name));
                }
            }
            verify.body_at += payload;
        }
        self.skip -= take;
        if self.skip == 0 {
            self.element_done(tally);
        }
        take
    }

    fn carry_over(&mut self, part: &[u8]) -> Result<(), String> {
        self.carry.extend_from_slice(part);
        if self.carry.len() > LINE_BYTES_MAX {
            return Err("the server sent a reply line of more than 64 KiB: is this a RESP server?".into());
        }
        Ok(())
    }

    fn finish_carried_line(&mut self, input: &[u8], tally: &mut Tally) -> Result<usize, String> {
        let Some(end) = memchr::memchr(b'\n', input) else {
            self.carry_over(input)?;
            return Ok(input.len());
        };
        let mut line = std::mem::take(&mut self.carry);
        line.extend_from_slice(&input[..=end]);
        self.line(&line, tally)?;
        line.clear();
        self.carry = line;
        Ok(end + 1)
    }

    /// One complete header line, its end included.
    fn line(&mut self, line: &[u8], tally: &mut Tally) -> Result<(), String> {
        let kind = line[0];
        match kind {
            b'+' | b':' | b',' | b'#' | b'(' => {
                let kinds = match kind {
                    b'+' => Kinds::SIMPLE,
                    b':' => Kinds::INTEGER,
                    _ => Kinds::DOUBLE,
                };
                self.check(kinds, line, 0, tally);
                self.learn(line, line.len(), 0, 0);
                self.element_done(tally);
            }
            b'-' => {
                self.check(Kinds::ERROR, line, 0, tally);
                tally.errors += 1;
                tally.complain(|| String::from_utf8_lossy(line).trim_end().to_owned());
                self.element_done(tally);
            }
            b'_' => self.null(line, tally),
            b'$' | b'=' | b'!' => match number(line)? {
                None => self.null(line, tally),
                Some(len) => {
                    let kinds = if kind == b'!' { Kinds::ERROR } else { Kinds::BULK };
                    self.check(kinds, line, len as usize, tally);
                    if kind == b'!' {
                        tally.errors += 1;
                        tally.complain(|| "a blob error".into());
                    } else {
                        self.learn(line, line.len() + len as usize + 2, 0, 0);
                    }
                    self.skip = len as usize + 2;
                }
            },
            b'*' | b'~' | b'%' | b'>' | b'|' => match number(line)? {
                None => self.null(line, tally),
                Some(count) => self.aggregate(kind, count, line, tally),
            },
            _ => {
                let shown = String::from_utf8_lossy(&line[..line.len().min(40)]).into_owned();
                return Err(format!("the server sent {shown:?}, which is not RESP"));
            }
        }
        Ok(())
    }

    fn null(&mut self, line: &[u8], tally: &mut Tally) {
        self.check(Kinds::NULL, line, 0, tally);
        tally.nulls += 1;
        self.learn(line, line.len(), 0, 1);
        self.element_done(tally);
    }

    fn aggregate(&mut self, kind: u8, count: u64, line: &[u8], tally: &mut Tally) {
        let children = if kind == b'%' || kind == b'|' { count * 2 } else { count };
        if kind == b'|' {
            // An attribute precedes the element it describes and does not take its place.
            self.remaining = self.remaining.max(1) + children;
            return;
        }
        if kind == b'>' && self.remaining == 0 {
            self.push = true;
        } else {
            self.check(Kinds::AGGREGATE, line, 0, tally);
            self.learn(line, line.len(), children, 0);
        }
        self.remaining = self.remaining.max(1) + children;
        self.element_done(tally);
    }

    fn element_done(&mut self, tally: &mut Tally) {
        self.remaining = self.remaining.saturating_sub(1);
        if self.remaining > 0 {
            return;
        }
        if self.push {
            self.push = false;
            return;
        }
        tally.replies += 1;
        if let Some(verify) = &mut self.verify {
            verify.expected.pop_front();
        }
    }

    fn learn(&mut self, line: &[u8], bytes: usize, children: u64, nulls: u64) {
        if line.len() > 8 || self.verify.is_some() {
            return;
        }
        let mut word = [0; 8];
        word[..line.len()].copy_from_slice(line);
        let mask = if line.len() == 8 { u64::MAX } else { (1 << (line.len() * 8)) - 1 };
        self.shapes[usize::from(line[0] & 3)] = Shape { header: u64::from_le_bytes(word), mask, bytes, children, nulls };
    }

    /// Checks the type of a top-level reply, and the length of a value.
    fn check(&mut self, kind: Kinds, line: &[u8], len: usize, tally: &mut Tally) {
        let Some(verify) = &mut self.verify else { return };
        verify.body_at = 0;
        if self.remaining > 0 {
            return;
        }
        let Some(rule) = verify.expected.front().map(|&rule| &verify.rules[usize::from(rule)]) else {
            tally.mismatches += 1;
            return tally.complain(|| "a reply that no command asked for".into());
        };
        let len_ok = kind != Kinds::BULK || rule.value.is_none_or(|(min, max)| (min..=max).contains(&len));
        if !rule.kinds.contains(kind) || !len_ok {
            tally.mismatches += 1;
            tally.complain(|| {
                let shown = String::from_utf8_lossy(&line[..line.len().min(60)]);
                format!("{} was answered with {:?}", rule.name, shown.trim_end())
            });
        }
    }
}

/// The number in a header line; `None` for -1.
fn number(line: &[u8]) -> Result<Option<u64>, String> {
    let digits = line[1..].strip_suffix(b"\r\n").unwrap_or_default();
    if digits == b"-1" {
        return Ok(None);
    }
    let valid = !digits.is_empty() && digits.len() <= 18 && digits.iter().all(u8::is_ascii_digit);
    if !valid {
        return Err(format!("the server sent the header {:?}, which is not RESP", String::from_utf8_lossy(line)));
    }
    Ok(Some(digits.iter().fold(0, |sum, &digit| sum * 10 + u64::from(digit - b'0'))))
}

#[cfg(test)]
mod tests {
    use super::*;

    const STREAM: &[u8] = b"+OK\r\n+OK\r\n$3\r\nabc\r\n$3\r\nd\r\n\r\n:12\r\n$-1\r\n*3\r\n$1\r\na\r\n*2\r\n:1\r\n:2\r\n$-1\r\n\
        -ERR no\r\n*0\r\n%1\r\n+a\r\n:1\r\n>2\r\n+x\r\n+y\r\n|1\r\n+k\r\n+v\r\n:7\r\n_\r\n,1.5\r\n#t\r\n$0\r\n\r\n";

    fn count(chunks: &[&[u8]]) -> Tally {
        let (mut counter, mut tally) = (Counter::default(), Tally::default());
        for chunk in chunks {
            counter.consume(chunk, &mut tally).unwrap();
        }
        tally
    }

    #[test]
    fn counts_every_type() {
        let tally = count(&[STREAM]);
        assert_eq!((tally.replies, tally.errors, tally.nulls), (15, 1, 3));
        assert_eq!(tally.first_error.as_deref(), Some("-ERR no"));
    }

    #[test]
    fn counts_the_same_wherever_it_is_cut() {
        for first in 0..STREAM.len() {
            for second in [first, (first + 1).min(STREAM.len()), (first + 7).min(STREAM.len())] {
                let tally = count(&[&STREAM[..first], &STREAM[first..second], &STREAM[second..]]);
                assert_eq!((tally.replies, tally.errors, tally.nulls), (15, 1, 3), "cut at {first} and {second}");
            }
        }
        let bytes: Vec<&[u8]> = STREAM.chunks(1).collect();
        assert_eq!(count(&bytes).replies, 15);
    }

    #[test]
    fn known_shapes_are_counted_like_unknown_ones() {
        let repeated = STREAM.repeat(50);
        let tally = count(&[&repeated]);
        assert_eq!((tally.replies, tally.errors, tally.nulls), (750, 50, 150));
        let pushes = b">1\r\n+x\r\n:1\r\n".repeat(20);
        assert_eq!(count(&[&pushes]).replies, 20);
    }

    #[test]
    fn refuses_other_protocols() {
        let (mut counter, mut tally) = (Counter::default(), Tally::default());
        assert!(counter.consume(b"HTTP/1.1 400 Bad Request\r\n", &mut tally).is_err());
        assert!(Counter::default().consume(b"$x\r\n", &mut tally).is_err());
    }

    #[test]
    fn verify_finds_wrong_types_lengths_and_bytes() {
        let text = Arc::new(Text::new(8));
        let rules: Arc<[Rule]> = Arc::new([Rule { name: "get".into(), kinds: Kinds::BULK.or(Kinds::NULL), value: Some((4, 8)) }]);
        let check = |reply: &[u8]| {
            let (mut counter, mut tally) = (Counter::verify(rules.clone(), text.clone()), Tally::default());
            counter.expect(&[0]);
            for byte in reply.chunks(3) {
                counter.consume(byte, &mut tally).unwrap();
            }
            assert_eq!(tally.replies, 1);
            tally.mismatches
        };
        let good = [b"$5\r\n".as_slice(), text.value(5), b"\r\n"].concat();
        assert_eq!(check(&good), 0);
        assert_eq!(check(b"$-1\r\n"), 0);
        assert_eq!(check(b":1\r\n"), 1);
        assert_eq!(check(&[b"$3\r\n".as_slice(), text.value(3), b"\r\n"].concat()), 1);
        assert!(check(b"$5\r\n?????\r\n") >= 1);
    }
}
