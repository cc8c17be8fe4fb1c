//! Clients that wait for a group (XREADGROUP with BLOCK) get what has been pending long enough, and an error when the stream
//! goes, without any command on it.

use std::collections::{BTreeSet, HashSet};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use almandine_testkit::hostile::{figure, figure_becomes, processor_ns};
use almandine_testkit::mutants::must_notice;
use almandine_testkit::promises::claims::{are_told, ids, is_claimed_by_who_came_before};
use almandine_testkit::{Client, Program, Server, Value, full, timely};

fn line(client: &mut Client, line: &str) {
    client.send(&[line.split(' ').collect::<Vec<_>>()]).expect("a command is sent");
}

fn await_blocked(control: &mut Client, count: u64) {
    assert_eq!(figure_becomes(control, "blocked_clients", count, Duration::from_secs(20)), count);
}

/// A crowd waits to claim what others have not acknowledged: each entry goes to one of them when its time has come, to the
/// first first.
#[test]
fn what_has_been_pending_long_enough_is_claimed_by_the_first_who_waits() {
    const IDLE_MS: u64 = 400;
    for flags in [&["--workers", "1"][..], &["--workers", "4"]] {
        let server = Server::start(&Program::Almandine, flags);
        let count = if full() { 500 } else { 60 };
        let mut control = server.client();
        assert_eq!(control.line("XGROUP CREATE s g $ MKSTREAM"), Value::ok());
        (1..=count).for_each(|number| _ = control.line(&format!("XADD s 1-{number} f v")));
        let begin = Instant::now();
        assert_eq!(ids(&control.line("XREADGROUP GROUP g owner STREAMS s >")).len(), count);
        let mut crowd: Vec<Client> = (0..count).map(|_| server.client()).collect();
        for (number, client) in crowd.iter_mut().enumerate() {
            line(client, &format!("XREADGROUP GROUP g c{number} COUNT 1 BLOCK 0 CLAIM {IDLE_MS} STREAMS s >"));
            // One begins to wait before the entries' time; the others may come later.
            while number == 0 && figure(&mut control, "blocked_clients") == 0 && begin.elapsed() < Duration::from_millis(IDLE_MS) {}
        }
        let mut claimed = BTreeSet::new();
        for client in &mut crowd {
            let reply = client.receive().expect("a reply");
            assert!(claimed.insert(ids(&reply).join(" ")), "twice: {reply}");
        }
        let took = begin.elapsed();
        assert_eq!(claimed.len(), count);
        assert!(took >= Duration::from_millis(IDLE_MS), "{took:?}");
        println!("claims, {flags:?}: {count} entries were claimed {:?} after their time", took - Duration::from_millis(IDLE_MS));
        await_blocked(&mut control, 0);
        assert_eq!(control.line("XPENDING s g").elements().and_then(|parts| parts[0].integer()), Some(count as i64));
    }
}

/// How late a single waiter is, nine times, ascending. An error says that it is too late in the median.
fn claim_alone(server: &Server) -> Result<Vec<Duration>, String> {
    let (mut control, mut client) = (server.client(), server.client());
    control.line("DEL s");
    assert_eq!(control.line("XGROUP CREATE s g $ MKSTREAM"), Value::ok());
    let mut late: Vec<Duration> = (1..=9u32)
        .map(|number| {
            control.line(&format!("XADD s 1-{number} f v"));
            let idle = Duration::from_millis(150);
            // Before the server can have delivered it, so that no client comes too early because this thread was late.
            let delivered = Instant::now();
            control.line("XREADGROUP GROUP g owner STREAMS s >");
            line(&mut client, &format!("XREADGROUP GROUP g c{number} BLOCK 0 CLAIM {} STREAMS s >", idle.as_millis()));
            assert_eq!(ids(&client.receive().expect("a reply")), [format!("1-{number}")]);
            let took = delivered.elapsed();
            assert_eq!(control.line(&format!("XACK s g 1-{number}")), Value::Integer(1));
            // The server counts in milliseconds.
            assert!(took + Duration::from_millis(3) > idle, "{took:?}");
            took.saturating_sub(idle)
        })
        .collect();
    late.sort_unstable();
    if late[4] < Duration::from_millis(100) { Ok(late) } else { Err(format!("it was claimed late: {late:?}")) }
}

