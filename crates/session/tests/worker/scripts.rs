//! How long the scripts of one connection run before the worker looks at the others, and how often those try whose keys show while
//! they run, of which one runs at a time.

use std::collections::VecDeque;

use almandine_keyspace::Accessor;
use almandine_net::Next;

use crate::rig::{Rig, request};

/// Scripts that a client sends together.
const SCRIPTS: usize = 60;

/// Looks that it takes to answer scripts that a client sends together, each with a command before and behind it.
fn looks(script: &str) -> usize {
    let mut rig = Rig::new();
    let client = rig.open();
    let each = request(["INCR", "before"]) + &request(["EVAL", script, "1", "key"]) + &request(["INCR", "behind"]);
    let all = each.repeat(SCRIPTS);
    let (mut rest, mut answered, mut looks) = (&*all, String::new(), 0);
    while !rest.is_empty() {
        let (replies, left) = rig.look(client, rest);
        assert!(left.len() < rest.len(), "each look answers something");
        assert_eq!(rig.next, if left.is_empty() { Next::Continue } else { Next::Await });
        (rest, looks) = (left, looks + 1);
        answered += &replies;
    }
    let number = |number: usize| format!(":{number}\r\n");
    let expected: String = (1..=SCRIPTS).map(|round| number(round).repeat(3)).collect();
    assert_eq!(answered, expected, "each is executed once, in order");
    assert_eq!(rig.units_alone(), 0);
    looks
}

#[test]
fn scripts_that_are_sent_together_let_others_run_between_them() {
    // One that has written is not suspended by itself.
    let work = "for _ = 1, 4 do for i = 1, 100000 do local x = i % 7 end end return n";
    for key in ["KEYS[1]", "string.lower('KEY')"] {
        let count = looks(&format!("local n = redis.call('INCR', {key}) {work}"));
        assert!(count >= SCRIPTS / 4, "{SCRIPTS} scripts in {count} looks");
    }
}

/// Another worker has a script whose keys show while it runs.
fn begin_growing(rig: &Rig) -> Accessor {
    let mut other = rig.other();
    assert!(other.unit().try_begin_batch(0) && other.unit().try_begin_growing());
    other
}

fn end_growing(other: &mut Accessor) {
    let mut keys = VecDeque::new();
    other.serving().begin(&mut keys);
    assert!(keys.is_empty() && !other.serving().take_over(&mut keys));
    other.unit().end();
    other.end_batch();
}

/// Tries and turns of `clients` scripts that write keys which show while they run, beside another worker that has one for three
/// rounds.
fn tries_and_turns(clients: usize) -> (usize, usize) {
    let mut rig = Rig::new();
    let script = request(["EVAL", "return redis.call('INCR', string.lower('KEY'))", "1", "key"]);
    let mut other = begin_growing(&rig);
    let mut waiting: Vec<usize> = (0..clients).map(|_| rig.open()).collect();
    let (mut tries, mut turns, mut ended) = (0, 0, 0);
    for round in 0.. {
        if round == 3 {
            end_growing(&mut other);
        }
        for client in waiting {
            let (reply, rest) = rig.look(client, &script);
            tries += 1;
            if round < 3 {
                assert_eq!((&*reply, rest, rig.next), ("", &*script, Next::Await));
            } else {
                ended += 1;
                assert_eq!((reply, rest, rig.next), (format!(":{ended}\r\n"), "", Next::Continue));
            }
        }
        turns += usize::from(round >= 3);
        if ended == clients {
            break;
        }
        waiting = rig.work();
    }
    assert_eq!((rig.work(), rig.units_alone()), (Vec::new(), 0));
    (tries, turns)
}

#[test]
fn scripts_that_wait_for_another_one_try_once_in_a_round_and_all_have_their_turn_when_it_has_ended() {
    for clients in [15, 30, 60] {
        assert_eq!(tries_and_turns(clients), (4 * clients, 1));
    }
}

