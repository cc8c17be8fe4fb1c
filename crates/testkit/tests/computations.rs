//! Commands that compute beside others: their results are those of one moment, in order, and others are served meanwhile.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use almandine_testkit::mutants::must_notice;
use almandine_testkit::promises::computations::lose_no_write;
use almandine_testkit::{Client, Program, Server, Value, full};

/// How long a client pauses after an APPEND, and after each eighth.
const PAUSES: [Duration; 2] = [Duration::from_millis(1), Duration::from_millis(40)];

/// Bytes of each source: enough for hundreds of slices.
fn len() -> usize {
    if full() { 128 << 20 } else { 24 << 20 }
}

fn store(client: &mut Client, key: &str, byte: u8, len: usize) {
    let value = vec![byte; len];
    assert_eq!(client.call(&[&b"SET"[..], key.as_bytes(), &value]).expect("a reply"), Value::ok());
}

fn devices() -> [&'static [&'static str]; 2] {
    [&["--workers", "2"], &["--workers", "2", "--storage-dir", "{dir}/s", "--maxmemory", "1gb"]]
}

#[test]
fn results_are_right_alone_in_pipelines_and_in_transactions() {
    for flags in devices() {
        let server = Server::start(&Program::Almandine, flags);
        let mut client = server.client();
        store(&mut client, "a", 0b0011, len());
        store(&mut client, "b", 0b0101, len() / 2);
        let pipeline = [
            &["PING"][..],
            &["BITOP", "XOR", "x", "a", "b"],
            &["STRLEN", "x"],
            &["BITOP", "AND", "a", "a", "none"],
            &["BITCOUNT", "a"],
            &["MULTI"],
            &["BITOP", "NOT", "n", "x"],
            &["GETRANGE", "n", "0", "0"],
            &["EXEC"],
            &["ECHO", "last"],
        ];
        let replies = client.pipeline(&pipeline).expect("replies");
        let whole = Value::Integer(len() as i64);
        assert_eq!(replies[1..5], [whole.clone(), whole.clone(), whole.clone(), Value::Integer(0)]);
        let not = Value::Bulk(vec![!0b0110]);
        assert_eq!(replies[8], Value::Array(vec![whole, not]));
        assert_eq!(replies[9].bytes(), Some(&b"last"[..]));
        let half = len() / 2;
        let ends = [half - 1, half].map(|at| at.to_string());
        let bytes = client.call(&["GETRANGE", "x", &ends[0], &ends[1]]).expect("a reply");
        assert_eq!(bytes.bytes(), Some(&[0b0110, 0b0011][..]));
    }
}

/// Two sources always change together, so a result that has a byte of another kind mixes two moments.
#[test]
fn a_result_is_of_one_moment_whoever_changes_its_sources() {
    let server = Server::start(&Program::Almandine, &["--workers", "2"]);
    let len = len() / 4;
    let (done, rounds) = (AtomicBool::new(false), AtomicUsize::new(0));
    let mut client = server.client();
    store(&mut client, "a", 1, len);
    store(&mut client, "b", 1, len);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut writer = server.client();
            for byte in (1..=255).cycle() {
                if done.load(Ordering::Relaxed) {
                    break;
                }
                let value = vec![byte; len];
                let reply = writer.call(&[&b"MSET"[..], b"a", &value, b"b", &value]).expect("a reply");
                assert_eq!(reply, Value::ok());
                rounds.fetch_add(1, Ordering::Relaxed);
            }
        });
        for _ in 0..60 {
            let reply = client.call(&["BITOP", "XOR", "x", "a", "b"]).expect("a reply");
            assert_eq!(reply, Value::Integer(len as i64));
            assert_eq!(client.call(&["BITCOUNT", "x"]).expect("a reply"), Value::Integer(0), "two moments");
        }
        done.store(true, Ordering::Relaxed);
    });
    assert!(rounds.load(Ordering::Relaxed) > 0, "nobody changed anything");
}

/// The destination is its own source and nothing changes in it, so whatever others append meanwhile must stay.
#[test]
fn what_is_written_meanwhile_is_not_lost() {
    lose_no_write(&Server::start(&Program::Almandine, &["--workers", "2"]).address(), len() / 8, 60, PAUSES);
}

/// A server that writes a result over sources that have changed meanwhile is noticed.
#[test]
fn results_over_changed_sources_are_noticed() {
    must_notice("CompareSources", &["--workers", "2"], 1, |server| lose_no_write(&server.address(), len() / 8, 60, PAUSES));
}

