//! Crowds: what a hundred thousand channels and patterns, a million places in queues, listeners that never read, and clients
//! that vanish in the middle of something cost, while they are there and afterwards. `ALMANDINE_TEST_FULL=1` runs the large
//! forms; ordinary ones are a tenth or less.

use std::time::{Duration, Instant};

use almandine_testkit::hostile::{MIB, figure, figure_becomes, processor_ns, raise_file_limit, settles_below, vanish};
use almandine_testkit::{Client, Program, Server, Value, full};

const PATIENCE: Duration = Duration::from_secs(30);

fn start(flags: &[&str]) -> Server {
    raise_file_limit(12_000);
    Server::start(&Program::Almandine, &[&["--workers", "2"], flags].concat())
}

fn words(line: &str) -> Vec<String> {
    line.split(' ').map(str::to_owned).collect()
}

/// Waits until a figure has come back to what it was.
fn assert_becomes(client: &mut Client, name: &str, wanted: u64, what: &str) {
    let found = figure_becomes(client, name, wanted, PATIENCE);
    assert_eq!(found, wanted, "{what}: {name}");
}

/// What the server keeps of a crowd that is gone: what its allocator does not give back at once.
fn assert_memory_comes_back(server: &Server, before: u64, peak: u64, what: &str) {
    let bound = before + (peak.saturating_sub(before)) / 4 + 16 * MIB;
    let after = settles_below(server, bound, PATIENCE);
    println!("crowds, {what}: {} MiB resident before, {} with it, {} after", before / MIB, peak / MIB, after / MIB);
    assert!(after <= bound, "{what}: {} MiB resident before, {} with it, {} after", before / MIB, peak / MIB, after / MIB);
}

/// Processor time of the server for one call, of many that are pipelined, in nanoseconds; the least of three.
fn cost_ns(server: &Server, client: &mut Client, calls: &[Vec<String>], expected: &[Value]) -> u64 {
    let once = |client: &mut Client| {
        let begin = processor_ns(server);
        let mut count = 0;
        for _ in 0..20 {
            let replies = client.pipeline(calls).expect("replies");
            assert_eq!(replies.len() % expected.len(), 0);
            replies.iter().zip(expected.iter().cycle()).for_each(|(reply, expected)| assert_eq!(reply, expected));
            count += calls.len() as u64;
        }
        (processor_ns(server) - begin) / count
    };
    (0..3).map(|_| once(client)).min().unwrap_or_default()
}

/// Patterns of all kinds, none of which matches what begins with `quiet`; and one that does.
fn patterns(from: usize, count: usize) -> Vec<String> {
    let pattern = |n: usize| match n % 5 {
        0 => format!("news:{n}:*"),
        1 => format!("*:{n:06}"),
        2 => format!("user:*:{n:06}"),
        3 => format!("*<{n:06}>*"),
        _ => format!("?hannel:{n:06}*[xyz]"),
    };
    (from..from + count).map(pattern).collect()
}

/// What each command costs beside a hundred thousand channels and as many patterns. How often a channel is compared with a
/// pattern is counted where that is done, in `node::pubsub::patterns`; here is the whole way of a message.
#[test]
fn publishing_costs_no_more_beside_a_hundred_thousand_channels_and_patterns() {
    const EACH: usize = 1000;
    let listeners = if full() { 100 } else { 20 };
    let server = start(&[]);
    let (mut publisher, before) = (server.client(), server.resident_bytes());
    let calls = |channel: &str| vec![words(&format!("PUBLISH {channel} message")); 500];
    let without = cost_ns(&server, &mut publisher, &calls("quiet:channel"), &[Value::Integer(0)]);
    let mut crowd: Vec<Client> = (0..listeners).map(|_| server.client()).collect();
    for (number, client) in crowd.iter_mut().enumerate() {
        let channels = (0..EACH).map(|n| format!("channel:{}", number * EACH + n));
        let all = [
            std::iter::once("SUBSCRIBE".to_owned()).chain(channels).collect::<Vec<_>>(),
            std::iter::once("PSUBSCRIBE".to_owned()).chain(patterns(number * EACH, EACH)).collect(),
        ];
        client.send(&all).expect("subscriptions");
        (0..2 * EACH).for_each(|_| assert!(matches!(client.receive().expect("a confirmation"), Value::Array(_))));
    }
    let all = (listeners * EACH) as u64;
    assert_eq!((figure(&mut publisher, "pubsub_channels"), figure(&mut publisher, "pubsub_patterns")), (all, all));
    let peak = server.resident_bytes();
    let none = cost_ns(&server, &mut publisher, &calls("quiet:channel"), &[Value::Integer(0)]);
    // One listener by its name, one by a pattern, which is the same or another.
    let one = cost_ns(&server, &mut publisher, &calls("news:15:x"), &[Value::Integer(1)]);
    let inside = cost_ns(&server, &mut publisher, &calls("a<000018>b"), &[Value::Integer(1)]);
    let named = cost_ns(&server, &mut publisher, &calls("channel:77"), &[Value::Integer(1)]);
    println!(
        "crowds, PUBLISH: {without} ns without anybody; beside {all} channels and patterns {none} ns to nobody, {one} and \
         {inside} to one by a pattern, {named} by its name; {} bytes for each",
        peak.saturating_sub(before) / (2 * all)
    );
    // A comparison with each of them would take some hundred times as long.
    let bound = without * 10 + 20_000;
    assert!(none < bound && one < bound && inside < bound && named < bound, "{without} {none} {one} {inside} {named}");
    for (number, client) in crowd.into_iter().enumerate() {
        if number % 2 == 0 {
            vanish(client).expect("reset");
        }
    }
    for name in ["pubsub_channels", "pubsub_patterns", "pubsub_clients"] {
        assert_becomes(&mut publisher, name, 0, "who listened has gone");
    }
    assert_memory_comes_back(&server, before, peak, "channels and patterns");
}

