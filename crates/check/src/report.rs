//! What was found, as text or as JSON.

use std::io::{self, Write};

use almandine_oplog::Fault;
use serde_json::{Map, Value, json};

/// How it ends; the number is the exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// All is whole.
    Whole = 0,
    /// Something is missing or damaged.
    Damaged = 1,
    /// It could not look.
    CouldNotLook = 3,
}

/// Lines for a reader, and the same for a program.
#[derive(Debug, Default)]
pub(crate) struct Report {
    lines: Vec<String>,
    fields: Map<String, Value>,
}

impl Report {
    /// A line of text, and a field with its name.
    pub(crate) fn say(&mut self, name: &str, value: impl Into<Value>, line: impl Into<String>) {
        self.fields.insert(name.to_owned(), value.into());
        self.lines.push(line.into());
    }

    /// A line of text, and an element of the list with this name.
    pub(crate) fn list(&mut self, name: &str, element: Value, line: impl Into<String>) {
        if let Some(list) = self.fields.entry(name).or_insert_with(|| json!([])).as_array_mut() {
            list.push(element);
        }
        self.lines.push(line.into());
    }

    /// What went wrong.
    pub(crate) fn fail(&mut self, fault: &Fault) -> Outcome {
        let (outcome, kind) = match fault {
            Fault::Damaged { .. } | Fault::BaseDamaged { .. } => (Outcome::Damaged, "damaged"),
            Fault::Missing { .. } => (Outcome::Damaged, "missing"),
            Fault::Unknown { .. } => (Outcome::CouldNotLook, "unknown"),
            Fault::Key { .. } => (Outcome::CouldNotLook, "key"),
            Fault::Locked(_) => (Outcome::CouldNotLook, "locked"),
            Fault::Io { .. } | Fault::Stopped => (Outcome::CouldNotLook, "error"),
        };
        let mut told = json!({ "kind": kind, "text": fault.to_string() });
        if let Fault::Damaged { path, offset, .. } | Fault::BaseDamaged { path, offset, .. } | Fault::Unknown { path, offset, .. } =
            fault
        {
            told["file"] = json!(path.to_string_lossy());
            told["offset"] = json!(offset);
        }
        self.say("fault", told, fault.to_string());
        outcome
    }

    /// Writes it to the standard output.
    pub(crate) fn print(mut self, as_json: bool, outcome: Outcome) -> io::Result<()> {
        let mut out = io::stdout().lock();
        if as_json {
            self.fields.insert("whole".to_owned(), json!(outcome == Outcome::Whole));
            return writeln!(out, "{}", Value::Object(self.fields));
        }
        self.lines.iter().try_for_each(|line| writeln!(out, "{line}"))
    }
}