/// While one worker computes, it serves others between the slices; for a client that is gone it computes nothing.
#[test]
fn others_are_served_meanwhile_and_who_is_gone_computes_nothing() {
    let server = Server::start(&Program::Almandine, &["--workers", "1"]);
    let mut client = server.client();
    let names: Vec<String> = (0..8).map(|number| format!("s{number}")).collect();
    names.iter().for_each(|name| store(&mut client, name, 7, len()));
    let mut command = vec!["BITOP", "ONE", "x"];
    // Thousands of slices.
    (0..40).for_each(|_| command.extend(names.iter().map(String::as_str)));
    let mut computing = server.client();
    computing.send(&[&command[..]]).expect("sent");
    // As long as it computes there is no result, and others get theirs.
    let mut served = 0;
    while client.call(&["EXISTS", "x"]).expect("a reply") == Value::Integer(0) {
        served += 1;
    }
    assert!(served > 20, "{served} commands were served beside it");
    assert_eq!(computing.receive().expect("a reply"), Value::Integer(len() as i64));
    client.call(&["DEL", "x"]).expect("a reply");
    computing.send(&[&command[..]]).expect("sent");
    assert_eq!(client.call(&["EXISTS", "x"]).expect("a reply"), Value::Integer(0));
    drop(computing);
    // Its end is seen between two slices, or at its end.
    let connected = |client: &mut Client| {
        let info = client.call(&["INFO", "clients"]).expect("a reply");
        let info = String::from_utf8_lossy(info.bytes().expect("text")).into_owned();
        info.lines().find_map(|line| line.strip_prefix("connected_clients:").map(str::to_owned)).expect("a number")
    };
    for _ in 0..2_000 {
        if connected(&mut client) == "1" {
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("a client that has gone is still connected");
}

/// Keys `from..to` of a database, each with a number and these bytes at its end.
fn fill(client: &mut Client, keys: std::ops::Range<usize>, end: &str) {
    let names: Vec<String> = keys.map(|number| format!("{number}:{end}")).collect();
    for names in names.chunks(1000) {
        let words: Vec<&str> = std::iter::once("MSET").chain(names.iter().flat_map(|name| [name.as_str(), "v"])).collect();
        assert_eq!(client.call(&words).expect("a reply"), Value::ok());
    }
}

/// KEYS goes through the database beside others: what stays is there once, whatever comes and goes.
#[test]
fn keys_that_stay_are_listed_once_and_others_are_served_meanwhile() {
    let count = if full() { 2_000_000 } else { 200_000 };
    for flags in devices() {
        let server = Server::start(&Program::Almandine, &[&flags[2..], &["--workers", "1"]].concat());
        let mut client = server.client();
        fill(&mut client, 0..count, "stays");
        let (mut lists, mut round, mut served, mut beside) = (server.client(), 0, 0_usize, 0);
        // A busy machine serves few in a round.
        while round < 6 || beside <= 12 && round < 60 {
            let before = served;
            lists.send(&[["KEYS", "*:stays"], ["PING", ""]]).expect("sent");
            // The index grows meanwhile, and what is listed moves.
            while !is_answered(&lists) {
                let (key, other) = (format!("{served}:goes"), format!("{}:stays", served * 7919 % count));
                assert_eq!(client.call(&["SET", &key, "v"]).expect("a reply"), Value::ok());
                assert_eq!(client.call(&["SET", &other, &key.repeat(served % 64)]).expect("a reply"), Value::ok());
                served += 1;
            }
            let Value::Array(listed) = lists.receive().expect("a reply") else { panic!("no list") };
            assert_eq!(lists.receive().expect("a reply").bytes(), Some(&b""[..]), "what is behind it comes behind it");
            let mut numbers: Vec<usize> = texts(&Value::Array(listed)).iter().map(|key| number_of(key)).collect();
            numbers.sort_unstable();
            assert!(numbers.iter().copied().eq(0..count), "round {round}: {} of {count} keys", numbers.len());
            // Two of a round may come before it or behind it.
            beside += (served - before).saturating_sub(2);
            round += 1;
        }
        assert!(beside > 12, "{beside} times others were served beside it, in {round} rounds");
    }
}

/// Whether something has come for a client.
fn is_answered(client: &Client) -> bool {
    let stream = client.stream();
    stream.set_nonblocking(true).expect("a socket");
    let peeked = stream.peek(&mut [0]);
    stream.set_nonblocking(false).expect("a socket");
    match peeked {
        Ok(bytes) => bytes > 0,
        Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => false,
        Err(error) => panic!("{error}"),
    }
}

fn number_of(key: &str) -> usize {
    key.split_once(':').and_then(|(number, _)| number.parse().ok()).expect("a number")
}

/// A database that is emptied, or becomes another one, is listed anew: nothing of two is in one list.
#[test]
fn a_list_of_keys_is_of_one_database() {
    let count = 40_000;
    let server = Server::start(&Program::Almandine, &["--workers", "2"]);
    let mut client = server.client();
    fill(&mut client, 0..count, "one");
    assert_eq!(client.line("SWAPDB 0 1"), Value::ok());
    fill(&mut client, 0..count, "two");
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut swaps = server.client();
            while !done.load(Ordering::Relaxed) {
                assert_eq!(swaps.line("SWAPDB 0 1"), Value::ok());
                std::thread::sleep(Duration::from_micros(700));
            }
        });
        let mut lists = Vec::new();
        for _ in 0..60 {
            let listed = texts(&client.call(&["KEYS", "*"]).expect("a reply"));
            lists.push((listed.len(), listed.iter().filter(|key| key.ends_with("one")).count()));
        }
        // Before what may fail, so that the other thread ends.
        done.store(true, Ordering::Relaxed);
        assert!(lists.iter().all(|&(len, ones)| len == count && (ones == 0 || ones == count)), "two in one: {lists:?}");
        assert!([0, count].iter().all(|of| lists.iter().any(|(_, ones)| ones == of)), "never the other: {lists:?}");
    });
    fill(&mut client, 0..count, "left");
    client.send(&[["KEYS", "*"]]).expect("sent");
    let mut other = server.client();
    assert_eq!(other.line("FLUSHALL"), Value::ok());
    let listed = texts(&client.receive().expect("a reply")).len();
    assert!(listed == 0 || listed >= count, "{listed} keys of a database that was emptied");
}

