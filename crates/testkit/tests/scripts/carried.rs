//! Scripts that have written and run for long: another thread goes on with one, with its latches. Clients wait that need its
//! keys, each by itself, and no others.

use std::thread;
use std::time::Duration;

use almandine_testkit::mutants::must_notice;
use almandine_testkit::{Client, Program, Server, Value};

use crate::{counted, is_error, is_known, ok, until};

/// Lines of a script that take this many seconds.
fn work(seconds: &str) -> String {
    format!(
        "local start = os.clock() for _ = 1, 100000 do for i = 1, 1000 do local x = i % 7 end
         if os.clock() - start > {seconds} then break end end"
    )
}

/// Awaits that a script has gone to the carrier: it has written, and its worker answers. `running` runs it.
fn until_carried<T>(client: &mut Client, running: &thread::ScopedJoinHandle<'_, T>) {
    while !is_error(&client.call(&["SCRIPT", "KILL"]).expect("a reply"), "UNKILLABLE ") {
        assert!(!running.is_finished(), "its worker answers before it ends");
    }
}

/// Scripts that say their keys, or come to them, have written and run for long hold no client of their worker up that needs none of
/// their keys. They go on when their client has gone.
fn long_writers_hold_nobody_up(server: &Server) {
    let (mut client, mut listener) = (server.client(), server.client());
    listener.send(&[["SUBSCRIBE", "said"]]).expect("sent");
    listener.receive().expect("a confirmation");
    let behind_a_look = "for i = 1, 100000 do local x = i % 7 end for i = 1, 100000 do local x = i % 7 end";
    let growing = "local own = redis.call('ECHO', KEYS[1])";
    for (round, before) in (1..).zip(["local own = KEYS[1]", behind_a_look, growing]) {
        let key = if round == 3 { "own" } else { "KEYS[1]" };
        let long = work(if round == 2 { "0.05" } else { "1" });
        let script = format!(
            "{before} redis.call('INCR', {key}) {long} redis.call('PUBLISH', 'said', redis.call('INCR', {key}))
             redis.call('RPUSH', KEYS[2], 'a') return redis.call('LLEN', KEYS[2])"
        );
        let (mut caller, mut waiter) = (server.client(), server.client());
        waiter.send(&[["BLPOP", "list", "0"]]).expect("sent");
        until(|| client.call(&["INFO", "clients"]).expect("a reply").to_string().contains("blocked_clients:1"));
        thread::scope(|scope| {
            let running = scope.spawn(|| caller.call(&["EVAL", &script, "2", "long", "list"]).expect("a reply"));
            if before == behind_a_look {
                // It may be killed while it looks.
                until(|| is_known(&mut client));
            } else {
                until_carried(&mut client, &running);
                ok(&mut client, &["SET", "other", "before"]);
                assert!(is_known(&mut client) && !running.is_finished());
            }
            assert_eq!(running.join().expect("a reply"), Value::Integer(1));
        });
        let (list, element) = (Value::Bulk(b"list".to_vec()), Value::Bulk(b"a".to_vec()));
        assert_eq!(waiter.receive().expect("a reply"), Value::Array(vec![list, element]));
        assert_eq!(client.line("GET long").to_string(), format!("$\"{}\"", 2 * round));
        let heard = listener.receive().expect("a message").to_string();
        assert!(heard.contains(&format!("$\"{}\"", 2 * round)), "{heard}");
        assert!(!is_known(&mut client));
        assert_eq!(caller.line("PING").to_string(), "+PONG");
    }
    for (field, calls) in [("cmdstat_eval:calls=", 3), ("cmdstat_publish:calls=", 3), ("cmdstat_incr:calls=", 6)] {
        assert_eq!(counted(&mut client, "commandstats", field), calls, "{field}");
    }
    let (mut gone, long) = (server.client(), work("0.2"));
    gone.send(&[["EVAL", &format!("redis.call('SET', KEYS[1], 'a') {long} redis.call('SET', KEYS[1], 'b')"), "1", "long"]])
        .expect("sent");
    until(|| is_error(&client.call(&["SCRIPT", "KILL"]).expect("a reply"), "UNKILLABLE "));
    drop(gone);
    ok(&mut client, &["SET", "other", "again"]);
    assert_eq!(client.line("GET long").to_string(), "$\"b\"", "a look at its key waits for its end");
}

