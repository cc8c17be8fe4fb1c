//! Commands from templates: a parsed template is expanded with random arguments from pools that hold the edges of each type.

use std::ops::Range;
use std::time::{SystemTime, UNIX_EPOCH};

use super::table::{Compare, Line};
use crate::Random;

/// One generated command.
#[derive(Clone, Debug)]
pub struct Generated {
    /// Name and arguments.
    pub args: Vec<Vec<u8>>,
    /// How its replies are compared.
    pub compare: Compare,
    /// It may set an expiry of a few milliseconds: both servers must have passed it before the next command.
    pub barrier: bool,
}

/// A parsed template.
#[derive(Clone, Debug)]
enum Node {
    Literal(&'static str),
    Atom(&'static str),
    Sequence(Vec<Node>),
    Choice(Vec<Node>, bool),
    Repeat(Box<Node>),
}

/// The table, parsed, with its random source.
#[derive(Debug)]
pub struct Generator {
    lines: Vec<(Line, Node)>,
    weights: usize,
    random: Random,
    /// Between MULTI and EXEC.
    open: bool,
    /// Some command that may be queued sets a short expiry.
    short: bool,
}

impl Generator {
    /// A generator over the lines whose command name `wanted` accepts.
    ///
    /// # Panics
    /// When a template is malformed, or nothing is wanted.
    #[must_use]
    pub fn new(table: &[Line], seed: u64, wanted: &dyn Fn(&str) -> bool) -> Self {
        let lines: Vec<(Line, Node)> = table.iter().filter(|l| wanted(name(l.template))).map(|l| (*l, parse(l.template))).collect();
        assert!(!lines.is_empty(), "no command is wanted");
        let weights = lines.iter().map(|(l, _)| l.weight).sum();
        Self { lines, weights, random: Random::new(seed), open: false, short: false }
    }

    /// The next command.
    pub fn command(&mut self) -> Generated {
        if self.open && self.random.chance(15) {
            self.open = false;
            let name: &[u8] = if self.random.chance(90) { b"EXEC" } else { b"DISCARD" };
            return Generated { args: vec![name.to_vec()], compare: Compare::Exact, barrier: std::mem::take(&mut self.short) };
        }
        let mut at = self.random.below(self.weights);
        let mut chosen = &self.lines[0];
        for entry in &self.lines {
            chosen = entry;
            if at < entry.0.weight {
                break;
            }
            at -= entry.0.weight;
        }
        let mut expansion = Expansion { args: Vec::new(), barrier: false, random: &mut self.random };
        expansion.node(&chosen.1);
        let Expansion { mut args, barrier, .. } = expansion;
        mutate(&mut args, &mut self.random);
        self.open |= args[0].eq_ignore_ascii_case(b"MULTI");
        self.short |= barrier;
        let barrier = barrier || self.short && args[0].eq_ignore_ascii_case(b"EXEC");
        Generated { args, compare: chosen.0.compare, barrier }
    }
}

fn name(template: &str) -> &str {
    template.split(' ').next().unwrap_or_default()
}

fn parse(template: &'static str) -> Node {
    let mut rest = template;
    let node = sequence(&mut rest, template);
    assert!(rest.is_empty(), "unbalanced {template:?} at {rest:?}");
    node
}

fn sequence(rest: &mut &'static str, template: &str) -> Node {
    let mut nodes = Vec::new();
    loop {
        *rest = rest.trim_start();
        let node = match rest.bytes().next() {
            None | Some(b'|' | b']' | b')') => return Node::Sequence(nodes),
            Some(open @ (b'[' | b'(')) => {
                let mut choices = Vec::new();
                let close = if open == b'[' { b']' } else { b')' };
                loop {
                    *rest = &rest[1..];
                    choices.push(sequence(rest, template));
                    match rest.bytes().next() {
                        Some(b'|') => {}
                        Some(end) if end == close => break,
                        _ => panic!("unbalanced {template:?} at {rest:?}"),
                    }
                }
                *rest = &rest[1..];
                Node::Choice(choices, open == b'[')
            }
            Some(_) => {
                let end = rest.find([' ', '|', ']', ')', '[', '(', '+']).unwrap_or(rest.len());
                let word = &rest[..end];
                *rest = &rest[end..];
                if ATOMS.contains(&word) { Node::Atom(word) } else { Node::Literal(word) }
            }
        };
        let repeat = rest.starts_with('+');
        *rest = rest.strip_prefix('+').unwrap_or(rest);
        nodes.push(if repeat { Node::Repeat(Box::new(node)) } else { node });
    }
}

struct Expansion<'r> {
    args: Vec<Vec<u8>>,
    barrier: bool,
    random: &'r mut Random,
}

impl Expansion<'_> {
    fn node(&mut self, node: &Node) {
        match node {
            Node::Literal(word) => self.args.push(word.as_bytes().to_vec()),
            Node::Atom("pairs") => {
                for name in numbers(self.random) {
                    self.args.push(format!("f{name}").into_bytes());
                    self.args.push(short_content(self.random));
                }
            }
            Node::Atom("fields" | "members") => {
                self.args.extend(numbers(self.random).map(|name| format!("f{name}").into_bytes()));
            }
            Node::Atom("elements") => {
                let prefix = if self.random.chance(50) { "" } else { "f" };
                self.args.extend(numbers(self.random).map(|name| format!("{prefix}{name}").into_bytes()));
            }
            Node::Atom(name) => {
                let (bytes, short) = atom(name, self.random);
                self.barrier |= short;
                self.args.push(bytes);
            }
            Node::Sequence(nodes) => nodes.iter().for_each(|n| self.node(n)),
            Node::Choice(choices, optional) => {
                if !optional || self.random.chance(50) {
                    let index = self.random.below(choices.len());
                    self.node(&choices[index]);
                }
            }
            Node::Repeat(inner) => {
                for _ in 0..1 + self.random.below(4) {
                    self.node(inner);
                }
            }
        }
    }
}