/// A million places in queues: many connections that wait for many keys each.
#[test]
fn serving_one_costs_no_more_beside_a_million_places_in_queues() {
    let (connections, keys) = if full() { (1000, 1000) } else { (200, 200) };
    let server = start(&[]);
    let mut control = server.client();
    let name = |connection: usize, key: usize| format!("wait:{connection}:{key}");
    let wait = |connection: usize, count: usize| {
        let mut client = server.client();
        let keys = (0..count).map(|key| name(connection, key));
        let command: Vec<String> = std::iter::once("BLPOP".to_owned()).chain(keys).chain(["0".to_owned()]).collect();
        client.send(&[command]).expect("a command is sent");
        client
    };
    // What a waiter for one key costs, from its wait to its answer, beside ten others and beside the crowd.
    let cost = |control: &mut Client| {
        let (mut waiter, rounds) = (server.client(), 2000);
        let once = |waiter: &mut Client, control: &mut Client| {
            let begin = processor_ns(&server);
            for _ in 0..rounds {
                waiter.send(&[["BLPOP", "single", "0"]]).expect("a command is sent");
                assert_eq!(control.line("RPUSH single element"), Value::Integer(1));
                let reply = waiter.receive().expect("an element");
                assert_eq!(reply.elements().map(<[Value]>::len), Some(2), "{reply}");
            }
            (processor_ns(&server) - begin) / rounds
        };
        (0..3).map(|_| once(&mut waiter, control)).min().unwrap_or_default()
    };
    let mut crowd: Vec<Client> = (0..10).map(|connection| wait(connection, 1)).collect();
    assert_becomes(&mut control, "blocked_clients", 10, "ten wait");
    let few = cost(&mut control);
    crowd.clear();
    assert_becomes(&mut control, "blocked_clients", 0, "nobody waits");
    let before = server.resident_bytes();
    let begin = Instant::now();
    crowd.extend((0..connections).map(|connection| wait(connection, keys)));
    let places = (connections * keys) as u64;
    assert_becomes(&mut control, "blocked_clients", connections as u64, "all wait");
    let waited = begin.elapsed();
    assert_becomes(&mut control, "total_blocking_keys", places, "all wait");
    let peak = server.resident_bytes();
    let many = cost(&mut control);
    let each = peak.saturating_sub(before) / places;
    println!(
        "crowds, waiting: {places} places in {waited:.1?}, {each} bytes each; to wait and be served takes {few} ns beside ten, \
         {many} beside them"
    );
    // With the connections, which a smaller crowd has fewer places of.
    assert!(each < if full() { 500 } else { 800 }, "{each} bytes for a place");
    assert!(many < few * 3, "{few} ns to wait and be served beside ten, {many} beside {places}");
    // One of the crowd is served, and leaves all of its queues.
    assert_eq!(control.line(&format!("RPUSH {} element", name(7, keys / 2))), Value::Integer(1));
    let reply = crowd[7].receive().expect("an element");
    assert_eq!(reply.to_string(), format!("*[$\"{}\", $\"element\"]", name(7, keys / 2)));
    assert_becomes(&mut control, "total_blocking_keys", places - keys as u64, "one was served");
    // Half of them end orderly, half do not.
    for (number, client) in crowd.into_iter().enumerate() {
        if number % 2 == 0 {
            vanish(client).expect("reset");
        }
    }
    for name in ["blocked_clients", "total_blocking_keys"] {
        assert_becomes(&mut control, name, 0, "who waited has gone");
    }
    assert_eq!(control.line(&format!("RPUSH {} kept", name(3, 0))), Value::Integer(1));
    assert_eq!(control.line("DBSIZE"), Value::Integer(1));
    assert_memory_comes_back(&server, before, peak, "places in queues");
}

