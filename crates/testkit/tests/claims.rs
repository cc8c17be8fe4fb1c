//! Those who wait for a group (XREADGROUP with BLOCK) get what has been pending long enough, and hear that the stream is gone, though nobody touches it.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use almandine_testkit::hostile::{figure, figure_becomes, processor_ns};
use almandine_testkit::{Client, Program, Server, Value, full};

fn line(client: &mut Client, line: &str) {
    client.send(&[line.split(' ').collect::<Vec<_>>()]).expect("a command is sent");
}

fn await_blocked(control: &mut Client, count: u64) {
    assert_eq!(figure_becomes(control, "blocked_clients", count, Duration::from_secs(20)), count);
}

/// The ids of the entries of the first stream of a reply.
fn ids(reply: &Value) -> Vec<String> {
    let entries = reply.elements().and_then(|streams| streams.first()?.elements()?.get(1)?.elements());
    let id = |entry: &Value| {
        String::from_utf8_lossy(entry.elements().and_then(|parts| parts[0].bytes()).unwrap_or_default()).into_owned()
    };
    entries.unwrap_or_else(|| panic!("no entries: {reply}")).iter().map(id).collect()
}

/// A crowd waits to claim what others have not acknowledged: each entry goes to one of them when its time has come, to the first first.
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
            if number == 0 || begin.elapsed() > Duration::from_millis(IDLE_MS / 2) {
                // One begins to wait for certain; the others may come later than the entries' time.
                break_if_late(&mut control, begin, IDLE_MS);
            }
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
        assert_eq!(figure(&mut control, "blocked_clients"), 0);
        assert_eq!(control.line("XPENDING s g").elements().and_then(|parts| parts[0].integer()), Some(count as i64));
    }
}

fn break_if_late(control: &mut Client, begin: Instant, idle_ms: u64) {
    if begin.elapsed() < Duration::from_millis(idle_ms / 2) {
        await_blocked(control, 1);
    }
}

/// How late one is who waits alone, and that waiting costs nothing meanwhile.
#[test]
fn the_time_is_kept_and_nobody_is_busy_before() {
    let server = Server::start(&Program::Almandine, &["--workers", "2"]);
    let (mut control, mut client) = (server.client(), server.client());
    assert_eq!(control.line("XGROUP CREATE s g $ MKSTREAM"), Value::ok());
    let mut late: Vec<Duration> = (1..=9u32)
        .map(|number| {
            control.line(&format!("XADD s 1-{number} f v"));
            let idle = Duration::from_millis(150);
            control.line("XREADGROUP GROUP g owner STREAMS s >");
            let delivered = Instant::now();
            line(&mut client, &format!("XREADGROUP GROUP g c{number} BLOCK 0 CLAIM {} STREAMS s >", idle.as_millis()));
            assert_eq!(ids(&client.receive().expect("a reply")), [format!("1-{number}")]);
            let took = delivered.elapsed();
            assert_eq!(control.line(&format!("XACK s g 1-{number}")), Value::Integer(1));
            assert!(took + Duration::from_millis(3) > idle, "{took:?}");
            took.saturating_sub(idle)
        })
        .collect();
    late.sort_unstable();
    println!("claims: {:?} late in the median, {:?} at most", late[4], late[8]);
    assert!(late[4] < Duration::from_millis(100), "{late:?}");
    // One who waits for an hour, and many who wait for nothing that is pending.
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

/// Streams that expire, or give way to others, without anybody looking at them; in memory and on a device.
#[test]
fn who_waits_for_a_group_hears_that_its_stream_is_gone() {
    let cold = ["--storage-device", "memory", "--maxmemory", "16mb", "--enable-debug-command", "yes"];
    for (more, is_cold) in [(&[][..], false), (&cold[..], true)] {
        let server = Server::start(&Program::Almandine, &[&["--workers", "3"], more].concat());
        let mut control = server.client();
        let mut crowd: Vec<Client> = (0..30).map(|_| server.client()).collect();
        for (number, client) in crowd.iter_mut().enumerate() {
            let key = number % 10;
            control.line(&format!("XGROUP CREATE s{key} g $ MKSTREAM"));
            control.line("XGROUP CREATE stays g $ MKSTREAM");
            line(client, &format!("XREADGROUP GROUP g c{number} BLOCK 0 STREAMS stays s{key} > >"));
        }
        await_blocked(&mut control, 30);
        (0..10).for_each(|key| assert_eq!(control.line(&format!("PEXPIRE s{key} 100")), Value::Integer(1)));
        if is_cold {
            assert!(server.make_cold());
        }
        for (number, client) in crowd.iter_mut().enumerate() {
            let reply = client.receive().unwrap_or_else(|e| panic!("{more:?}: {number} still waits: {e}"));
            let text = format!("NOGROUP No such key 's{}' or consumer group 'g' in XREADGROUP with GROUP option", number % 10);
            assert_eq!(reply, Value::Error(text.into_bytes()));
        }
        await_blocked(&mut control, 0);
        assert_eq!(figure(&mut control, "total_blocking_keys"), 0);
        assert_eq!(control.line("EXISTS stays"), Value::Integer(1));
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