const ATOMS: &[&str] = &[
    "score",
    "bound",
    "lexbound",
    "key",
    "value",
    "int",
    "float",
    "ttl",
    "pttl",
    "at",
    "pat",
    "offset",
    "index",
    "db",
    "pattern",
    "width",
    "word",
    "field",
    "fields",
    "pairs",
    "hash",
    "member",
    "members",
    "content",
    "longitude",
    "latitude",
    "metres",
    "element",
    "elements",
];

const VALUES: &[&[u8]] = &[
    b"",
    b"0",
    b"1",
    b"-1",
    b"10",
    b"-0",
    b"007",
    b"+5",
    b" 5",
    b"12345678901234567890",
    b"9223372036854775807",
    b"-9223372036854775808",
    b"9223372036854775806",
    b"3.0",
    b"-2.5",
    b"1e5",
    b"0.1",
    b"inf",
    b"nan",
    b"foobar",
    b"\x00",
    b"\xff\xff\xff",
    b"\xff\xf0\x00",
    b"hello world",
    b"\r\n",
    b"0x10",
];
const INTS: &[&[u8]] = &[
    b"0",
    b"1",
    b"-1",
    b"2",
    b"100",
    b"-100",
    b"9223372036854775807",
    b"-9223372036854775808",
    b"9223372036854775808",
    b"abc",
    b"",
    b"1.5",
    b" 1",
    b"4294967296",
    b"255",
    b"-128",
];
const FLOATS: &[&[u8]] =
    &[b"0", b"1", b"-1", b"0.1", b"-0.1", b"3.5", b"1e3", b"100.25", b"-2.5e-2", b"abc", b"nan", b"inf", b"", b"5.0"];
const SCORES: &[&[u8]] = &[b"inf", b"-inf", b"+inf", b"abc", b"nan", b"", b"-0", b"1e3", b"(inf", b"0x10", b" 1"];
const BAD_TIMES: &[&[u8]] =
    &[b"0", b"-1", b"abc", b"", b"9223372036854775807", b"-9223372036854775808", b"9223372036854775808", b"1.5"];
const OFFSETS: &[&[u8]] = &[b"-1", b"abc", b"4294967296", b"9223372036854775807", b"9223372036854775808", b"#1", b""];
const PATTERNS: &[&[u8]] = &[b"*", b"k*", b"k?", b"k[0-3]", b"k[^1]", b"*1", b"nosuch", b"", b"[k", b"k\\1", b"??", b"k1?"];
const WORDS: &[&[u8]] = &[b"abc", b"", b"WHAT", b"x-y", b"FOO1", b"\xff"];

