//! Client-side caching between connections: redirection, its end, keys that expire or give way, and no stale copy under
//! concurrent writes. The replies are the same from redis-server, which plays the same parts.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use almandine_testkit::mutants::must_notice;
use almandine_testkit::promises::tracking::{Changed, changed, is_told, is_told_of_what_scripts_have_read};
use almandine_testkit::{Client, Program, Server, Value, full};

fn resp3(server: &Server) -> Client {
    let mut client = server.client();
    client.line("HELLO 3");
    client
}

fn id(client: &mut Client) -> String {
    client.line("CLIENT ID").to_string().trim_start_matches(':').to_owned()
}

fn next(client: &mut Client) -> String {
    client.receive().expect("a message").to_string()
}

fn redirection(program: &Program) {
    let server = Server::start(program, &[]);
    let (mut reader, mut target, mut writer) = (server.client(), resp3(&server), server.client());
    let target_id = id(&mut target);
    assert_eq!(reader.line(&format!("CLIENT TRACKING on REDIRECT {target_id}")), Value::ok());
    assert_eq!(reader.line("CLIENT GETREDIR").to_string(), format!(":{target_id}"));
    assert_eq!(
        reader.line(&format!("CLIENT TRACKING on REDIRECT {target_id} REDIRECT {target_id}")),
        Value::Error(b"ERR A client can only redirect to a single other client".to_vec())
    );
    // Also what the reader changes itself, which it cannot be told.
    reader.line("MGET a b");
    writer.line("SET a 1");
    assert_eq!(next(&mut target), r#">[$"invalidate", *[$"a"]]"#);
    reader.line("SET b 1");
    assert_eq!(next(&mut target), r#">[$"invalidate", *[$"b"]]"#);
    let info = reader.line("CLIENT TRACKINGINFO").to_string();
    assert_eq!(info, format!(r#"*[$"flags", *[$"on"], $"redirect", :{target_id}, $"prefixes", *[]]"#));
    // A target that speaks RESP2 and has not subscribed hears nothing.
    target.line("HELLO 2");
    reader.line("GET a");
    writer.line("SET a 2");
    assert_eq!(target.line("PING").to_string(), "+PONG");

    // The target goes: a reader that speaks RESP3 is told, any can ask.
    drop(target);
    reader.line("HELLO 3");
    let deadline = Instant::now() + Duration::from_secs(5);
    while writer.line("CLIENT LIST").to_string().contains(&format!("id={target_id} ")) {
        assert!(Instant::now() < deadline, "the target is still connected");
        std::thread::sleep(Duration::from_millis(5));
    }
    reader.line("GET a");
    writer.line("SET a 3");
    assert_eq!(next(&mut reader), format!(r#">[$"tracking-redir-broken", :{target_id}]"#));
    let info = reader.line("CLIENT TRACKINGINFO").to_string();
    assert!(info.contains("broken_redirect"), "{info}");
    assert!(writer.line("CLIENT LIST").to_string().contains("flags=tR "));
    assert_eq!(reader.line("CLIENT TRACKING on"), Value::ok());
    assert_eq!(reader.line("CLIENT GETREDIR").to_string(), ":0");
}

/// The target leaves, and at once a key changes: it may still be on its way out when it should be notified.
fn broken_redirection(program: &Program, flags: &[&str]) {
    const ROUNDS: usize = 500;
    let server = Server::start(program, flags);
    let (mut reader, mut writer) = (resp3(&server), server.client());
    for round in 0..ROUNDS {
        let mut target = resp3(&server);
        let target_id = id(&mut target);
        assert_eq!(reader.line(&format!("CLIENT TRACKING on REDIRECT {target_id}")), Value::ok());
        reader.line("GET a");
        drop(target);
        writer.line(&format!("SET a {round}"));
        let expected = format!(r#">[$"tracking-redir-broken", :{target_id}]"#);
        assert_eq!(next(&mut reader), expected, "{program:?} {flags:?}, round {round}");
    }
}

#[test]
fn a_redirection_breaks_with_its_client() {
    broken_redirection(&Program::Redis, &[]);
    for workers in ["1", "2"] {
        broken_redirection(&Program::Almandine, &["--workers", workers]);
    }
}

#[test]
fn redirection_as_in_redis() {
    redirection(&Program::Redis);
    redirection(&Program::Almandine);
}

/// Adds the keys of all invalidations that arrive until none does for a while, and until all that are awaited have come or
/// patience ends.
fn hear(client: &mut Client, told: &mut BTreeSet<String>, awaited: &BTreeSet<String>) {
    let begun = Instant::now();
    loop {
        for value in client.receive_until_quiet(Duration::from_millis(700)).expect("messages") {
            told.append(&mut changed_keys(&value).expect("nothing but invalidations"));
        }
        if awaited.is_subset(told) || begun.elapsed() > PATIENCE {
            return;
        }
    }
}

/// How long may be waited for what must come.
const PATIENCE: Duration = Duration::from_secs(15);

/// All that a client is told until nothing comes for a while, with all of these.
fn told(client: &mut Client, awaited: &BTreeSet<String>) -> BTreeSet<String> {
    let mut told = BTreeSet::new();
    hear(client, &mut told, awaited);
    told
}

fn evicted(client: &mut Client) -> u64 {
    let info = client.line("INFO stats").to_string();
    let value = info.split("evicted_keys:").nth(1).expect("the figure");
    value.chars().take_while(char::is_ascii_digit).collect::<String>().parse().expect("a number")
}

/// Keys give way while two clients track them: one has read them, one tracks their prefix.
fn eviction(program: &Program) {
    const KEYS: usize = 300;
    let server = Server::start(program, &["--maxmemory", "24mb", "--maxmemory-policy", "allkeys-lru"]);
    let (mut reader, mut broadcast, mut writer) = (resp3(&server), resp3(&server), server.client());
    let value = "x".repeat(5_000);
    let set = |name: String| vec!["SET".to_owned(), name, value.clone()];
    writer.pipeline(&(0..KEYS).map(|key| set(format!("k{key}"))).collect::<Vec<_>>()).expect("writes");
    assert_eq!(reader.line("CLIENT TRACKING on"), Value::ok());
    let gets: Vec<Vec<String>> = (0..KEYS).map(|key| vec!["GET".to_owned(), format!("k{key}")]).collect();
    assert!(reader.pipeline(&gets).expect("reads").iter().all(|read| *read != Value::Null));
    assert_eq!(broadcast.line("CLIENT TRACKING on BCAST PREFIX k"), Value::ok());
    let exists = |writer: &mut Client, key: usize| writer.line(&format!("EXISTS k{key}")).to_string() == ":1";
    let mut fill = 0;
    while evicted(&mut writer) < 1000 {
        assert!(fill < 100_000, "nothing gives way");
        writer.pipeline(&(fill..fill + 500).map(|number| set(format!("f{number}"))).collect::<Vec<_>>()).expect("writes");
        fill += 500;
    }
    let nothing = BTreeSet::new();
    let (mut read, mut below) = (told(&mut reader, &nothing), told(&mut broadcast, &nothing));
    let gone: BTreeSet<String> = (0..KEYS).filter(|key| !exists(&mut writer, *key)).map(|key| format!("k{key}")).collect();
    assert!(!gone.is_empty());
    if !gone.is_subset(&read) {
        hear(&mut reader, &mut read, &gone);
    }
    if !gone.is_subset(&below) {
        hear(&mut broadcast, &mut below, &gone);
    }
    assert_eq!(read, gone, "{program:?}");
    assert_eq!(below, gone, "{program:?}");
}

#[test]
fn what_gives_way_is_told() {
    eviction(&Program::Redis);
    eviction(&Program::Almandine);
}

/// The prefix is not tracked yet when the expiries are set, and no command touches the keys afterwards: their expiry is told
/// within the client's patience.
///
/// Tried again only where the machine was too slow to listen before the keys expired.
fn expiry(program: &Program, flags: &[&str]) {
    assert!((0..5).any(|_| expires_by_itself(program, flags)), "{program:?} {flags:?}: the machine is too slow to listen in time");
}

/// False when the keys expired before the clients listened, so that nothing was tried.
fn expires_by_itself(program: &Program, flags: &[&str]) -> bool {
    let server = Server::start(program, flags);
    let mut writer = server.client();
    let sets: Vec<Vec<String>> =
        (0..20).map(|key| ["SET", &format!("k{key}"), "v", "PX", "1500"].map(str::to_owned).to_vec()).collect();
    let set = Instant::now();
    writer.pipeline(&sets).expect("writes");
    writer.line("SET k20 stays");
    let (mut reader, mut broadcast, mut other) = (resp3(&server), resp3(&server), resp3(&server));
    assert_eq!(reader.line("CLIENT TRACKING on"), Value::ok());
    let read = reader.line("MGET k0 k1 k20").to_string();
    if set.elapsed() > Duration::from_millis(1400) {
        return false;
    }
    assert_eq!(read, r#"*[$"v", $"v", $"stays"]"#);
    if flags.contains(&"--storage-dir") {
        assert!(server.make_cold());
    }
    assert_eq!(broadcast.line("CLIENT TRACKING on BCAST PREFIX k1"), Value::ok());
    assert_eq!(other.line("CLIENT TRACKING on BCAST PREFIX other"), Value::ok());
    if set.elapsed() > Duration::from_millis(1400) {
        return false;
    }
    let mut first = changed_keys(&broadcast.receive().expect("a message")).expect("an invalidation");
    assert!(set.elapsed() > Duration::from_millis(1400), "{program:?} {flags:?} too early");
    let expected: BTreeSet<String> = std::iter::once(1).chain(10..20).map(|key| format!("k{key}")).collect();
    if !expected.is_subset(&first) {
        hear(&mut broadcast, &mut first, &expected);
    }
    first.append(&mut told(&mut broadcast, &BTreeSet::new()));
    assert_eq!(first, expected, "{program:?} {flags:?}");
    let read = BTreeSet::from(["k0".to_owned(), "k1".to_owned()]);
    assert_eq!(told(&mut reader, &read), read, "{program:?} {flags:?}");
    assert_eq!(told(&mut other, &BTreeSet::new()), BTreeSet::new());
    assert_eq!(writer.line("DBSIZE").to_string(), ":1");
    true
}

#[test]
fn what_expires_by_itself_is_told() {
    expiry(&Program::Redis, &[]);
    expiry(&Program::Almandine, &[]);
    expiry(&Program::Almandine, &["--storage-dir", "{dir}/s", "--enable-debug-command", "yes"]);
}

/// A cached copy is given up when told; whenever the server is quiet, every copy that is left must be right.
fn no_stale_copy(flags: &[&str], keys: usize, pipeline: &(dyn Fn(usize, usize) -> Vec<Vec<String>> + Sync)) {
    let mut all = vec!["--workers", "2"];
    all.extend(flags);
    let server = Server::start(&Program::Almandine, &all);
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for number in 0..3 {
            let (server, stop) = (&server, &stop);
            scope.spawn(move || {
                let mut client = server.client();
                let mut round = 0;
                while !stop.load(Ordering::Relaxed) {
                    client.pipeline(&pipeline(number, round)).expect("writes");
                    round += 1;
                }
            });
        }
        let mut reader = resp3(&server);
        let mut told = 0;
        let mut copies: Vec<Option<Value>> = vec![None; keys];
        let forget = |copies: &mut Vec<Option<Value>>, changed: Changed| match changed {
            Changed::All => copies.fill(None),
            Changed::Keys(names) => names.iter().for_each(|name| copies[name[1..].parse::<usize>().expect("a key")] = None),
        };
        assert_eq!(reader.line("CLIENT TRACKING on"), Value::ok());
        let deadline = Instant::now() + Duration::from_secs(2);
        while Instant::now() < deadline {
            for key in 0..keys {
                reader.send(&[["GET".to_owned(), format!("k{key}")]]).expect("send");
                loop {
                    let value = reader.receive().expect("reply");
                    let Some(changed) = changed(&value) else {
                        copies[key] = Some(value);
                        break;
                    };
                    forget(&mut copies, changed);
                    told += 1;
                }
            }
        }
        stop.store(true, Ordering::Relaxed);
        assert!(told > 0, "nobody was told of anything");
        let (mut fresh, quiet_since) = (server.client(), Instant::now());
        loop {
            for value in reader.receive_until_quiet(Duration::from_millis(800)).expect("messages") {
                forget(&mut copies, changed(&value).expect("nothing but messages"));
            }
            let wrong = copies.iter().enumerate().find_map(|(key, copy)| {
                let (copy, now) = (copy.as_ref()?, fresh.line(&format!("GET k{key}")));
                // Two versions of the protocol have two nulls.
                (*copy != now && !(copy.is_null() && now.is_null())).then(|| format!("k{key}: {copy} instead of {now}"))
            });
            // What is told comes, late perhaps; nothing new changes meanwhile.
            let Some(wrong) = wrong else { break };
            assert!(quiet_since.elapsed() < PATIENCE, "{wrong}");
        }
    });
}

#[test]
fn no_stale_copy_survives() {
    const KEYS: usize = 4;
    no_stale_copy(&[], KEYS, &|number, round| {
        (0..8).map(|n| vec!["SET".into(), format!("k{}", (round + n) % KEYS), format!("{number}.{round}.{n}")]).collect()
    });
}

/// As above, while keys give way and expire.
#[test]
fn no_stale_copy_survives_eviction_and_expiry() {
    const KEYS: usize = 200;
    let fill = "x".repeat(3_000);
    no_stale_copy(&["--maxmemory", "16mb", "--maxmemory-policy", "allkeys-random"], KEYS, &|number, round| {
        let mut commands: Vec<Vec<String>> =
            (0..8).map(|n| vec!["SET".into(), format!("f{number}.{}", round * 8 + n), fill.clone()]).collect();
        let key = format!("k{}", (round * 7 + number) % KEYS);
        commands.push(vec!["SET".into(), key, format!("{number}.{round}"), "PX".into(), (5 + round % 40).to_string()]);
        commands.push(vec!["SET".into(), format!("k{}", (round * 13 + number) % KEYS), format!("{number}.{round}")]);
        commands
    });
}

fn rounds() -> u64 {
    if full() { 100_000 } else { 5_000 }
}

/// One read and one change at the same time, many times: a client that has read the old value is told, even if nothing changes
/// the key after that.
#[test]
fn who_reads_while_a_key_changes_is_told() {
    let raced = is_told(&Server::start(&Program::Almandine, &["--workers", "2"]).address(), rounds());
    println!("tracking: {raced} of the reads came before the change");
}

#[test]
fn whose_script_reads_while_a_key_changes_is_told_of_what_it_has_read() {
    let server = Server::start(&Program::Almandine, &["--workers", "2"]);
    let old = is_told_of_what_scripts_have_read(&server.address(), rounds() / 16);
    println!("tracking: {old} of the scripts had read what was there before the change");
}

/// A server that remembers what is read when it was read is noticed.
#[test]
fn what_is_remembered_too_late_is_noticed() {
    must_notice("RememberFirst", &["--workers", "2"], 20, |server| {
        is_told(&server.address(), rounds());
    });
}

/// As [`changed`]; it names keys.
fn changed_keys(value: &Value) -> Option<BTreeSet<String>> {
    match changed(value)? {
        Changed::All => panic!("nobody has emptied anything"),
        Changed::Keys(keys) => Some(keys),
    }
}