#[test]
fn scripts_that_have_written_hold_nobody_up() {
    thread::scope(|scope| {
        for flags in [&["--workers", "1"][..], &["--workers", "2", "--appendonly", "yes", "--appendfsync", "always"]] {
            scope.spawn(|| long_writers_hold_nobody_up(&Server::start(&Program::Almandine, flags)));
        }
    });
}

#[test]
fn scripts_that_have_written_and_keep_their_worker_are_noticed() {
    must_notice("CarryScript", &["--workers", "1"], 1, long_writers_hold_nobody_up);
}

/// Replies do not wait for the end of a script because the log cannot be cut before.
#[test]
fn scripts_that_hold_the_log_are_noticed() {
    must_notice(
        "RenewEpoch",
        &["--workers", "2", "--appendonly", "yes", "--appendfsync", "always"],
        1,
        long_writers_hold_nobody_up,
    );
}

/// What needs a key of such a script, alone, with others, and as a unit; and what it answers when the script has left 7 there.
const NEEDS: &[(&[&str], &str)] = &[
    (&["GET", "long"], "$\"7\""),
    (&["STRLEN", "long"], ":1"),
    (&["OBJECT", "ENCODING", "long"], "$\"int\""),
    (&["INCRBY", "long", "0"], ":7"),
    (&["PEXPIRE", "long", "1000000", "XX"], ":0"),
    (&["MGET", "other", "long"], "*[$\"before\", $\"7\"]"),
    (&["EXISTS", "other", "long", "none"], ":2"),
    (&["MSETNX", "long", "8", "none", "8"], ":0"),
    (&["EVAL", "return redis.call('GET', KEYS[1])", "1", "long"], "$\"7\""),
    (&["EVAL", "redis.call('SET', KEYS[2], 'after') return redis.call('INCRBY', KEYS[1], 0)", "2", "long", "behind"], ":7"),
];

/// A client sends what needs a key of a script that another thread goes on with.
fn needing(server: &Server, words: &[&str]) -> Client {
    let mut client = server.client();
    client.send(&[words]).expect("sent");
    client
}

fn queues(client: &mut Client, words: &[&str]) {
    ok(client, &["MULTI"]);
    assert_eq!(client.call(words).expect("a reply").to_string(), "+QUEUED");
}

/// They wait until the script has ended, whichever worker they are of, and no other client does.
fn who_needs_its_keys_waits_alone(server: &Server) {
    let (mut client, mut caller, mut exec) = (server.client(), server.client(), server.client());
    ok(&mut client, &["SET", "other", "before"]);
    queues(&mut exec, &["INCRBY", "long", "0"]);
    let script = format!("redis.call('SET', KEYS[1], 'a') {} redis.call('SET', KEYS[1], '7') return 1", work("2"));
    thread::scope(|scope| {
        let running = scope.spawn(|| caller.call(&["EVAL", &script, "1", "long"]).expect("a reply"));
        until_carried(&mut client, &running);
        let mut waiting: Vec<Client> = NEEDS.iter().map(|(words, _)| needing(server, words)).collect();
        exec.send(&[["EXEC"]]).expect("sent");
        for waits in waiting.iter_mut().chain([&mut exec]) {
            waits.set_read_timeout(Duration::from_millis(20)).expect("a timeout");
            let heard = waits.receive();
            assert!(heard.is_err(), "{heard:?} from a script that has not ended");
            waits.set_read_timeout(Duration::from_secs(20)).expect("a timeout");
        }
        // New clients are of all workers.
        for _ in 0..4 {
            assert_eq!(server.client().line("GET other").to_string(), "$\"before\"");
        }
        assert!(!running.is_finished(), "nobody has waited for it who needs no key of it");
        assert_eq!(running.join().expect("a reply"), Value::Integer(1));
        for ((words, reply), mut waited) in NEEDS.iter().zip(waiting) {
            assert_eq!(waited.receive().expect("a reply").to_string(), *reply, "{words:?}");
        }
        assert_eq!(exec.receive().expect("a reply").to_string(), "*[:7]");
    });
    assert_eq!(client.line("GET behind").to_string(), "$\"after\"");
}