/// A single waiter is not late, and waiting costs nothing meanwhile.
#[test]
fn the_time_is_kept_and_nobody_is_busy_before() {
    let server = Server::start(&Program::Almandine, &["--workers", "2"]);
    let late = timely(|| claim_alone(&server));
    println!("claims: {:?} late in the median, {:?} at most", late[4], late[8]);
    let mut control = server.client();
    // One that waits for an hour, and many that wait for nothing that is pending.
    control.line("XADD s 2-1 f v");
    control.line("XREADGROUP GROUP g owner STREAMS s >");
    let mut crowd: Vec<Client> = (0..50).map(|_| server.client()).collect();
    crowd.iter_mut().for_each(|client| line(client, "XREADGROUP GROUP g c BLOCK 0 CLAIM 3600000 STREAMS s >"));
    await_blocked(&mut control, 50);
    assert_eq!(control.line("XACK s g 2-1"), Value::Integer(1));
    let before = processor_ns(&server);
    std::thread::sleep(Duration::from_secs(1));
    let used = Duration::from_nanos(processor_ns(&server) - before);
    assert!(used < Duration::from_millis(200), "{used:?} of a second to wait");
}

/// Others take and do not acknowledge while a crowd waits already: the first one claims it in time, though nothing was pending
/// when the crowd came. On two streams, by transactions of several workers, while some of the crowd lose patience and come
/// again.
#[test]
fn what_others_take_while_a_crowd_waits_is_claimed_in_time() {
    for impatient in [false, true] {
        // It fails when something is not claimed at all; how late one is that waits alone is measured above.
        let late_ms = are_claimed(&Server::start(&Program::Almandine, &["--workers", "4"]), impatient);
        println!("claims: what others took was claimed {late_ms} ms late at most");
    }
}

/// A server whose workers do not hear of sooner times is noticed.
#[test]
fn times_that_are_not_told_are_noticed() {
    must_notice("LookSooner", &["--workers", "4"], 1, |server| {
        is_claimed_by_who_came_before(&server.address());
    });
}

/// Something is taken once, while one waits that came when nothing was pending, and no client comes or changes anything after that.
#[test]
fn what_is_taken_after_one_came_is_claimed_in_time() {
    is_claimed_by_who_came_before(&Server::start(&Program::Almandine, &["--workers", "4"]).address());
}

/// For so long something must have been pending.
const IDLE_MS: u64 = 60;

/// One of the crowd waits again.
fn wait(client: &mut Client, number: usize, impatient: bool) {
    let patience = if impatient && number % 4 == 3 { 25 } else { 0 };
    line(client, &format!("XREADGROUP GROUP g c{number} COUNT 1 BLOCK {patience} CLAIM {IDLE_MS} STREAMS a b > >"));
}

/// The key and the id of an entry that was claimed, and how often it had been delivered before.
type Claims = Mutex<HashSet<(Vec<u8>, Vec<u8>, i64)>>;

/// One of the crowd claims and acknowledges until it is closed. How much it has acknowledged, and how long what it has claimed
/// had been pending at most.
fn claim(mut client: Client, number: usize, impatient: bool, claims: &Claims) -> (u64, u64) {
    let (mut acknowledged, mut longest) = (0, 0);
    loop {
        let reply = client.receive().expect("a reply");
        if reply == Value::Closed {
            return (acknowledged, longest);
        }
        for stream in reply.elements().unwrap_or_default() {
            let parts = stream.elements().expect("a key and entries");
            let entry = parts[1].elements().expect("entries")[0].elements().expect("four parts");
            let idle = entry[2].integer().expect("a time").unsigned_abs();
            assert!(idle >= IDLE_MS, "{reply}");
            let (key, id) = (parts[0].bytes().expect("a key"), entry[0].bytes().expect("an id"));
            let claim = (key.to_vec(), id.to_vec(), entry[3].integer().expect("a count"));
            assert!(claims.lock().expect("no panic").insert(claim), "two have claimed it at once: {reply}");
            // What is not acknowledged in time, because the machine holds a client up, is claimed again, and acknowledged by
            // one of them.
            let count = client.call(&[b"XACK", key, b"g", id]).expect("a reply").integer().expect("a count");
            (acknowledged, longest) = (acknowledged + count.unsigned_abs(), longest.max(idle));
        }
        wait(&mut client, number, impatient);
    }
}

