//! Scripts beside other clients: units of work of which no other client sees a part, and scripts that run for long.

mod carried;

use std::thread;
use std::time::{Duration, Instant};

use almandine_testkit::mutants::must_notice;
use almandine_testkit::{Client, Program, Server, Value, full};

/// Moves an amount between two accounts, planned: its code says its keys.
const MOVE: &str = "redis.call('DECRBY', KEYS[1], ARGV[1]) return redis.call('INCRBY', KEYS[2], ARGV[1])";
/// The same, planned, in a loop and by a function.
const MOVE_IN_LOOP: &str = "local function add(key, n) return redis.call('INCRBY', key, n) end
    for i, sign in ipairs({-1, 1}) do add(KEYS[i], sign * ARGV[1]) end return 1";
/// The same, planned: its keys are built of what it is given.
const MOVE_BUILT: &str = "local prefix = 'acc' redis.call('DECRBY', prefix .. ARGV[2], ARGV[1])
    return redis.call('INCRBY', prefix .. ARGV[3], ARGV[1])";
/// The same, with a plan that grows out of order: each key shows when it is used.
const MOVE_GROWING: &str =
    "for i, sign in ipairs({-1, 1}) do redis.call('INCRBY', redis.call('ECHO', KEYS[i]), sign * ARGV[1]) end return 1";
/// The same, alone: its code does not say its commands.
const MOVE_ALONE: &str = "local command = redis.call('ECHO', 'INCRBY')
    for i, sign in ipairs({-1, 1}) do redis.call(command, KEYS[i], sign * ARGV[1]) end return 1";
/// What two accounts have, planned.
const BOTH: &str = "return redis.call('GET', KEYS[1]) + redis.call('GET', KEYS[2])";
/// What all accounts have, alone.
const ALL: &str =
    "local sum = 0 for _, key in ipairs(redis.call('KEYS', 'account*')) do sum = sum + redis.call('GET', key) end return sum";
/// The same, with a plan that grows: each key is known when the one before was read.
const ALL_GROWING: &str = "local sum, key = 0, KEYS[1] for i = 1, 6 do
    sum = sum + redis.call('GET', key) key = redis.call('GET', 'behind' .. key) end return sum";

const ACCOUNTS: usize = 6;
const EACH: i64 = 1_000;

fn account(number: usize) -> String {
    format!("account{number}")
}

fn integer(value: &Value) -> i64 {
    match value {
        Value::Integer(value) => *value,
        other => panic!("no integer: {other:?}"),
    }
}

