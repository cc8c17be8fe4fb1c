//! A command with holes: `SET __key__ __value__`, `MGET {__key__}`.
//!
//! Arguments are separated by blanks. `__name__` inside an argument is a hole (see [`Hole`]). Arguments in braces are
//! repeated as a group, once per member when a collection is filled, `--group` times otherwise. Encoding yields finished
//! RESP request bytes and the positions at which keys end within them.

use std::ops::Range;

use super::key::{Chooser, KeyFormat, write_digits};
use super::random::Random;
use super::value::{Lengths, Text};

/// What a hole is filled with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hole {
    /// `__key__`: a key of the workload's distribution.
    Key,
    /// `__value__`: a value of the workload's length.
    Value,
    /// `__rand__`: a number below the key count.
    Number,
    /// `__member__`: a field or member name, one of `--members`.
    Member,
    /// `__score__`: an integer score below 1,000,000.
    Score,
    /// `__index__`: a position within a collection.
    Index,
    /// `__offset__`: a byte position within a value.
    Offset,
    /// `__bit__`: a bit position within a value.
    Bit,
    /// `__longitude__`.
    Longitude,
    /// `__latitude__`.
    Latitude,
    /// `__due__`: a point in time in Unix milliseconds, see [`Scope::due`].
    Due,
}

const HOLES: &[(&str, Hole)] = &[
    ("__key__", Hole::Key),
    ("__value__", Hole::Value),
    ("__rand__", Hole::Number),
    ("__member__", Hole::Member),
    ("__score__", Hole::Score),
    ("__index__", Hole::Index),
    ("__offset__", Hole::Offset),
    ("__bit__", Hole::Bit),
    ("__longitude__", Hole::Longitude),
    ("__latitude__", Hole::Latitude),
    ("__due__", Hole::Due),
];

#[derive(Debug, Clone, PartialEq)]
enum Piece {
    Literal(Vec<u8>),
    Hole(Hole),
}

type Argument = Vec<Piece>;

/// Members that one request of a fill brings; servers bound the arguments of a request.
const FILL_MEMBERS: u64 = 1000;

/// A parsed command with holes.
#[derive(Debug, Clone, PartialEq)]
pub struct Template {
    before: Vec<Argument>,
    group: Vec<Argument>,
    after: Vec<Argument>,
}

/// What the holes are filled from: one per thread and data type.
#[derive(Debug, Clone)]
pub struct Scope<'w> {
    /// How keys are spelled.
    pub format: &'w KeyFormat,
    /// Which keys are named.
    pub chooser: Chooser,
    /// How long values are.
    pub lengths: &'w Lengths,
    /// What values contain.
    pub text: &'w Text,
    /// Number of keys.
    pub keys: u64,
    /// Elements per collection.
    pub members: u64,
    /// Length of a member name.
    pub member_len: usize,
    /// Repetitions of a group.
    pub group: u64,
    /// Key `number` of `keys` falls due at `due.0 + due.1 × number / keys` milliseconds.
    pub due: (u64, u64),
}

impl Template {
    /// Parses the text form.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (before, rest) = text.split_once('{').unwrap_or((text, ""));
        let (group, after) = match rest.split_once('}') {
            Some(halves) => halves,
            None if text.contains('{') => return Err(format!("{text:?}: the group is not closed; add a }}")),
            None => ("", ""),
        };
        let arguments = |part: &str| part.split_whitespace().map(parse_argument).collect::<Result<Vec<_>, _>>();
        let template = Self { before: arguments(before)?, group: arguments(group)?, after: arguments(after)? };
        if template.before.is_empty() {
            return Err(format!("{text:?} names no command"));
        }
        Ok(template)
    }

    /// The command's name, as far as it is written out.
    pub fn command(&self) -> &[u8] {
        match self.before.first().map(Vec::as_slice) {
            Some([Piece::Literal(name)]) => name,
            _ => b"",
        }
    }

    /// Whether any argument has this hole.
    pub fn has(&self, hole: Hole) -> bool {
        [&self.before, &self.group, &self.after].into_iter().flatten().flatten().any(|piece| *piece == Piece::Hole(hole))
    }

    /// Appends one request with random contents; `keys` receives the offset in `out` past each key's last digit.
    pub fn encode(&self, scope: &mut Scope<'_>, random: &mut Random, out: &mut Vec<u8>, keys: &mut Vec<usize>) {
        self.write(scope, random, None, 0..scope.group, out, keys);
    }

    /// Appends the requests that fill key `number` with members 0, 1, 2, …: one, or several of [`FILL_MEMBERS`]. Returns how many.
    pub fn encode_fill(&self, scope: &mut Scope<'_>, random: &mut Random, number: u64, out: &mut Vec<u8>) -> u64 {
        let step = if self.group.is_empty() { scope.members } else { FILL_MEMBERS };
        let mut requests = 0;
        for first in (0..scope.members).step_by(step as usize) {
            let members = first..(first + step).min(scope.members);
            self.write(scope, random, Some(number), members, out, &mut Vec::new());
            requests += 1;
        }
        requests
    }

    fn write(
        &self,
        scope: &mut Scope<'_>,
        random: &mut Random,
        fill: Option<u64>,
        members: Range<u64>,
        out: &mut Vec<u8>,
        keys: &mut Vec<usize>,
    ) {
        let repeats = (members.end - members.start) as usize;
        let count = self.before.len() + self.group.len() * repeats + self.after.len();
        write_header(b'*', count, out);
        let mut writer = Writer { scope, random, fill, member: fill.map(|_| 0), out, keys };
        self.before.iter().for_each(|argument| writer.argument(argument));
        for member in members {
            writer.member = fill.map(|_| member);
            self.group.iter().for_each(|argument| writer.argument(argument));
        }
        self.after.iter().for_each(|argument| writer.argument(argument));
    }
}

