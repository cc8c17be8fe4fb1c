//! Costs of commands of many keys: twice the keys take twice the steps, not four times as many.
//!
//! Steps are counted, not time (`almandine_base::steps`), by every loop whose length follows what a client sends or has sent.

use crate::rig::{Rig, request};

/// More than a waiter leaves at once, so that half of them is no other case.
const KEYS: usize = 2000;

fn keys(count: usize) -> impl Iterator<Item = String> {
    (0..count).map(|number| format!("k{number}"))
}

fn words(text: &str) -> impl Iterator<Item = String> {
    text.split_whitespace().map(str::to_owned)
}

/// Some words, `count` keys, and the words behind them.
fn with_keys(before: &str, count: usize, after: &str) -> String {
    request(words(before).chain(keys(count)).chain(words(after)))
}

/// What a case does before its steps are counted, and what is counted.
type Case = (fn(&mut Rig, usize), fn(&mut Rig, usize));

fn steps(case: Case, count: usize) -> u64 {
    let mut rig = Rig::new();
    let (prepare, work) = case;
    prepare(&mut rig, count);
    rig.steps(|rig| work(rig, count))
}

fn assert_linear(name: &str, case: Case) {
    let (once, twice) = (steps(case, KEYS), steps(case, 2 * KEYS));
    assert!(once >= KEYS as u64, "{name}: only {once} steps of {KEYS} keys are counted");
    // A logarithm of twice as much is one more.
    assert!(twice <= once * 11 / 5, "{name}: {once} steps for {KEYS} keys, {twice} for twice as many");
}

/// A client waits: it is not answered.
fn waits(rig: &mut Rig, requests: &str) {
    let client = rig.open();
    assert_eq!(rig.send(client, requests), "");
}

fn ok(rig: &mut Rig, client: usize, requests: &str) {
    assert_eq!(rig.send(client, requests), "+OK\r\n");
}

fn nothing(_: &mut Rig, _: usize) {}

fn blpop(rig: &mut Rig, count: usize) {
    waits(rig, &with_keys("BLPOP", count, "0"));
}

fn xread(rig: &mut Rig, count: usize) {
    waits(rig, &request(words("XREAD BLOCK 0 STREAMS").chain(keys(count)).chain((0..count).map(|_| "$".to_owned()))));
}

fn groups(rig: &mut Rig, count: usize) {
    let client = rig.open();
    keys(count).for_each(|key| ok(rig, client, &request(["XGROUP", "CREATE", &key, "g", "$", "MKSTREAM"])));
}

fn xreadgroup(rig: &mut Rig, count: usize) {
    let ids = (0..count).map(|_| ">".to_owned());
    waits(rig, &request(words("XREADGROUP GROUP g c BLOCK 0 STREAMS").chain(keys(count)).chain(ids)));
}

#[test]
fn waiting_for_many_keys_is_linear() {
    assert_linear("BLPOP", (nothing, blpop));
    assert_linear("BLMPOP", (nothing, |rig, count| waits(rig, &with_keys(&format!("BLMPOP 0 {count}"), count, "LEFT"))));
    assert_linear("BZPOPMIN", (nothing, |rig, count| waits(rig, &with_keys("BZPOPMIN", count, "0"))));
    assert_linear("BZMPOP", (nothing, |rig, count| waits(rig, &with_keys(&format!("BZMPOP 0 {count}"), count, "MAX"))));
    assert_linear("XREAD", (nothing, xread));
    assert_linear("XREADGROUP", (groups, xreadgroup));
}

#[test]
fn ends_of_waits_for_many_keys_are_linear() {
    assert_linear("a client of BLPOP vanishes", (blpop, |rig, _| rig.close(0)));
    let serve = |rig: &mut Rig, _: usize| {
        let client = rig.open();
        assert_eq!(rig.send(client, &request(["LPUSH", "k7", "element"])), ":1\r\n");
        rig.close(0);
    };
    assert_linear("a client of BLPOP is served", (blpop, serve));
    let crowd = |rig: &mut Rig, count: usize| (0..count).for_each(|_| blpop(rig, 1));
    assert_linear("many clients of one key vanish", (crowd, |rig, count| (0..count).for_each(|client| rig.close(client))));
    assert_linear(
        "the last of many clients come first",
        (crowd, |rig, count| (0..count).rev().for_each(|client| rig.close(client))),
    );
}

#[test]
fn databases_change_below_many_waited_keys_in_linear_steps() {
    let elsewhere = |rig: &mut Rig, count: usize| {
        blpop(rig, count);
        let client = rig.open();
        rig.send(client, &request(["SELECT", "1"]));
        keys(count).for_each(|key| _ = rig.send(client, &request(["RPUSH", &key, "element"])));
    };
    assert_linear("SWAPDB", (elsewhere, |rig, _| ok(rig, 1, &request(["SWAPDB", "0", "1"]))));
    assert_linear(
        "FLUSHALL",
        (blpop, |rig, _| {
            let client = rig.open();
            ok(rig, client, &request(["FLUSHALL"]));
        }),
    );
}

fn watch(rig: &mut Rig, count: usize) {
    let client = rig.open();
    ok(rig, client, &with_keys("WATCH", count, ""));
}