/// Scripts of both classes and transactions move amounts between accounts, while others add all of them up.
#[test]
fn no_sum_ever_misses_what_is_on_its_way() {
    let server = Server::start(&Program::Almandine, &["--workers", "4"]);
    let mut client = server.client();
    for number in 0..ACCOUNTS {
        client.call(&["SET", &account(number), &EACH.to_string()]).expect("a reply");
    }
    client.call(&["MSET", "left", &EACH.to_string(), "right", &EACH.to_string()]).expect("a reply");
    link_accounts(&mut client);
    let rounds = if full() { 20_000 } else { 2_000 };
    thread::scope(|scope| {
        for number in 0..4 {
            let mut client = server.client();
            scope.spawn(move || {
                for round in 0..rounds {
                    let (from, to) = (account((round + number) % ACCOUNTS), account((round * 7 + 1) % ACCOUNTS));
                    let amount = (round % 5).to_string();
                    let reply = match (number + round) % 4 {
                        0 => client.call(&["EVAL", MOVE, "2", &from, &to, &amount]),
                        1 => client.call(&["EVAL", MOVE_IN_LOOP, "2", &from, &to, &amount]),
                        2 if round % 8 == 0 => client.call(&["EVAL", MOVE_ALONE, "2", &from, &to, &amount]),
                        2 if round % 8 == 2 => client.call(&["EVAL", MOVE_GROWING, "2", &from, &to, &amount]),
                        2 if round % 8 == 4 => {
                            client.call(&["EVAL", MOVE_BUILT, "0", &amount, &from["acc".len()..], &to["acc".len()..]])
                        }
                        2 => client.call(&["EVAL", MOVE, "2", "left", "right", "1"]),
                        _ => {
                            for words in [&["MULTI"][..], &["DECRBY", &from, &amount], &["INCRBY", &to, &amount]] {
                                client.call(words).expect("a reply");
                            }
                            client.call(&["EXEC"])
                        }
                    };
                    let reply = reply.expect("a reply");
                    assert!(matches!(reply, Value::Integer(_) | Value::Array(_)), "{reply}");
                }
            });
        }
        for _ in 0..2 {
            let mut client = server.client();
            scope.spawn(move || {
                for round in 0..rounds / 4 {
                    assert_eq!(integer(&client.call(&["EVAL", BOTH, "2", "left", "right"]).expect("a reply")), 2 * EACH);
                    sum_grows_to_all(&mut client);
                    if round % 8 == 0 {
                        let sum = integer(&client.call(&["EVAL", ALL, "0"]).expect("a reply"));
                        assert_eq!(sum, EACH * ACCOUNTS as i64);
                    }
                }
            });
        }
    });
    assert_eq!(integer(&client.call(&["EVAL", ALL, "0"]).expect("a reply")), EACH * ACCOUNTS as i64);
}

/// Each account names the next one, by a key of its own.
fn link_accounts(client: &mut Client) {
    for number in 0..ACCOUNTS {
        let behind = format!("behind{}", account(number));
        client.call(&["SET", &behind, &account((number + 1) % ACCOUNTS)]).expect("a reply");
    }
}

fn sum_grows_to_all(client: &mut Client) {
    let sum = client.call(&["EVAL", ALL_GROWING, "1", &account(0)]).expect("a reply");
    assert_eq!(integer(&sum), EACH * ACCOUNTS as i64);
}

/// What a plan that grows has read is of one moment, while two accounts at a time change.
fn growing_sums_are_whole(server: &Server) {
    let mut client = server.client();
    for number in 0..ACCOUNTS {
        client.call(&["SET", &account(number), &EACH.to_string()]).expect("a reply");
    }
    link_accounts(&mut client);
    thread::scope(|scope| {
        let moving: Vec<_> = (0..2)
            .map(|number| {
                let mut client = server.client();
                scope.spawn(move || {
                    for round in 0..2_000 {
                        let (from, to) = (account((round + number) % ACCOUNTS), account((round * 7 + 1) % ACCOUNTS));
                        client.call(&["EVAL", MOVE, "2", &from, &to, "1"]).expect("a reply");
                    }
                })
            })
            .collect();
        while moving.iter().any(|client| !client.is_finished()) {
            sum_grows_to_all(&mut client);
        }
    });
}

/// How many units have run alone.
fn units_alone(client: &mut Client) -> u64 {
    let info = client.call(&["INFO", "stats"]).expect("a reply").to_string();
    let number = info.split("units_alone:").nth(1).and_then(|rest| rest.split(|byte: char| !byte.is_ascii_digit()).next());
    number.and_then(|number| number.parse().ok()).expect("the counter")
}