/// Sorted sets together: what is computed in slices is what is computed at once, inside a transaction.
#[test]
fn sorted_sets_together_are_the_same_in_slices_and_at_once() {
    let server = Server::start(&Program::Almandine, &["--workers", "2", "--enable-debug-command", "yes"]);
    let mut client = server.client();
    let members = if full() { 1_000_000 } else { 40_000 };
    for (key, step) in [("a", 1), ("b", 2), ("c", 3)] {
        for from in (0..members).step_by(1000) {
            let mut words = vec!["ZADD".to_owned(), key.to_owned()];
            for number in from..from + 1000 {
                words.extend([(number * 7919 % 10_007).to_string(), format!("member:{}", number * step)]);
            }
            assert_eq!(client.call(&words.iter().map(String::as_str).collect::<Vec<_>>()).expect("a reply"), Value::Integer(1000));
        }
    }
    let number = |value: &Value| value.integer().expect("a number") as usize;
    for (command, least) in [
        (&["ZUNIONSTORE", "x", "3", "a", "b", "c", "WEIGHTS", "1", "2", "0.5"][..], members),
        (&["ZINTERSTORE", "x", "2", "a", "b", "AGGREGATE", "MAX"], members / 2),
        (&["ZDIFFSTORE", "x", "3", "a", "b", "c"], members / 4),
        (&["ZRANGESTORE", "x", "a", "1000", "-1000", "REV"], members - 1999),
        (&["ZUNIONSTORE", "x", "1", "a", "AGGREGATE", "COUNT"], members),
    ] {
        let len = number(&client.call(command).expect("a reply"));
        assert!(len >= least, "{command:?} has {len}");
        let digest = client.call(&["DEBUG", "DIGEST-VALUE", "x"]).expect("a reply");
        let replies = client
            .pipeline(&[&["MULTI"][..], &["DEL", "x"], command, &["DEBUG", "DIGEST-VALUE", "x"], &["EXEC"]])
            .expect("replies");
        assert_eq!(replies[4].elements().expect("an array")[1..], [Value::Integer(len as i64), digest], "{command:?}");
        assert_eq!(client.call(&["ZCARD", "x"]).expect("a reply"), Value::Integer(len as i64));
    }
    let union = client.call(&["ZUNION", "2", "a", "b", "WITHSCORES"]).expect("a reply");
    assert_eq!(
        client.call(&["ZUNIONSTORE", "x", "2", "a", "b"]).expect("a reply"),
        Value::Integer(union.elements().expect("an array").len() as i64 / 2)
    );
    assert_eq!(client.call(&["ZRANGE", "x", "0", "-1", "WITHSCORES"]).expect("a reply"), union);
    let shared = number(&client.call(&["ZINTERCARD", "2", "a", "c"]).expect("a reply"));
    assert_eq!(
        (shared, client.call(&["ZINTERCARD", "2", "a", "c", "LIMIT", "7"]).expect("a reply")),
        (members.div_ceil(3), Value::Integer(7))
    );
}

