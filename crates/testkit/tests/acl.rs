//! Users as redis-server has them: categories, random rules, and what they permit; files of users; what becomes of clients when their user changes.
//! `ALMANDINE_TEST_SEED=n` repeats a run.

#![expect(clippy::unwrap_used, reason = "a test that fails says where")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use almandine_testkit::mutants::must_notice;
use almandine_testkit::random::Random;
use almandine_testkit::{Client, Program, Server, Value, full};

type Words = Vec<String>;

fn words(line: &str) -> Words {
    line.split(' ').map(str::to_owned).collect()
}

fn strings(value: &Value) -> Vec<String> {
    value
        .elements()
        .unwrap_or_default()
        .iter()
        .map(|name| String::from_utf8_lossy(name.bytes().unwrap_or_default()).into_owned())
        .collect()
}

/// The commands of each category.
fn categories(client: &mut Client) -> BTreeMap<String, BTreeSet<String>> {
    let names = strings(&client.line("ACL CAT"));
    names.into_iter().map(|name| (name.clone(), strings(&client.line(&format!("ACL CAT {name}"))).into_iter().collect())).collect()
}

fn all_of(categories: &BTreeMap<String, BTreeSet<String>>) -> BTreeSet<String> {
    categories.values().flatten().cloned().collect()
}

struct Pair {
    ours: Server,
    oracle: Server,
}

impl Pair {
    fn start() -> Self {
        Self { ours: Server::start(&Program::Almandine, &[]), oracle: Server::start(&Program::Redis, &[]) }
    }
}

#[test]
fn categories_are_those_of_redis_server() {
    let pair = Pair::start();
    let (ours, theirs) = (categories(&mut pair.ours.client()), categories(&mut pair.oracle.client()));
    let known = all_of(&theirs);
    assert!(known.len() > 350, "{} commands", known.len());
    for (category, theirs) in &theirs {
        assert_eq!(&(&ours[category] & &known), theirs, "@{category}");
    }
}

/// Makes rules and commands of what both servers know.
struct Generator {
    random: Random,
    categories: Vec<String>,
    commands: Vec<String>,
    arities: BTreeMap<String, i64>,
}

