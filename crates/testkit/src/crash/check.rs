//! After a restart: which commands of a client are there?

use super::commands::Command;
use super::journal::Journal;
use super::state::{self, State};
use crate::{Client, Server};

/// Commands that the reference is given at once.
const BATCH: usize = 500;
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
    /// Gives the reference the commands that the server has kept, and returns how many those are.
    ///
    /// # Errors
    /// When no number of commands from the acknowledged to the sent ones leads to what the server has.
    ///
    /// # Panics
    /// When a server does not answer.
    pub fn run(self, journal: &Journal) -> Result<usize, String> {
        let found = state::read(&mut self.client(self.server));
        let mut reference = self.client(self.reference);
        apply(&mut reference, &journal.sent[..journal.acknowledged]);
        let mut nearest = Vec::new();
        for kept in journal.acknowledged..=journal.sent.len() {
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
        let from = journal.acknowledged.saturating_sub(SHOWN / 2);
        let around: Vec<String> = (from..)
            .zip(journal.sent[from..].iter().take(SHOWN))
            .map(|(at, command)| format!("{at}: {}", command.words()))
            .collect();
        Err(format!(
            "{} commands acknowledged, {} sent, and no number between gives what is there; at best these keys differ:\n{}\n{}",
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