#[test]
fn who_needs_a_key_of_a_long_script_waits_alone() {
    for flags in [&["--workers", "1"][..], &["--workers", "2", "--appendonly", "yes", "--appendfsync", "always"]] {
        who_needs_its_keys_waits_alone(&Server::start(&Program::Almandine, flags));
    }
}

#[test]
fn waiting_with_a_worker_is_noticed() {
    must_notice("PassLongUnits", &["--workers", "1"], 1, who_needs_its_keys_waits_alone);
    must_notice("TellAllOfEnd", &["--workers", "2"], 3, who_needs_its_keys_waits_alone);
}

/// One that holds no key holds no client up either, and leaves nothing behind for the next one.
#[test]
fn a_long_script_without_keys_holds_nobody_up() {
    let server = Server::start(&Program::Almandine, &["--workers", "1"]);
    let (mut client, mut caller) = (server.client(), server.client());
    let without = format!("redis.call('PUBLISH', 'said', 'a') {} return 1", work("0.5"));
    let with = format!("redis.call('SET', KEYS[1], 'a') {} redis.call('SET', KEYS[1], '7') return 1", work("0.2"));
    for _ in 0..3 {
        for words in [&["EVAL", &without, "0"][..], &["EVAL", &with, "1", "long"]] {
            thread::scope(|scope| {
                let running = scope.spawn(|| caller.call(words).expect("a reply"));
                // What has only told something may be killed.
                until(|| is_known(&mut client) || running.is_finished());
                ok(&mut client, &["SET", "other", "before"]);
                assert!(!running.is_finished(), "its worker answers before it ends");
                assert_eq!(running.join().expect("a reply"), Value::Integer(1));
            });
        }
        assert_eq!(client.line("GET long").to_string(), "$\"7\"");
    }
}

/// Behind `busy-reply-threshold` they hear that the server is busy: those that wait already, and those that come.
#[test]
fn who_needs_a_key_of_a_busy_script_hears_so() {
    let server = Server::start(&Program::Almandine, &["--workers", "1", "--busy-reply-threshold", "300"]);
    let (mut client, mut caller, mut exec) = (server.client(), server.client(), server.client());
    queues(&mut exec, &["INCRBY", "long", "0"]);
    let script = format!("redis.call('SET', KEYS[1], 'a') {} redis.call('SET', KEYS[1], '7') return 1", work("3"));
    thread::scope(|scope| {
        let running = scope.spawn(|| caller.call(&["EVAL", &script, "1", "long"]).expect("a reply"));
        until_carried(&mut client, &running);
        let waiting: Vec<Client> = NEEDS.iter().map(|(words, _)| needing(&server, words)).collect();
        for ((words, _), mut waits) in NEEDS.iter().zip(waiting) {
            let heard = waits.receive().expect("a reply");
            assert!(is_error(&heard, "BUSY "), "{words:?}: {heard}");
            let again = waits.call(words).expect("a reply");
            assert!(is_error(&again, "BUSY "), "{words:?}: {again}");
        }
        assert!(is_error(&exec.call(&["EXEC"]).expect("a reply"), "EXECABORT "));
        assert_eq!(client.line("PING").to_string(), "+PONG");
        assert!(is_error(&client.call(&["SCRIPT", "KILL"]).expect("a reply"), "UNKILLABLE "));
        assert!(!running.is_finished());
        assert_eq!(running.join().expect("a reply"), Value::Integer(1));
    });
    assert_eq!(client.line("GET long").to_string(), "$\"7\"");
    assert!(!is_known(&mut client));
}

/// The end of the server ends one that would go on for an hour, where it is.
#[test]
fn a_server_ends_whose_script_has_written() {
    let mut server = Server::start(&Program::Almandine, &["--workers", "1"]);
    let (mut client, mut caller) = (server.client(), server.client());
    let script = "redis.call('SET', KEYS[1], 'a') for _ = 1, 100000 do for i = 1, 100000 do local x = i % 7 end end";
    caller.send(&[["EVAL", script, "1", "long"]]).expect("sent");
    until(|| is_error(&client.call(&["SCRIPT", "KILL"]).expect("a reply"), "UNKILLABLE "));
    client.send(&[["SHUTDOWN", "NOSAVE"]]).expect("sent");
    assert!(server.await_exit(Duration::from_secs(30)).is_some_and(|status| status.success()));
}