/// A random argument, and whether it is an expiry that passes within milliseconds.
fn atom(name: &str, random: &mut Random) -> (Vec<u8>, bool) {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis() as i64;
    let text = |n: i64| n.to_string().into_bytes();
    // Long expiries are spread widely, so that GT and LT do not depend on the millisecond in which they were set.
    let long_ms = random.between(200_000, 2_000_000_000);
    let edge = random.chance(10);
    let bytes = match name {
        "key" if random.chance(2) => Vec::new(),
        "key" => format!("k{}", random.below(12)).into_bytes(),
        "value" => value(random),
        "int" if random.chance(60) => text(random.between(-300, 300)),
        "int" => random.pick(INTS).to_vec(),
        "float" if random.chance(50) => format!("{}.{}", random.between(-50, 50), random.below(100)).into_bytes(),
        "float" => random.pick(FLOATS).to_vec(),
        "ttl" | "pttl" | "at" | "pat" if edge => random.pick(BAD_TIMES).to_vec(),
        "pttl" if random.chance(4) => return (text(random.between(1, 3)), true),
        "ttl" => text(long_ms / 1000),
        "pttl" => text(long_ms),
        "at" if random.chance(10) => text(now / 1000 - 100),
        "at" => text((now + long_ms) / 1000),
        "pat" if random.chance(10) => text(now - 100_000),
        "pat" => text(now + long_ms),
        "offset" if edge => random.pick(OFFSETS).to_vec(),
        "offset" if random.chance(10) => format!("#{}", random.below(40)).into_bytes(),
        "offset" => {
            let bound = *random.pick(&[9, 100, 3000]);
            text(random.below(bound) as i64)
        }
        "index" if edge => random.pick(INTS).to_vec(),
        "index" => text(random.between(-30, 60)),
        "db" if edge => random.pick(&[&b"16"[..], b"-1", b"abc", b"2"]).to_vec(),
        "db" => text(random.below(2) as i64),
        "pattern" => random.pick(PATTERNS).to_vec(),
        "field" if random.chance(3) => value(random),
        "field" => format!("f{}", random.below(9)).into_bytes(),
        "hash" => format!("h{}", random.below(4)).into_bytes(),
        "member" => {
            let bound = *random.pick(&[10, 140, MEMBERS]);
            format!("f{}", random.below(bound)).into_bytes()
        }
        "element" if random.chance(5) => value(random),
        "element" => {
            let (prefix, bound) = (*random.pick(&["", "", "f"]), *random.pick(&[10, 140, MEMBERS]));
            format!("{prefix}{}", random.below(bound)).into_bytes()
        }
        "content" => content(random),
        "width" if edge => random.pick(&[&b"u64"[..], b"i65", b"u0", b"x8", b"i", b"", b"I8"]).to_vec(),
        "width" => {
            let signed = random.chance(50);
            format!("{}{}", if signed { 'i' } else { 'u' }, 1 + random.below(if signed { 64 } else { 63 })).into_bytes()
        }
        // Short in binary, so that Redis 7.0 writes them with as few digits.
        "score" | "bound" if random.chance(4) => random.pick(SCORES).to_vec(),
        "score" => format!("{}", random.between(-40, 40) as f64 / 4.0).into_bytes(),
        "bound" => format!("{}{}", if random.chance(30) { "(" } else { "" }, random.between(-40, 40) as f64 / 4.0).into_bytes(),
        "lexbound" => random.pick(&[&b"-"[..], b"+", b"[f1", b"(f3", b"[f5", b"f1", b""]).to_vec(),
        "longitude" | "latitude" | "metres" if random.chance(3) => random.pick(FLOATS).to_vec(),
        "longitude" => format!("{:.7}", *random.pick(&[13.0, -179.999, 179.99, 0.0]) + small(random)).into_bytes(),
        "latitude" => format!("{:.7}", *random.pick(&[38.0, -85.0, 0.0, 80.0]) + small(random)).into_bytes(),
        "metres" => format!("{}", 10f64.powi(random.below(7) as i32) * (1.0 + small(random).abs())).into_bytes(),
        "word" => random.pick(WORDS).to_vec(),
        _ => unreachable!("{name} is not in ATOMS"),
    };
    (bytes, false)
}

/// A number within one of zero.
fn small(random: &mut Random) -> f64 {
    random.between(-100_000_000, 100_000_000) as f64 / 1e8
}

