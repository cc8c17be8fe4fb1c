//! What the proofs of users share: two servers side by side, random rules and calls, and what a server says of its users.

use std::collections::{BTreeMap, BTreeSet};

use crate::{Client, Program, Random, Server, Value};

/// The words of a command.
pub type Words = Vec<String>;

/// The words of a line.
#[must_use]
pub fn words(line: &str) -> Words {
    line.split(' ').map(str::to_owned).collect()
}

/// The elements of an array of strings.
#[must_use]
pub fn strings(value: &Value) -> Vec<String> {
    value
        .elements()
        .unwrap_or_default()
        .iter()
        .map(|name| String::from_utf8_lossy(name.bytes().unwrap_or_default()).into_owned())
        .collect()
}

/// The commands of each category.
pub fn categories(client: &mut Client) -> BTreeMap<String, BTreeSet<String>> {
    let names = strings(&client.line("ACL CAT"));
    names.into_iter().map(|name| (name.clone(), strings(&client.line(&format!("ACL CAT {name}"))).into_iter().collect())).collect()
}

/// The commands of all categories.
#[must_use]
pub fn all_of(categories: &BTreeMap<String, BTreeSet<String>>) -> BTreeSet<String> {
    categories.values().flatten().cloned().collect()
}

/// A server of ours and redis-server, to compare them.
#[derive(Debug)]
pub struct Pair {
    /// Ours.
    pub ours: Server,
    /// redis-server.
    pub oracle: Server,
}

impl Pair {
    /// Both, without a parameter.
    #[must_use]
    pub fn start() -> Self {
        Self { ours: Server::start(&Program::Almandine, &[]), oracle: Server::start(&Program::Redis, &[]) }
    }
}

/// Makes rules and commands of what both servers know.
#[derive(Debug)]
pub struct Generator {
    /// Where it takes its choices from.
    pub random: Random,
    categories: Vec<String>,
    /// The commands that it calls.
    pub commands: Vec<String>,
    arities: BTreeMap<String, i64>,
}

impl Generator {
    /// One for two servers; equal seeds make the same.
    ///
    /// # Panics
    /// When redis-server does not describe one of its commands.
    #[must_use]
    pub fn new(pair: &Pair, seed: u64) -> Self {
        let (mut ours, mut theirs) = (pair.ours.client(), pair.oracle.client());
        let common: Vec<String> = all_of(&categories(&mut ours)).intersection(&all_of(&categories(&mut theirs))).cloned().collect();
        let mut arities = BTreeMap::new();
        for name in &common {
            let info = theirs.line(&format!("COMMAND INFO {name}"));
            let arity = info.elements().and_then(|found| found[0].elements()).and_then(|fields| fields[1].integer());
            arities.insert(name.clone(), arity.expect("COMMAND INFO"));
        }
        let categories = strings(&theirs.line("ACL CAT"));
        Self { random: Random::new(seed), categories, commands: common, arities }
    }

    fn pick(&mut self, from: &[&str]) -> String {
        (*self.random.pick(from)).to_owned()
    }

    /// A rule that a selector may have.
    fn permission(&mut self) -> String {
        let command = self.random.pick(&self.commands).clone();
        let category = self.random.pick(&self.categories).clone();
        let sign = self.pick(&["+", "-"]);
        match self.random.below(16) {
            0..=3 => format!("{sign}{command}"),
            4..=6 => format!("{sign}@{category}"),
            7 => format!("+{command}|{}", self.pick(&["a1", "id", "x", "", "get"])),
            8 => self.pick(&["+@all", "-@all", "allcommands", "NoCommands"]),
            9..=11 => self.pick(&["~a*", "~rw", "%R~r*", "%W~w*", "%RW~x?", "%W~r1", "~c[12]"]),
            12 => self.pick(&["allkeys", "~*", "resetkeys", "%R~*"]),
            13 => self.pick(&["&c*", "&d", "&a1", "&x?"]),
            14 => self.pick(&["allchannels", "&*", "resetchannels"]),
            _ => self.pick(&["+nosuch", "nonsense", "+@nosuch", "%X~a", "", "+select|0", "+client|id|x", "~", "&"]),
        }
    }

    /// Up to five rules for ACL SETUSER.
    pub fn rules(&mut self) -> Words {
        (0..=self.random.below(4)).map(|_| self.rule()).collect()
    }

    fn rule(&mut self) -> String {
        match self.random.below(12) {
            0 => self.pick(&["on", "off", "ON", "sanitize-payload", "skip-sanitize-payload"]),
            1 => self.pick(&["nopass", "resetpass", ">p1", ">p2", "<p1", "<p2", ">"]),
            2 => {
                let sign = self.pick(&["#", "!"]);
                let hash = self.pick(&["ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad", "ba78", ""]);
                format!("{sign}{hash}")
            }
            3 if self.random.chance(40) => self.pick(&["reset", "clearselectors"]),
            4 => {
                let rules: Words = (0..self.random.below(4)).map(|_| self.permission()).collect();
                format!("({})", rules.join(" "))
            }
            _ => self.permission(),
        }
    }

