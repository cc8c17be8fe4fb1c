//! Users as redis-server has them: categories, random rules, and what they permit; what becomes of clients when their user changes.
//! `ALMANDINE_TEST_SEED=n` repeats a run.

#![expect(clippy::unwrap_used, reason = "a test that fails says where")]

use std::collections::BTreeSet;
use std::time::Duration;

use almandine_testkit::mutants::must_notice;
use almandine_testkit::promises::rights::{are_cut_off, hold_for_all_workers};
use almandine_testkit::users::{
    Generator, Pair, Words, all_of, categories, commands_of, has_other_keys_in_redis, in_later_words, line_of, set, strings,
    without_commands, words,
};
use almandine_testkit::{Client, Program, Random, Server, Value, full};

#[test]
fn categories_are_those_of_redis_server() {
    let pair = Pair::start();
    let (ours, theirs) = (categories(&mut pair.ours.client()), categories(&mut pair.oracle.client()));
    let known = all_of(&theirs);
    assert!(known.len() > 350, "{} commands", known.len());
    for (category, theirs) in &theirs {
        assert_eq!(&(&ours[category] & &known), theirs, "@{category}");
    }
}

#[test]
fn random_rules_permit_what_redis_server_permits() {
    let seed = std::env::var("ALMANDINE_TEST_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(35);
    let episodes = if full() { 1000 } else { 60 };
    let pair = Pair::start();
    let (mut ours, mut theirs) = (pair.ours.client(), pair.oracle.client());
    let mut generator = Generator::new(&pair, seed);
    let (mut asked, mut denied, mut refused, mut malformed) = (0, 0, 0, 0);
    for _ in 0..episodes {
        ours.line("ACL DELUSER u v");
        theirs.line("ACL DELUSER u v");
        for _ in 0..6 {
            let rules = generator.rules();
            let (our_answer, their_answer) = (set(&mut ours, "u", &rules), set(&mut theirs, "u", &rules));
            assert_eq!(our_answer, their_answer, "seed {seed}: ACL SETUSER {rules:?}");
            refused += usize::from(our_answer.is_error());
            let (our_user, their_user) = (ours.line("ACL GETUSER u"), theirs.line("ACL GETUSER u"));
            assert_eq!(without_commands(&our_user), without_commands(&their_user), "seed {seed}: {rules:?}");
            if our_user.is_null() {
                continue;
            }
            // What describes the user here makes the same one there.
            let line = line_of(&mut ours, "u");
            theirs.line("ACL DELUSER v");
            assert_eq!(set(&mut theirs, "v", &line), Value::ok(), "seed {seed}: {line:?}");
            let same = theirs.line("ACL GETUSER v");
            assert_eq!(commands_of(&same), commands_of(&their_user), "seed {seed}: {line:?}");
            assert_eq!(without_commands(&same), without_commands(&their_user), "seed {seed}: {line:?}");
            let calls: Vec<Words> = (0..60).map(|_| generator.call()).collect();
            let dryruns: Vec<Words> = calls.iter().map(|call| [words("ACL DRYRUN u"), call.clone()].concat()).collect();
            let (our_answers, their_answers) = (ours.pipeline(&dryruns).unwrap(), theirs.pipeline(&dryruns).unwrap());
            for ((call, our), their) in calls.iter().zip(our_answers).zip(their_answers) {
                let their = in_later_words(their, "u");
                asked += 1;
                denied += usize::from(matches!(our, Value::Bulk(_)));
                if our != their && !has_other_keys_in_redis(call) {
                    // Redis finds no keys at all in a malformed call.
                    let keys = theirs.call(&[words("COMMAND GETKEYS"), call.clone()].concat()).unwrap();
                    let is_stricter = their == Value::ok() && our.to_string().contains("key\"") && keys.is_error();
                    assert!(is_stricter, "seed {seed}: {line:?}\n{call:?}\nours   {our}\ntheirs {their}\nkeys   {keys}");
                    malformed += 1;
                }
            }
        }
    }
    println!(
        "acl: {asked} calls asked, {denied} denied, {refused} lists of rules refused, {malformed} malformed calls denied here only"
    );
    assert!(denied > asked / 10 && denied < asked && refused > 0);
}

/// Options where numbers and names are expected, too many of them, and too few arguments.
#[test]
fn random_reads_of_streams_have_the_keys_that_redis_server_finds() {
    let seed = std::env::var("ALMANDINE_TEST_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(35);
    let pair = Pair::start();
    let mut random = Random::new(seed);
    let pool = ["GROUP", "g", "c", "NOACK", "COUNT", "BLOCK", "1", "STREAMS", "a", "b", ">", "XREAD", "q"];
    let usual =
        [&["GROUP", "g", "c", "STREAMS"][..], &["GROUP", "g", "c", "COUNT", "1"], &["NOACK", "GROUP", "g"], &["STREAMS"], &[]];
    let calls: Vec<Words> = (0..if full() { 200_000 } else { 5000 })
        .map(|_| {
            let mut call = vec![(*random.pick(&["XREAD", "XREADGROUP"])).to_owned()];
            call.extend(random.pick(&usual).iter().map(|word| (*word).to_owned()));
            let more = random.below(8);
            call.extend((0..more).map(|_| (*random.pick(&pool)).to_owned()));
            call
        })
        .collect();
    let (mut ours, mut theirs) = (pair.ours.client(), pair.oracle.client());
    let mut named = 0;
    for asks in ["COMMAND GETKEYS", "ACL DRYRUN u"] {
        for client in [&mut ours, &mut theirs] {
            assert_eq!(client.line("ACL SETUSER u on nopass +@all ~a %R~b ~c %W~q ~1 ~>"), Value::ok());
        }
        let asked: Vec<Words> = calls.iter().map(|call| [words(asks), call.clone()].concat()).collect();
        for asked in asked.chunks(500) {
            let (our_answers, their_answers) = (ours.pipeline(asked).unwrap(), theirs.pipeline(asked).unwrap());
            for ((asked, our), their) in asked.iter().zip(our_answers).zip(their_answers) {
                let their = in_later_words(their, "u");
                let call = &asked[words(asks).len()..];
                let is_named = has_other_keys_in_redis(call);
                named += usize::from(is_named);
                assert!(our == their || is_named, "seed {seed}: {asked:?}\nours   {our}\ntheirs {their}");
            }
        }
    }
    assert!(named > 0);
}

/// Commands that end or change the connection or the server, wait, or differ for another reason than rights.
const NOT_RUN: &[&str] = &[
    "acl|deluser",
    "acl|load",
    "acl|log",
    "acl|save",
    "acl|setuser",
    "auth",
    "bgrewriteaof",
    "bgsave",
    "blmove",
    "blmpop",
    "blpop",
    "brpop",
    "brpoplpush",
    "bzmpop",
    "bzpopmax",
    "bzpopmin",
    "client|caching",
    "client|kill",
    "client|no-evict",
    "client|pause",
    "client|reply",
    "client|setname",
    "client|tracking",
    "client|unblock",
    "config|resetstat",
    "config|rewrite",
    "config|set",
    "debug",
    "discard",
    "exec",
    "flushall",
    "function|kill",
    "hello",
    "module|load",
    "module|loadex",
    "module|unload",
    "monitor",
    "multi",
    "pfselftest",
    "psubscribe",
    "punsubscribe",
    "quit",
    "replicaof",
    "reset",
    "restore-asking",
    "save",
    "script|debug",
    "script|kill",
    "select",
    "shutdown",
    "slaveof",
    "ssubscribe",
    "subscribe",
    "sunsubscribe",
    "swapdb",
    "unsubscribe",
    "wait",
];

/// The entries of ACL LOG, without what differs between servers and moments.
fn denials(client: &mut Client) -> BTreeSet<String> {
    let log = client.line("ACL LOG 200");
    let entries = log.elements().unwrap().iter().map(|entry| {
        let wanted = [&b"count"[..], b"reason", b"context", b"object", b"username"];
        let fields = entry.elements().unwrap().chunks(2).filter(|field| wanted.contains(&field[0].bytes().unwrap_or_default()));
        fields.map(|field| format!("{} {}; ", field[0], field[1])).collect()
    });
    entries.collect()
}

fn is_denied(answer: &Value) -> bool {
    matches!(answer, Value::Error(text) if text.starts_with(b"NOPERM "))
}

/// Calls that run, alone and queued: the same ones are denied, in the same words, and the same is logged.
#[test]
fn random_calls_are_denied_as_by_redis_server() {
    let seed = std::env::var("ALMANDINE_TEST_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(11);
    let episodes = if full() { 1500 } else { 120 };
    let pair = Pair::start();
    let mut admins = [pair.ours.client(), pair.oracle.client()];
    let mut generator = Generator::new(&pair, seed);
    // What is not served is unknown before rights are asked.
    let served = strings(&admins[0].line("COMMAND LIST"));
    generator.commands.retain(|name| served.contains(name) && !NOT_RUN.contains(&name.as_str()));
    let (mut asked, mut denied, mut compared) = (0, 0, 0);
    for episode in 0..episodes {
        let mut rules = [words("resetpass off"), generator.rules(), generator.rules(), words("on nopass")].concat();
        if generator.random.chance(60) {
            rules.insert(2, "+@all".to_owned());
        }
        for admin in &mut admins {
            admin.line("ACL DELUSER u");
            admin.line("ACL LOG RESET");
            admin.line("FLUSHALL");
        }
        let answers = admins.each_mut().map(|admin| set(admin, "u", &rules));
        assert_eq!(answers[0], answers[1], "seed {seed}: {rules:?}");
        if answers[0].is_error() {
            continue;
        }
        let mut calls: Vec<Words> = (0..60).map(|_| generator.call()).collect();
        // Of GEORADIUS with two destinations Redis checks the first and writes the last.
        calls.retain(|call| call.iter().filter(|word| *word == "STORE").count() < 2);
        if episode % 4 == 3 {
            calls.insert(0, words("MULTI"));
            calls.push(words("DISCARD"));
        }
        let [our_answers, their_answers] = [&pair.ours, &pair.oracle].map(|server| {
            let mut client = server.client();
            assert_eq!(client.line("AUTH u x"), Value::ok(), "seed {seed}: {rules:?}");
            client.pipeline(&calls).unwrap()
        });
        let mut is_malformed = false;
        for ((call, our), their) in calls.iter().zip(our_answers).zip(their_answers) {
            let their = in_later_words(their, "u");
            asked += 1;
            denied += usize::from(is_denied(&their));
            if (is_denied(&our) || is_denied(&their)) && our != their {
                let keys = admins[1].call(&[words("COMMAND GETKEYS"), call.clone()].concat()).unwrap();
                let is_stricter = !is_denied(&their) && our.to_string().contains("permissions to access a key") && keys.is_error();
                assert!(is_stricter, "seed {seed}: {rules:?}\n{call:?}\nours   {our}\ntheirs {their}\nkeys   {keys}");
                is_malformed = true;
            }
        }
        if !is_malformed {
            compared += 1;
            let [ours, theirs] = admins.each_mut().map(denials);
            assert_eq!(ours, theirs, "seed {seed}: {rules:?}");
        }
    }
    println!("acl: {asked} calls run, {denied} denied, {compared} logs compared");
    assert!(denied > asked / 10 && denied < asked && compared > episodes / 8, "{asked} {denied} {compared}");
}

/// Rules may name what is not served, as files from elsewhere do; a call gets an error, or that there is no cluster, and
/// COMMAND does not list it.
#[test]
fn commands_that_are_not_served_have_rules_and_nothing_else() {
    let flags = ["--rename-command", "EVAL", "", "--rename-command", "CLUSTER", "ring"];
    let server = Server::start(&Program::Almandine, &flags);
    let mut client = server.client();
    let count = client.line("COMMAND COUNT").integer().unwrap();
    assert_eq!(client.line("COMMAND").elements().unwrap().len(), usize::try_from(count).unwrap());
    assert_eq!(client.line("ACL SETUSER u on nopass ~a* +eval +fcall +@scripting -evalsha +cluster -cluster|nodes"), Value::ok());
    let line = "user u on nopass ~a* resetchannels -@all +eval +fcall +@scripting -evalsha +cluster -cluster|nodes";
    assert!(strings(&client.line("ACL LIST")).iter().any(|listed| listed == line));
    for (call, answer) in [
        ("FCALL f 1 a", "+OK"),
        ("FCALL f 1 b", "$\"User u has no permissions to access the 'b' key\""),
        ("EVALSHA x 0", "$\"User u has no permissions to run the 'evalsha' command\""),
        ("ring info", "+OK"),
        ("RING nodes", "$\"User u has no permissions to run the 'cluster|nodes' command\""),
        ("SCRIPT SHOW x", "+OK"),
        ("EVAL x 0", "-\"ERR Command 'EVAL' not found\""),
        ("CLUSTER INFO", "-\"ERR Command 'CLUSTER' not found\""),
        ("FCALL f", "-\"ERR wrong number of arguments for 'fcall' command\""),
    ] {
        assert_eq!(client.line(&format!("ACL DRYRUN u {call}")).to_string(), answer, "{call}");
    }
    for user in ["default", "u"] {
        assert_eq!(client.line(&format!("AUTH {user} x")), Value::ok());
        for call in ["EVAL x 0", "CLUSTER INFO", "PSYNC ? -1", "VADD k"] {
            let answer = client.line(call).to_string();
            assert!(answer.contains("unknown command"), "{user} {call}: {answer}");
        }
    }
    assert_eq!(client.line("AUTH default x"), Value::ok());
    assert_eq!(client.line("COMMAND INFO vadd cluster|nodes ring psync").to_string(), "*[(nil), (nil), (nil), (nil)]");
    assert_eq!(client.line("COMMAND DOCS vadd").to_string(), "*[]");
    assert_eq!(client.line("COMMAND LIST FILTERBY PATTERN vadd*").to_string(), "*[]");
    assert_eq!(client.line("COMMAND LIST FILTERBY PATTERN cluster*").to_string(), "*[]");
    // What an unknown command did to the log: nothing.
    assert_eq!(client.line("ACL LOG").to_string(), "*[]");
    assert_eq!(client.line("EVALSHA x 0").to_string(), "-\"NOSCRIPT No matching script. Please use EVAL.\"");
    // Commands of clusters answer, under the name that they have here, that there is none; to users that may ask.
    assert!(client.line("ring nodes").to_string().contains("cluster support disabled"));
    assert_eq!(client.line("AUTH u x"), Value::ok());
    assert!(client.line("RING INFO").to_string().contains("cluster support disabled"));
    assert!(client.line("RING NODES").to_string().contains("'cluster|nodes' command"));
    assert_eq!(client.line("AUTH default x"), Value::ok());
    let log = client.line("ACL LOG");
    assert!(log.elements().unwrap().len() == 1 && log.to_string().contains("cluster|nodes"), "{log}");
}

#[test]
fn clients_are_cut_off_when_their_user_loses_what_they_have() {
    for program in [Program::Almandine, Program::Redis] {
        are_cut_off(&Server::start(&program, &[]).address());
    }
}

/// Servers that leave clients alone that have lost rights are noticed.
#[test]
fn rights_that_are_kept_are_noticed() {
    must_notice("CutListenersOff", &[], 1, |server| are_cut_off(&server.address()));
    must_notice("RefreshRights", &[], 1, |server| are_cut_off(&server.address()));
    must_notice("RefreshRights", &["--workers", "4"], 1, |server| hold_for_all_workers(&server.address(), 200));
}

/// A waiter is served with the rights that its user has then.
#[test]
fn rights_that_are_lost_while_a_command_waits_are_lost() {
    let server = Server::start(&Program::Almandine, &["--workers", "2"]);
    let mut admin = server.client();
    admin.line("ACL SETUSER u on nopass +@all ~list*");
    let waiting = |admin: &mut Client, command: &str| {
        let mut client = server.client();
        assert_eq!(client.line("AUTH u x"), Value::ok());
        client.send(&[command.split(' ').collect::<Vec<_>>()]).unwrap();
        while !String::from_utf8_lossy(admin.line("INFO clients").bytes().unwrap()).contains("blocked_clients:1") {
            std::thread::sleep(Duration::from_millis(1));
        }
        client
    };
    for (command, rule, back, error) in [
        ("BLPOP list1 0", "-blpop", "+blpop", "NOPERM User u has no permissions to run the 'blpop' command"),
        ("BLPOP list1 list2 0", "resetkeys", "~list*", "NOPERM No permissions to access a key"),
        ("BLPOP list1 0", "db=1", "alldbs", "NOPERM No permissions to access database"),
    ] {
        let mut client = waiting(&mut admin, command);
        assert_eq!(admin.line(&format!("ACL SETUSER u {rule}")), Value::ok());
        assert_eq!(admin.line("RPUSH list1 element").to_string(), ":1");
        assert_eq!(client.receive().unwrap(), Value::Error(error.as_bytes().to_vec()), "{command}");
        assert_eq!(admin.line("LRANGE list1 0 -1").to_string(), "*[$\"element\"]", "{command}");
        assert_eq!(admin.line(&format!("ACL SETUSER u {back}")), Value::ok());
        assert_eq!(client.line("LPOP list1").to_string(), "$\"element\"");
    }
    let mut client = waiting(&mut admin, "BLPOP list1 0");
    admin.pipeline(&[&["ACL", "DELUSER", "u"][..], &["RPUSH", "list1", "element"]]).unwrap();
    assert!(matches!(client.receive(), Ok(Value::Closed) | Err(_)));
    assert_eq!(admin.line("LRANGE list1 0 -1").to_string(), "*[$\"element\"]");
}

/// A user of the same name is not the same: a deleted user does not come back with it.
#[test]
fn a_deleted_user_is_nobody_even_when_the_name_is_used_again() {
    let server = Server::start(&Program::Almandine, &[]);
    let mut admin = server.client();
    for _ in 0..200 {
        admin.line("ACL SETUSER u on nopass +@all ~* &*");
        let mut client = server.client();
        assert_eq!(client.line("AUTH u x"), Value::ok());
        client.send(&[["SET", "key", "old"]]).unwrap();
        assert_eq!(client.receive().unwrap(), Value::ok());
        admin
            .pipeline(&[
                &["ACL", "DELUSER", "u"][..],
                &["ACL", "SETUSER", "u", "on", "nopass", "+@all", "~*"],
                &["SET", "key", "new"],
            ])
            .unwrap();
        let _ = client.send(&[["SET", "key", "old"]]);
        assert!(matches!(client.receive(), Ok(Value::Closed) | Err(_)));
        assert_eq!(admin.line("GET key").to_string(), "$\"new\"");
    }
}

/// The reply to ACL SETUSER is the moment from which new commands meet the new rules, whichever worker runs them.
#[test]
fn rules_hold_for_all_workers_once_they_are_answered() {
    hold_for_all_workers(&Server::start(&Program::Almandine, &["--workers", "4"]).address(), 200);
}

#[test]
fn the_password_of_the_configuration_is_the_default_users() {
    let server = Server::start(&Program::Almandine, &["--requirepass", "one"]);
    let mut admin = server.client();
    assert!(admin.line("PING").is_error());
    assert_eq!(admin.line("AUTH one"), Value::ok());
    // As in Redis, the parameter keeps its value when the user is changed.
    assert_eq!(admin.line("ACL SETUSER default >two"), Value::ok());
    assert_eq!(server.client().line("AUTH two"), Value::ok());
    assert_eq!(server.client().line("AUTH default one"), Value::ok());
    assert_eq!(admin.line("CONFIG SET requirepass three"), Value::ok());
    for (password, right) in [("one", false), ("two", false), ("three", true)] {
        assert_eq!(server.client().line(&format!("AUTH {password}")) == Value::ok(), right, "{password}");
    }
    let mut waiting = server.client();
    assert!(waiting.line("PING").is_error());
    assert_eq!(admin.call(&["CONFIG", "SET", "requirepass", ""]).unwrap(), Value::ok());
    assert_eq!(waiting.line("PING").to_string(), "+PONG");
    assert_eq!(admin.line("ACL SETUSER default resetpass"), Value::ok());
    assert!(waiting.line("PING").is_error());
    assert_eq!(admin.line("PING").to_string(), "+PONG");
    assert!(waiting.receive_until_quiet(Duration::from_millis(50)).unwrap().is_empty());
}
