//! The linearizability checker: just-in-time linearization.
//!
//! Calls and returns are replayed in the order of time. A *configuration* is a state of the keys and the set of pending
//! operations that have taken effect in it. A call adds a pending operation. At a return the operation must have taken effect, so
//! each configuration is extended by every order of pending operations that ends with it, where every operation must answer
//! what was recorded. No configuration left means that no order explains the history. The cost is exponential only in
//! how many operations are pending at once, not in the length.

use std::collections::HashSet;
use std::fmt::Write as _;

use super::model::State;
use super::record::{Entry, History};
use crate::value::command_line;

type Configuration = (u64, State);

/// Checks one history that starts with no keys. Returns how many operations it checked.
///
/// # Errors
/// A report of the operations around the first answer that no order explains.
pub fn check(history: &History) -> Result<usize, String> {
    let entries = &history.entries;
    let mut events: Vec<(u64, bool, usize)> = Vec::with_capacity(entries.len() * 2);
    for (i, entry) in entries.iter().enumerate() {
        events.push((entry.called_ns, false, i));
        if entry.reply.is_some() {
            events.push((entry.returned_ns, true, i));
        }
    }
    // At equal times calls come first: the weaker claim.
    events.sort_unstable();

    let mut pending: Vec<usize> = Vec::new();
    let mut configurations: HashSet<Configuration> = HashSet::from([(0, vec![None; history.kind.keys()])]);
    for (at, &(_, is_return, entry)) in events.iter().enumerate() {
        if !is_return {
            pending.push(entry);
            continue;
        }
        let bit = 1 << entries[entry].client;
        let mut next = HashSet::new();
        let mut seen = HashSet::new();
        for configuration in configurations.drain() {
            if configuration.0 & bit == 0 {
                extend(configuration, entry, &pending, entries, &mut seen, &mut next);
            } else {
                next.insert((configuration.0 & !bit, configuration.1));
            }
        }
        if next.is_empty() {
            return Err(report(history, &events[..at], &pending, entry));
        }
        configurations = next;
        pending.retain(|p| *p != entry);
    }
    Ok(entries.len())
}

/// Adds to `next` what is reached by pending operations in any order, `last` at the end.
fn extend(
    from: Configuration,
    last: usize,
    pending: &[usize],
    entries: &[Entry],
    seen: &mut HashSet<Configuration>,
    next: &mut HashSet<Configuration>,
) {
    if !seen.insert(from.clone()) {
        return;
    }
    for &candidate in pending {
        let entry = &entries[candidate];
        let bit = 1 << entry.client;
        if from.0 & bit != 0 {
            continue;
        }
        let mut state = from.1.clone();
        let answer = entry.op.apply(&mut state);
        if entry.reply.as_ref().is_some_and(|reply| *reply != answer) {
            continue;
        }
        if candidate == last {
            next.insert((from.0, state));
        } else {
            extend((from.0 | bit, state), last, pending, entries, seen, next);
        }
    }
}