/// Numbers that are in no order, each once.
fn shuffled(len: u64) -> Vec<u64> {
    // Odd, so that it visits all; len is a power of two.
    (0..len).map(|number| number.wrapping_mul(0x9E37_79B9) % len).collect()
}

fn texts(reply: &Value) -> Vec<String> {
    let text = |one: &Value| String::from_utf8_lossy(one.bytes().unwrap_or_default()).into_owned();
    let Value::Array(all) = reply else { panic!("not an array: {reply:?}") };
    all.iter().map(text).collect()
}

#[test]
fn many_elements_are_sorted_in_each_way() {
    let len = 1 << 17;
    for flags in devices() {
        let server = Server::start(&Program::Almandine, flags);
        let mut client = server.client();
        let numbers = shuffled(len);
        for part in numbers.chunks(4096) {
            let words: Vec<String> = part.iter().map(u64::to_string).collect();
            let fill =
                |name: &'static str, key: &'static str| [name, key].into_iter().chain(words.iter().map(String::as_str)).collect();
            let scored = words.iter().flat_map(|word| ["7", word.as_str()]);
            let fills: [Vec<&str>; 3] = [fill("RPUSH", "l"), fill("SADD", "s"), ["ZADD", "z"].into_iter().chain(scored).collect()];
            fills.iter().for_each(|fill| drop(client.call(fill).expect("a reply")));
        }
        let sorted: Vec<String> = (0..len).map(|number| number.to_string()).collect();
        let mut by_bytes = sorted.clone();
        by_bytes.sort_unstable();
        for key in ["l", "s", "z"] {
            assert!(texts(&client.call(&["SORT", key]).expect("a reply")) == sorted, "{key}");
            assert!(texts(&client.call(&["SORT_RO", key, "ALPHA"]).expect("a reply")) == by_bytes, "{key} by bytes");
            let last = client.call(&["SORT", key, "DESC", "LIMIT", "1", "2", "GET", "#", "GET", "none"]).expect("a reply");
            assert_eq!(texts(&last), [&sorted[len as usize - 2], "", &sorted[len as usize - 3], ""]);
            assert_eq!(
                client.call(&["SORT", key, "LIMIT", "5", "100000", "STORE", "d"]).expect("a reply"),
                Value::Integer(100_000)
            );
            assert!(texts(&client.call(&["LRANGE", "d", "0", "-1"]).expect("a reply")) == sorted[5..100_005], "{key} stored");
        }
        let plain = texts(&client.call(&["SORT", "l", "BY", "nosort", "DESC"]).expect("a reply"));
        assert!(plain.iter().rev().eq(numbers.iter().map(u64::to_string).collect::<Vec<_>>().iter()), "backwards");
        let block = [&["MULTI"][..], &["SORT", "l", "STORE", "e"], &["SORT", "l", "LIMIT", "0", "1"], &["EXEC"]];
        let replies = client.pipeline(&block).expect("replies");
        assert_eq!(replies[3], Value::Array(vec![Value::Integer(len as i64), Value::Array(vec![Value::Bulk(b"0".to_vec())])]));
        client.call(&["RPUSH", "l", "x"]).expect("a reply");
        assert!(client.call(&["SORT", "l", "STORE", "d"]).expect("a reply").is_error(), "one of them is no number");
        assert_eq!(client.call(&["LLEN", "d"]).expect("a reply"), Value::Integer(100_000), "an error changes nothing");
    }
}

