//! The tables of `docs/effects.md`: each row that claims to be proven, run against redis-server, and no writing command without
//! a row.

use std::collections::BTreeSet;
use std::time::Instant;

use almandine_testkit::effects::{Laboratory, Manner, NOTHING, Ours, Row, parse};
use almandine_testkit::{Program, Server, Value};

const DOCUMENT: &str = include_str!("../../../docs/effects.md");
/// Where rows may be from.
const SOURCES: &[&str] =
    &["7.0", "7.0, by reading", "7.2", "7.4", "8.0", "8.2", "8.4", "8.6", "8.8", "8.10", "valkey 9.0", "garnet"];
const OURS: &str = "almandine";
/// Groups of commands whose tables are written.
const GROUPS: &[&str] =
    &["string", "bitmap", "generic", "hash", "list", "set", "sorted-set", "geo", "stream", "hyperloglog", "transactions"];
/// Writing commands of Redis that wait for data, which ours does not have yet.
const WAITING: &[&str] = &[];
/// Writing commands of our server that have no table yet.
const WITHOUT: &[&str] = &[];

fn rows() -> Vec<Row> {
    parse(DOCUMENT).unwrap_or_else(|e| panic!("docs/effects.md: {e}"))
}

#[test]
fn rows_are_what_redis_does() {
    let (mut laboratory, started) = (Laboratory::start(), Instant::now());
    let rows = rows();
    let proven: Vec<&Row> = rows.iter().filter(|row| row.is_proven()).collect();
    let wrong: Vec<String> = proven.iter().filter_map(|row| laboratory.difference(row)).collect();
    println!("effects: {} of {} rows run against redis-server in {:.1?}", proven.len(), rows.len(), started.elapsed());
    assert!(proven.len() > 100, "only {} rows are proven", proven.len());
    assert!(wrong.is_empty(), "{} rows are wrong:\n{}", wrong.len(), wrong.join("\n"));
}

/// Rows whose examples need commands that we do not have yet are left out.
#[test]
fn changes_are_counted_as_the_rows_say() {
    let (mut counting, mut counted, mut wrong) = (Ours::start(Manner::Plain), 0, Vec::new());
    for row in rows() {
        let Some(count) = counting.count(&row.example) else { continue };
        counted += 1;
        if count != row.dirty {
            wrong.push(format!("docs/effects.md:{}: {}: {} in the row, {count} counted", row.line, row.example, row.dirty));
        }
    }
    println!("effects: changes of {counted} rows counted");
    assert!(counted > 170, "only {counted} rows could be run");
    assert!(wrong.is_empty(), "{} counts are wrong:\n{}", wrong.len(), wrong.join("\n"));
}

/// Runs the rows in a manner, without those whose examples need commands that we do not have.
fn tell_events(manner: Manner, least: usize) {
    let (mut ours, mut told, started, mut wrong) = (Ours::start(manner), 0, Instant::now(), Vec::new());
    for row in rows() {
        match ours.difference(&row) {
            None => {}
            Some(Ok(())) => told += 1,
            Some(Err(difference)) => wrong.push(difference),
        }
    }
    println!("effects: events of {told} rows are as they say, {manner:?}, in {:.1?}", started.elapsed());
    assert!(wrong.is_empty(), "the events of {} rows are others:\n{}", wrong.len(), wrong.join("\n"));
    assert!(told >= least, "only {told} rows could be run");
}

#[test]
fn events_are_told_as_the_rows_say() {
    tell_events(Manner::Plain, 300);
}

#[test]
fn events_are_told_in_transactions() {
    tell_events(Manner::Transaction, 250);
}

#[test]
fn events_are_told_of_cold_keys() {
    tell_events(Manner::Cold, 300);
}

/// The control: each kind of lie is found.
#[test]
fn a_row_that_lies_is_caught() {
    let mut laboratory = Laboratory::start();
    let rows = rows();
    let good = rows.iter().find(|row| row.form == "SET key value EX/PX ttl").expect("the row of SET with a time");
    assert_eq!(laboratory.difference(good), None);
    let lies = [
        ("events", Row { events: "g expire k; $ set k".to_owned(), ..good.clone() }),
        ("class", Row { events: "g set k; $ expire k".to_owned(), ..good.clone() }),
        ("events", Row { events: NOTHING.to_owned(), ..good.clone() }),
        ("replica", Row { replica: "SET k v EX 1000".to_owned(), ..good.clone() }),
        ("dirty", Row { dirty: 2, ..good.clone() }),
    ];
    for (kind, lie) in lies {
        let found = laboratory.difference(&lie).unwrap_or_else(|| panic!("not found: {kind}"));
        assert!(found.contains(kind), "{found}");
    }
}

