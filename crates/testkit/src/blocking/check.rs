//! The checker: whether some order of what was done explains all answers.

use std::fmt::Write as _;

use super::command::{Action, normal};
use super::model::{Moment, State, Waiter};
use super::record::Entry;
use super::search::{Call, Stuck, search};
use crate::Value;
use crate::history::expiry::CLOCK_SLACK_NS;
use crate::value::command_line;
use crate::witness::Moments;

/// Checks the history of a group that starts with no keys. Returns how many commands and transactions it checked.
///
/// # Errors
/// A report of what was done around the first answer that no order explains.
pub fn check(entries: &[Entry]) -> Result<usize, String> {
    let replies: Vec<Option<Value>> = entries.iter().map(|entry| entry.reply.as_ref().map(normal)).collect();
    let call = |entry: &Entry| {
        let lost = entry.reply.is_none();
        let Entry { client, called_ns, arrived_ns, returned_ns, witness, .. } = *entry;
        match witness {
            None => Call { client, called_ns, arrived_ns, returned_ns, lost },
            Some(Moments { from_ns, waits_ns, until_ns, .. }) => {
                let arrived_ns = waits_ns.or(arrived_ns);
                Call { client, called_ns: from_ns, arrived_ns, returned_ns: until_ns.unwrap_or(returned_ns), lost }
            }
        }
    };
    let calls: Vec<Call> = entries.iter().map(call).collect();
    let checker = Checker { entries, replies: &replies };
    let found = search(&calls, |number, state, now_ns, states| checker.step(number, state, now_ns, states));
    found.map(|()| entries.len()).map_err(|stuck| report(entries, &stuck))
}

struct Checker<'h> {
    entries: &'h [Entry],
    replies: &'h [Option<Value>],
}

impl<'h> Checker<'h> {
    /// Whether a command may have been answered so.
    fn agrees(&self, number: usize, answer: &Value) -> bool {
        self.replies[number].as_ref().is_none_or(|reply| reply == answer)
    }

    fn waiter(&self, number: usize) -> Waiter<'h> {
        let Entry { client, action: Action::One(command), .. } = &self.entries[number] else { unreachable!("only commands wait") };
        Waiter { client: *client, command, reply: self.replies[number].as_ref() }
    }

    /// The states after the next step of a pending command.
    fn step(&self, number: usize, from: &State, now_ns: u64, states: &mut Vec<State>) {
        let entry = &self.entries[number];
        if from.waiting.contains(&number) {
            if self.may_leave(number, now_ns) {
                states.push(left(from, number, entry.client));
            }
            return;
        }
        if let Action::Unblock(connection, with_error) = entry.action {
            self.unblock(number, (connection, with_error), from, states);
            return;
        }
        let moment = Moment { called_ns: entry.called_ns, returned_ns: entry.returned_ns.min(now_ns) };
        for mut state in from.beginnings(moment) {
            // When a key was to expire is known no better than from the command's own call and return.
            let own = Moment { returned_ns: entry.returned_ns, ..moment };
            let answer = match &entry.action {
                Action::One(command) if command.blocks() => {
                    let Some(answer) = state.attempt(command, command.awaited()) else {
                        state.waiting.push(number);
                        states.push(state);
                        continue;
                    };
                    answer
                }
                Action::One(command) => state.run(command, own),
                Action::Exec(commands) | Action::Script(_, commands) | Action::Mixed(_, commands) => {
                    Value::Array(commands.iter().map(|command| state.run(command, own)).collect())
                }
                Action::Unblock(..) => unreachable!("see above"),
            };
            if self.agrees(number, &answer) {
                state.ended |= 1 << entry.client;
                state.serve(|waiter| self.waiter(waiter), moment, states);
            }
        }
    }

    /// Whether a command that waits may cease to by itself: its time is over, or its connection has ended.
    fn may_leave(&self, number: usize, now_ns: u64) -> bool {
        let entry = &self.entries[number];
        if entry.witness.and_then(|moments| moments.leaves_ns).is_some_and(|leaves_ns| now_ns < leaves_ns) {
            return false;
        }
        match &self.replies[number] {
            None => true,
            Some(Value::Null) => entry.timeout_ms > 0 && now_ns + CLOCK_SLACK_NS >= entry.called_ns + entry.timeout_ms * 1_000_000,
            Some(_) => false,
        }
    }

    fn unblock(&self, number: usize, (connection, with_error): (u64, bool), from: &State, states: &mut Vec<State>) {
        let target = from.waiting.iter().copied().find(|waiter| self.entries[*waiter].connection == connection);
        if !self.agrees(number, &Value::Integer(i64::from(target.is_some()))) {
            return;
        }
        let mut state = from.clone();
        if let Some(target) = target {
            let answer = if with_error { Value::Error(b"UNBLOCKED".to_vec()) } else { Value::Null };
            if !self.agrees(target, &answer) {
                return;
            }
            state = left(&state, target, self.entries[target].client);
        }
        state.ended |= 1 << self.entries[number].client;
        states.push(state);
    }
}