/// What a client is in the middle of when its connection ends.
const MIDDLES: &[(&str, &[&str])] = &[
    ("BLPOP", &["BLPOP a b c 0"]),
    ("BLPOP with a time", &["BLPOP a b c 1000"]),
    ("BLMOVE", &["BLMOVE a b LEFT RIGHT 0"]),
    ("BZMPOP", &["BZMPOP 0 2 za zb MIN"]),
    ("XREAD", &["XREAD BLOCK 0 STREAMS s t $ $"]),
    ("XREADGROUP", &["XREADGROUP GROUP g c BLOCK 0 CLAIM 1000000 STREAMS groups >"]),
    ("WAIT", &["WAIT 1 0"]),
    ("channels", &["SUBSCRIBE a b c", "PSUBSCRIBE a* b* c*", "SSUBSCRIBE a b c"]),
    ("channels in RESP3", &["HELLO 3", "SUBSCRIBE a b c", "BLPOP a 0"]),
    ("MULTI", &["WATCH a b c", "MULTI", "SET a 1", "RPUSH b 1", "BLPOP a 0"]),
    ("WATCH", &["WATCH a b c"]),
    ("MONITOR", &["MONITOR"]),
    ("tracking", &["HELLO 3", "CLIENT TRACKING ON", "MGET a b c"]),
    ("tracking by prefix", &["HELLO 3", "CLIENT TRACKING ON BCAST PREFIX a PREFIX b"]),
    ("silence", &["CLIENT REPLY OFF", "BLPOP a 0"]),
    ("a pipeline that waits", &["BLPOP a 0", "SET never 1", "SUBSCRIBE never"]),
];

const FIGURES: &[&str] = &[
    "blocked_clients",
    "clients_in_timeout_table",
    "total_blocking_keys",
    "total_blocking_keys_on_nokey",
    "pubsub_clients",
    "pubsub_channels",
    "pubsub_patterns",
    "pubsubshard_channels",
    "watching_clients",
    "total_watched_keys",
    "tracking_clients",
    "tracking_total_prefixes",
];

#[test]
fn clients_that_vanish_in_the_middle_leave_nothing() {
    let server = start(&["--tracking-table-max-keys", "100"]);
    let (rounds, each) = if full() { (40, 60) } else { (4, 15) };
    let mut control = server.client();
    assert_eq!(control.line("XGROUP CREATE groups g $ MKSTREAM"), Value::ok());
    let (mut before, mut peak) = (0, 0);
    for round in 0..rounds {
        let mut crowd = Vec::new();
        for (_, lines) in MIDDLES {
            for _ in 0..each {
                let mut client = server.client();
                client.send(&lines.iter().map(|line| words(line)).collect::<Vec<_>>()).expect("commands are sent");
                crowd.push(client);
            }
        }
        let waiting = MIDDLES
            .iter()
            .filter(|(_, lines)| {
                lines.iter().any(|line| line.starts_with('B') || line.starts_with('X') || line.starts_with("WAIT"))
            })
            .count();
        // BLPOP in MULTI does not wait.
        let expected = ((waiting - 1) * each) as u64;
        assert_becomes(&mut control, "blocked_clients", expected, "all wait that can");
        assert_becomes(&mut control, "watching_clients", 2 * each as u64, "all watch that can");
        assert_becomes(&mut control, "total_blocking_keys_on_nokey", 1, "all wait that can");
        assert_becomes(&mut control, "tracking_clients", 2 * each as u64, "all track that can");
        // And some wait for the end of a pause.
        assert_eq!(control.line("CLIENT PAUSE 100000 WRITE"), Value::ok());
        for _ in 0..each {
            let mut client = server.client();
            client.send(&[["SET", "never", "1"]]).expect("a command is sent");
            crowd.push(client);
        }
        assert_becomes(&mut control, "blocked_clients", expected + each as u64, "a pause is waited for");
        peak = peak.max(server.resident_bytes());
        for (number, client) in crowd.into_iter().enumerate() {
            if (number + round) % 2 == 0 {
                vanish(client).expect("reset");
            }
        }
        for name in FIGURES {
            assert_becomes(&mut control, name, 0, "all have gone");
        }
        assert_eq!(control.line("CLIENT UNPAUSE"), Value::ok());
        assert_becomes(&mut control, "connected_clients", 1, "all have gone");
        let list = control.line("CLIENT LIST");
        assert_eq!(list.bytes().map(|list| list.iter().filter(|byte| **byte == b'\n').count()), Some(1), "{list}");
        // Nothing of theirs has happened, nor is anything kept from others.
        assert_eq!(control.line("EXISTS never a b"), Value::Integer(0));
        assert_eq!(control.line("RPUSH a element"), Value::Integer(1));
        assert_eq!(control.line("LPOP a"), Value::Bulk(b"element".to_vec()));
        assert_eq!(control.line("PUBLISH a message"), Value::Integer(0));
        if round == 1 {
            before = server.resident_bytes();
        }
    }
    println!("crowds: {} clients vanished in the middle of {} things", rounds * each * (MIDDLES.len() + 1), MIDDLES.len() + 1);
    let after = settles_below(&server, before + 8 * MIB, PATIENCE);
    assert!(after <= before + 8 * MIB, "{} KiB resident behind the second round, {} behind the last", before / 1024, after / 1024);
}