struct Writer<'a, 'w> {
    scope: &'a mut Scope<'w>,
    random: &'a mut Random,
    fill: Option<u64>,
    member: Option<u64>,
    out: &'a mut Vec<u8>,
    keys: &'a mut Vec<usize>,
}

impl Writer<'_, '_> {
    fn argument(&mut self, argument: &Argument) {
        // The two shapes that dominate have a known length; others are written aside first.
        match argument.as_slice() {
            [Piece::Literal(bytes)] => write_bulk(bytes, self.out),
            [Piece::Hole(Hole::Value)] => {
                let len = self.scope.lengths.draw(self.random);
                write_bulk(self.scope.text.value(len), self.out);
            }
            pieces => {
                let mut bytes = Vec::with_capacity(32);
                let mut key_at = None;
                for piece in pieces {
                    self.piece(piece, &mut bytes, &mut key_at);
                }
                write_header(b'$', bytes.len(), self.out);
                if let Some(at) = key_at {
                    self.keys.push(self.out.len() + at);
                }
                self.out.extend_from_slice(&bytes);
                self.out.extend_from_slice(b"\r\n");
            }
        }
    }

    fn piece(&mut self, piece: &Piece, bytes: &mut Vec<u8>, key_at: &mut Option<usize>) {
        let hole = match piece {
            Piece::Literal(literal) => return bytes.extend_from_slice(literal),
            Piece::Hole(hole) => hole,
        };
        let value_len = (self.scope.lengths.mean() as u64).max(1);
        let number = match hole {
            Hole::Key => {
                let number = self.fill.unwrap_or_else(|| self.scope.chooser.choose(self.random));
                self.scope.format.write(number, bytes);
                *key_at = Some(bytes.len());
                return;
            }
            Hole::Value => {
                let len = self.scope.lengths.draw(self.random);
                return bytes.extend_from_slice(self.scope.text.value(len));
            }
            Hole::Member => {
                let member = self.member.unwrap_or_else(|| self.random.below(self.scope.members));
                let from = bytes.len();
                bytes.resize(from + self.scope.member_len.max(2), b'm');
                return write_digits(&mut bytes[from + 1..], member);
            }
            Hole::Longitude => return bytes.extend_from_slice(format!("{:.6}", self.random.unit() * 360.0 - 180.0).as_bytes()),
            Hole::Latitude => return bytes.extend_from_slice(format!("{:.6}", self.random.unit() * 160.0 - 80.0).as_bytes()),
            Hole::Due => self.scope.due.0 + (self.scope.due.1 as f64 * self.share()) as u64,
            Hole::Number => self.random.below(self.scope.keys),
            Hole::Score => self.random.below(1_000_000),
            Hole::Index => self.member.unwrap_or_else(|| self.random.below(self.scope.members)),
            Hole::Offset => self.random.below(value_len),
            Hole::Bit => self.random.below(value_len * 8),
        };
        bytes.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
    }

    fn share(&mut self) -> f64 {
        match self.fill {
            Some(number) => number as f64 / self.scope.keys.max(1) as f64,
            None => self.random.unit(),
        }
    }
}