/// Scripts whose code says their keys run beside others, in loops and functions, too.
#[test]
fn scripts_that_say_their_keys_do_not_run_alone() {
    let server = Server::start(&Program::Almandine, &["--workers", "2"]);
    let mut client = server.client();
    for (script, alone) in [
        ("return redis.call('GET', KEYS[1])", 0),
        (MOVE, 0),
        (MOVE_IN_LOOP, 0),
        ("local n = 0 for _, key in ipairs(KEYS) do n = n + redis.call('EXISTS', key) end return n", 0),
        ("return redis.call('DEL', unpack(KEYS))", 0),
        ("return pcall(redis.call, 'INCR', KEYS[1])", 0),
        ("local n = 0 while redis.call('LLEN', KEYS[1] .. ARGV[1]) > n do n = n + 1 end return n", 0),
        ("local n = 0 for i = 1, 50 do n = n + redis.call('EXISTS', KEYS[1] .. i) end return n", 0),
        ("local n = 0 for i = 1, 1000 do n = n + redis.call('EXISTS', KEYS[1] .. i) end return n", 1),
        ("return redis.call('MGET', unpack(ARGV))", 0),
        ("for _, id in ipairs(ARGV) do redis.call('DEL', KEYS[1] .. id) end return redis.call('SET', ARGV[1] .. ':x', 1)", 0),
        (MOVE_GROWING, 0),
        (MOVE_ALONE, 1),
    ] {
        let before = units_alone(&mut client);
        let reply = client.call(&["EVAL", script, "2", "from", "to", "1"]).expect("a reply");
        assert!(!matches!(reply, Value::Error(_)) || script.contains("LLEN"), "{script}: {reply}");
        assert_eq!(units_alone(&mut client) - before, alone, "{script}");
    }
}

/// Functions of a library that keeps nothing run beside others, on every worker; what a library keeps is one for all. A library
/// that is replaced or gone is so for every worker at once.
#[test]
fn functions_run_beside_others_unless_their_library_keeps_something() {
    let server = Server::start(&Program::Almandine, &["--workers", "2"]);
    let mut clients: Vec<Client> = (0..4).map(|_| server.client()).collect();
    let pure = |result: &str| {
        format!("#!lua name=pure\nredis.register_function('add', function(keys) redis.call('INCR', keys[1]) return {result} end)")
    };
    let keeps = "#!lua name=keeps\nlocal n = 0 redis.register_function('count', function() n = n + 1 return n end)";
    for code in [&pure("1")[..], keeps] {
        assert!(!is_error(&clients[0].call(&["FUNCTION", "LOAD", code]).expect("a reply"), ""));
    }
    let before = units_alone(&mut clients[0]);
    for client in &mut clients {
        for _ in 0..50 {
            assert_eq!(integer(&client.call(&["FCALL", "add", "1", "key"]).expect("a reply")), 1);
        }
    }
    assert_eq!(units_alone(&mut clients[0]), before);
    assert_eq!(clients[1].call(&["GET", "key"]).expect("a reply"), Value::Bulk(b"200".to_vec()));
    thread::scope(|scope| {
        for client in &mut clients {
            scope.spawn(|| {
                for _ in 0..100 {
                    assert!(integer(&client.call(&["FCALL", "count", "0"]).expect("a reply")) > 0);
                }
            });
        }
    });
    assert_eq!(integer(&clients[2].call(&["FCALL", "count", "0"]).expect("a reply")), 401);
    assert_eq!(units_alone(&mut clients[0]) - before, 401);
    assert!(!is_error(&clients[0].call(&["FUNCTION", "LOAD", "REPLACE", &pure("2")]).expect("a reply"), ""));
    for client in &mut clients {
        assert_eq!(integer(&client.call(&["FCALL", "ADD", "1", "key"]).expect("a reply")), 2);
    }
    assert_eq!(integer(&clients[3].call(&["FCALL", "count", "0"]).expect("a reply")), 402, "the other one goes on");
    clients[0].call(&["FUNCTION", "DELETE", "pure"]).expect("a reply");
    for client in &mut clients {
        assert!(is_error(&client.call(&["FCALL", "add", "1", "key"]).expect("a reply"), "ERR Function not found"));
    }
}

/// A script that its client waits for.
fn begin(server: &Server, script: &str) -> thread::JoinHandle<Value> {
    begin_with(server, script, &[])
}