impl Generator {
    fn new(pair: &Pair, seed: u64) -> Self {
        let (mut ours, mut theirs) = (pair.ours.client(), pair.oracle.client());
        let common: Vec<String> = all_of(&categories(&mut ours)).intersection(&all_of(&categories(&mut theirs))).cloned().collect();
        let mut arities = BTreeMap::new();
        for name in &common {
            let info = theirs.line(&format!("COMMAND INFO {name}"));
            let arity = info.elements().and_then(|found| found[0].elements()).and_then(|fields| fields[1].integer());
            arities.insert(name.clone(), arity.unwrap());
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

    fn rules(&mut self) -> Words {
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
    fn call(&mut self) -> Words {
        let command = self.random.pick(&self.commands).clone();
        let arity = self.arities[&command];
        let mut call: Words = command.split('|').map(str::to_owned).collect();
        let more = if arity < 0 { self.random.below(5) } else { 0 };
        let len = usize::try_from(arity.unsigned_abs()).unwrap() + more;
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
fn without_commands(user: &Value) -> String {
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
fn commands_of(user: &Value) -> Vec<String> {
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
fn line_of(client: &mut Client, name: &str) -> Words {
    let begin = format!("user {name} ");
    let line = strings(&client.line("ACL LIST")).into_iter().find(|line| line.starts_with(&begin)).unwrap();
    words(&line[begin.len()..])
}

fn set(client: &mut Client, name: &str, rules: &[String]) -> Value {
    let mut call = words(&format!("ACL SETUSER {name}"));
    call.extend_from_slice(rules);
    client.call(&call).unwrap()
}

#[test]
fn random_rules_permit_what_redis_server_permits() {
    let seed = std::env::var("ALMANDINE_TEST_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(35);
    let episodes = if full() { 1000 } else { 60 };
    let pair = Pair::start();
    let (mut ours, mut theirs) = (pair.ours.client(), pair.oracle.client());
    let mut generator = Generator::new(&pair, seed);
    let (mut asked, mut denied, mut refused, mut malformed) = (0, 0, 0, 0);
    for _ in 0..episodes {
        ours.line("ACL DELUSER u v");
        theirs.line("ACL DELUSER u v");
        for _ in 0..6 {
            let rules = generator.rules();
            let (our_answer, their_answer) = (set(&mut ours, "u", &rules), set(&mut theirs, "u", &rules));
            assert_eq!(our_answer, their_answer, "seed {seed}: ACL SETUSER {rules:?}");
            refused += usize::from(our_answer.is_error());
            let (our_user, their_user) = (ours.line("ACL GETUSER u"), theirs.line("ACL GETUSER u"));
            assert_eq!(without_commands(&our_user), without_commands(&their_user), "seed {seed}: {rules:?}");
            if our_user.is_null() {
                continue;
            }
            // What describes the user here makes the same one there.
            let line = line_of(&mut ours, "u");
            theirs.line("ACL DELUSER v");
            assert_eq!(set(&mut theirs, "v", &line), Value::ok(), "seed {seed}: {line:?}");
            let same = theirs.line("ACL GETUSER v");
            assert_eq!(commands_of(&same), commands_of(&their_user), "seed {seed}: {line:?}");
            assert_eq!(without_commands(&same), without_commands(&their_user), "seed {seed}: {line:?}");
            let calls: Vec<Words> = (0..60).map(|_| generator.call()).collect();
            let dryruns: Vec<Words> = calls.iter().map(|call| [words("ACL DRYRUN u"), call.clone()].concat()).collect();
            let (our_answers, their_answers) = (ours.pipeline(&dryruns).unwrap(), theirs.pipeline(&dryruns).unwrap());
            for ((call, our), their) in calls.iter().zip(our_answers).zip(their_answers) {
                asked += 1;
                denied += usize::from(matches!(our, Value::Bulk(_)));
                if our != their && !has_a_name_like_an_option(call) {
                    // Redis finds no keys at all in a malformed call.
                    let keys = theirs.call(&[words("COMMAND GETKEYS"), call.clone()].concat()).unwrap();
                    let is_stricter = their == Value::ok() && our.to_string().contains("key\"") && keys.is_error();
                    assert!(is_stricter, "seed {seed}: {line:?}\n{call:?}\nours   {our}\ntheirs {their}\nkeys   {keys}");
                    malformed += 1;
                }
            }
        }
    }
    println!(
        "acl: {asked} calls asked, {denied} denied, {refused} lists of rules refused, {malformed} malformed calls denied here only"
    );
    assert!(denied > asked / 10 && denied < asked && refused > 0);
}

/// Calls in which Redis takes a name for an option when it looks for keys, but not when it executes them: a destination of SORT that is called STORE, and a
/// group or consumer behind the third argument of XREADGROUP that is called STREAMS.
fn has_a_name_like_an_option(call: &[String]) -> bool {
    if call[0] == "sort" {
        return call.windows(2).any(|pair| pair == ["STORE", "STORE"]);
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

/// Options where numbers and names are expected, too many of them, and too few arguments.
#[test]
fn random_reads_of_streams_have_the_keys_that_redis_server_finds() {
    let seed = std::env::var("ALMANDINE_TEST_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(35);
    let pair = Pair::start();
    let mut random = Random::new(seed);
    let pool = ["GROUP", "g", "c", "NOACK", "COUNT", "BLOCK", "1", "STREAMS", "a", "b", ">", "XREAD", "q"];
    let usual =
        [&["GROUP", "g", "c", "STREAMS"][..], &["GROUP", "g", "c", "COUNT", "1"], &["NOACK", "GROUP", "g"], &["STREAMS"], &[]];
    let calls: Vec<Words> = (0..if full() { 200_000 } else { 5000 })
        .map(|_| {
            let mut call = vec![(*random.pick(&["XREAD", "XREADGROUP"])).to_owned()];
            call.extend(random.pick(&usual).iter().map(|word| (*word).to_owned()));
            let more = random.below(8);
            call.extend((0..more).map(|_| (*random.pick(&pool)).to_owned()));
            call
        })
        .collect();
    let (mut ours, mut theirs) = (pair.ours.client(), pair.oracle.client());
    let mut named = 0;
    for asks in ["COMMAND GETKEYS", "ACL DRYRUN u"] {
        for client in [&mut ours, &mut theirs] {
            assert_eq!(client.line("ACL SETUSER u on nopass +@all ~a %R~b ~c %W~q ~1 ~>"), Value::ok());
        }
        let asked: Vec<Words> = calls.iter().map(|call| [words(asks), call.clone()].concat()).collect();
        for asked in asked.chunks(500) {
            let (our_answers, their_answers) = (ours.pipeline(asked).unwrap(), theirs.pipeline(asked).unwrap());
            for ((asked, our), their) in asked.iter().zip(our_answers).zip(their_answers) {
                let call = &asked[words(asks).len()..];
                let is_named = has_a_name_like_an_option(call);
                named += usize::from(is_named);
                assert!(our == their || is_named, "seed {seed}: {asked:?}\nours   {our}\ntheirs {their}");
            }
        }
    }
    assert!(named > 0);
}

#[test]
fn a_file_is_loaded_saved_and_loaded_again() {
    let directory = std::env::temp_dir().join(format!("almandine-acl-{}", std::process::id()));
    fs::create_dir_all(&directory).unwrap();
    let path = directory.join("users.acl");
    fs::write(&path, "user alice on >secret ~a* &* +@all\nuser bob off\nuser default on nopass ~* &* +@all\n").unwrap();
    let server = Server::start(&Program::Almandine, &["--aclfile", path.to_str().unwrap()]);
    let (mut admin, mut alice, mut listener) = (server.client(), server.client(), server.client());
    assert_eq!(strings(&admin.line("ACL USERS")), ["alice", "bob", "default"]);
    assert_eq!(alice.line("AUTH alice secret"), Value::ok());
    assert_eq!(listener.line("AUTH alice secret"), Value::ok());
    listener.line("SUBSCRIBE news");
    // A mistake changes nothing, and no password is told.
    fs::write(&path, "user alice on >other +nosuch\nuser carol on >geheim nonsense\n").unwrap();
    let problems = admin.line("ACL LOAD").to_string();
    assert!(problems.contains(":1: Error in applying operation '+nosuch'") && problems.contains(":2: Syntax error."), "{problems}");
    assert!(!problems.contains("geheim") && !problems.contains("other"), "{problems}");
    assert_eq!(strings(&admin.line("ACL USERS")), ["alice", "bob", "default"]);
    // Saved, the file says what holds, and has no password either.
    assert_eq!(admin.line("ACL SAVE"), Value::ok());
    let text = fs::read_to_string(&path).unwrap();
    assert!(
        text.starts_with("user alice on #2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b ~a* &* +@all\n"),
        "{text}"
    );
    assert!(text.contains("\nuser bob off resetchannels -@all\n") && !text.contains("secret"), "{text}");
    assert_eq!(fs::read_dir(&directory).unwrap().count(), 1, "no temporary file is left");
    // Alice may not listen any more and keeps her other connection; bob is gone.
    fs::write(&path, "user alice on >secret ~a* +@all\n").unwrap();
    assert_eq!(admin.line("ACL LOAD"), Value::ok());
    assert_eq!(strings(&admin.line("ACL USERS")), ["alice", "default"]);
    assert_eq!(alice.line("GET a").to_string(), "(nil)");
    assert_eq!(listener.receive().unwrap(), Value::Closed);
    assert_eq!(
        alice.line("SUBSCRIBE news").to_string(),
        "-\"NOPERM this user has no permissions to access one of the channels used as arguments\""
    );
    // The configuration has no lines of users where there is a file.
    fs::write(&path, "").unwrap();
    assert_eq!(admin.line("ACL LOAD"), Value::ok());
    assert!(alice.line("PING") == Value::Closed || alice.receive().unwrap() == Value::Closed);
    fs::remove_dir_all(&directory).unwrap();
}

/// Commands that end or change the connection or the server, wait, or differ for another reason than rights.
const NOT_RUN: &[&str] = &[
    "acl|deluser",
    "acl|load",
    "acl|log",
    "acl|save",
    "acl|setuser",
    "auth",
    "bgrewriteaof",
    "bgsave",
    "blmove",
    "blmpop",
    "blpop",
    "brpop",
    "brpoplpush",
    "bzmpop",
    "bzpopmax",
    "bzpopmin",
    "client|caching",
    "client|kill",
    "client|no-evict",
    "client|pause",
    "client|reply",
    "client|setname",
    "client|tracking",
    "client|unblock",
    "config|resetstat",
    "config|rewrite",
    "config|set",
    "debug",
    "discard",
    "exec",
    "flushall",
    "function|kill",
    "hello",
    "module|load",
    "module|loadex",
    "module|unload",
    "monitor",
    "multi",
    "pfselftest",
    "psubscribe",
    "punsubscribe",
    "quit",
    "replicaof",
    "reset",
    "restore-asking",
    "save",
    "script|debug",
    "script|kill",
    "select",
    "shutdown",
    "slaveof",
    "ssubscribe",
    "subscribe",
    "sunsubscribe",
    "swapdb",
    "unsubscribe",
    "wait",
];

/// The entries of ACL LOG, without what differs between servers and moments.
fn denials(client: &mut Client) -> BTreeSet<String> {
    let log = client.line("ACL LOG 200");
    let entries = log.elements().unwrap().iter().map(|entry| {
        let wanted = [&b"count"[..], b"reason", b"context", b"object", b"username"];
        let fields = entry.elements().unwrap().chunks(2).filter(|field| wanted.contains(&field[0].bytes().unwrap_or_default()));
        fields.map(|field| format!("{} {}; ", field[0], field[1])).collect()
    });
    entries.collect()
}

fn is_denied(answer: &Value) -> bool {
    matches!(answer, Value::Error(text) if text.starts_with(b"NOPERM "))
}

/// Calls that run, alone and queued: the same ones are denied, in the same words, and the same is logged.
#[test]
fn random_calls_are_denied_as_by_redis_server() {
    let seed = std::env::var("ALMANDINE_TEST_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(11);
    let episodes = if full() { 1500 } else { 120 };
    let pair = Pair::start();
    let mut admins = [pair.ours.client(), pair.oracle.client()];
    let mut generator = Generator::new(&pair, seed);
    // What is not served is unknown before rights are asked.
    let served = strings(&admins[0].line("COMMAND LIST"));
    generator.commands.retain(|name| served.contains(name) && !NOT_RUN.contains(&name.as_str()));
    let (mut asked, mut denied, mut compared) = (0, 0, 0);
    for episode in 0..episodes {
        let mut rules = [words("resetpass off"), generator.rules(), generator.rules(), words("on nopass")].concat();
        if generator.random.chance(60) {
            rules.insert(2, "+@all".to_owned());
        }
        for admin in &mut admins {
            admin.line("ACL DELUSER u");
            admin.line("ACL LOG RESET");
            admin.line("FLUSHALL");
        }
        let answers = admins.each_mut().map(|admin| set(admin, "u", &rules));
        assert_eq!(answers[0], answers[1], "seed {seed}: {rules:?}");
        if answers[0].is_error() {
            continue;
        }
        let mut calls: Vec<Words> = (0..60).map(|_| generator.call()).collect();
        // Of GEORADIUS with two destinations Redis checks the first and writes the last.
        calls.retain(|call| call.iter().filter(|word| *word == "STORE").count() < 2);
        if episode % 4 == 3 {
            calls.insert(0, words("MULTI"));
            calls.push(words("DISCARD"));
        }
        let [our_answers, their_answers] = [&pair.ours, &pair.oracle].map(|server| {
            let mut client = server.client();
            assert_eq!(client.line("AUTH u x"), Value::ok(), "seed {seed}: {rules:?}");
            client.pipeline(&calls).unwrap()
        });
        let mut is_malformed = false;
        for ((call, our), their) in calls.iter().zip(our_answers).zip(their_answers) {
            asked += 1;
            denied += usize::from(is_denied(&their));
            if (is_denied(&our) || is_denied(&their)) && our != their {
                let keys = admins[1].call(&[words("COMMAND GETKEYS"), call.clone()].concat()).unwrap();
                let is_stricter = !is_denied(&their) && our.to_string().contains("one of the keys") && keys.is_error();
                assert!(is_stricter, "seed {seed}: {rules:?}\n{call:?}\nours   {our}\ntheirs {their}\nkeys   {keys}");
                is_malformed = true;
            }
        }
        if !is_malformed {
            compared += 1;
            let [ours, theirs] = admins.each_mut().map(denials);
            assert_eq!(ours, theirs, "seed {seed}: {rules:?}");
        }
    }
    println!("acl: {asked} calls run, {denied} denied, {compared} logs compared");
    assert!(denied > asked / 10 && denied < asked && compared > episodes / 8, "{asked} {denied} {compared}");
}

/// A directory that is gone at the end of a test.
struct Directory(PathBuf);

impl Directory {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("almandine-acl-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Files that Redis 8.0 and Valkey 9.1 have saved, with rules about commands that are not served here.
#[test]
fn files_of_other_servers_are_read_and_saved_unchanged() {
    let directory = Directory::new("others");
    for name in ["redis-8.0.6.acl", "valkey-9.1.2.acl"] {
        let original = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/acl").join(name);
        let text = fs::read_to_string(original).unwrap();
        let (as_users, as_lines) = (directory.0.join(name), directory.0.join(format!("{name}.conf")));
        fs::write(&as_users, &text).unwrap();
        fs::write(&as_lines, &text).unwrap();
        let sorted = |lines: Vec<String>| lines.into_iter().collect::<BTreeSet<String>>();
        let wanted = sorted(text.lines().map(str::to_owned).collect());
        assert!(wanted.len() > 45 && text.contains("+eval") && text.contains("cluster|"), "{name}");
        let server = Server::start(&Program::Almandine, &["--aclfile", as_users.to_str().unwrap()]);
        let mut client = server.client();
        assert_eq!(sorted(strings(&client.line("ACL LIST"))), wanted, "{name}");
        assert_eq!(client.line("ACL SAVE"), Value::ok());
        assert_eq!(sorted(fs::read_to_string(&as_users).unwrap().lines().map(str::to_owned).collect()), wanted, "{name}");
        assert_eq!(client.line("ACL LOAD"), Value::ok());
        let server = Server::start(&Program::Almandine, &[as_lines.to_str().unwrap()]);
        // A line about the default user begins with what `reset` leaves, as in Redis.
        let listed = strings(&server.client().line("ACL LIST"));
        let listed = listed.iter().map(|line| line.replace("user default on nopass sanitize-payload", "user default on nopass"));
        let wanted = wanted.iter().map(|line| line.replace("user default on nopass sanitize-payload", "user default on nopass"));
        assert_eq!(sorted(listed.collect()), sorted(wanted.collect()), "{name}");
    }
}

/// What redis-server saves is read here and permits the same; what is saved here is read there.
#[test]
fn files_go_to_redis_server_and_back() {
    let seed = std::env::var("ALMANDINE_TEST_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(7);
    let directory = Directory::new("exchange");
    let path = directory.0.join("users.acl");
    fs::write(&path, "").unwrap();
    let flags = ["--aclfile", path.to_str().unwrap()];
    let pair = Pair { ours: Server::start(&Program::Almandine, &flags), oracle: Server::start(&Program::Redis, &flags) };
    let (mut ours, mut theirs) = (pair.ours.client(), pair.oracle.client());
    let mut generator = Generator::new(&pair, seed);
    for round in 0..2 {
        for user in 0..60 {
            let maker = if round == 0 { &mut theirs } else { &mut ours };
            set(maker, &format!("u{user}"), &generator.rules());
        }
        let (saves, reads) = if round == 0 { (&mut theirs, &mut ours) } else { (&mut ours, &mut theirs) };
        assert_eq!(saves.line("ACL SAVE"), Value::ok());
        assert_eq!(reads.line("ACL LOAD"), Value::ok(), "seed {seed}: {}", fs::read_to_string(&path).unwrap());
        let users = strings(&theirs.line("ACL USERS"));
        assert!(users.len() > 40, "{users:?}");
        for user in users {
            let asks = format!("ACL GETUSER {user}");
            let (our_user, their_user) = (ours.line(&asks), theirs.line(&asks));
            assert_eq!(without_commands(&our_user), without_commands(&their_user), "seed {seed}, {user}");
            for _ in 0..20 {
                let call = [words(&format!("ACL DRYRUN {user}")), generator.call()].concat();
                let (our, their) = (ours.call(&call).unwrap(), theirs.call(&call).unwrap());
                let keys = theirs.call(&[words("COMMAND GETKEYS"), call[3..].to_vec()].concat()).unwrap();
                let is_known = keys.is_error() || has_a_name_like_an_option(&call[3..]);
                assert!(our == their || is_known, "seed {seed}: {call:?}\nours   {our}\ntheirs {their}");
            }
        }
    }
}

/// Rules may name what is not served, as files from elsewhere do; nobody can call it, and COMMAND does not list it.
#[test]
fn commands_that_are_not_served_have_rules_and_nothing_else() {
    let flags = ["--rename-command", "EVAL", "", "--rename-command", "CLUSTER", "ring"];
    let server = Server::start(&Program::Almandine, &flags);
    let mut client = server.client();
    let count = client.line("COMMAND COUNT").integer().unwrap();
    assert_eq!(client.line("COMMAND").elements().unwrap().len(), usize::try_from(count).unwrap());
    assert_eq!(client.line("ACL SETUSER u on nopass ~a* +eval +fcall +@scripting -evalsha +cluster -cluster|nodes"), Value::ok());
    let line = "user u on nopass ~a* resetchannels -@all +eval +fcall +@scripting -evalsha +cluster -cluster|nodes";
    assert!(strings(&client.line("ACL LIST")).iter().any(|listed| listed == line));
    for (call, answer) in [
        ("FCALL f 1 a", "+OK"),
        ("FCALL f 1 b", "$\"This user has no permissions to access the 'b' key\""),
        ("EVALSHA x 0", "$\"This user has no permissions to run the 'evalsha' command\""),
        ("ring info", "+OK"),
        ("RING nodes", "$\"This user has no permissions to run the 'cluster|nodes' command\""),
        ("SCRIPT SHOW x", "+OK"),
        ("EVAL x 0", "-\"ERR Command 'EVAL' not found\""),
        ("CLUSTER INFO", "-\"ERR Command 'CLUSTER' not found\""),
        ("FCALL f", "-\"ERR wrong number of arguments for 'fcall' command\""),
    ] {
        assert_eq!(client.line(&format!("ACL DRYRUN u {call}")).to_string(), answer, "{call}");
    }
    for user in ["default", "u"] {
        assert_eq!(client.line(&format!("AUTH {user} x")), Value::ok());
        for call in ["EVAL x 0", "FCALL f 1 a", "EVALSHA x 0", "CLUSTER INFO", "RING NODES", "PSYNC ? -1", "VADD k"] {
            let answer = client.line(call).to_string();
            assert!(answer.contains("unknown command"), "{user} {call}: {answer}");
        }
        assert!(client.line("SCRIPT SHOW x").to_string().contains("unknown subcommand"), "{user}");
    }
    assert_eq!(client.line("AUTH default x"), Value::ok());
    assert_eq!(client.line("COMMAND INFO fcall cluster|nodes ring script|show").to_string(), "*[(nil), (nil), (nil), (nil)]");
    assert_eq!(client.line("COMMAND DOCS fcall").to_string(), "*[]");
    assert_eq!(client.line("COMMAND LIST FILTERBY PATTERN *eval*").to_string(), "*[]");
    assert_eq!(client.line("COMMAND LIST FILTERBY PATTERN cluster*").to_string(), "*[]");
    // What a denied or unknown command did to the log and to the counters: nothing.
    assert_eq!(client.line("ACL LOG").to_string(), "*[]");
}

fn refusal(flags: &[&str]) -> String {
    match Server::try_start(&Program::Almandine, flags, &[]) {
        Ok(_) => panic!("{flags:?} starts"),
        Err(problem) => problem,
    }
}

#[test]
fn a_server_that_restricts_less_than_it_was_told_to_does_not_start() {
    let directory = std::env::temp_dir().join(format!("almandine-acl-start-{}", std::process::id()));
    fs::create_dir_all(&directory).unwrap();
    let path = directory.join("users.acl");
    let file = path.to_str().unwrap();
    assert!(refusal(&["--aclfile", file]).contains("Error loading ACLs, opening file"));
    fs::write(&path, "user a on +nosuch\n").unwrap();
    assert!(refusal(&["--aclfile", file]).contains("Unknown command or category name in ACL"));
    fs::write(&path, "user a on\n").unwrap();
    assert!(
        refusal(&["--aclfile", file, "--user", "b", "on"]).contains("please define either an ACL file or declare users directly")
    );
    assert!(
        refusal(&["--user", "b", "on", "nonsense"])
            .contains("Error loading ACL rule 'nonsense' for the user named 'b': Syntax error")
    );
    let hidden = refusal(&["--user", "b", "<geheim"]);
    assert!(hidden.contains("does not exist") && !hidden.contains("geheim"), "{hidden}");
    fs::remove_dir_all(&directory).unwrap();
}

#[test]
fn users_are_written_into_the_configuration_and_read_again() {
    let directory = std::env::temp_dir().join(format!("almandine-acl-conf-{}", std::process::id()));
    fs::create_dir_all(&directory).unwrap();
    let path = directory.join("a.conf");
    fs::write(&path, "# mine\nuser old on nopass\nuser gone on nopass\ntimeout 0\n").unwrap();
    let rewritten = {
        let server = Server::start(&Program::Almandine, &[path.to_str().unwrap()]);
        let mut admin = server.client();
        admin.line("ACL SETUSER old ~o* +get");
        admin.line("ACL DELUSER gone");
        admin.line("ACL SETUSER new on >secret (%R~x +@read)");
        assert_eq!(admin.line("CONFIG REWRITE"), Value::ok());
        admin.line("ACL LIST")
    };
    let text = fs::read_to_string(&path).unwrap();
    assert!(text.starts_with("# mine\n") && !text.contains("gone") && !text.contains("secret"), "{text}");
    // The directory of the first server is gone.
    let lines: Vec<&str> = text.lines().filter(|line| !line.starts_with("dir ")).collect();
    fs::write(&path, lines.join("\n")).unwrap();
    let server = Server::start(&Program::Almandine, &[path.to_str().unwrap()]);
    // A line about the default user begins with what `reset` leaves, as in Redis.
    let read = server.client().line("ACL LIST").to_string().replacen(" sanitize-payload", "", 1);
    assert_eq!(read, rewritten.to_string(), "{text}");
    fs::remove_dir_all(&directory).unwrap();
}

#[test]
fn clients_are_cut_off_when_their_user_loses_what_they_have() {
    for program in [Program::Almandine, Program::Redis] {
        are_cut_off(&Server::start(&program, &[]));
    }
}

/// Servers that leave alone who has lost rights are noticed.
#[test]
fn rights_that_are_kept_are_noticed() {
    must_notice("listeners-kept", &[], 1, are_cut_off);
    must_notice("rights-kept", &[], 1, are_cut_off);
    must_notice("rights-kept", &["--workers", "4"], 1, hold_for_all_workers);
}

fn are_cut_off(server: &Server) {
    let program = server.program();
    let mut admin = server.client();
    admin.line("ACL SETUSER u on nopass +@all ~* &*");
    let clients = |count: usize| -> Vec<Client> {
        (0..count)
            .map(|_| {
                let mut client = server.client();
                assert_eq!(client.line("AUTH u x"), Value::ok());
                client
            })
            .collect()
    };
    let mut listeners = clients(3);
    listeners[0].line("SUBSCRIBE a b");
    listeners[1].line("PSUBSCRIBE a*");
    listeners[2].line("SSUBSCRIBE c");
    let mut others = clients(4);
    assert_eq!(admin.line("ACL SETUSER u resetchannels &a* &b"), Value::ok());
    assert_eq!(listeners[2].receive().unwrap(), Value::Closed, "{}", program.name());
    assert_eq!(admin.line("PUBLISH a 1").to_string(), ":2");
    // A pattern must be permitted word for word.
    assert_eq!(admin.line("ACL SETUSER u resetchannels &a &b"), Value::ok());
    assert!(is_closed(&mut listeners[1]), "{}", program.name());
    assert_eq!(admin.line("ACL SETUSER u off"), Value::ok());
    for other in &mut others {
        assert_eq!(other.line("PING").to_string(), "+PONG");
    }
    assert!(server.client().line("AUTH u x").is_error());
    assert_eq!(admin.line("ACL DELUSER u").to_string(), ":1");
    for other in &mut others {
        assert!(is_closed(other), "{}", program.name());
    }
    assert!(is_closed(&mut listeners[0]), "{}", program.name());
    // One who removes its own user still hears so.
    admin.line("ACL SETUSER me on nopass +@all ~* &*");
    admin.line("AUTH me x");
    assert_eq!(admin.line("ACL DELUSER me").to_string(), ":1");
    assert!(is_closed(&mut admin));
}

/// Whether the connection ends behind the messages that were on their way.
fn is_closed(client: &mut Client) -> bool {
    (0..10).any(|_| matches!(client.receive(), Ok(Value::Closed) | Err(_)))
}

/// Who waits is served with the rights that its user has then.
#[test]
fn rights_that_are_lost_while_a_command_waits_are_lost() {
    let server = Server::start(&Program::Almandine, &["--workers", "2"]);
    let mut admin = server.client();
    admin.line("ACL SETUSER u on nopass +@all ~list*");
    let waiting = |admin: &mut Client, command: &str| {
        let mut client = server.client();
        assert_eq!(client.line("AUTH u x"), Value::ok());
        client.send(&[command.split(' ').collect::<Vec<_>>()]).unwrap();
        while !String::from_utf8_lossy(admin.line("INFO clients").bytes().unwrap()).contains("blocked_clients:1") {
            std::thread::sleep(Duration::from_millis(1));
        }
        client
    };
    for (command, rule, back, error) in [
        ("BLPOP list1 0", "-blpop", "+blpop", "NOPERM this user has no permissions to run the 'blpop' command"),
        (
            "BLPOP list1 list2 0",
            "resetkeys",
            "~list*",
            "NOPERM this user has no permissions to access one of the keys used as arguments",
        ),
        ("BLPOP list1 0", "db=1", "alldbs", "NOPERM No permissions to access database"),
    ] {
        let mut client = waiting(&mut admin, command);
        assert_eq!(admin.line(&format!("ACL SETUSER u {rule}")), Value::ok());
        assert_eq!(admin.line("RPUSH list1 element").to_string(), ":1");
        assert_eq!(client.receive().unwrap(), Value::Error(error.as_bytes().to_vec()), "{command}");
        assert_eq!(admin.line("LRANGE list1 0 -1").to_string(), "*[$\"element\"]", "{command}");
        assert_eq!(admin.line(&format!("ACL SETUSER u {back}")), Value::ok());
        assert_eq!(client.line("LPOP list1").to_string(), "$\"element\"");
    }
    let mut client = waiting(&mut admin, "BLPOP list1 0");
    admin.pipeline(&[&["ACL", "DELUSER", "u"][..], &["RPUSH", "list1", "element"]]).unwrap();
    assert!(matches!(client.receive(), Ok(Value::Closed) | Err(_)));
    assert_eq!(admin.line("LRANGE list1 0 -1").to_string(), "*[$\"element\"]");
}

/// A user of the same name is not the same: who was deleted does not come back with it.
#[test]
fn a_deleted_user_is_nobody_even_when_the_name_is_used_again() {
    let server = Server::start(&Program::Almandine, &[]);
    let mut admin = server.client();
    for _ in 0..200 {
        admin.line("ACL SETUSER u on nopass +@all ~* &*");
        let mut client = server.client();
        assert_eq!(client.line("AUTH u x"), Value::ok());
        client.send(&[["SET", "key", "old"]]).unwrap();
        assert_eq!(client.receive().unwrap(), Value::ok());
        admin
            .pipeline(&[
                &["ACL", "DELUSER", "u"][..],
                &["ACL", "SETUSER", "u", "on", "nopass", "+@all", "~*"],
                &["SET", "key", "new"],
            ])
            .unwrap();
        let _ = client.send(&[["SET", "key", "old"]]);
        assert!(matches!(client.receive(), Ok(Value::Closed) | Err(_)));
        assert_eq!(admin.line("GET key").to_string(), "$\"new\"");
    }
}

/// The reply to ACL SETUSER is the moment from which new commands meet the new rules, whichever worker runs them.
#[test]
fn rules_hold_for_all_workers_once_they_are_answered() {
    hold_for_all_workers(&Server::start(&Program::Almandine, &["--workers", "4"]));
}

fn hold_for_all_workers(server: &Server) {
    let mut admin = server.client();
    admin.line("ACL SETUSER u on nopass +@all ~* &*");
    let mut clients: Vec<Client> = (0..8).map(|_| server.client()).collect();
    clients.iter_mut().for_each(|client| assert_eq!(client.line("AUTH u x"), Value::ok()));
    for round in 0..200 {
        let permitted = round % 2 == 1;
        let rule = if permitted { "~*" } else { "resetkeys" };
        assert_eq!(admin.line(&format!("ACL SETUSER u {rule}")), Value::ok());
        clients.iter_mut().for_each(|client| client.send(&[["SET", "key", "value"]]).unwrap());
        for client in &mut clients {
            assert_eq!(client.receive().unwrap() == Value::ok(), permitted, "round {round}");
        }
    }
}

#[test]
fn the_password_of_the_configuration_is_the_default_users() {
    let server = Server::start(&Program::Almandine, &["--requirepass", "one"]);
    let mut admin = server.client();
    assert!(admin.line("PING").is_error());
    assert_eq!(admin.line("AUTH one"), Value::ok());
    // As in Redis, the parameter keeps its value when the user is changed.
    assert_eq!(admin.line("ACL SETUSER default >two"), Value::ok());
    assert_eq!(server.client().line("AUTH two"), Value::ok());
    assert_eq!(server.client().line("AUTH default one"), Value::ok());
    assert_eq!(admin.line("CONFIG SET requirepass three"), Value::ok());
    for (password, right) in [("one", false), ("two", false), ("three", true)] {
        assert_eq!(server.client().line(&format!("AUTH {password}")) == Value::ok(), right, "{password}");
    }
    let mut waiting = server.client();
    assert!(waiting.line("PING").is_error());
    assert_eq!(admin.call(&["CONFIG", "SET", "requirepass", ""]).unwrap(), Value::ok());
    assert_eq!(waiting.line("PING").to_string(), "+PONG");
    assert_eq!(admin.line("ACL SETUSER default resetpass"), Value::ok());
    assert!(waiting.line("PING").is_error());
    assert_eq!(admin.line("PING").to_string(), "+PONG");
    assert!(waiting.receive_until_quiet(Duration::from_millis(50)).unwrap().is_empty());
}
