//! What observes commands: MONITOR, HOTKEYS, the slow log, and clients whose looks leave no trace.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use almandine_testkit::hostile::MIB;
use almandine_testkit::random::Random;
use almandine_testkit::{Client, Program, Server, Value, seed, timely};

fn start(flags: &[&str]) -> Server {
    Server::start(&Program::Almandine, flags)
}

fn text(value: &Value) -> String {
    String::from_utf8_lossy(value.bytes().unwrap_or_else(|| panic!("no text: {value:?}"))).into_owned()
}

fn monitor(server: &Server) -> Client {
    let mut client = server.client();
    assert_eq!(client.line("MONITOR"), Value::ok());
    client
}

/// The command in a line of MONITOR.
fn command(line: &Value) -> String {
    let Value::Simple(line) = line else { panic!("no line: {line:?}") };
    let line = String::from_utf8_lossy(line);
    line.split_once("] ").unwrap_or_else(|| panic!("no command: {line}")).1.to_owned()
}

/// A command that was sent when the answer to another had come is shown behind it, whichever workers have run them.
#[test]
fn a_monitor_sees_commands_in_an_order_that_their_clients_know() {
    let server = start(&["--workers", "4"]);
    let mut monitors: Vec<Client> = (0..3).map(|_| monitor(&server)).collect();
    let mut clients: Vec<Client> = (0..8).map(|_| server.client()).collect();
    let rounds = 400;
    for round in 0..rounds {
        for (number, client) in clients.iter_mut().enumerate() {
            let reply = client.line(&format!("INCRBY key {}", round * 8 + number));
            assert!(reply.integer().is_some(), "{reply:?}");
        }
    }
    for monitor in &mut monitors {
        for number in 0..rounds * 8 {
            let line = command(&monitor.receive().expect("a line"));
            assert_eq!(line, format!("\"INCRBY\" \"key\" \"{number}\""));
        }
    }
}

/// What a transaction executes is shown where it is executed, and EXEC behind it; what is secret is not shown.
#[test]
fn a_monitor_sees_transactions_where_they_run_and_no_secrets() {
    let server = start(&["--workers", "2"]);
    let mut monitor = monitor(&server);
    let (mut one, mut other) = (server.client(), server.client());
    for line in ["MULTI", "SET a 1"] {
        let _ = one.line(line);
    }
    let _ = other.line("SET b 2");
    let _ = one.line("EXEC");
    let _ = other.line("AUTH secret");
    let _ = other.line("HELLO 3 AUTH default secret");
    let _ = other.line("CONFIG GET port");
    let _ = other.line("PING");
    let seen: Vec<String> = (0..7).map(|_| command(&monitor.receive().expect("a line"))).collect();
    let expected = [
        "\"MULTI\"",
        "\"SET\" \"b\" \"2\"",
        "\"SET\" \"a\" \"1\"",
        "\"EXEC\"",
        "\"AUTH\" \"(redacted)\"",
        "\"HELLO\" \"3\" \"AUTH\" \"(redacted)\" \"(redacted)\"",
        "\"PING\"",
    ];
    assert_eq!(seen, expected);
}

/// One that never reads is closed, and holds no more than its limit until then; one that reads goes on.
#[test]
fn a_monitor_that_never_reads_is_cut_off() {
    let server = start(&["--workers", "2", "--client-output-buffer-limit", "normal 4mb 0 0"]);
    let before = server.resident_bytes();
    let mut operator = server.client();
    let silent = monitor(&server);
    let value = "v".repeat(10_000);
    let end = Instant::now() + Duration::from_secs(30);
    let mut sent = 0;
    while operator.line("CLIENT LIST FLAGS O").bytes().is_some_and(|list| !list.is_empty()) {
        assert!(Instant::now() < end, "it is still there after {sent} MiB");
        let replies = operator.pipeline(&vec![["SET", "key", &value]; 100]).expect("replies");
        assert!(replies.iter().all(|reply| *reply == Value::ok()));
        sent += 1;
    }
    let during = server.resident_bytes();
    println!("observers: a monitor that never reads was cut off after {sent} MiB, {} MiB resident", during / MIB);
    assert!((4..200).contains(&sent), "{sent} MiB");
    assert!(during < before + 64 * MIB, "{} MiB resident", during / MIB);
    drop(silent);
}

