//! After a restart: which commands of a client are there?

use super::commands::Command;
use super::journal::Journal;
use super::state::{self, State};
use crate::{Client, Server, Value};

/// Commands that the reference is given at once.
const BATCH: usize = 500;
/// From a database of the reference to that which keeps what was there before.
const BEFORE: u16 = 8;
/// Commands that a report shows.
const SHOWN: usize = 12;

/// The comparison of one database.
#[derive(Clone, Copy, Debug)]
pub struct Check<'c> {
    /// The server that was killed and started again.
    pub server: &'c Server,
    /// redis-server, whose databases have all that was kept in the rounds before.
    pub reference: &'c Server,
    /// The database.
    pub db: u16,
}

impl Check<'_> {
    /// Gives the reference the commands that the server has kept, and returns how many those are; the first ones were promised.
    ///
    /// # Errors
    /// When no number of commands from the promised to the sent ones leads to what the server has.
    ///
    /// # Panics
    /// When a server does not answer.
    pub fn run(self, journal: &Journal, promised: usize) -> Result<usize, String> {
        let found = state::read(&mut self.client(self.server));
        let mut reference = self.client(self.reference);
        copy(&mut reference, self.db, self.db + BEFORE);
        apply(&mut reference, &journal.sent[..promised]);
        let mut nearest = Vec::new();
        for kept in promised..=journal.sent.len() {
            let expected = state::read(&mut reference);
            if expected == found {
                return Ok(kept);
            }
            let difference = differences(&found, &expected);
            if nearest.is_empty() || difference.len() < nearest.len() {
                nearest = difference;
            }
            if let Some(next) = journal.sent.get(kept) {
                apply(&mut reference, std::slice::from_ref(next));
            }
        }
        let from = promised.saturating_sub(SHOWN / 2);
        let around: Vec<String> = (from..)
            .zip(journal.sent[from..].iter().take(SHOWN))
            .map(|(at, command)| format!("{at}: {}", command.words()))
            .collect();
        copy(&mut reference, self.db + BEFORE, self.db);
        let earlier = (0..promised).find(|&kept| {
            let is_there = state::read(&mut reference) == found;
            apply(&mut reference, &journal.sent[kept..=kept]);
            is_there
        });
        let earlier = earlier.map_or(String::new(), |kept| format!(" It is the state after {kept} commands."));
        Err(format!(
            "{promised} commands promised, {} acknowledged, {} sent, and no number between gives what is there.{earlier} \
             At best these keys differ:\n{}\n{}",
            journal.acknowledged,
            journal.sent.len(),
            nearest.join("\n"),
            around.join("\n")
        ))
    }

    fn client(self, server: &Server) -> Client {
        let mut client = server.client();
        let _ = client.line(&format!("SELECT {}", self.db));
        client
    }
}

/// Copies a database in place of another one, and selects the lower one of the two.
fn copy(client: &mut Client, from: u16, to: u16) {
    let _ = client.line(&format!("SELECT {to}"));
    let _ = client.line("FLUSHDB");
    let _ = client.line(&format!("SELECT {from}"));
    let Value::Array(keys) = client.line("KEYS *") else { panic!("KEYS gives an array") };
    for key in keys.iter().filter_map(Value::bytes) {
        let _ = client.call(&[b"COPY", key, key, b"DB", to.to_string().as_bytes()]).expect("the reference replies");
    }
    let _ = client.line(&format!("SELECT {}", from.min(to)));
}

fn apply(client: &mut Client, commands: &[Command]) {
    for batch in commands.chunks(BATCH) {
        let mut wire = Vec::new();
        batch.iter().for_each(|command| command.encode(&mut wire));
        // The replies are short, so that both directions never fill up.
        client.send_raw(&wire).expect("the reference takes commands");
        for _ in 0..batch.iter().map(Command::replies).sum() {
            let _ = client.receive().expect("the reference replies");
        }
    }
}

/// Keys that differ, cut short.
fn differences(found: &State, expected: &State) -> Vec<String> {
    let cut = |value: Option<&String>| value.map_or("nothing".to_owned(), |text| text.chars().take(300).collect());
    let keys = found.keys().chain(expected.keys().filter(|key| !found.contains_key(*key)));
    keys.filter(|key| found.get(*key) != expected.get(*key))
        .map(|key| format!("{}: found {}, expected {}", String::from_utf8_lossy(key), cut(found.get(key)), cut(expected.get(key))))
        .collect()
}
