//! Each command of our server has a golden session, or a reason here why it cannot have one.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use almandine_testkit::golden::file::Action;
use almandine_testkit::golden::parse;
use almandine_testkit::{Program, Server, Value};

/// Commands that no session can show, each with its reason. A line for a command that has a session, or is not there, is stale.
const WITHOUT: &[(&str, &str)] = &[];

fn text(value: &Value) -> String {
    value.bytes().map(|bytes| String::from_utf8_lossy(bytes).to_lowercase()).expect("a name")
}

fn items(value: &Value) -> &[Value] {
    match value {
        Value::Array(items) => items,
        other => panic!("not an array: {other}"),
    }
}

/// The names of rows of COMMAND and of the subcommands in them, as `config|get`.
fn names(rows: &Value, into: &mut BTreeSet<String>) {
    const SUBCOMMANDS: usize = 9;
    for row in items(rows) {
        let row = items(row);
        into.insert(text(&row[0]));
        names(&row[SUBCOMMANDS], into);
    }
}

/// The commands that sessions for our server send, each by its first word and by its first two.
fn sent(root: &Path) -> BTreeSet<String> {
    let mut sent = BTreeSet::new();
    for family in fs::read_dir(root).expect("tests/golden").flatten() {
        for file in fs::read_dir(family.path()).expect("a family").flatten() {
            let sessions = parse(&fs::read_to_string(file.path()).expect("a file of text")).expect("golden sessions");
            let ours = sessions.iter().filter(|session| session.only != Some(Program::Redis));
            for action in ours.flat_map(|session| &session.steps).flat_map(|step| &step.actions) {
                match action {
                    Action::Command(_, words) | Action::Wait(_, words) => note(words, &mut sent),
                    Action::Raw(_, bytes) => bytes.split(|&b| b == b'\n').for_each(|line| note(&inline(line), &mut sent)),
                    Action::Read(_) | Action::Sleep(_) | Action::Close(_) => {}
                }
            }
        }
    }
    sent
}

fn inline(line: &[u8]) -> Vec<Vec<u8>> {
    line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty()).map(<[u8]>::to_vec).collect()
}

fn note(words: &[Vec<u8>], sent: &mut BTreeSet<String>) {
    let words: Vec<String> = words.iter().take(2).map(|word| String::from_utf8_lossy(word).to_lowercase()).collect();
    sent.extend(words.first().cloned());
    sent.insert(words.join("|"));
}

#[test]
fn each_command_has_a_golden_session_or_a_reason() {
    let server = Server::start(&Program::Almandine, &[]);
    let mut commands = BTreeSet::new();
    names(&server.client().line("COMMAND"), &mut commands);
    assert!(commands.contains("get") && commands.contains("config|get"), "COMMAND says {commands:?}");
    let sent = sent(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden"));

    let excused = |name: &str| WITHOUT.iter().any(|(excused, _)| *excused == name);
    let missing: Vec<&String> = commands.iter().filter(|name| !sent.contains(*name) && !excused(name)).collect();
    assert!(missing.is_empty(), "no session in tests/golden sends {missing:?}: write one (docs/HACKING.md), or say here why not");
    let stale: Vec<&str> =
        WITHOUT.iter().map(|(name, _)| *name).filter(|&name| !commands.contains(name) || sent.contains(name)).collect();
    assert!(stale.is_empty(), "they have a session, or are no commands: {stale:?}");
}
