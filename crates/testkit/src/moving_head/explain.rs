//! The checker: whether some order of a key's operations accounts for all replies.

use super::op::{Op, State, Until};
use crate::Value;

/// An operation and its reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asked {
    /// What was asked.
    pub op: Op,
    /// What was answered.
    pub reply: Value,
}

/// What two connections did to one key, from a known state, and what was read when both were done.
#[derive(Clone, Debug)]
pub struct KeyHistory {
    /// The key.
    pub key: String,
    /// What it held.
    pub before: State,
    /// The operations of each connection, in its order.
    pub sides: [Vec<Asked>; 2],
    /// Whether the two overlapped in time; else the first had ended when the second began.
    pub raced: bool,
    /// Read after both.
    pub after: Vec<Asked>,
}

/// Whether an order of the two connections' operations, each connection's own order kept, accounts for all replies.
#[must_use]
pub fn explain(history: &KeyHistory) -> bool {
    search(history, [0, 0], 0, &history.before)
}

fn search(history: &KeyHistory, done: [usize; 2], read: usize, state: &State) -> bool {
    // What ends soon may have ended; nothing brings it back.
    if matches!(state, Some((_, Until::Soon))) && search(history, done, read, &None) {
        return true;
    }
    let rest = [&history.sides[0][done[0]..], &history.sides[1][done[1]..]];
    if rest[0].is_empty() && rest[1].is_empty() {
        let Some(asked) = history.after.get(read) else { return true };
        return next(asked, state).is_some_and(|state| search(history, done, read + 1, &state));
    }
    let may_run = [true, history.raced || rest[0].is_empty()];
    (0..2).any(|side| {
        let mut done = done;
        done[side] += 1;
        let asked = rest[side].first().filter(|_| may_run[side]);
        asked.and_then(|asked| next(asked, state)).is_some_and(|state| search(history, done, read, &state))
    })
}

/// The state behind an operation, if it can have answered so.
fn next(asked: &Asked, state: &State) -> Option<State> {
    let mut state = state.clone();
    let expected = asked.op.apply(&mut state);
    let same = match (asked.op, &asked.reply) {
        (Op::Pttl, Value::Integer(left)) => expected == Value::Integer(if *left < 0 { *left } else { 1 }),
        (_, reply) => *reply == expected,
    };
    same.then_some(state)
}

#[cfg(test)]
mod tests {
    use super::super::op::Text;
    use super::*;

    fn text(number: u64) -> Text {
        Text { number, len: 4 }
    }

    fn ok(op: Op) -> Asked {
        Asked { op, reply: Value::ok() }
    }

    fn integer(op: Op, reply: i64) -> Asked {
        Asked { op, reply: Value::Integer(reply) }
    }

    fn get(value: Option<&[u8]>) -> Asked {
        Asked { op: Op::Get, reply: value.map_or(Value::NullBulk, |v| Value::Bulk(v.to_vec())) }
    }

    fn history(before: State, a: &[Asked], b: &[Asked], after: &[Asked]) -> KeyHistory {
        KeyHistory { key: "k".to_owned(), before, sides: [a.to_vec(), b.to_vec()], raced: true, after: after.to_vec() }
    }

    fn held(bytes: &[u8]) -> State {
        Some((bytes.to_vec(), Until::Never))
    }

    #[test]
    fn either_order_of_a_race_is_accepted_and_a_lost_write_is_not() {
        let (append, set) = (Op::Append(text(1)), Op::Set(text(2)));
        let first = history(held(b"old"), &[integer(append, 7)], &[ok(set)], &[get(Some(b"<2>c"))]);
        let second = history(held(b"old"), &[integer(append, 8)], &[ok(set)], &[get(Some(b"<2>c<1>b"))]);
        let lost = history(held(b"old"), &[integer(append, 7)], &[ok(set)], &[get(Some(b"old<1>b"))]);
        assert_eq!([&first, &second, &lost].map(explain), [true, true, false]);
    }

    #[test]
    fn what_was_deleted_does_not_return() {
        let gone = history(held(b"old"), &[integer(Op::Del, 1)], &[], &[get(None), integer(Op::Pttl, -2)]);
        let back = history(held(b"old"), &[integer(Op::Del, 1)], &[], &[get(Some(b"old"))]);
        assert_eq!([&gone, &back].map(explain), [true, false]);
        let twice = history(held(b"old"), &[integer(Op::Del, 1)], &[integer(Op::Unlink, 1)], &[get(None)]);
        assert!(!explain(&twice));
    }

    #[test]
    fn increments_are_unique_and_dense() {
        let of = |a: [i64; 2], b: [i64; 2], last: &[u8]| {
            history(held(b"10"), &a.map(|n| integer(Op::Incr, n)), &b.map(|n| integer(Op::Incr, n)), &[get(Some(last))])
        };
        assert!(explain(&of([11, 13], [12, 14], b"14")));
        assert!(!explain(&of([11, 13], [11, 14], b"14")));
        assert!(!explain(&of([11, 13], [12, 15], b"15")));
        assert!(!explain(&of([11, 12], [13, 14], b"13")));
    }

    #[test]
    fn short_expiries_end_and_long_ones_stay() {
        let soon = Op::SetSoon(text(1), 5);
        for after in [get(None), get(Some(b"<1>b"))] {
            assert!(explain(&history(None, &[ok(soon)], &[], &[after])));
        }
        let back = history(None, &[ok(soon)], &[], &[get(None), get(Some(b"<1>b"))]);
        let lasting = history(None, &[ok(Op::SetFar(text(1)))], &[], &[get(Some(b"<1>b")), integer(Op::Pttl, -1)]);
        assert_eq!([&back, &lasting].map(explain), [false, false]);
    }

    #[test]
    fn without_overlap_only_one_order_is_accepted() {
        let mut relay = history(None, &[ok(Op::Set(text(1)))], &[ok(Op::Set(text(2)))], &[get(Some(b"<1>b"))]);
        assert!(explain(&relay));
        relay.raced = false;
        assert!(!explain(&relay));
    }
}
