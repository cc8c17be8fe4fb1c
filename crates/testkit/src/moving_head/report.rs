//! What a run found.

use std::collections::BTreeMap;
use std::fmt;

use super::explain::{Asked, KeyHistory};
use super::op::State;
use crate::Value;

/// Breaches that are shown.
const SHOWN: usize = 6;

/// What a run did and found.
#[derive(Debug, Default)]
pub struct Report {
    /// Keys that two connections wrote at the same time.
    pub raced_keys: usize,
    /// Commands whose replies were checked.
    pub commands: usize,
    /// Bytes that others overwrote meanwhile.
    pub churned_bytes: usize,
    /// Keys whose replies no order explains.
    pub unexplained: usize,
    /// Keys that were not as they had been left.
    pub changed: usize,
    /// DBSIZE where it was wrong.
    pub sizes: Vec<String>,
    /// The first breaches.
    pub shown: Vec<String>,
    /// Keys that each database must hold at the end.
    pub keys_left: BTreeMap<usize, i64>,
}

impl Report {
    /// All breaches.
    #[must_use]
    pub fn breaches(&self) -> usize {
        self.unexplained + self.changed + self.sizes.len()
    }

    pub(super) fn add(&mut self, other: Self) {
        self.raced_keys += other.raced_keys;
        self.commands += other.commands;
        self.unexplained += other.unexplained;
        self.changed += other.changed;
        self.shown.extend(other.shown);
        self.shown.truncate(SHOWN);
        self.keys_left.extend(other.keys_left);
    }

    /// Notes a key whose history is wrong.
    pub(super) fn breach(&mut self, history: &KeyHistory, earlier: &str) {
        *if history.raced { &mut self.unexplained } else { &mut self.changed } += 1;
        if self.shown.len() < SHOWN {
            self.shown.push(format!("{}{earlier}", describe(history)));
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { raced_keys, commands, churned_bytes, unexplained, changed, .. } = self;
        let megabytes = churned_bytes / 1_000_000;
        writeln!(f, "{raced_keys} keys raced, {commands} commands checked beside {megabytes} MB of other writes:")?;
        write!(f, "{unexplained} keys that no order explains, {changed} changed later, {} sizes wrong", self.sizes.len())?;
        self.sizes.iter().chain(&self.shown).try_for_each(|text| write!(f, "\n{text}"))
    }
}

fn describe(history: &KeyHistory) -> String {
    let how = if history.raced { "at the same time" } else { "one after the other" };
    let mut text = format!("key {} held {}; {how}:", history.key, held(&history.before));
    for (name, side) in ["first client", "second client"].iter().zip(&history.sides) {
        text += &format!("\n  {name}: {}", line(side));
    }
    text + &format!("\n  then: {}", line(&history.after))
}

fn held(state: &State) -> String {
    state.as_ref().map_or("nothing".to_owned(), |(bytes, until)| format!("{} (expiry {until:?})", short(bytes)))
}

fn line(asked: &[Asked]) -> String {
    let one = |asked: &Asked| {
        let reply = match &asked.reply {
            Value::Bulk(bytes) => short(bytes),
            other => other.to_string(),
        };
        format!("{:?} -> {reply}", asked.op)
    };
    asked.iter().map(one).collect::<Vec<_>>().join(", ")
}

/// Long values as the beginnings of their parts.
fn short(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let parts: Vec<&str> =
        text.split_inclusive('>').map(|part| part.trim_start_matches(|c: char| c.is_ascii_lowercase())).collect();
    let shown: String = parts.concat().chars().take(120).collect();
    format!("{shown:?}×{}", bytes.len())
}