fn parse_argument(text: &str) -> Result<Argument, String> {
    let mut pieces = Vec::new();
    let mut literal = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        if let Some((name, hole)) = HOLES.iter().find(|(name, _)| rest.starts_with(name)) {
            if !literal.is_empty() {
                pieces.push(Piece::Literal(std::mem::take(&mut literal)));
            }
            pieces.push(Piece::Hole(*hole));
            rest = &rest[name.len()..];
        } else {
            let step = rest.chars().next().map_or(1, char::len_utf8);
            literal.extend_from_slice(&rest.as_bytes()[..step]);
            rest = &rest[step..];
        }
    }
    if literal.windows(2).filter(|pair| pair == b"__").count() >= 2 {
        let known = HOLES.iter().map(|h| h.0).collect::<Vec<_>>().join(" ");
        return Err(format!("{text:?} has an unknown placeholder; known are {known}"));
    }
    if !literal.is_empty() {
        pieces.push(Piece::Literal(literal));
    }
    Ok(pieces)
}

fn write_header(kind: u8, number: usize, out: &mut Vec<u8>) {
    out.push(kind);
    out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
    out.extend_from_slice(b"\r\n");
}

fn write_bulk(bytes: &[u8], out: &mut Vec<u8>) {
    write_header(b'$', bytes.len(), out);
    out.extend_from_slice(bytes);
    out.extend_from_slice(b"\r\n");
}

#[cfg(test)]
mod tests {
    use super::super::key::Distribution;
    use super::*;

    fn encode(text: &str, fill: Option<u64>) -> (String, Vec<usize>) {
        let format = KeyFormat::new("key:", 8, 10).unwrap();
        let (lengths, value) = (Lengths::fixed(4), Text::new(4));
        let mut scope = Scope {
            format: &format,
            chooser: Chooser::new(Distribution::Sequential, 10, 0, 1),
            lengths: &lengths,
            text: &value,
            keys: 10,
            members: 3,
            member_len: 4,
            group: 2,
            due: (1000, 100),
        };
        let (mut out, mut keys) = (Vec::new(), Vec::new());
        let template = Template::parse(text).unwrap();
        let mut random = Random::new(1, 0);
        match fill {
            Some(number) => assert_eq!(template.encode_fill(&mut scope, &mut random, number, &mut out), 1),
            None => template.encode(&mut scope, &mut random, &mut out, &mut keys),
        }
        (String::from_utf8(out).unwrap(), keys)
    }

    #[test]
    fn encodes_keys_with_their_position() {
        let (request, keys) = encode("GET __key__", None);
        assert_eq!(request, "*2\r\n$3\r\nGET\r\n$8\r\nkey:0000\r\n");
        assert_eq!(keys, [25]);
        assert_eq!(&request[keys[0] - 4..keys[0]], "0000");
    }

    #[test]
    fn repeats_groups() {
        let (request, keys) = encode("MGET {__key__}", None);
        assert_eq!(request, "*3\r\n$4\r\nMGET\r\n$8\r\nkey:0000\r\n$8\r\nkey:0001\r\n");
        assert_eq!(keys.len(), 2);
    }

    #[test]
    fn fills_with_every_member() {
        let (request, _) = encode("SADD __key__ {__member__}", Some(7));
        assert!(request.starts_with("*5\r\n$4\r\nSADD\r\n$8\r\nkey:0007\r\n$4\r\nm000\r\n$4\r\nm001\r\n$4\r\nm002\r\n"));
        let (request, _) = encode("SET __key__ x PXAT __due__", Some(5));
        assert!(request.ends_with("$4\r\n1050\r\n"), "{request}");
    }

    #[test]
    fn many_members_take_several_requests() {
        let format = KeyFormat::new("key:", 8, 10).unwrap();
        let (lengths, value) = (Lengths::fixed(4), Text::new(4));
        let chooser = Chooser::new(Distribution::Uniform, 10, 0, 1);
        let (keys, members, member_len, group, due) = (10, FILL_MEMBERS + 2, 8, 1, (0, 0));
        let mut scope = Scope { format: &format, chooser, lengths: &lengths, text: &value, keys, members, member_len, group, due };
        let mut out = Vec::new();
        let template = Template::parse("HSET __key__ {__member__ __value__}").unwrap();
        assert_eq!(template.encode_fill(&mut scope, &mut Random::new(1, 0), 7, &mut out), 2);
        let text = String::from_utf8(out).unwrap();
        assert_eq!((text.matches("HSET").count(), text.matches("key:0007").count()), (2, 2));
        for member in 0..members {
            assert_eq!(text.matches(&format!("m{member:07}")).count(), 1);
        }
    }

    #[test]
    fn refuses_what_it_does_not_know() {
        assert!(Template::parse("GET __kee__").is_err());
        assert!(Template::parse("MGET {__key__").is_err());
        assert!(Template::parse("  ").is_err());
        assert!(Template::parse("EVAL return_1 0").is_ok());
    }
}