fn begin_with(server: &Server, script: &str, keys: &[&str]) -> thread::JoinHandle<Value> {
    let (mut client, count) = (server.client(), keys.len().to_string());
    let words = [&["EVAL", script, &count], keys].concat().iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
    thread::spawn(move || client.call(&words).expect("a reply"))
}

fn until(mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < Duration::from_secs(60), "it never holds");
        thread::sleep(Duration::from_millis(20));
    }
}

fn is_error(value: &Value, prefix: &str) -> bool {
    matches!(value, Value::Error(text) if text.starts_with(prefix.as_bytes()))
}

fn hears_busy(client: &mut Client) -> bool {
    is_error(&client.call(&["PING"]).expect("a reply"), "BUSY ")
}

/// While a script runs for long, all connections of all workers hear so where all are to hear; it is killed whatever it catches,
/// and then all is as before.
#[test]
fn a_script_that_never_ends_is_killed() {
    let flags = ["--workers", "2", "--lua-time-limit", "100", "--busy-reply-scope", "node"];
    let server = Server::start(&Program::Almandine, &flags);
    let mut clients: Vec<Client> = (0..6).map(|_| server.client()).collect();
    for script in ["while true do end", "while true do pcall(function() while true do redis.call('PING') end end) end"] {
        let script = begin(&server, script);
        until(|| hears_busy(&mut clients[0]));
        assert!(clients.iter_mut().all(hears_busy));
        assert!(hears_busy(&mut server.client()), "a new connection does, too");
        assert!(is_error(&clients[1].call(&["FUNCTION", "KILL"]).expect("a reply"), "BUSY "));
        assert_eq!(clients[2].call(&["SCRIPT", "KILL"]).expect("a reply"), Value::Simple(b"OK".to_vec()));
        assert!(is_error(&script.join().expect("a reply"), "ERR Script killed by user"));
        assert!(!hears_busy(&mut clients[3]));
    }
    assert!(is_error(&clients[0].call(&["SCRIPT", "KILL"]).expect("a reply"), "NOTBUSY "));
}

/// What a script has written is not cut off: it is not killed, and runs to its end when its client has gone; a client that
/// waits for what it writes is served then.
#[test]
fn a_script_that_has_written_runs_to_its_end() {
    let server = Server::start(&Program::Almandine, &["--workers", "2", "--lua-time-limit", "100"]);
    let (mut client, mut waiter) = (server.client(), server.client());
    waiter.send(&[["BLPOP", "list", "0"]]).expect("sent");
    until(|| client.call(&["INFO", "clients"]).expect("a reply").to_string().contains("blocked_clients:1"));
    // It goes on until a kill that was asked for must have been refused, however fast the machine is.
    let work = "redis.call('RPUSH', 'list', 'a') local start = os.clock() while os.clock() - start < 3 do end \
                redis.call('SET', 'ended', 'yes') return 1";
    let script = begin(&server, work);
    until(|| hears_busy(&mut client));
    assert!(is_error(&client.call(&["SCRIPT", "KILL"]).expect("a reply"), "UNKILLABLE "));
    assert_eq!(script.join().expect("a reply"), Value::Integer(1));
    assert_eq!(waiter.receive().expect("a reply"), Value::Array(vec![Value::Bulk(b"list".to_vec()), Value::Bulk(b"a".to_vec())]));
    client.call(&["DEL", "ended"]).expect("a reply");
    let mut gone = server.client();
    gone.send(&[["EVAL", work, "0"]]).expect("sent");
    until(|| hears_busy(&mut client));
    drop(gone);
    until(|| client.call(&["GET", "ended"]).expect("a reply") == Value::Bulk(b"yes".to_vec()));
}