/// The keys and weights of a list of HOTKEYS GET.
fn hot(operator: &mut Client, list: &str) -> Vec<(String, u64)> {
    let report = operator.line("HOTKEYS GET");
    let fields = report.elements().and_then(|reports| reports[0].elements()).expect("a report").to_vec();
    let at = fields.iter().position(|field| field.bytes() == Some(list.as_bytes())).expect("the list");
    let pairs = fields[at + 1].elements().expect("pairs");
    pairs.chunks(2).map(|pair| (text(&pair[0]), pair[1].integer().expect("a weight").unsigned_abs())).collect()
}

/// Keys of known weights among many others, over four workers: HOTKEYS finds them, in their order, and says no more of each
/// than is true.
#[test]
fn hot_keys_are_found_in_their_order() {
    timely(find_hot_keys);
}

/// An error says that the times are those of a machine that was busy: they are a clock's.
fn find_hot_keys() -> Result<(), String> {
    let server = start(&["--workers", "4"]);
    let mut operator = server.client();
    assert_eq!(operator.line("HOTKEYS START METRICS 2 CPU NET COUNT 5"), Value::ok());
    let seed = seed();
    let truth: BTreeMap<String, u64> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..4)
            .map(|number| {
                let mut client = server.client();
                scope.spawn(move || {
                    let mut random = Random::new(seed + number);
                    let mut truth = BTreeMap::<String, u64>::new();
                    for _ in 0..60 {
                        // Half of the keys come once, and each hot one half as often as the one before it.
                        let keys: Vec<String> = (0..200)
                            .map(|n| match random.below(1 << 20).trailing_zeros() {
                                zeros @ 0..5 if n % 2 == 0 => format!("hot{zeros}"),
                                _ => format!("cold{}", random.below(1 << 40)),
                            })
                            .collect();
                        for key in &keys {
                            let digits = key.len().to_string().len();
                            *truth.entry(key.clone()).or_default() += (4 + 9 + 3 + digits + key.len() + 2 + 5) as u64;
                        }
                        let commands: Vec<[&str; 2]> = keys.iter().map(|key| ["GET", key.as_str()]).collect();
                        client.pipeline(&commands).expect("replies");
                    }
                    truth
                })
            })
            .collect();
        let mut truth = BTreeMap::<String, u64>::new();
        for worker in workers {
            worker.join().expect("no panic").into_iter().for_each(|(key, weight)| *truth.entry(key).or_default() += weight);
        }
        truth
    });
    let found = hot(&mut operator, "by-net-bytes");
    let names: Vec<&str> = found.iter().map(|(key, _)| key.as_str()).collect();
    assert_eq!(names, ["hot0", "hot1", "hot2", "hot3", "hot4"], "seed {seed}");
    let total: u64 = truth.values().sum();
    for (key, weight) in &found {
        let is = truth[key];
        assert!(*weight <= is && is - weight <= total / 100, "{key}: {weight} of {is}, seed {seed}");
    }
    let by_time = hot(&mut operator, "by-cpu-time-us");
    assert_eq!(operator.line("HOTKEYS STOP"), Value::ok());
    let _ = server.client().pipeline(&vec![["GET", "late"]; 1000]);
    assert_eq!(hot(&mut operator, "by-net-bytes"), found, "what comes behind STOP does not count");
    if by_time[0].0 == "hot0" || by_time[1].0 == "hot0" { Ok(()) } else { Err(format!("{by_time:?}")) }
}

