//! The checker: whether some order of the units explains all answers.

use std::fmt::Write as _;

use super::super::search::{Call, Stuck, search};
use super::command::NAMES;
use super::model::{Moment, State};
use super::record::{Entry, History};
use crate::Value;
use crate::value::command_line;

/// Checks one history that starts with no keys. Returns how many units it checked.
///
/// # Errors
/// A report of the units around the first answer that no order explains.
pub fn check(history: &History) -> Result<usize, String> {
    let entries = &history.entries;
    let call = |entry: &Entry| Call {
        client: entry.client,
        called_ns: entry.witness.map_or(entry.called_ns, |moments| moments.from_ns),
        returned_ns: match entry.witness {
            Some(moments) => moments.until_ns,
            None => entry.reply.as_ref().map(|_| entry.returned_ns),
        },
    };
    let calls: Vec<Call> = entries.iter().map(call).collect();
    let clients = entries.iter().map(|entry| entry.client + 1).max().unwrap_or(0);
    let found = search(&calls, State::new(clients), |number, state, before_ns, states| {
        let entry = &entries[number];
        let moment = Moment { client: entry.client, called_ns: entry.called_ns, returned_ns: entry.returned_ns.min(before_ns) };
        if is_refused(entry) {
            // It has changed nothing; but what EXEC watched is forgotten, whatever becomes of it.
            let mut state = state.clone();
            state.refuse(&entry.unit, entry.client);
            states.push(state);
            return;
        }
        for mut state in state.beginnings(moment) {
            // When it was set is known no better than from its own call and return.
            let answer = state.run(&entry.unit, Moment { returned_ns: entry.returned_ns, ..moment });
            if entry.reply.as_ref().is_none_or(|reply| *reply == answer) {
                states.push(state);
            }
        }
    });
    found.map(|()| entries.len()).map_err(|stuck| report(entries, &stuck))
}

/// Whether a unit was not let in, for memory was full.
#[must_use]
pub fn is_refused(entry: &Entry) -> bool {
    let refusals = [&b"OOM"[..], b"EXECABORT"];
    matches!(&entry.reply, Some(Value::Error(text)) if refusals.iter().any(|refusal| text.starts_with(refusal)))
}