    /// A call with about the right number of arguments.
    pub fn call(&mut self) -> Words {
        let command = self.random.pick(&self.commands).clone();
        let arity = self.arities[&command];
        let mut call: Words = command.split('|').map(str::to_owned).collect();
        let more = if arity < 0 { self.random.below(5) } else { 0 };
        let len = arity.unsigned_abs() as usize + more;
        let pool = [
            "a1", "a2", "rw", "r1", "r2", "w1", "x1", "x", "c1", "c3", "d", "zz", "1", "2", "3", "GET", "STORE", "STREAMS", "KEYS",
            "ID", "0",
        ];
        while call.len() < len {
            call.push(self.pick(&pool));
        }
        call
    }
}

/// A user without the rules of commands, which are compared by what they permit.
#[must_use]
pub fn without_commands(user: &Value) -> String {
    let fields = user.elements().unwrap_or_default();
    let mut text = String::new();
    for pair in fields.chunks(2) {
        match pair[0].bytes() {
            Some(b"commands") => {}
            Some(b"selectors") => pair[1].elements().unwrap_or_default().iter().for_each(|one| text += &without_commands(one)),
            _ => text += &format!("{} {}; ", pair[0], pair[1]),
        }
    }
    text
}

/// The rules of commands of a user and of its selectors.
#[must_use]
pub fn commands_of(user: &Value) -> Vec<String> {
    let fields = user.elements().unwrap_or_default();
    let mut rules = Vec::new();
    for pair in fields.chunks(2) {
        match pair[0].bytes() {
            Some(b"commands") => rules.push(pair[1].to_string()),
            Some(b"selectors") => pair[1].elements().unwrap_or_default().iter().for_each(|one| rules.extend(commands_of(one))),
            _ => {}
        }
    }
    rules
}

/// What ACL LIST says of a user, as words for ACL SETUSER.
///
/// # Panics
/// When it does not list the user.
pub fn line_of(client: &mut Client, name: &str) -> Words {
    let begin = format!("user {name} ");
    let line = strings(&client.line("ACL LIST")).into_iter().find(|line| line.starts_with(&begin)).expect("ACL LIST");
    words(&line[begin.len()..])
}

/// ACL SETUSER with these rules.
///
/// # Panics
/// When the server does not answer.
pub fn set(client: &mut Client, name: &str, rules: &[String]) -> Value {
    let mut call = words(&format!("ACL SETUSER {name}"));
    call.extend_from_slice(rules);
    client.call(&call).expect("ACL SETUSER")
}

/// What redis-server 7.0 says of a denied call, in the words of 7.2 and later, which this server has.
#[must_use]
pub fn in_later_words(theirs: Value, user: &str) -> Value {
    const TO_RUN: &[u8] = b"NOPERM this user has no permissions to run ";
    match theirs {
        Value::Bulk(text) => match text.strip_prefix(b"This user has ") {
            Some(rest) => Value::Bulk([b"User ", user.as_bytes(), b" has ", rest].concat()),
            None => Value::Bulk(text),
        },
        Value::Error(text) if text.starts_with(TO_RUN) => {
            Value::Error([b"NOPERM User ", user.as_bytes(), b" has no permissions to run ", &text[TO_RUN.len()..]].concat())
        }
        Value::Error(text) => Value::Error(match &text[..] {
            b"NOPERM this user has no permissions to access one of the keys used as arguments" => {
                b"NOPERM No permissions to access a key".to_vec()
            }
            b"NOPERM this user has no permissions to access one of the channels used as arguments" => {
                b"NOPERM No permissions to access a channel".to_vec()
            }
            _ => text,
        }),
        other => other,
    }
}

/// Calls in which Redis looks for keys elsewhere than it finds them when it executes: a destination of SORT that is called
/// STORE, and a group or consumer behind the third argument of XREADGROUP that is called STREAMS, are taken for the option; of
/// GEORADIUS with two destinations the first is checked and the last written.
#[must_use]
pub fn has_other_keys_in_redis(call: &[String]) -> bool {
    if call[0] == "sort" {
        return call.windows(2).any(|pair| pair == ["STORE", "STORE"]);
    }
    if call[0].starts_with("georadius") {
        return call.iter().filter(|word| *word == "STORE").count() > 1;
    }
    call[0].eq_ignore_ascii_case("xreadgroup") && names_streams(call)
}

fn names_streams(call: &[String]) -> bool {
    let mut at = 1;
    while at < call.len() {
        at += match call[at].as_str() {
            "GROUP" if call[at + 1..].iter().zip(at + 1..at + 3).any(|(name, at)| at >= 4 && name == "STREAMS") => return true,
            "GROUP" => 3,
            "COUNT" | "BLOCK" => 2,
            "NOACK" => 1,
            _ => return false,
        };
    }
    false
}