#[test]
fn watching_many_keys_is_linear() {
    assert_linear("WATCH", (nothing, watch));
    assert_linear("WATCH again", (watch, |rig, count| ok(rig, 0, &with_keys("WATCH", count, ""))));
    assert_linear("UNWATCH", (watch, |rig, _| ok(rig, 0, &request(["UNWATCH"]))));
    let exec = |rig: &mut Rig, _: usize| _ = rig.send(0, &[request(["MULTI"]), request(["PING"]), request(["EXEC"])].concat());
    assert_linear("EXEC", (watch, exec));
    assert_linear("a client that watches vanishes", (watch, |rig, _| rig.close(0)));
    let crowd = |rig: &mut Rig, count: usize| (0..count).for_each(|_| watch(rig, 1));
    assert_linear("many clients watch one key", (nothing, crowd));
    assert_linear("clients that watch one key vanish", (crowd, |rig, count| (0..count).for_each(|client| rig.close(client))));
    assert_linear("SWAPDB", (watch, |rig, _| ok(rig, 0, &request(["SWAPDB", "0", "1"]))));
}

/// What an acknowledgement, or a consumer that is heard of, changes serves no waiter.
#[test]
fn what_makes_nothing_ready_looks_at_no_waiter() {
    fn prepare(rig: &mut Rig, count: usize) {
        let client = rig.open();
        ok(rig, client, &request(words("XGROUP CREATE s g 0 MKSTREAM")));
        rig.send(client, &request(words("XADD s 1-1 a 1")));
        rig.send(client, &request(words("XREADGROUP GROUP g c STREAMS s >")));
        (0..count).for_each(|_| waits(rig, &request(words("XREADGROUP GROUP g c BLOCK 0 STREAMS s >"))));
    }
    let cases: [Case; 5] = [
        (prepare, |rig, _| assert_eq!(rig.send(0, &request(words("XACK s g 1-1"))), ":1\r\n")),
        (prepare, |rig, _| assert_eq!(rig.send(0, &request(words("XCLAIM s g e 0 9-9"))), "*0\r\n")),
        (prepare, |rig, _| {
            assert_eq!(rig.send(0, &request(words("XAUTOCLAIM s g e 1000000 0"))), "*3\r\n$3\r\n0-0\r\n*0\r\n*0\r\n")
        }),
        (prepare, |rig, _| assert_eq!(rig.send(0, &request(words("XGROUP CREATECONSUMER s g d"))), ":1\r\n")),
        (prepare, |rig, _| waits(rig, &request(words("XREADGROUP GROUP g e BLOCK 0 STREAMS s >")))),
    ];
    for (number, case) in cases.into_iter().enumerate() {
        let (once, twice) = (steps(case, 100), steps(case, 200));
        assert!(once < 100 && twice < once + 10, "case {number}: {once} steps beside 100 waiters, {twice} beside twice as many");
    }
}

/// Large values are copied before their keys are latched, where they will be stored, as far as that is known then. GETSET is the
/// control: its key is latched before it runs.
#[test]
fn a_large_set_copies_nothing_under_its_latch() {
    const BYTES: usize = 100_000;
    let copied = |before: &str, command: &str, bytes: usize| {
        let mut rig = Rig::new();
        let client = rig.open();
        before.split_terminator(';').for_each(|command| _ = rig.send(client, &request(words(command))));
        let long = "v".repeat(bytes);
        let request = request(words(command).map(|word| if word == "LONG" { long.clone() } else { word }));
        rig.steps(|rig| assert!(!rig.send(client, &request).starts_with('-')))
    };
    for (before, command) in [
        ("", "SET k LONG"),
        ("SET k v", "SET k LONG XX"),
        ("SET k v", "SET k LONG KEEPTTL GET"),
        ("SET k v", "SET k LONG IFEQ v PX 100000"),
        ("SET k v", "SET k LONG IFEQ other"),
        ("", "SET k LONG NX"),
        ("SET k v", "SET k LONG NX"),
        ("", "MSET k LONG l v"),
        ("", "MSETNX k LONG l v"),
        ("SET l v", "MSETNX k LONG l v"),
        ("", "MSETEX 2 k LONG l v"),
        ("", "MSETEX 2 k LONG l v NX PX 100000"),
        ("SET k v", "MSETEX 1 k LONG XX KEEPTTL"),
        ("SET k v", "MSETEX 2 k LONG l v XX"),
    ] {
        let (once, twice) = (copied(before, command, BYTES), copied(before, command, 2 * BYTES));
        assert!(once < 200 && twice < 200, "{command}: {once} steps of {BYTES} bytes, {twice} of twice as many");
    }
    assert!(copied("", "GETSET k LONG", BYTES) >= BYTES as u64, "what is copied under a latch is counted");
}

#[test]
fn many_paused_clients_vanish_in_linear_steps() {
    let paused = |rig: &mut Rig, count: usize| {
        let client = rig.open();
        ok(rig, client, &request(["CLIENT", "PAUSE", "100000"]));
        (0..count).for_each(|_| waits(rig, &request(["SET", "k", "value"])));
    };
    assert_linear("disconnect", (paused, |rig, count| (1..=count).for_each(|client| rig.close(client))));
}