fn report(entries: &[Entry], stuck: &Stuck) -> String {
    let names: Vec<String> = (0..NAMES).map(|name| format!("key{name}")).collect();
    let mut text = "no order of units explains these answers:\n".to_owned();
    for (label, number) in stuck.around() {
        let Entry { client, called_ns, returned_ns, unit, reply, .. } = &entries[number];
        let short =
            |text: String| if text.len() > 100 { format!("{}…", text.chars().take(100).collect::<String>()) } else { text };
        let reply = reply.as_ref().map_or("unknown".to_owned(), |reply| short(reply.to_string()));
        let commands: Vec<String> = unit.words(&names, 0).iter().map(|words| short(command_line(words))).collect();
        let (db, commands) = (unit.database(), commands.join("; "));
        let _ = writeln!(
            text,
            "  {label} client {client:2}, {called_ns:>12} to {returned_ns:>12} ns, database {db}: {commands} → {reply}"
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::super::command::{Command, Unit};
    use super::*;

    fn entry(client: usize, called_ns: u64, returned_ns: u64, unit: Unit, reply: Value) -> Entry {
        Entry { client, connection: 0, called_ns, returned_ns, witness: None, unit, reply: Some(reply) }
    }

    fn set(client: usize, from: u64, to: u64, value: &str) -> Entry {
        entry(client, from, to, Unit::One(Command::Set(0, value.into(), None)), Value::ok())
    }

    fn mget(values: [&str; 2]) -> Value {
        Value::Array(values.map(|value| if value.is_empty() { Value::NullBulk } else { Value::Bulk(value.into()) }).to_vec())
    }

    fn run(entries: Vec<Entry>) -> Result<usize, String> {
        check(&History { names: Vec::new(), entries })
    }

    #[test]
    fn half_a_transaction_is_refused() {
        let whole = Unit::Exec(vec![Command::Set(0, "a".into(), None), Command::Set(1, "b".into(), None)]);
        let exec = entry(0, 0, 100, whole, Value::Array(vec![Value::ok(), Value::ok()]));
        let look = |values| entry(1, 10, 20, Unit::One(Command::MGet(0)), mget(values));
        assert!(run(vec![exec.clone(), look(["a", "b"])]).is_ok());
        assert!(run(vec![exec.clone(), look(["", ""])]).is_ok());
        assert!(run(vec![exec, look(["a", ""])]).is_err());
    }

    #[test]
    fn exec_executes_if_and_only_if_nothing_watched_has_changed() {
        let watch = entry(0, 0, 10, Unit::Watch(0), Value::ok());
        let exec = |reply| entry(0, 40, 50, Unit::Exec(vec![Command::Get(0)]), reply);
        let (executed, aborted) = (Value::Array(vec![Value::Bulk(b"x".to_vec())]), Value::NullArray);
        assert!(run(vec![watch.clone(), set(1, 20, 30, "x"), exec(aborted.clone())]).is_ok());
        assert!(run(vec![watch.clone(), set(1, 20, 30, "x"), exec(executed.clone())]).is_err(), "it has changed");
        assert!(run(vec![set(1, 20, 30, "x"), watch.clone(), exec(executed.clone())]).is_err(), "it was watched before");
        assert!(
            run(vec![watch.clone(), set(1, 45, 60, "x"), exec(executed.clone())]).is_err(),
            "it sees what is new, so it was before"
        );
        let late = entry(0, 12, 18, Unit::Watch(0), Value::ok());
        assert!(run(vec![set(1, 0, 10, "x"), late.clone(), exec(executed)]).is_ok());
        assert!(run(vec![set(1, 0, 10, "x"), late, exec(aborted)]).is_err(), "nothing has changed");
    }

    #[test]
    fn a_key_expires_within_the_bounds_of_the_clock_and_once() {
        const MS: u64 = 1_000_000;
        let volatile = entry(0, 0, MS, Unit::One(Command::Set(0, "a".into(), Some(20))), Value::ok());
        let get = |at: u64, value: &str| {
            let reply = if value.is_empty() { Value::NullBulk } else { Value::Bulk(value.into()) };
            entry(1, at, at + MS / 2, Unit::One(Command::Get(0)), reply)
        };
        assert!(run(vec![volatile.clone(), get(10 * MS, "a"), get(40 * MS, "")]).is_ok());
        assert!(run(vec![volatile.clone(), get(10 * MS, "")]).is_err(), "too early");
        assert!(run(vec![volatile.clone(), get(40 * MS, "a")]).is_err(), "too late");
        assert!(run(vec![volatile.clone(), get(20 * MS, "a"), get(21 * MS, "")]).is_ok());
        assert!(run(vec![volatile.clone(), get(20 * MS, ""), get(21 * MS, "a")]).is_err(), "it does not come back");
        let (watch, exec) = (Unit::Watch(0), Unit::Exec(vec![Command::Get(0)]));
        let executed = entry(0, 41 * MS, 42 * MS, exec.clone(), Value::Array(vec![Value::NullBulk]));
        let aborted = entry(0, 41 * MS, 42 * MS, exec, Value::NullArray);
        let early = entry(0, 2 * MS, 3 * MS, watch.clone(), Value::ok());
        assert!(run(vec![volatile.clone(), early.clone(), aborted.clone()]).is_ok());
        assert!(run(vec![volatile.clone(), early, executed.clone()]).is_err(), "it has expired since");
        let late = entry(0, 30 * MS, 31 * MS, watch, Value::ok());
        assert!(run(vec![volatile.clone(), late.clone(), executed]).is_ok());
        assert!(run(vec![volatile, late, aborted]).is_err(), "it had expired before");
    }
}