/// How many entries of a stream, all of which were delivered, are acknowledged.
fn acknowledged(control: &mut Client, key: &str) -> u64 {
    let both = format!("MULTI\nXLEN {key}\nXPENDING {key} g\nEXEC");
    let replies = control.pipeline(&both.lines().map(|line| line.split(' ').collect::<Vec<_>>()).collect::<Vec<_>>());
    let replies = replies.expect("replies");
    let both = replies[3].elements().expect("two replies");
    let pending = both[1].elements().and_then(|summary| summary[0].integer()).expect("a number");
    both[0].integer().expect("a number").abs_diff(pending)
}

/// By how many milliseconds something was claimed too late, at most.
fn are_claimed(server: &Server, impatient: bool) -> u64 {
    let mut control = server.client();
    ["a", "b"].iter().for_each(|key| assert_eq!(control.line(&format!("XGROUP CREATE {key} g $ MKSTREAM")), Value::ok()));
    let rounds = if full() { 500 } else { 30 };
    let mut crowd: Vec<Client> = (0..12).map(|_| server.client()).collect();
    crowd.iter_mut().enumerate().for_each(|(number, client)| wait(client, number, impatient));
    let (begin, claims) = (Instant::now(), Claims::default());
    let (all, longest) = std::thread::scope(|scope| {
        let crowd: Vec<_> = crowd
            .into_iter()
            .enumerate()
            .map(|(number, client)| {
                scope.spawn({
                    let claims = &claims;
                    move || claim(client, number, impatient, claims)
                })
            })
            .collect();
        for (worker, key) in [(1, "a"), (2, "b"), (3, "a")] {
            let mut taker = server.client();
            scope.spawn(move || {
                for round in 1..=rounds {
                    let take = format!("XREADGROUP GROUP g taker{worker} STREAMS {key} >");
                    let lines = ["MULTI".to_owned(), format!("XADD {key} * f v"), take, "EXEC".to_owned()];
                    lines.iter().for_each(|text| assert!(!taker.line(text).is_error(), "{text}"));
                    std::thread::sleep(Duration::from_millis(round % 13));
                }
            });
        }
        let mut is_late = false;
        while acknowledged(&mut control, "a") + acknowledged(&mut control, "b") < 3 * rounds && !is_late {
            is_late = begin.elapsed() > Duration::from_secs(4) + Duration::from_millis(rounds * 40);
            std::thread::sleep(Duration::from_millis(20));
        }
        // The answers to the last of them arrive; then all but this one are closed.
        std::thread::sleep(Duration::from_millis(300));
        assert!(matches!(control.line("CLIENT KILL TYPE normal"), Value::Integer(closed) if closed >= 12));
        let claimed = crowd.into_iter().map(|client| client.join().expect("no panic"));
        claimed.fold((0, 0), |(all, longest), (claimed, own)| (all + claimed, longest.max(own)))
    });
    assert_eq!(all, 3 * rounds, "acknowledged, of so many that were taken");
    longest - IDLE_MS
}

/// A server that tells no client what it has removed is noticed.
#[test]
fn streams_that_are_lost_untold_are_noticed() {
    must_notice("ServeLost", &["--workers", "3"], 1, |server| are_told(&server.address(), || ()));
}

/// Streams that expire, or give way to others, without a command on them; in memory and on a device.
#[test]
fn who_waits_for_a_group_hears_that_its_stream_is_gone() {
    let cold = ["--storage-device", "memory", "--maxmemory", "16mb", "--enable-debug-command", "yes"];
    for (more, is_cold) in [(&[][..], false), (&cold[..], true)] {
        let server = Server::start(&Program::Almandine, &[&["--workers", "3"], more].concat());
        are_told(&server.address(), || assert!(!is_cold || server.make_cold()));
    }
    let server =
        Server::start(&Program::Almandine, &["--workers", "2", "--maxmemory", "12mb", "--maxmemory-policy", "volatile-ttl"]);
    let (mut control, mut client) = (server.client(), server.client());
    control.line("XGROUP CREATE s g $ MKSTREAM");
    line(&mut client, "XREADGROUP GROUP g c BLOCK 0 STREAMS s >");
    await_blocked(&mut control, 1);
    assert_eq!(control.line("EXPIRE s 1000"), Value::Integer(1));
    let value = "v".repeat(10_000);
    for number in 0..3000 {
        let _ = control.call(&["SET", &format!("k{number}"), &value, "EX", "100000"]).expect("a reply");
    }
    assert!(client.receive().expect("a reply").is_error());
}
