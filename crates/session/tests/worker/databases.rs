//! Transactions over several databases: SELECT, COPY and MOVE are planned, so that no other worker waits for them.

use crate::rig::{Rig, request};

fn words(text: &str) -> String {
    request(text.split_whitespace())
}

/// MULTI, these commands, EXEC. What EXEC answers, and whether the unit ran alone.
fn exec(rig: &mut Rig, client: usize, commands: &[&str]) -> (String, bool) {
    let before = rig.units_alone();
    assert_eq!(rig.send(client, &words("MULTI")), "+OK\r\n");
    for command in commands {
        assert_eq!(rig.send(client, &words(command)), "+QUEUED\r\n", "{command}");
    }
    let answer = rig.send(client, &words("EXEC"));
    (answer, rig.units_alone() != before)
}

fn planned(rig: &mut Rig, client: usize, commands: &[&str], expected: &str) {
    assert_eq!(exec(rig, client, commands), (expected.to_owned(), false), "{commands:?}");
}

fn get(rig: &mut Rig, db: usize, key: &str) -> String {
    let client = rig.open();
    rig.send(client, &words(&format!("SELECT {db}")));
    let answer = rig.send(client, &words(&format!("GET {key}")));
    rig.close(client);
    answer
}

#[test]
fn select_says_only_where_the_next_keys_are() {
    let mut rig = Rig::new();
    let client = rig.open();
    planned(&mut rig, client, &["SELECT 3"], "*1\r\n+OK\r\n");
    planned(
        &mut rig,
        client,
        &["SET k in3", "SELECT 5", "SET k in5", "GET k", "SELECT 0"],
        "*5\r\n+OK\r\n+OK\r\n+OK\r\n$3\r\nin5\r\n+OK\r\n",
    );
    assert_eq!([3, 5, 0].map(|db| get(&mut rig, db, "k")), ["$3\r\nin3\r\n", "$3\r\nin5\r\n", "$-1\r\n"]);
    // What fails selects nothing.
    let wrong = "-ERR DB index is out of range\r\n";
    let expected = format!("*5\r\n+OK\r\n+OK\r\n{wrong}-ERR value is not an integer or out of range\r\n+OK\r\n");
    planned(&mut rig, client, &["SELECT 2", "SET k in2", "SELECT 16", "SELECT x", "SET l in2"], &expected);
    assert_eq!(get(&mut rig, 2, "l"), "$3\r\nin2\r\n");
    // All in one piece, too.
    let before = rig.units_alone();
    let pipeline = ["MULTI", "SELECT 7", "SET k in7", "EXEC"].map(words).concat();
    assert_eq!(rig.send(client, &pipeline), "+OK\r\n+QUEUED\r\n+QUEUED\r\n*2\r\n+OK\r\n+OK\r\n");
    assert_eq!((rig.units_alone(), get(&mut rig, 7, "k").as_str()), (before, "$3\r\nin7\r\n"));
}

#[test]
fn copy_and_move_name_the_other_database() {
    let mut rig = Rig::new();
    let client = rig.open();
    rig.send(client, &words("SET k v"));
    planned(&mut rig, client, &["COPY k l DB 4", "COPY k l", "COPY k k DB 1 REPLACE DB 2"], "*3\r\n:1\r\n:1\r\n:1\r\n");
    assert_eq!([4, 0].map(|db| get(&mut rig, db, "l")), ["$1\r\nv\r\n", "$1\r\nv\r\n"]);
    assert_eq!([1, 2].map(|db| get(&mut rig, db, "k")), ["$-1\r\n", "$1\r\nv\r\n"]);
    planned(
        &mut rig,
        client,
        &["MOVE k 6", "SELECT 6", "GET k", "MOVE k 6"],
        "*4\r\n:1\r\n+OK\r\n$1\r\nv\r\n-ERR source and destination objects are the same\r\n",
    );
    planned(
        &mut rig,
        client,
        &["COPY k k DB 99", "MOVE k x"],
        "*2\r\n-ERR DB index is out of range\r\n-ERR value is not an integer or out of range\r\n",
    );
    // Together with all that came in one piece.
    let before = rig.units_alone();
    let pipeline = ["MULTI", "MOVE k 8", "EXEC"].map(words).concat();
    assert_eq!(rig.send(client, &pipeline), "+OK\r\n+QUEUED\r\n*1\r\n:1\r\n");
    assert_eq!((rig.units_alone(), get(&mut rig, 8, "k").as_str()), (before, "$1\r\nv\r\n"));
}