/// The commands of a transaction count for their keys, EXEC for none.
#[test]
fn hot_keys_are_found_in_transactions() {
    let server = start(&["--workers", "1"]);
    let mut client = server.client();
    assert_eq!(client.line("HOTKEYS START METRICS 1 NET"), Value::ok());
    for line in ["MULTI", "GET one", "MGET one other", "PING", "EXEC", "EXISTS one"] {
        let _ = client.line(line);
    }
    // *2 $3 GET $3 one: 22 bytes and 5 of the reply; *3 $4 MGET $3 one $5 other: 34 and 14, in halves; *2 $6 EXISTS $3 one: 25
    // and 4.
    let expected = [("one", 27 + 24 + 29), ("other", 24)].map(|(key, weight)| (key.to_owned(), weight));
    assert_eq!(hot(&mut client, "by-net-bytes"), expected);
}

/// DURATION ends it by itself.
#[test]
fn hot_keys_end_by_themselves() {
    let server = start(&["--workers", "1"]);
    let mut operator = server.client();
    assert_eq!(operator.line("HOTKEYS START METRICS 1 NET DURATION 1"), Value::ok());
    std::thread::sleep(Duration::from_millis(1300));
    let _ = operator.line("GET late");
    assert!(hot(&mut operator, "by-net-bytes").is_empty());
    assert!(operator.line("HOTKEYS STOP").is_null());
    assert_eq!(operator.line("HOTKEYS RESET"), Value::ok());
}

/// What is computed in slices is in the slow log and in the statistics with all of its time.
#[test]
fn computations_in_slices_count_with_all_of_their_time() {
    let server = start(&["--workers", "1", "--slowlog-log-slower-than", "1000"]);
    let client = RefCell::new(server.client());
    for set in ["one", "two"] {
        for part in (0..300_000).collect::<Vec<u32>>().chunks(10_000) {
            let words = ["SADD", set].map(str::to_owned).into_iter().chain(part.iter().map(|n| format!("{set} {n}")));
            assert!(client.borrow_mut().call(&words.collect::<Vec<_>>()).expect("SADD").integer().is_some());
        }
    }
    let (logged_us, outside_us) = timely(|| count_union(&mut client.borrow_mut()));
    println!("observers: {logged_us} of {outside_us} us are in the slow log");
}

/// How long a computation took, as the slow log and the statistics say, and from outside. An error says that they are too far
/// apart, as they are when the machine stops this thread.
fn count_union(client: &mut Client) -> Result<(u64, u64), String> {
    let _ = client.line("SLOWLOG RESET");
    let _ = client.line("CONFIG RESETSTAT");
    let begin = Instant::now();
    assert_eq!(client.line("SUNIONSTORE both one two"), Value::Integer(600_000));
    let outside_us = begin.elapsed().as_micros() as u64;
    let log = client.line("SLOWLOG GET 1");
    let entry =
        log.elements().and_then(|entries| entries.first()?.elements()).unwrap_or_else(|| panic!("no entry: {log:?}")).to_vec();
    let logged_us = entry[2].integer().expect("microseconds").unsigned_abs();
    assert_eq!(entry[3].elements().expect("arguments")[0].bytes(), Some(&b"SUNIONSTORE"[..]));
    assert!(logged_us <= outside_us, "{logged_us} of {outside_us}");
    let stats = text(&client.line("INFO commandstats"));
    let line = stats.lines().find(|line| line.starts_with("cmdstat_sunionstore:")).expect("counted");
    assert!(line.contains("calls=1,") && line.contains(&format!("usec={logged_us},")), "{line}");
    if logged_us * 2 > outside_us { Ok((logged_us, outside_us)) } else { Err(format!("{logged_us} of {outside_us}")) }
}

/// A client that waits for the end of a pause goes on when it comes, not when another one happens to look.
#[test]
fn a_pause_ends_when_it_says() {
    let server = start(&["--workers", "2"]);
    let late = timely(|| wait_behind_pauses(&server));
    println!("observers: pauses end {:?} to {:?} late, {:?} in the median", late[0], late[8], late[4]);
}