/// A state without one that waited in it.
fn left(from: &State, number: usize, client: usize) -> State {
    let mut state = from.clone();
    state.waiting.retain(|waiter| *waiter != number);
    state.ended |= 1 << client;
    state
}

fn report(entries: &[Entry], stuck: &Stuck) -> String {
    const BEFORE: usize = 60;
    let mut text = "no order explains these answers:\n".to_owned();
    let recent = stuck.before[stuck.before.len().saturating_sub(BEFORE)..].iter().map(|number| ("before ", *number));
    let pending = stuck.pending.iter().map(|number| ("pending", *number));
    for (label, number) in recent.chain(pending).chain([("FAILED ", stuck.failed)]) {
        let Entry { client, connection, called_ns, arrived_ns, returned_ns, timeout_ms, action, reply, .. } = &entries[number];
        let commands: Vec<String> = action.words(*timeout_ms, 0).iter().map(|words| command_line(words)).collect();
        let commands = commands.join("; ");
        let reply = reply.as_ref().map_or("lost".to_owned(), |reply| normal(reply).to_string());
        let arrived = arrived_ns.map_or(String::new(), |at| format!(", seen at {at}"));
        let _ = writeln!(
            text,
            "  {label} client {client:2} (connection {connection}), {called_ns:>12} to {returned_ns:>12} ns{arrived}: \
             {commands} → {reply}"
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::super::command::{Command, End, KEYS};
    use super::*;

    const MS: u64 = 1_000_000;
    const A: usize = 0;
    const B: usize = 1;

    fn entry(client: usize, from_ms: u64, to_ms: u64, action: Action, reply: Option<Value>) -> Entry {
        let (called_ns, returned_ns) = (from_ms * MS, to_ms * MS);
        let (connection, arrived_ns, witness) = (client as u64, None, None);
        Entry { client, connection, called_ns, arrived_ns, returned_ns, witness, timeout_ms: 50, action, reply }
    }

    fn number(element: u32) -> Value {
        Value::Bulk(element.to_string().into_bytes())
    }

    fn popped(key: &str, element: u32) -> Value {
        Value::Array(vec![Value::Bulk(key.into()), number(element)])
    }

    /// BLPOP of `a`, which is seen to wait five milliseconds after its call.
    fn pops(client: usize, from_ms: u64, to_ms: u64, reply: Option<Value>) -> Entry {
        let command = Command::BlockingPop(vec![A], End::Left);
        Entry { arrived_ns: Some((from_ms + 5) * MS), ..entry(client, from_ms, to_ms, Action::One(command), reply) }
    }

    fn push(client: usize, at_ms: u64, key: usize, elements: &[u32]) -> Entry {
        let command = Command::Push(key, End::Right, elements.to_vec());
        entry(client, at_ms, at_ms + 2, Action::One(command), Some(Value::Integer(elements.len() as i64)))
    }

    fn range(client: usize, at_ms: u64, key: usize, elements: &[u32]) -> Entry {
        let reply = Value::Array(elements.iter().copied().map(number).collect());
        entry(client, at_ms, at_ms + 1, Action::One(Command::Range(key)), Some(reply))
    }

    fn holds(entries: &[Entry]) -> bool {
        check(entries).is_ok()
    }

    #[test]
    fn who_was_seen_to_wait_first_is_served_first() {
        let waiters = |first, second| [pops(0, 0, 35, Some(popped("a", first))), pops(1, 10, 35, Some(popped("a", second)))];
        let pushed = [push(2, 20, A, &[1]), push(2, 25, A, &[2])];
        assert!(holds(&[waiters(1, 2), pushed.clone()].concat()));
        assert!(!holds(&[waiters(2, 1), pushed.clone()].concat()), "the second one has overtaken the first");
        let mut unseen = waiters(2, 1);
        unseen[0].arrived_ns = None;
        assert!(holds(&[unseen, pushed.clone()].concat()), "nobody knows who was first");
        assert!(!holds(&[waiters(1, 1), pushed].concat()), "one element for two");
    }

    #[test]
    fn nobody_waits_beside_a_list_that_has_elements() {
        assert!(!holds(&[pops(0, 0, 55, Some(Value::Null)), push(1, 20, A, &[1])]), "its waking was lost");
        assert!(!holds(&[pops(0, 0, 55, Some(Value::Null)), push(1, 20, A, &[1]), range(2, 60, A, &[1])]));
        assert!(holds(&[pops(0, 0, 55, Some(Value::Null)), push(1, 53, A, &[1]), range(2, 60, A, &[1])]));
        assert!(!holds(&[pops(0, 0, 30, Some(Value::Null))]), "its time was not over");
    }

    #[test]
    fn an_element_is_lost_only_with_a_connection_whose_end_was_not_seen() {
        let pushed = [push(1, 20, A, &[1]), range(1, 40, A, &[])];
        assert!(holds(&[&[pops(0, 0, 30, None)][..], &pushed].concat()), "it was handed to one that was killed");
        assert!(!holds(&[&[pops(0, 0, 15, None)][..], &pushed].concat()), "that had ended before");
        assert!(!holds(&pushed), "nobody has taken it");
        let kept = [push(1, 20, A, &[1]), range(1, 40, A, &[1])];
        assert!(holds(&[&[pops(0, 0, 30, None)][..], &kept].concat()), "it was killed before");
    }

    #[test]
    fn chains_are_followed_at_once_and_in_order() {
        let moves = |client, from_ms, element| {
            let command = Command::BlockingMove(A, B, End::Left, End::Right);
            let moved = entry(client, from_ms, 40, Action::One(command), Some(number(element)));
            Entry { arrived_ns: Some((from_ms + 3) * MS), ..moved }
        };
        let command = Command::BlockingPop(vec![B], End::Left);
        let end = entry(2, 0, 40, Action::One(command), Some(popped("b", 1)));
        let end = Entry { arrived_ns: Some(5 * MS), ..end };
        let pushed = push(3, 20, A, &[1, 2]);
        assert!(holds(&[moves(0, 0, 1), moves(1, 5, 2), end.clone(), pushed.clone(), range(3, 30, B, &[2])]));
        assert!(!holds(&[moves(0, 0, 2), moves(1, 5, 1), end.clone(), pushed.clone(), range(3, 30, B, &[2])]));
        assert!(!holds(&[moves(0, 0, 1), moves(1, 5, 2), end, pushed, range(3, 30, B, &[1, 2])]), "the second step was not taken");
    }

    #[test]
    fn waiters_are_served_when_the_transaction_has_ended() {
        let exec = |commands| {
            let replies = Value::Array(vec![Value::Integer(1), Value::Integer(2)]);
            entry(1, 20, 22, Action::Exec(commands), Some(replies))
        };
        let pushes = || vec![Command::Push(A, End::Right, vec![1]), Command::Push(A, End::Left, vec![2])];
        assert!(holds(&[pops(0, 0, 30, Some(popped("a", 2))), exec(pushes()), range(1, 40, A, &[1])]));
        assert!(!holds(&[pops(0, 0, 30, Some(popped("a", 1))), exec(pushes()), range(1, 40, A, &[2])]), "between its commands");
    }

    #[test]
    fn one_claim_decides_between_an_element_and_the_end_of_waiting() {
        let unblock = |at_ms, reply| entry(2, at_ms, at_ms + 4, Action::Unblock(0, true), Some(Value::Integer(reply)));
        let freed = || Some(Value::Error(b"UNBLOCKED client unblocked via CLIENT UNBLOCK".to_vec()));
        let kept = [push(1, 20, A, &[1]), range(1, 40, A, &[1])];
        assert!(holds(&[&[pops(0, 0, 30, freed()), unblock(19, 1)][..], &kept].concat()));
        assert!(!holds(&[&[pops(0, 0, 30, freed()), unblock(19, 0)][..], &kept].concat()), "it says that it did not");
        let taken = [push(1, 20, A, &[1]), range(1, 40, A, &[])];
        assert!(holds(&[&[pops(0, 0, 30, Some(popped("a", 1))), unblock(19, 0)][..], &taken].concat()));
        assert!(!holds(&[&[pops(0, 0, 30, Some(popped("a", 1))), unblock(19, 1)][..], &taken].concat()), "both have claimed it");
        assert!(!holds(&[&[pops(0, 0, 30, freed()), unblock(19, 1)][..], &taken].concat()), "the element went with it");
    }

    #[test]
    fn lists_that_come_by_other_ways_wake() {
        let with = |command, reply: Value| entry(1, 20, 22, Action::One(command), Some(reply));
        let waits = || pops(0, 10, 30, Some(popped("a", 1)));
        let other = push(1, 0, B, &[1]);
        let renamed = with(Command::Rename(B, A), Value::ok());
        assert!(holds(&[other.clone(), waits(), renamed.clone()]));
        assert!(!holds(&[other.clone(), pops(0, 10, 61, Some(Value::Null)), renamed]));
        let copied = with(Command::Copy(B, A), Value::Integer(1));
        assert!(holds(&[other.clone(), waits(), copied, range(1, 40, B, &[1])]));
        let elsewhere = push(1, 0, A + KEYS / 2, &[1]);
        let swapped = with(Command::Swap, Value::ok());
        assert!(holds(&[elsewhere.clone(), waits(), swapped.clone()]));
        assert!(!holds(&[elsewhere, pops(0, 10, 61, Some(Value::Null)), swapped]));
        let restored = with(Command::Restore(A, vec![1, 2], Vec::new()), Value::ok());
        assert!(holds(&[waits(), restored, range(1, 40, A, &[2])]));
    }

    #[test]
    fn what_has_expired_wakes_nobody() {
        let expire = |reply| {
            let commands = vec![Command::Push(A, End::Right, vec![1]), Command::Expire(A, 10)];
            entry(1, 0, 1, Action::Exec(commands), Some(reply))
        };
        let set = || expire(Value::Array(vec![Value::Integer(1), Value::Integer(1)]));
        assert!(holds(&[
            set(),
            entry(1, 30, 31, Action::One(Command::Rename(A, A)), Some(Value::Error(b"ERR no such key".to_vec())))
        ]));
        assert!(!holds(&[set(), pops(0, 30, 40, Some(popped("a", 1)))]), "it had expired");
        assert!(holds(&[set(), pops(0, 30, 81, Some(Value::Null))]));
    }
}