#[test]
fn what_moves_into_another_database_is_given_to_the_client_that_waits_there() {
    let mut rig = Rig::new();
    let (waits, client) = (rig.open(), rig.open());
    rig.send(waits, &words("SELECT 4"));
    assert_eq!(rig.send(waits, &words("BLPOP l 0")), "");
    planned(&mut rig, client, &["RPUSH l a b", "MOVE l 4"], "*2\r\n:2\r\n:1\r\n");
    rig.send(client, &words("SELECT 4"));
    assert_eq!(rig.send(client, &words("LRANGE l 0 -1")), "*1\r\n$1\r\nb\r\n");
}

#[test]
fn watched_keys_and_swapped_databases_stay_right() {
    let mut rig = Rig::new();
    let (client, other) = (rig.open(), rig.open());
    rig.send(client, &words("SELECT 1"));
    rig.send(client, &words("WATCH k"));
    rig.send(other, &words("SELECT 1"));
    rig.send(other, &words("SET k v"));
    planned(&mut rig, client, &["SELECT 2", "SET k 2"], "*-1\r\n");
    assert_eq!(get(&mut rig, 2, "k"), "$-1\r\n");
    // Neither has the client selected anything.
    assert_eq!(rig.send(client, &words("GET k")), "$1\r\nv\r\n");
    // Databases that are swapped between MULTI and EXEC are those of EXEC.
    rig.send(client, &words("MULTI"));
    rig.send(client, &words("SELECT 2"));
    rig.send(client, &words("GET k"));
    rig.send(other, &words("SWAPDB 1 2"));
    assert_eq!(rig.send(client, &words("EXEC")), "*2\r\n+OK\r\n$1\r\nv\r\n");
    // A unit that may touch anything is alone still, and follows SELECT as well.
    let (answer, alone) = exec(&mut rig, client, &["SELECT 1", "SWAPDB 1 2", "GET k"]);
    assert_eq!((answer.as_str(), alone), ("*3\r\n+OK\r\n+OK\r\n$1\r\nv\r\n", true));
}

#[test]
fn a_consumer_that_is_given_nothing_changes_no_watched_stream() {
    let mut rig = Rig::new();
    let (client, other) = (rig.open(), rig.open());
    ["XGROUP CREATE s g 0 MKSTREAM", "XADD s 1-1 a 1", "XREADGROUP GROUP g c STREAMS s >"].iter().for_each(|command| {
        rig.send(other, &words(command));
    });
    let mut kept = |command: &str| {
        assert_eq!(rig.send(client, &words("WATCH s")), "+OK\r\n");
        rig.send(other, &words(command));
        exec(&mut rig, client, &["PING"]).0 == "*1\r\n+PONG\r\n"
    };
    for command in ["XREADGROUP GROUP g d STREAMS s >", "XCLAIM s g e 0 9-9", "XAUTOCLAIM s g f 1000000 0"] {
        assert!(kept(command), "{command} gives nothing");
    }
    for command in ["XAUTOCLAIM s g f 0 0", "XACK s g 1-1", "XADD s 2-1 a 1", "XREADGROUP GROUP g d STREAMS s >"] {
        assert!(!kept(command), "{command} changes the stream or its group");
    }
}

#[test]
fn select_that_the_user_may_not_use_selects_nothing() {
    let mut rig = Rig::new();
    let (client, admin) = (rig.open(), rig.open());
    rig.send(client, &words("MULTI"));
    rig.send(client, &words("SELECT 3"));
    rig.send(client, &words("SET k v"));
    assert_eq!(rig.send(admin, &words("ACL SETUSER default -select")), "+OK\r\n");
    let answer = rig.send(client, &words("EXEC"));
    assert!(answer.starts_with("*2\r\n-NOPERM") && answer.ends_with("+OK\r\n"), "{answer}");
    assert_eq!(rig.send(admin, &words("GET k")), "$1\r\nv\r\n");
}