#[test]
fn tables_are_well_formed() {
    let mut forms = BTreeSet::new();
    for row in rows() {
        let at = format!("docs/effects.md:{}", row.line);
        assert!(SOURCES.contains(&row.source.as_str()) || row.source == OURS, "{at}: the source {}", row.source);
        assert!(forms.insert(row.form.clone()), "{at}: {} is there twice", row.form);
        for cell in [&row.keys, &row.plan, &row.changed, &row.effects, &row.replica, &row.events, &row.example] {
            assert!(!cell.is_empty(), "{at}: an empty cell");
        }
        if row.changed.starts_with("never") {
            assert!(row.effects == NOTHING && row.replica == NOTHING && row.dirty == 0, "{at}: never changed, and yet an effect");
            let only_misses = row.events.split("; ").all(|event| event == NOTHING || event.starts_with("m keymiss "));
            assert!(only_misses, "{at}: never changed, and yet an event");
        } else {
            assert!(row.effects != NOTHING, "{at}: changed without an effect");
        }
    }
}

fn text(value: &Value) -> String {
    value.bytes().map(|bytes| String::from_utf8_lossy(bytes).to_uppercase()).expect("a text")
}

fn items(value: &Value) -> &[Value] {
    value.elements().expect("an array")
}

/// The commands of a server that write.
fn writing(server: &Server) -> BTreeSet<String> {
    let reply = server.client().line("COMMAND");
    let writes = |row: &&[Value]| items(&row[2]).iter().any(|flag| text(flag) == "WRITE");
    items(&reply).iter().map(items).filter(writes).map(|row| text(&row[0])).collect()
}

/// The commands of a server in the groups of the document.
fn grouped(server: &Server) -> Vec<(String, String)> {
    let reply = server.client().line("COMMAND DOCS");
    let group = |facts: &Value| {
        let facts = items(facts).chunks(2);
        facts.filter(|fact| text(&fact[0]) == "GROUP").map(|fact| text(&fact[1]).to_lowercase()).next().unwrap_or_default()
    };
    let all = items(&reply).chunks(2).map(|entry| (text(&entry[0]), group(&entry[1])));
    all.filter(|(_, group)| GROUPS.contains(&group.as_str())).collect()
}

fn named() -> BTreeSet<String> {
    rows().iter().flat_map(Row::names).collect()
}

#[test]
fn each_writing_command_of_redis_has_a_row() {
    let server = Server::start(&Program::Redis, &[]);
    let (writing, named) = (writing(&server), named());
    let wanted = grouped(&server).into_iter().filter(|(name, group)| group == "transactions" || writing.contains(name));
    let wanted: BTreeSet<String> = wanted.map(|(name, _)| name).collect();
    assert!(wanted.contains("SET") && wanted.contains("HDEL") && wanted.contains("WATCH"), "COMMAND says {wanted:?}");
    let missing: Vec<&String> = wanted.difference(&named).collect();
    // Exactly those: the list shrinks as they come.
    assert_eq!(missing, WAITING, "without a row in docs/effects.md");
}

#[test]
fn each_writing_command_of_ours_has_a_row() {
    let server = Server::start(&Program::Almandine, &[]);
    let (writing, named) = (writing(&server), named());
    assert!(writing.contains("SETWITHETAG") && writing.contains("FLUSHALL"), "COMMAND says {writing:?}");
    let excused = |name: &String| WITHOUT.contains(&name.as_str());
    let missing: Vec<&String> = writing.difference(&named).filter(|name| !excused(name)).collect();
    assert!(missing.is_empty(), "no row in docs/effects.md for {missing:?}");
    let stale: Vec<&&str> = WITHOUT.iter().filter(|name| named.contains(**name) || !writing.contains(**name)).collect();
    assert!(stale.is_empty(), "they have a row, or do not write: {stale:?}");
}