/// EXEC is suspended with the scripts that it runs: the one worker answers others meanwhile, and what comes behind the script is
/// done when that has ended, also when the client has gone.
#[test]
fn a_transaction_is_suspended_with_its_scripts() {
    let server = Server::start(&Program::Almandine, &["--workers", "1", "--lua-time-limit", "100"]);
    let mut client = server.client();
    let exec = |commands: &[&[&str]]| {
        let mut caller = server.client();
        let words = [&[&["MULTI"][..]], commands, &[&["EXEC"][..]]].concat();
        caller.send(&words).expect("sent");
        assert_eq!(caller.receive().expect("a reply"), Value::ok());
        for _ in commands {
            assert_eq!(caller.receive().expect("a reply"), Value::Simple(b"QUEUED".to_vec()));
        }
        caller
    };
    let (endless, ends) = ("while true do end", "local n = 0 while redis.call('TIME') and n < 1e5 do n = n + 1 end return n");
    let mut caller =
        exec(&[&["INCR", "n"], &["EVAL", endless, "0"], &["INCR", "n"], &["EVAL", "return redis.call('GET', 'n')", "0"]]);
    until(|| hears_busy(&mut client));
    assert!(is_error(&client.call(&["GET", "n"]).expect("a reply"), "BUSY "));
    ok(&mut client, &["SCRIPT", "KILL"]);
    let Value::Array(replies) = caller.receive().expect("a reply") else { panic!("an array") };
    assert!(is_error(&replies[1], "ERR Script killed by user"), "{}", replies[1]);
    assert_eq!([&replies[0], &replies[2], &replies[3]], [&Value::Integer(1), &Value::Integer(2), &Value::Bulk(b"2".to_vec())]);
    assert_eq!(caller.line("PING").to_string(), "+PONG", "it is no transaction any more");
    assert_eq!(client.line("GET n").to_string(), r#"$"2""#);
    // One after the other.
    let mut caller = exec(&[&["EVAL", ends, "0"], &["INCR", "n"], &["EVAL", ends, "0"]]);
    let count = Value::Integer(100_000);
    assert_eq!(caller.receive().expect("a reply"), Value::Array(vec![count.clone(), Value::Integer(3), count]));
    // Its client goes.
    let caller = exec(&[&["EVAL", endless, "0"], &["SET", "n", "ended"]]);
    until(|| hears_busy(&mut client));
    drop(caller);
    ok(&mut client, &["SCRIPT", "KILL"]);
    until(|| client.line("GET n").to_string() == r#"$"ended""#);
    let mut waits = exec(&[&["EVAL", endless, "0"], &["RPUSH", "list", "a"]]);
    until(|| hears_busy(&mut client));
    ok(&mut client, &["SCRIPT", "KILL"]);
    assert!(matches!(waits.receive().expect("a reply"), Value::Array(replies) if replies[1] == Value::Integer(1)));
}

/// How many scripts have been suspended or have run for long is not told, but whether there is one.
fn is_known(client: &mut Client) -> bool {
    client.call(&["FUNCTION", "STATS"]).expect("a reply").to_string().contains("duration_ms")
}

fn ok(client: &mut Client, words: &[&str]) {
    assert_eq!(client.call(words).expect("a reply"), Value::Simple(b"OK".to_vec()), "{words:?}");
}

/// Scripts that never end and have written nothing hold no other up, not even those that change what they read, and no client hears
/// of them; each can be killed, and all of one client's by closing its connection.
#[test]
fn scripts_without_an_end_hold_nobody_up() {
    let server = Server::start(&Program::Almandine, &["--workers", "2", "--lua-time-limit", "1"]);
    let mut client = server.client();
    ok(&mut client, &["SET", "read", "0"]);
    let alone = units_alone(&mut client);
    let endless = [
        "while true do end",
        "while true do pcall(function() while true do redis.call('GET', KEYS[1]) end end) end",
        "while true do redis.call('LRANGE', KEYS[2], 0, -1) end",
    ];
    let scripts: Vec<_> = (0..60).map(|number| begin_with(&server, endless[number % 3], &["read", "list"])).collect();
    until(|| is_known(&mut client));
    for round in 0..200 {
        let mut other = if round % 10 == 0 { server.client() } else { continue };
        assert_eq!(other.call(&["PING"]).expect("a reply"), Value::Simple(b"PONG".to_vec()));
        ok(&mut other, &["SET", "other", "value"]);
        assert_eq!(other.call(&["GET", "other"]).expect("a reply"), Value::Bulk(b"value".to_vec()));
    }
    // Those that have read it begin anew, and are known as what they were.
    ok(&mut client, &["SET", "read", "1"]);
    let mut killed = 0;
    until(|| {
        killed += usize::from(client.call(&["SCRIPT", "KILL"]).expect("a reply") == Value::Simple(b"OK".to_vec()));
        scripts.iter().filter(|script| script.is_finished()).count() == scripts.len()
    });
    assert!(killed >= scripts.len());
    for script in scripts {
        let reply = script.join().expect("a reply");
        assert!(is_error(&reply, "ERR Script killed by user"), "{reply}");
    }
    assert_eq!(units_alone(&mut client), alone, "none of them has held all others up");
    let mut gone = server.client();
    gone.send(&[["EVAL", endless[0], "0"]]).expect("sent");
    until(|| is_known(&mut client));
    client.call(&["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]).expect("a reply");
    until(|| !is_known(&mut client));
    assert!(is_error(&client.call(&["SCRIPT", "KILL"]).expect("a reply"), "NOTBUSY "));
}

/// What a script has read before it was suspended is what is there when it ends: it begins anew when that has changed
/// (INV-SCRIPT-1).
fn sees_one_moment(server: &Server) {
    let mut client = server.client();
    let script = "local before = redis.call('GET', KEYS[1]) while redis.call('GET', KEYS[2]) ~= ARGV[1] do end
                  return {before, redis.call('GET', KEYS[1])}";
    for round in 0..4 {
        let round = round.to_string();
        ok(&mut client, &["SET", "value", "before"]);
        let (mut caller, wanted) = (server.client(), round.clone());
        let script = thread::spawn(move || caller.call(&["EVAL", script, "2", "value", "signal", &wanted]).expect("a reply"));
        until(|| is_known(&mut client));
        ok(&mut client, &["SET", "value", "after"]);
        ok(&mut client, &["SET", "signal", &round]);
        let seen = Value::Bulk(b"after".to_vec());
        assert_eq!(script.join().expect("a reply"), Value::Array(vec![seen.clone(), seen]));
    }
}

/// Scripts that read, compute for long and write what follows from it lose no addition of others.
fn lose_no_addition(server: &Server) {
    lose_none_by(server, "KEYS[1]");
}

/// The same, of scripts whose key shows while they run.
fn lose_no_addition_growing(server: &Server) {
    lose_none_by(server, "string.lower('SUM')");
}

/// A count of INFO's.
fn counted(client: &mut Client, section: &str, field: &str) -> usize {
    let info = client.call(&["INFO", section]).expect("a reply").to_string();
    let number = info.split(field).nth(1).and_then(|rest| rest.split(|byte: char| !byte.is_ascii_digit()).next());
    number.and_then(|number| number.parse().ok()).unwrap_or(0)
}

fn lose_none_by(server: &Server, key: &str) {
    let work = &format!(
        "local key = {key} local n = redis.call('GET', key) redis.call('GETRANGE', key, 0, 1) redis.pcall('LLEN', key)
         for _ = 1, 4 do for i = 1, 100000 do local x = i % 7 end end return redis.call('SET', key, n + 1)"
    );
    let (scripts, rounds) = (3, if full() { 40 } else { 6 });
    let mut client = server.client();
    ok(&mut client, &["SET", "sum", "0"]);
    ok(&mut client, &["CONFIG", "RESETSTAT"]);
    let added: usize = thread::scope(|scope| {
        let running: Vec<_> = (0..scripts)
            .map(|_| {
                let mut client = server.client();
                scope.spawn(move || (0..rounds).for_each(|_| ok(&mut client, &["EVAL", work, "1", "sum"])))
            })
            .collect();
        let mut added = 0;
        while running.iter().any(|script| !script.is_finished()) {
            client.call(&["INCR", "sum"]).expect("a reply");
            added += 1;
            thread::sleep(Duration::from_millis(3));
        }
        added
    });
    // Runs that were given up count nowhere.
    let calls = scripts * rounds;
    for (section, field) in [
        ("commandstats", "cmdstat_get:calls="),
        ("commandstats", "cmdstat_getrange:calls="),
        ("commandstats", "cmdstat_llen:calls="),
        ("errorstats", "errorstat_WRONGTYPE:count="),
    ] {
        assert_eq!(counted(&mut client, section, field), calls, "{field}");
    }
    assert_eq!(counted(&mut client, "stats", "keyspace_hits:") % calls, 0);
    let sum = client.call(&["GET", "sum"]).expect("a reply").to_string();
    assert!(sum.contains(&(added + scripts * rounds).to_string()), "{sum} of {added} and {}", scripts * rounds);
}

#[test]
fn a_suspended_script_sees_one_moment() {
    let server = Server::start(&Program::Almandine, &["--workers", "2"]);
    sees_one_moment(&server);
    lose_no_addition(&server);
    lose_no_addition_growing(&server);
}

/// A plan that grows is latched as one that was known before.
#[test]
fn a_script_that_reads_what_it_finds_sees_one_moment() {
    let server = Server::start(&Program::Almandine, &["--workers", "2"]);
    growing_sums_are_whole(&server);
}

/// A run that is given up tells nothing of what it has read: neither its client's tracking, nor the log of slow commands, nor that
/// of what was denied.
fn runs_that_are_given_up_tell_nothing(server: &Server) {
    let mut client = server.client();
    ok(&mut client, &["SET", "first", "one"]);
    ok(&mut client, &["CONFIG", "SET", "slowlog-log-slower-than", "0"]);
    ok(&mut client, &["ACL", "SETUSER", "caller", "on", "nopass", "+@all", "~*", "-llen"]);
    let script = "if redis.call('GET', KEYS[1]) ~= 'one' then return redis.call('STRLEN', KEYS[1]) end
                  redis.call('GET', string.lower('OTHER')) redis.pcall('LLEN', KEYS[1])
                  redis.log(redis.LOG_WARNING, 'a line of it') while true do end";
    let mut caller = server.client();
    for line in ["HELLO 3 AUTH caller any", "CLIENT TRACKING ON"] {
        caller.line(line);
    }
    caller.send(&[["EVAL", script, "1", "first"]]).expect("sent");
    until(|| is_known(&mut client));
    ok(&mut client, &["SET", "first", "two"]);
    assert_eq!(caller.receive().expect("a reply"), Value::Integer(3));
    ok(&mut client, &["SET", "other", "changed"]);
    ok(&mut client, &["SET", "first", "changed"]);
    let told = caller.receive().expect("a message").to_string();
    assert_eq!(told, r#">[$"invalidate", *[$"first"]]"#, "of what the run has read that has ended");
    let log = client.call(&["SLOWLOG", "GET", "-1"]).expect("a reply").to_string();
    assert!(log.contains("STRLEN") && !log.contains(r#"[$"GET", $"other"]"#), "{log}");
    assert_eq!(client.call(&["ACL", "LOG"]).expect("a reply"), Value::Array(Vec::new()));
    assert!(!server.log().contains("a line of it"));
    let script = "redis.log(redis.LOG_WARNING, 'its only line') return redis.call('STRLEN', KEYS[1])";
    assert_eq!(caller.call(&["EVAL", script, "1", "first"]).expect("a reply"), Value::Integer(7));
    until(|| server.log().contains("its only line"));
    // What it reads before it writes is told by what it writes itself.
    let script = "local before = redis.call('GET', KEYS[1]) redis.call('SET', KEYS[1], 'own') return before";
    caller.send(&[["EVAL", script, "1", "first"]]).expect("sent");
    let heard = [caller.receive(), caller.receive()].map(|heard| heard.expect("a reply or a message").to_string());
    assert!(heard.iter().any(|heard| heard.contains("invalidate")), "{heard:?}");
}

#[test]
fn a_run_that_is_given_up_tells_nothing() {
    runs_that_are_given_up_tell_nothing(&Server::start(&Program::Almandine, &["--workers", "2"]));
}

#[test]
fn what_a_run_tells_that_is_given_up_is_noticed() {
    must_notice("KeepRead", &["--workers", "2"], 1, runs_that_are_given_up_tell_nothing);
}

/// What a script has changed and published is heard once, by MONITOR's listeners, too, however long it goes on, and whatever others
/// do to its keys meanwhile: it does not begin anew.
fn what_is_told_is_told_once(server: &Server) {
    let (mut client, mut caller, mut listener) = (server.client(), server.client(), server.client());
    ok(&mut client, &["SET", "changing", "0"]);
    ok(&mut client, &["CONFIG", "SET", "notify-keyspace-events", "E$"]);
    for line in ["HELLO 3", "CLIENT TRACKING ON BCAST PREFIX counted"] {
        listener.line(line);
    }
    listener.send(&[["SUBSCRIBE", "said"], ["SUBSCRIBE", "__keyevent@0__:incrby"]]).expect("sent");
    for _ in 0..2 {
        listener.receive().expect("a confirmation");
    }
    let work = "redis.call('GET', KEYS[1]) local n = redis.call('INCR', KEYS[2]) redis.call('PUBLISH', 'said', n)
                for _ = 1, 4 do for i = 1, 100000 do local x = i % 7 end end redis.call('GET', KEYS[1]) return n";
    let rounds = if full() { 40 } else { 6 };
    for round in 1..=rounds {
        let script = thread::scope(|scope| {
            let script = scope.spawn(|| caller.call(&["EVAL", work, "2", "changing", "counted"]).expect("a reply"));
            while !script.is_finished() {
                client.call(&["APPEND", "changing", "x"]).expect("a reply");
                thread::sleep(Duration::from_millis(1));
            }
            script.join().expect("a reply")
        });
        assert_eq!(script, Value::Integer(round));
    }
    client.call(&["PUBLISH", "said", "end"]).expect("a reply");
    let mut heard = [0; 3];
    loop {
        let message = listener.receive().expect("a message").to_string();
        match &message {
            message if message.contains("$\"end\"") => break,
            message if message.contains("invalidate") => heard[0] += 1,
            message if message.contains("keyevent") => heard[1] += i64::from(message.contains("counted")),
            _ => heard[2] += 1,
        }
    }
    assert_eq!(heard, [rounds; 3], "invalidations, events and messages");
}

#[test]
fn what_a_script_tells_is_told_once() {
    what_is_told_is_told_once(&Server::start(&Program::Almandine, &["--workers", "2"]));
}

#[test]
fn a_script_that_begins_anew_though_it_has_told_something_is_noticed() {
    must_notice("NoteSeen", &["--workers", "2"], 1, what_is_told_is_told_once);
}

/// A server that does not look whether keys of a suspended script have changed is noticed.
#[test]
fn scripts_that_go_on_over_changes_are_noticed() {
    for mutant in ["WatchScript", "CompareScript"] {
        must_notice(mutant, &["--workers", "2"], 1, sees_one_moment);
        must_notice(mutant, &["--workers", "2"], 20, lose_no_addition);
        must_notice(mutant, &["--workers", "2"], 20, lose_no_addition_growing);
        must_notice(mutant, &["--workers", "2"], 20, growing_sums_are_whole);
    }
}