fn report(history: &History, before: &[(u64, bool, usize)], pending: &[usize], failed: usize) -> String {
    let keys: Vec<Vec<u8>> = (0..history.kind.keys()).map(|k| format!("key{k}").into_bytes()).collect();
    let mut text = format!("no order of operations on a {:?} explains these answers:\n", history.kind);
    let done = before.iter().filter(|(_, is_return, _)| *is_return).map(|(_, _, i)| *i);
    let recent: Vec<usize> = done.collect::<Vec<_>>().into_iter().rev().take(12).collect();
    let others = pending.iter().copied().filter(|p| *p != failed);
    for (label, i) in
        recent.into_iter().rev().map(|i| ("before ", i)).chain(others.map(|i| ("pending", i))).chain([("FAILED ", failed)])
    {
        let e = &history.entries[i];
        let reply = e.reply.as_ref().map_or("unknown".to_owned(), ToString::to_string);
        let returned = if e.returned_ns == u64::MAX { "never".to_owned() } else { format!("{} ns", e.returned_ns) };
        let _ = writeln!(
            text,
            "  {label} client {:2}, {:>12} ns to {returned:>15}: {} → {reply}",
            e.client,
            e.called_ns,
            command_line(&e.op.command(&keys))
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::super::model::{Kind, Op};
    use super::*;
    use crate::Value;

    fn entry(client: usize, called_ns: u64, returned_ns: u64, op: Op, reply: Value) -> Entry {
        Entry { client, called_ns, returned_ns, op, reply: Some(reply) }
    }
    fn set(client: usize, from: u64, to: u64, v: &str) -> Entry {
        entry(client, from, to, Op::Set(0, v.into()), Value::ok())
    }
    fn get(client: usize, from: u64, to: u64, v: &str) -> Entry {
        let reply = if v.is_empty() { Value::NullBulk } else { Value::Bulk(v.into()) };
        entry(client, from, to, Op::Get(0), reply)
    }
    fn register(entries: Vec<Entry>) -> Result<usize, String> {
        check(&History { kind: Kind::Register, keys: Vec::new(), entries })
    }

    #[test]
    fn overlapping_operations_may_take_effect_in_either_order() {
        assert!(register(vec![set(0, 0, 100, "a"), get(1, 10, 20, ""), get(1, 30, 40, "a"), get(2, 50, 60, "a")]).is_ok());
        assert!(register(vec![set(0, 0, 100, "a"), set(1, 0, 100, "b"), get(2, 110, 120, "a")]).is_ok());
        assert!(register(vec![set(0, 0, 100, "a"), set(1, 0, 100, "b"), get(2, 110, 120, "b")]).is_ok());
    }

    #[test]
    fn a_stale_read_is_refused() {
        assert!(register(vec![set(0, 0, 10, "a"), set(0, 20, 30, "b"), get(1, 40, 50, "a")]).is_err());
        assert!(register(vec![set(0, 0, 10, "a"), get(1, 20, 30, "")]).is_err());
    }

    #[test]
    fn two_readers_must_agree_on_the_order() {
        let flicker = vec![set(0, 0, 100, "a"), get(1, 10, 20, "a"), get(2, 30, 40, "")];
        assert!(register(flicker).is_err(), "seen, then unseen");
    }

    #[test]
    fn a_lost_update_is_refused() {
        let incr = |client, n| entry(client, 0, 100, Op::Incr(0), Value::Integer(n));
        assert!(check(&History { kind: Kind::Counter, keys: Vec::new(), entries: vec![incr(0, 1), incr(1, 2)] }).is_ok());
        assert!(check(&History { kind: Kind::Counter, keys: Vec::new(), entries: vec![incr(0, 1), incr(1, 1)] }).is_err());
    }

    #[test]
    fn an_operation_without_an_answer_may_have_happened_or_not() {
        let lost = Entry { reply: None, returned_ns: u64::MAX, ..set(0, 0, 0, "a") };
        assert!(register(vec![lost.clone(), get(1, 10, 20, "")]).is_ok());
        assert!(register(vec![lost.clone(), get(1, 10, 20, "a")]).is_ok());
        assert!(register(vec![lost, get(1, 10, 20, "a"), get(1, 30, 40, "")]).is_err());
    }

    #[test]
    fn a_torn_multi_key_write_is_refused() {
        let b = |v: &str| if v.is_empty() { Value::NullBulk } else { Value::Bulk(v.into()) };
        let mget = |v: [&str; 3]| entry(1, 10, 20, Op::MGet, Value::Array(v.map(b).to_vec()));
        let mset = entry(0, 0, 100, Op::MSet(b"a".to_vec()), Value::ok());
        let run = |e: Vec<Entry>| check(&History { kind: Kind::Group, keys: Vec::new(), entries: e });
        assert!(run(vec![mset.clone(), mget(["a", "a", "a"])]).is_ok());
        assert!(run(vec![mset.clone(), mget(["", "", ""])]).is_ok());
        assert!(run(vec![mset, mget(["a", "", ""])]).is_err());
    }
}