/// A list that is turned all the time has the same elements at every moment.
#[test]
fn what_is_sorted_is_of_one_moment() {
    let (len, done) = (1u64 << 17, AtomicBool::new(false));
    let server = Server::start(&Program::Almandine, &["--workers", "2"]);
    let mut client = server.client();
    for part in shuffled(len).chunks(4096) {
        let words: Vec<String> = part.iter().map(u64::to_string).collect();
        client.call(&["RPUSH", "l"].into_iter().chain(words.iter().map(String::as_str)).collect::<Vec<_>>()).expect("a reply");
    }
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut writer = server.client();
            while !done.load(Ordering::Relaxed) {
                writer.call(&["LMOVE", "l", "l", "LEFT", "RIGHT"]).expect("a reply");
            }
        });
        for _ in 0..10 {
            assert_eq!(client.call(&["SORT", "l", "STORE", "d"]).expect("a reply"), Value::Integer(len as i64));
            let ends =
                client.pipeline(&[&["LINDEX", "d", "0"][..], &["LINDEX", "d", "77777"], &["LINDEX", "d", "-1"]]).expect("replies");
            assert_eq!(texts(&Value::Array(ends)), ["0".to_owned(), "77777".to_owned(), (len - 1).to_string()]);
        }
        done.store(true, Ordering::Relaxed);
    });
}

/// Weights change together, so an order that they do not have together mixes two moments.
#[test]
fn keys_found_at_run_time_are_of_the_same_moment() {
    let done = AtomicBool::new(false);
    let server = Server::start(&Program::Almandine, &["--workers", "2"]);
    let mut client = server.client();
    client.call(&["RPUSH", "l", "a", "b", "c"]).expect("a reply");
    client.call(&["MSET", "w_a", "1", "w_b", "2", "w_c", "3"]).expect("a reply");
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut writer = server.client();
            for weights in [["3", "1", "2"], ["2", "3", "1"], ["1", "2", "3"]].iter().cycle() {
                if done.load(Ordering::Relaxed) {
                    break;
                }
                writer.call(&["MSET", "w_a", weights[0], "w_b", weights[1], "w_c", weights[2]]).expect("a reply");
            }
        });
        for _ in 0..3000 {
            assert_eq!(texts(&client.call(&["SORT_RO", "l", "BY", "w_*", "GET", "w_*"]).expect("a reply")), ["1", "2", "3"]);
            client.call(&["SORT", "l", "BY", "w_*", "DESC", "GET", "w_*", "STORE", "d"]).expect("a reply");
            assert_eq!(texts(&client.call(&["LRANGE", "d", "0", "-1"]).expect("a reply")), ["3", "2", "1"]);
        }
        done.store(true, Ordering::Relaxed);
    });
}

/// What is gathered counts against `maxmemory`: a result that does not fit is refused and leaves nothing behind, one that fits
/// is there.
#[test]
fn a_result_without_room_is_refused_and_its_memory_comes_back() {
    const BUDGET: u64 = 64 << 20;
    let server = Server::start(&Program::Almandine, &["--workers", "2", "--maxmemory", "64mb", "--maxmemory-policy", "noeviction"]);
    let mut client = server.client();
    // Three sets of some 13 MB.
    for set in ["a", "b", "c"] {
        for part in 0..130 {
            let members = (0..1000).map(|number| format!("{set}{part}.{number}{:.<90}", ""));
            let command: Vec<String> = ["SADD".to_owned(), set.to_owned()].into_iter().chain(members).collect();
            assert_eq!(client.call(&command).expect("a reply"), Value::Integer(1000));
        }
    }
    let used = |client: &mut Client| {
        let info = client.call(&["INFO", "memory"]).expect("a reply");
        let text = String::from_utf8_lossy(info.bytes().expect("a text")).into_owned();
        let line = text.lines().find_map(|line| line.strip_prefix("used_memory:")).expect("used_memory");
        line.trim().parse::<u64>().expect("a number")
    };
    let before = used(&mut client);
    assert!(before > BUDGET / 2, "only {before} bytes");
    for command in ["SUNIONSTORE d a b c", "ZUNIONSTORE d 3 a b c", "ZUNION 3 a b c"] {
        let words: Vec<&str> = command.split(' ').collect();
        let reply = client.call(&words).expect("a reply");
        assert!(matches!(&reply, Value::Error(text) if text.starts_with(b"OOM command not allowed")), "{command}: {reply}");
        assert_eq!(client.call(&["EXISTS", "d"]).expect("a reply"), Value::Integer(0));
        let after = (0..100).map(|_| {
            std::thread::sleep(Duration::from_millis(20));
            used(&mut client)
        });
        assert!({ after }.any(|used| used < before + (1 << 20)), "{command}: its memory is still used");
    }
    assert_eq!(client.call(&["SUNIONSTORE", "d", "a"]).expect("a reply"), Value::Integer(130_000));
    assert_eq!(client.call(&["SINTERCARD", "2", "a", "d"]).expect("a reply"), Value::Integer(130_000));
}
