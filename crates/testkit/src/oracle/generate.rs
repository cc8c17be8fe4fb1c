//! Commands from templates: a parsed template is expanded with random arguments from pools that hold the edges of each type.

use super::arguments::{ATOMS, BAD_TIMES, WORDS, atom, numbers, short_content, stream_id};
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
    /// Milliseconds of the last id that was made up for an entry of a stream.
    clock: u64,
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
        Self { lines, weights, random: Random::new(seed), open: false, short: false, clock: 0 }
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
        let mut expansion = Expansion { args: Vec::new(), barrier: false, clock: &mut self.clock, random: &mut self.random };
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
    clock: &'r mut u64,
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
            Node::Atom(name @ ("newid" | "id" | "xbound")) => self.args.push(stream_id(name, self.clock, self.random)),
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

/// Commands that are sent as they are: a partial SCAN may stop anywhere, a random field is any, and Redis 7.0 does not have
/// WITHSCORE; the table has those that are not.
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
    use super::super::streams::STREAMS;
    use super::super::table::{HASHES, TABLE};
    use super::*;

    #[test]
    fn a_seed_repeats_and_every_line_is_reached() {
        for table in [TABLE, HASHES, STREAMS] {
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
            let mut e = Expansion { args: Vec::new(), barrier: false, clock: &mut 0, random: &mut random };
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