/// How a client comes to listen without reading.
const DEAF: &[(&str, &[&str])] = &[
    ("by channel", &["SUBSCRIBE news"]),
    ("by pattern", &["PSUBSCRIBE n*s"]),
    ("by channel and pattern, in RESP3", &["HELLO 3", "SUBSCRIBE news", "PSUBSCRIBE n*"]),
    ("by a shard channel", &["SSUBSCRIBE news"]),
];

/// Listeners that never read are closed by the limit of their class, at once beyond the hard one and in time beyond the soft
/// one; others are served meanwhile.
#[test]
fn listeners_that_never_read_are_closed_and_cost_bounded_memory() {
    for (soft, limits) in [(false, "pubsub 1mb 0 0"), (true, "pubsub 0 1mb 1")] {
        close_listeners(soft, limits);
    }
}

/// Publishes until all that never read are closed; each message must reach the one that reads before the next is published.
fn close_listeners(soft: bool, limits: &str) {
    const LIMIT: u64 = MIB;
    let each = if full() { 100 } else { 15 };
    // A limit of another class does not count.
    let server = start(&["--client-output-buffer-limit", &format!("normal 1kb 1kb 1 {limits}")]);
    let mut control = server.client();
    let before = server.resident_bytes();
    let mut deaf = Vec::new();
    for (_, lines) in DEAF {
        for _ in 0..each {
            let client = server.client();
            // The less its system takes for it, the sooner the server notices.
            rustix::net::sockopt::set_socket_recv_buffer_size(client.stream(), 4096).expect("a small buffer");
            let mut client = client;
            client.send(&lines.iter().map(|line| words(line)).collect::<Vec<_>>()).expect("commands are sent");
            deaf.push(client);
        }
    }
    assert_becomes(&mut control, "pubsub_clients", deaf.len() as u64, "all listen");
    let (mut listener, text) = (server.client(), "x".repeat(10_000));
    assert!(matches!(listener.line("SUBSCRIBE news"), Value::Array(_)));
    let (mut peak, mut slowest, mut published) = (0, Duration::ZERO, 0);
    let begin = Instant::now();
    while figure(&mut control, "pubsub_clients") > 1 {
        assert!(begin.elapsed() < PATIENCE, "they listen still");
        // Beyond the soft limit, and what the system takes, it takes its second.
        let more = !soft || published < 700;
        for _ in 0..if more { 20 } else { 0 } {
            let asked = Instant::now();
            control.call(&["PUBLISH", "news", &text]).expect("a reply");
            slowest = slowest.max(asked.elapsed());
            assert!(matches!(listener.receive().expect("a message"), Value::Array(_)));
            control.call(&["SPUBLISH", "news", &text]).expect("a reply");
            published += 1;
        }
        peak = peak.max(server.resident_bytes());
        if !more {
            std::thread::sleep(Duration::from_millis(20));
        }
    }
    let took = begin.elapsed();
    println!(
        "crowds, {limits}: {} deaf listeners closed after {published} messages and {took:.1?}, PUBLISH took {slowest:.1?} at most",
        deaf.len()
    );
    assert!(!soft || took > Duration::from_millis(900), "beyond the soft limit a second is given: {took:?}");
    // A message twice to a client that listens twice; and what was published between two looks.
    let bound = before + deaf.len() as u64 * (if soft { 14 } else { 3 }) * LIMIT + 48 * MIB;
    assert!(peak < bound, "{} MiB resident, {} expected at most", peak / MIB, bound / MIB);
    assert_becomes(&mut control, "connected_clients", 2, "who was deaf is gone");
    assert_memory_comes_back(&server, before, peak, limits);
    drop(deaf);
}
