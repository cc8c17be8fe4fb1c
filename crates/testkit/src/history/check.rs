//! The linearizability checker of histories of single operations.

use std::fmt::Write as _;

use super::record::History;
use super::search::{Call, Stuck, search};
use crate::value::command_line;

/// Checks one history that starts with no keys. Returns how many operations it checked.
///
/// # Errors
/// A report of the operations around the first answer that no order explains.
pub fn check(history: &History) -> Result<usize, String> {
    let entries = &history.entries;
    let call = |entry: &super::Entry| Call {
        client: entry.client,
        called_ns: entry.witness.map_or(entry.called_ns, |moments| moments.from_ns),
        returned_ns: match entry.witness {
            Some(moments) => moments.until_ns,
            None => entry.reply.as_ref().map(|_| entry.returned_ns),
        },
    };
    let calls: Vec<Call> = entries.iter().map(call).collect();
    let found = search(&calls, vec![None; history.kind.keys()], |number, state, _, states| {
        let (entry, mut state) = (&entries[number], state.clone());
        let answer = entry.op.apply(&mut state);
        if entry.reply.as_ref().is_none_or(|reply| *reply == answer) {
            states.push(state);
        }
    });
    found.map(|()| entries.len()).map_err(|stuck| report(history, &stuck))
}

fn report(history: &History, stuck: &Stuck) -> String {
    let keys: Vec<Vec<u8>> = (0..history.kind.keys()).map(|k| format!("key{k}").into_bytes()).collect();
    let mut text = format!("no order of operations on a {:?} explains these answers:\n", history.kind);
    for (label, number) in stuck.around() {
        let e = &history.entries[number];
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
    use super::super::record::Entry;
    use super::*;
    use crate::Value;

    fn entry(client: usize, called_ns: u64, returned_ns: u64, op: Op, reply: Value) -> Entry {
        Entry { client, connection: 0, place: 0, called_ns, returned_ns, witness: None, op, reply: Some(reply) }
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