/// How late nine pauses end, ascending. An error says that it is too late in the median.
fn wait_behind_pauses(server: &Server) -> Result<Vec<Duration>, String> {
    let (mut operator, mut client) = (server.client(), server.client());
    let mut late: Vec<Duration> = (0..9)
        .map(|round| {
            let pause = Duration::from_millis(60 + round * 7);
            let begin = Instant::now();
            assert_eq!(operator.line(&format!("CLIENT PAUSE {} WRITE", pause.as_millis())), Value::ok());
            assert_eq!(client.line("SET a 1"), Value::ok());
            let elapsed = begin.elapsed();
            // The server counts in milliseconds.
            assert!(elapsed + Duration::from_millis(2) > pause, "{elapsed:?} of {pause:?}");
            elapsed.saturating_sub(pause)
        })
        .collect();
    late.sort_unstable();
    if late[4] < Duration::from_millis(40) { Ok(late) } else { Err(format!("pauses end late: {late:?}")) }
}

/// What expires during a pause is not seen, and goes when it is over.
#[test]
fn nothing_that_expires_is_removed_during_a_pause() {
    timely(expire_beside_a_pause);
}

/// An error says that a machine that was busy let the pause come behind the keys' time, or end before it was looked at.
fn expire_beside_a_pause() -> Result<(), String> {
    let server = start(&["--workers", "2"]);
    let mut client = server.client();
    let begun = Instant::now();
    let expired = |client: &mut Client| {
        let stats = text(&client.line("INFO stats"));
        stats.lines().find_map(|line| line.strip_prefix("expired_keys:")?.trim().parse::<u64>().ok()).expect("a number")
    };
    for line in ["SET a 1 PX 300", "SET b 1 PX 300", "CLIENT PAUSE 1200 WRITE"] {
        assert_eq!(client.line(line), Value::ok());
    }
    let is_paused_in_time = begun.elapsed() < Duration::from_millis(300);
    std::thread::sleep(Duration::from_millis(600));
    let is_null = client.line("GET a").is_null();
    let found = (expired(&mut client), client.line("EXISTS a b"));
    if !is_paused_in_time || begun.elapsed() > Duration::from_millis(1200) {
        return Err(format!("{found:?} after {:?}", begun.elapsed()));
    }
    assert!(is_null);
    assert_eq!(found, (0, Value::Integer(0)));
    std::thread::sleep(Duration::from_millis(900));
    assert!(client.line("GET a").is_null() && client.line("GET b").is_null());
    assert_eq!(expired(&mut client), 2);
    Ok(())
}

/// The fields of a client's line, in their order.
fn fields(line: &str) -> Vec<(String, String)> {
    let pair = |word: &str| word.split_once('=').map(|(name, value)| (name.to_owned(), value.to_owned()));
    line.split_whitespace().map(|word| pair(word).unwrap_or_else(|| panic!("{word} in {line}"))).collect()
}

/// CLIENT LIST has the fields of redis-server 7.0 in its order, and where they are about what the client does, its values.
#[test]
fn client_list_tells_what_redis_tells() {
    // Addresses, times, and what each server holds in its own way.
    const OWN: &[&str] =
        &["id", "addr", "laddr", "fd", "age", "idle", "qbuf-free", "multi-mem", "rbs", "rbp", "tot-mem", "argv-mem"];
    let steps: &[&[&str]] = &[
        &[],
        &["CLIENT SETNAME me", "SELECT 3"],
        &["WATCH a b", "MULTI", "SET a 1", "GET a"],
        &["CLIENT NO-EVICT ON", "CLIENT TRACKING ON BCAST PREFIX a PREFIX b"],
        &["CLIENT TRACKING ON OPTIN", "GET a"],
        &["HELLO 3", "SUBSCRIBE a b", "PSUBSCRIBE c*", "SSUBSCRIBE d"],
        &["SUBSCRIBE a"],
        &["MONITOR"],
        &["CLIENT REPLY OFF", "PING"],
        &["NOSUCH"],
    ];
    let ours = start(&["--workers", "1"]);
    let theirs = Server::start(&Program::Redis, &[]);
    for commands in steps {
        // Replies are not waited for, since not all commands have one: on a busy machine it takes longer until both servers
        // have taken them.
        let mut wrong = String::new();
        let same = [5, 50, 500].iter().any(|pause_ms| {
            let [ours, theirs] = [&ours, &theirs].map(|server| lines(server, commands, Duration::from_millis(*pause_ms)));
            wrong = match (ours, theirs) {
                (Some(ours), Some(theirs)) => difference(&ours, &theirs, OWN),
                _ => "a client is not listed".to_owned(),
            };
            wrong.is_empty()
        });
        assert!(same, "after {commands:?}: {wrong}");
    }
}