fn value(random: &mut Random) -> Vec<u8> {
    match random.below(10) {
        0..4 => random.pick(VALUES).to_vec(),
        4..6 => random.between(-100_000, 100_000).to_string().into_bytes(),
        6..8 => {
            let len = random.below(16);
            random.bytes(len)
        }
        8 => {
            // Around the 44 bytes at which an embedded string ends.
            let len = 40 + random.below(8);
            vec![b'x'; len]
        }
        _ => {
            let len = random.below(600);
            random.bytes(len)
        }
    }
}

/// Fields of the largest hashes.
const MEMBERS: usize = 4000;

/// Numbers of fields next to each other: few, or as many as cross the limits of what is packed, here and in Redis.
fn numbers(random: &mut Random) -> Range<usize> {
    let count = match random.below(100) {
        0..60 => 1 + random.below(6),
        60..80 => 55 + random.below(20),
        80..95 => 115 + random.below(30),
        _ => 500 + random.below(2500),
    };
    let bound = if random.chance(50) { 20 } else { MEMBERS - count };
    let first = random.below(bound);
    first..first + count
}

fn short_content(random: &mut Random) -> Vec<u8> {
    if random.chance(30) {
        return random.between(-1000, 1000).to_string().into_bytes();
    }
    let len = random.below(24);
    random.bytes(len)
}

/// A value of a field: around the 64 bytes that a listpack may hold, the 16 KiB that a record may, and to 1 MB.
fn content(random: &mut Random) -> Vec<u8> {
    let len = match random.below(1000) {
        0..700 => return short_content(random),
        700..850 => 60 + random.below(10),
        850..950 => random.below(2000),
        950..990 => 15_000 + random.below(3000),
        990..997 => random.below(100_000),
        _ => 1_000_000 + random.below(50_000),
    };
    // Not compressible as a whole, so that payloads are large, too.
    let seed = random.bytes(251);
    seed.iter().copied().cycle().take(len).collect()
}

/// Commands that are sent as they are: a partial SCAN may stop anywhere, a random field is any, and Redis 7.0 does not have WITHSCORE; the table has
/// those that are not.
const UNCHANGED: &[&[u8]] = &[
    b"SCAN",
    b"HSCAN",
    b"HRANDFIELD",
    b"SSCAN",
    b"SRANDMEMBER",
    b"SPOP",
    b"ZSCAN",
    b"ZRANDMEMBER",
    b"ZRANK",
    b"ZREVRANK",
    b"SORT",
    b"SORT_RO",
    b"EXCHANGE",
];

/// Now and then a command that no client would send.
fn mutate(args: &mut Vec<Vec<u8>>, random: &mut Random) {
    if random.chance(5) {
        let upper = random.chance(50);
        args[0] = if upper { args[0].to_ascii_uppercase() } else { args[0].to_ascii_lowercase() };
    }
    if UNCHANGED.iter().any(|name| args[0].eq_ignore_ascii_case(name)) || !random.chance(3) {
        return;
    }
    let at = random.below(args.len());
    match random.below(4) {
        0 if args.len() > 1 => drop(args.pop()),
        1 => args.insert(at + 1, random.pick(BAD_TIMES).to_vec()),
        2 if at > 0 => args.insert(at, args[at].clone()),
        _ if at > 0 => args[at] = random.pick(WORDS).to_vec(),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::super::table::{HASHES, TABLE};
    use super::*;

    #[test]
    fn a_seed_repeats_and_every_line_is_reached() {
        for table in [TABLE, HASHES] {
            let names = |seed| {
                let mut generator = Generator::new(table, seed, &|_| true);
                (0..20_000).map(|_| generator.command().args[0].to_ascii_uppercase()).collect::<Vec<_>>()
            };
            assert_eq!(names(3), names(3));
            assert_ne!(names(3), names(4));
            let seen = names(3);
            for line in table.iter().filter(|l| !l.template.starts_with("word")) {
                assert!(seen.iter().any(|n| n == name(line.template).as_bytes()), "{}", line.template);
            }
        }
    }

    #[test]
    fn templates_expand_choices_and_repeats() {
        let node = parse("A [B] (C|D key)+");
        let mut random = Random::new(1);
        for _ in 0..200 {
            let mut e = Expansion { args: Vec::new(), barrier: false, random: &mut random };
            e.node(&node);
            assert_eq!(e.args[0], b"A");
            assert!(e.args.iter().any(|a| a == b"C" || a == b"D"));
        }
    }

    #[test]
    #[should_panic(expected = "unbalanced")]
    fn a_malformed_template_is_refused() {
        let _ = parse("SET [key");
    }
}
