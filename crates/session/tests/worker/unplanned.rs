//! A command that uses a key which it does not declare.

use almandine_command_spec::{Access, Arg, CommandSpec, Traits};
use almandine_handler::{Command, Handler, Outcome, WriteCall};
use almandine_keyspace::Put;

use crate::rig::{Rig, request};

/// Gives the declared key the value of another one, which it removes.
const TAKE: Command = Command {
    spec: CommandSpec {
        name: "TAKE",
        id: 60_000,
        summary: "Takes the value of a key that it does not declare.",
        args: &[Arg::key("key", Access::Update), Arg::value("other")],
        traits: Traits { write: true, ..Traits::NONE },
        ..CommandSpec::BLANK
    },
    run: Handler::Write(take),
};

fn take(call: &mut WriteCall<'_>) -> Outcome {
    let (own, other) = (call.key(1), call.key(2));
    let value = call.keys.read(other)?.map(|value| value.to_vec()).unwrap_or_default();
    call.keys.delete(other)?;
    call.keys.upsert(own, &value, Put::default())?;
    call.reply.ok();
    Ok(())
}

const KEYS: u64 = 50;

fn words(text: &str) -> String {
    request(text.split_whitespace())
}

#[test]
fn a_command_that_uses_an_undeclared_key_runs_alone() {
    let mut rig = Rig::with(&[&TAKE]);
    let client = rig.open();
    for number in 0..KEYS {
        let lines = [format!("SET other{number} {number}"), format!("TAKE own{number} other{number}"), format!("GET own{number}")];
        let pipeline: String = lines.iter().map(|line| words(line)).collect();
        let value = number.to_string();
        assert_eq!(rig.send(client, &pipeline), format!("+OK\r\n+OK\r\n${}\r\n{value}\r\n", value.len()));
        assert_eq!(rig.send(client, &words(&format!("EXISTS other{number}"))), ":0\r\n");
    }
    // But for a few pairs of keys with one bucket.
    assert!((KEYS - 5..=KEYS).contains(&rig.units_alone()), "{} of {KEYS}", rig.units_alone());
}

#[test]
fn within_a_transaction_it_fails_and_changes_nothing() {
    let mut rig = Rig::with(&[&TAKE]);
    let client = rig.open();
    let mut failed = 0;
    for number in 0..KEYS {
        rig.send(client, &words(&format!("SET other{number} v")));
        let lines =
            ["MULTI".to_owned(), format!("SET c{number} 1"), format!("TAKE own{number} other{number}"), format!("GET c{number}")];
        lines.iter().for_each(|line| drop(rig.send(client, &words(line))));
        let answer = rig.send(client, &words("EXEC"));
        if answer != "*3\r\n+OK\r\n+OK\r\n$1\r\n1\r\n" {
            assert_eq!(answer, "*3\r\n+OK\r\n-ERR the command uses a key that it does not declare\r\n$1\r\n1\r\n");
            assert_eq!(rig.send(client, &words(&format!("EXISTS other{number} own{number}"))), ":1\r\n");
            failed += 1;
        }
    }
    assert!(failed >= KEYS - 5, "{failed} of {KEYS}");
}

#[test]
fn a_script_that_has_changed_nothing_runs_again_alone() {
    let mut rig = Rig::with(&[&TAKE]);
    let client = rig.open();
    let (mut failed, before) = (0, rig.units_alone());
    for number in 0..KEYS {
        let (own, other) = (format!("own{number}"), format!("other{number}"));
        rig.send(client, &words(&format!("SET {other} v")));
        // What it catches is not for it: it reads, takes, and counts how often it has been run.
        let script = "redis.call('GET', KEYS[1]) local taken = redis.pcall('TAKE', KEYS[1], ARGV[1]) \
                      return {taken, redis.call('APPEND', KEYS[1], 'w')}";
        let answer = rig.send(client, &request(["EVAL", script, "1", &own, &other]));
        assert_eq!(answer, "*2\r\n+OK\r\n:2\r\n");
        assert_eq!(rig.send(client, &words(&format!("EXISTS {other}"))), ":0\r\n");
        // One that has written does not run again.
        rig.send(client, &words(&format!("SET {other} v")));
        let script = "redis.call('APPEND', KEYS[1], 'x') return redis.call('TAKE', KEYS[1], ARGV[1])";
        let answer = rig.send(client, &request(["EVAL", script, "1", &own, &other]));
        if answer != "+OK\r\n" {
            assert!(answer.starts_with("-ERR the command uses a key that it does not declare script: "), "{answer}");
            assert_eq!(rig.send(client, &words(&format!("GET {own}"))), "$3\r\nvwx\r\n");
            failed += 1;
        }
    }
    assert!(failed >= KEYS - 5, "{failed} of {KEYS}");
    assert!((KEYS - 5..=KEYS).contains(&(rig.units_alone() - before)), "{} of {KEYS}", rig.units_alone() - before);
}