/// The line of a client that has sent these commands, and that of the client that asks.
fn lines(server: &Server, commands: &[&str], pause: Duration) -> Option<[Vec<(String, String)>; 2]> {
    let (mut operator, mut client) = (server.client(), server.client());
    std::thread::sleep(pause);
    for command in commands {
        let _ = client.send(&[command.split(' ').collect::<Vec<_>>()]);
        std::thread::sleep(pause);
    }
    let list = text(&operator.line("CLIENT LIST"));
    let found = [false, true].map(|own| list.lines().find(|line| line.contains("cmd=client|list") == own).map(fields));
    client.end();
    operator.end();
    let [line, own] = found;
    Some([line?, own?])
}

/// What is not the same in both, apart from the values of some fields; empty if all is.
fn difference(ours: &[Vec<(String, String)>; 2], theirs: &[Vec<(String, String)>; 2], apart: &[&str]) -> String {
    for (ours, theirs) in ours.iter().zip(theirs) {
        let known: Vec<_> = ours.iter().filter(|(name, _)| theirs.iter().any(|(other, _)| other == name)).collect();
        let names = |fields: &[&(String, String)]| fields.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>();
        let (our_names, their_names) = (names(&known), names(&theirs.iter().collect::<Vec<_>>()));
        if our_names != their_names {
            return format!("{our_names:?}, in Redis {their_names:?}");
        }
        for (our, their) in known.iter().zip(theirs).filter(|((name, _), _)| !apart.contains(&name.as_str())) {
            if our.1 != their.1 {
                return format!("{} is {}, in Redis {}", our.0, our.1, their.1);
            }
        }
    }
    let argv = |line: &[(String, String)]| line.iter().find(|(field, _)| field == "argv-mem").map(|(_, value)| value.clone());
    if argv(&ours[1]) == argv(&theirs[1]) { String::new() } else { "argv-mem differs".to_owned() }
}

/// Under CLIENT NO-TOUCH only TOUCH makes keys warmer.
#[test]
fn untouched_keys_get_no_warmer() {
    let server = start(&["--workers", "1", "--maxmemory-policy", "allkeys-lfu"]);
    let (mut client, mut other) = (server.client(), server.client());
    let _ = client.line("SET a 1");
    let warmth = |client: &mut Client| client.line("OBJECT FREQ a").integer().expect("a frequency");
    let fresh = warmth(&mut client);
    assert_eq!(client.line("CLIENT NO-TOUCH ON"), Value::ok());
    let _ = client.pipeline(&vec![["GET", "a"]; 50]);
    let _ = client.pipeline(&[vec!["MULTI"], vec!["GET", "a"], vec!["EXEC"], vec!["SETRANGE", "a", "0", "2"]]);
    assert_eq!(warmth(&mut client), fresh);
    let _ = client.line("TOUCH a");
    let touched = warmth(&mut client);
    assert!(touched > fresh, "{touched}");
    let _ = other.pipeline(&vec![["GET", "a"]; 50]);
    let warm = warmth(&mut other);
    assert!(warm > touched, "{warm}: others' uses count");
    let _ = client.line("RESET");
    let _ = client.line("SET b 1");
    let _ = client.pipeline(&vec![["GET", "b"]; 50]);
    assert!(client.line("OBJECT FREQ b").integer().is_some_and(|warm| warm > fresh), "RESET ends it");
}