#[test]
fn a_worker_whose_scripts_have_waited_for_long_has_the_next_turn() {
    let mut present = Rig::new();
    let mut waiting = present.beside(1);
    let script = request(["EVAL", "return redis.call('INCR', string.lower('KEY'))", "1", "key"]);
    let (first, second) = (present.open(), waiting.open());
    let run = |rig: &mut Rig, client: usize| rig.look(client, &script).0;
    let mut expected = 0;
    let mut answer = || {
        expected += 1;
        format!(":{expected}\r\n")
    };
    for _ in 0..2 {
        // As long as none has asked for a turn, the first one that finds the place free has it.
        assert_eq!(run(&mut present, first), answer());
        let mut other = begin_growing(&present);
        while !present.instance().scripts.turns.is_asked() {
            assert_eq!(run(&mut waiting, second), "");
        }
        end_growing(&mut other);
        assert_eq!(run(&mut present, first), "", "it is not its turn");
        assert_eq!(run(&mut waiting, second), answer());
        assert_eq!(run(&mut present, first), answer());
        assert_eq!(run(&mut waiting, second), answer(), "it has had its turn, and waits no more");
    }
}

/// Transactions that have run alone, of one with these commands, the replies to which are these.
fn alone(commands: &[&[&str]], replies: &str) -> u64 {
    let mut rig = Rig::new();
    let client = rig.open();
    let load =
        ["FUNCTION", "LOAD", "#!lua name=l\nredis.register_function('f', function(keys) return redis.call('INCR', keys[1]) end)"];
    assert_eq!(rig.send(client, &request(load)), "$1\r\nl\r\n");
    let before = rig.units_alone();
    let all: String =
        [&["MULTI"]].into_iter().map(|words| request(*words)).chain(commands.iter().map(|words| request(*words))).collect();
    let queued = "+QUEUED\r\n".repeat(commands.len());
    assert_eq!(rig.send(client, &all), format!("+OK\r\n{queued}"));
    assert_eq!(rig.send(client, &request(["EXEC"])), format!("*{}\r\n{replies}", commands.len()));
    rig.units_alone() - before
}

#[test]
fn a_transaction_runs_beside_others_if_its_scripts_say_their_keys() {
    let planned = ["EVAL", "return redis.call('INCR', KEYS[1])", "1", "key"];
    let built = ["EVAL", "redis.call('INCR', KEYS[1] .. ':' .. ARGV[1]) return redis.call('GET', 'key:a')", "1", "key", "a"];
    let incr = ["INCR", "key"];
    assert_eq!(alone(&[&planned, &incr, &built, &planned], ":1\r\n:2\r\n$1\r\n1\r\n:3\r\n"), 0);
    // It is run on the database that is selected before it.
    let get = ["GET", "key"];
    assert_eq!(alone(&[&planned, &["SELECT", "1"], &planned, &get], ":1\r\n+OK\r\n:1\r\n$1\r\n1\r\n"), 0);
    let growing = ["EVAL", "return redis.call('INCR', string.lower('KEY'))", "1", "key"];
    assert_eq!(alone(&[&planned, &growing], ":1\r\n:2\r\n"), 1);
    let any = ["EVAL", "return #redis.call('KEYS', '*')", "1", "key"];
    assert_eq!(alone(&[&planned, &any], ":1\r\n:1\r\n"), 1);
    // It may have no end, so that it may have to be suspended.
    let endless = ["EVAL", "local n = 0 while n < 9 do n = n + 1 end return redis.call('EXISTS', KEYS[1]) + n", "1", "key"];
    assert_eq!(alone(&[&planned, &endless], ":1\r\n:10\r\n"), 1);
    // It may take long.
    let nested = ["EVAL", "for i = 1, 3 do for j = 1, 3 do redis.call('INCR', KEYS[1]) end end return 1", "1", "key"];
    assert_eq!(alone(&[&planned, &nested], ":1\r\n:1\r\n"), 1);
    let listed = ["EVAL", "for _, key in ipairs(KEYS) do redis.call('INCR', key) end return 1", "2", "key", "other"];
    assert_eq!(alone(&[&planned, &listed, &get], ":1\r\n:1\r\n$1\r\n2\r\n"), 0);
    // Another one may have its name when the transaction runs.
    assert_eq!(alone(&[&["FCALL", "f", "1", "key"]], ":1\r\n"), 1);
    assert_eq!(
        alone(&[&planned, &["EVAL", "return", "2", "key"]], ":1\r\n-ERR Number of keys can't be greater than number of args\r\n"),
        1
    );
}
