//! Ways around access control: every command, in every position, from clients in every state. Nothing of what a user may not
//! use is learnt or changed.

#![expect(clippy::unwrap_used, reason = "a test that fails says where")]

use std::collections::BTreeSet;

use almandine_testkit::mutants::must_notice;
use almandine_testkit::oracle::generate::Generator;
use almandine_testkit::oracle::table::TABLE;
use almandine_testkit::promises::rights::{deny_in_every_place, is_denied};
use almandine_testkit::{Client, Program, Server, Value};

type Words = Vec<Vec<u8>>;

fn words(line: &str) -> Words {
    line.split(' ').map(|word| word.as_bytes().to_vec()).collect()
}

fn texts(value: &Value) -> Vec<String> {
    value
        .elements()
        .unwrap_or_default()
        .iter()
        .map(|text| String::from_utf8_lossy(text.bytes().unwrap_or_default()).into_owned())
        .collect()
}

/// A call of each command, with arguments that its arity takes; and whether any user may make it.
fn calls(admin: &mut Client) -> Vec<(Words, bool)> {
    let categories = texts(&admin.line("ACL CAT"));
    let names: BTreeSet<String> =
        categories.iter().flat_map(|category| texts(&admin.line(&format!("ACL CAT {category}")))).collect();
    let containers: BTreeSet<String> =
        names.iter().filter_map(|name| name.split_once('|')).map(|(name, _)| name.to_owned()).collect();
    let mut calls = Vec::new();
    for name in names.iter().filter(|name| !containers.contains(*name)) {
        let info = admin.line(&format!("COMMAND INFO {name}"));
        // What is not served is unknown to all.
        let Some(fields) = info.elements().unwrap()[0].elements().map(<[Value]>::to_vec) else { continue };
        let mut call: Words = name.split('|').map(|word| word.as_bytes().to_vec()).collect();
        let arity = usize::try_from(fields[1].integer().unwrap().unsigned_abs()).unwrap();
        while call.len() < arity {
            call.push(b"secret".to_vec());
        }
        calls.push((call, texts(&fields[2]).iter().any(|flag| flag == "no_auth")));
    }
    assert!(calls.len() > 350, "{}", calls.len());
    calls
}

/// The same call as others spell it.
fn spelled(call: &Words, upper: bool) -> Words {
    let mut call = call.clone();
    for word in call.iter_mut().take(2).filter(|word| **word != b"secret") {
        if upper { word.make_ascii_uppercase() } else { word[0].make_ascii_uppercase() }
    }
    call
}

struct Fixture {
    server: Server,
    admin: Client,
    calls: Vec<Words>,
}

impl Fixture {
    fn new() -> Self {
        let server = Server::start(&Program::Almandine, &["--workers", "2"]);
        let mut admin = server.client();
        admin.line("SET secret value");
        admin.line("ACL SETUSER nobody on nopass");
        let calls = calls(&mut admin).into_iter().filter(|(_, anybody)| !anybody).map(|(call, _)| call).collect();
        Self { server, admin, calls }
    }

    fn client(&self, user: &str) -> Client {
        let mut client = self.server.client();
        assert_eq!(client.line(&format!("AUTH {user} x")), Value::ok());
        client
    }

    fn lookups(&mut self) -> Vec<String> {
        let info = String::from_utf8(self.admin.line("INFO stats").bytes().unwrap().to_vec()).unwrap();
        info.lines().filter(|line| line.starts_with("keyspace_")).map(str::to_owned).collect()
    }
}

#[test]
fn nothing_runs_for_who_may_do_nothing_wherever_it_stands_in_a_pipeline() {
    let mut fixture = Fixture::new();
    let before = fixture.lookups();
    let mut client = fixture.client("nobody");
    for call in fixture.calls.clone() {
        let pipeline = [
            call.clone(),
            words("AUTH nobody x"),
            spelled(&call, true),
            spelled(&call, false),
            words("HELLO 3 AUTH nobody x"),
            call.clone(),
            words("RESET"),
            words("AUTH nobody x"),
            call.clone(),
            call.clone(),
        ];
        let answers = client.pipeline(&pipeline).unwrap();
        for (asked, answer) in pipeline.iter().zip(&answers) {
            let by_anybody = [&b"AUTH"[..], b"HELLO", b"RESET"].contains(&&asked[0][..]) && asked.len() != call.len();
            let is_greeting = by_anybody || asked[0] == b"RESET" || asked[0] == b"AUTH" || asked[0] == b"HELLO";
            assert!(
                is_denied(answer) || is_greeting && !answer.is_error(),
                "{:?}: {answer}",
                String::from_utf8_lossy(&asked.join(&b' '))
            );
        }
        assert_eq!(
            answers.iter().filter(|answer| is_denied(answer)).count(),
            6,
            "{:?}",
            String::from_utf8_lossy(&call.join(&b' '))
        );
        // Inline, too.
        client.send_raw(&[&call.join(&b' ')[..], b"\r\n"].concat()).unwrap();
        assert!(is_denied(&client.receive().unwrap()), "{call:?}");
    }
    assert_eq!(fixture.lookups(), before);
    assert_eq!(fixture.admin.line("GET secret").to_string(), "$\"value\"");
}

#[test]
fn nothing_runs_in_transactions_while_listening_or_tracking() {
    let mut fixture = Fixture::new();
    fixture.admin.line("ACL SETUSER queuer on nopass +multi +exec +discard");
    fixture.admin.line("ACL SETUSER listener on nopass +subscribe &news");
    let mut queuer = fixture.client("queuer");
    let mut tracker = fixture.server.client();
    tracker.line("HELLO 3");
    tracker.line("CLIENT TRACKING on");
    assert_eq!(tracker.line("AUTH nobody x"), Value::ok());
    let (mut listener, mut listener3) = (fixture.client("listener"), fixture.client("listener"));
    listener3.line("HELLO 3");
    listener.line("SUBSCRIBE news");
    listener3.line("SUBSCRIBE news");
    let permitted = [&b"multi"[..], b"exec", b"discard", b"subscribe"];
    for call in fixture.calls.iter().filter(|call| !permitted.contains(&&call[0][..])) {
        let name = String::from_utf8_lossy(&call.join(&b' ')).into_owned();
        assert!(is_denied(&tracker.call(call).unwrap()), "tracking: {name}");
        assert!(is_denied(&listener.call(call).unwrap()), "listening in RESP2: {name}");
        assert!(is_denied(&listener3.call(call).unwrap()), "listening in RESP3: {name}");
        // All in one piece, and one after the other.
        let pieces = [words("MULTI"), call.clone(), words("EXEC")];
        let together = queuer.pipeline(&pieces).unwrap();
        let apart: Vec<Value> = pieces.iter().map(|piece| queuer.call(piece).unwrap()).collect();
        for answers in [together, apart] {
            // Some may not be in a transaction, for any user.
            let is_refused = is_denied(&answers[1]) || answers[1].to_string().contains("not allowed inside a transaction");
            assert!(answers[0] == Value::ok() && is_refused, "{name}: {answers:?}");
            assert_eq!(answers[2].to_string(), "-\"EXECABORT Transaction discarded because of previous errors.\"", "{name}");
        }
    }
    assert_eq!(fixture.admin.line("GET secret").to_string(), "$\"value\"");
}

/// Nor for clients that get no replies, are not counted as using keys, watch others, or have just been waiting.
#[test]
fn nothing_runs_in_other_modes_of_a_client() {
    let mut fixture = Fixture::new();
    let modes = "+client|reply +client|no-touch +client|no-evict +client|tracking +monitor +blpop ~open";
    fixture.admin.call(&[words("ACL SETUSER modal on nopass"), words(modes)].concat()).unwrap();
    let before = fixture.lookups();
    let (mut silent, mut untouching, mut waiting) = (fixture.client("modal"), fixture.client("modal"), fixture.client("modal"));
    assert_eq!(untouching.line("CLIENT NO-TOUCH on"), Value::ok());
    assert_eq!(untouching.line("CLIENT NO-EVICT on"), Value::ok());
    let mut monitor = fixture.client("modal");
    assert_eq!(monitor.line("MONITOR"), Value::ok());
    let permitted = [&b"client|reply"[..], b"client|no-touch", b"client|no-evict", b"client|tracking", b"monitor", b"blpop"];
    let calls: Vec<Words> = fixture
        .calls
        .iter()
        .filter(|call| !permitted.contains(&&call[0][..]) && !permitted.contains(&&call[..call.len().min(2)].join(&b'|')[..]))
        .cloned()
        .collect();
    for call in &calls {
        assert!(is_denied(&monitor.call(call).unwrap()), "MONITOR: {}", String::from_utf8_lossy(&call.join(&b' ')));
    }
    drop(monitor);
    for call in &calls {
        let name = String::from_utf8_lossy(&call.join(&b' ')).into_owned();
        assert!(is_denied(&untouching.call(call).unwrap()), "NO-TOUCH: {name}");
        let answers = waiting.pipeline(&[words("BLPOP open 0.001"), call.clone()]).unwrap();
        assert!(answers[0].is_null() && is_denied(&answers[1]), "having waited: {name}: {answers:?}");
        let off = [words("CLIENT REPLY OFF"), call.clone(), call.clone(), words("CLIENT REPLY ON")];
        silent.send(&off).unwrap();
        assert_eq!(silent.receive().unwrap(), Value::ok(), "REPLY OFF: {name}");
        silent.send(&[words("CLIENT REPLY SKIP"), call.clone(), call.clone()]).unwrap();
        assert!(is_denied(&silent.receive().unwrap()), "REPLY SKIP: {name}");
    }
    assert!(calls.len() > 350, "{}", calls.len());
    assert!(silent.receive_until_quiet(std::time::Duration::from_millis(20)).unwrap().is_empty());
    // A waiter looks for its key, and no other client does.
    let misses = |lines: &[String]| -> Vec<String> { lines.iter().filter(|line| !line.contains("misses")).cloned().collect() };
    assert_eq!(misses(&fixture.lookups()), misses(&before));
    assert_eq!(fixture.admin.line("GET secret").to_string(), "$\"value\"");
}

#[test]
fn a_command_is_denied_by_any_name() {
    let server = Server::start(&Program::Almandine, &["--rename-command", "GET", "fetch", "--rename-command", "CONFIG", "setup"]);
    let mut admin = server.client();
    admin.line("ACL SETUSER u on nopass ~* &* +@all -get -config|get");
    let mut client = server.client();
    client.line("AUTH u x");
    for call in ["fetch secret", "FETCH secret", "setup get maxmemory", "SETUP GET maxmemory"] {
        assert!(is_denied(&client.line(call)), "{call}");
    }
    assert!(client.line("GET secret").to_string().contains("unknown command"));
    assert_eq!(client.line("setup resetstat"), Value::ok());
    assert_eq!(admin.line("ACL DRYRUN u fetch x").to_string(), "$\"User u has no permissions to run the 'get' command\"");
}

/// Commands that see or empty whole databases, whatever keys one may use: as in Redis, only rules about commands are about them.
const WHOLE: &[&str] =
    &["KEYS", "SCAN", "RANDOMKEY", "DBSIZE", "FLUSHALL", "FLUSHDB", "SWAPDB", "SELECT", "DEBUG", "EXCHANGE", "CONFIG", "OBJECT"];

/// Calls of all commands on keys, with all their options, some malformed; none of their keys is permitted.
#[test]
fn keys_that_are_forbidden_are_neither_learnt_nor_changed() {
    let seed = std::env::var("ALMANDINE_TEST_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(35);
    for storage in [&[][..], &["--storage-device", "memory", "--maxmemory", "16mb"]] {
        let flags = [&["--workers", "2", "--enable-debug-command", "yes"], storage].concat();
        let server = Server::start(&Program::Almandine, &flags);
        let mut admin = server.client();
        let wanted = |name: &str| !WHOLE.contains(&name);
        let mut generator = Generator::new(TABLE, seed, &wanted);
        let mut keys: BTreeSet<Vec<u8>> = BTreeSet::new();
        for _ in 0..500 {
            let asked = [words("COMMAND GETKEYS"), generator.command().args].concat();
            let found = admin.call(&asked).unwrap();
            keys.extend(found.elements().unwrap_or_default().iter().filter_map(|key| key.bytes().map(<[u8]>::to_vec)));
        }
        for (at, key) in keys.iter().enumerate() {
            let key = key.as_slice();
            let make: &[&[u8]] = match at % 5 {
                0 => &[b"SET", key, b"1"],
                1 => &[b"RPUSH", key, b"1", b"2"],
                2 => &[b"SADD", key, b"1", b"2"],
                3 => &[b"ZADD", key, b"1", b"1"],
                _ => &[b"HSET", key, b"1", b"1"],
            };
            admin.call(make).unwrap();
        }
        admin.line("ACL SETUSER u on nopass +@all ~open:* &open:*");
        let mut client = server.client();
        assert_eq!(client.line("AUTH u x"), Value::ok());
        let lookups = |admin: &mut Client| {
            let info = String::from_utf8(admin.line("INFO").bytes().unwrap().to_vec()).unwrap();
            let watched = ["keyspace_hits", "keyspace_misses", "storage_cold_waits", "storage_reads", "db0:"];
            let lines: Vec<&str> = info.lines().filter(|line| watched.iter().any(|name| line.starts_with(name))).collect();
            lines.join("\n")
        };
        let digest = admin.line("DEBUG DIGEST");
        if !storage.is_empty() {
            assert!(server.make_cold());
        }
        let before = lookups(&mut admin);
        let (mut denied, mut others) = (0, 0);
        for _ in 0..150 {
            let commands: Vec<Words> = (0..50).map(|_| generator.command().args).filter(|call| call.len() < 40).collect();
            let answers = client.pipeline(&commands).unwrap();
            for (call, answer) in commands.iter().zip(&answers) {
                if is_denied(answer) {
                    denied += 1;
                    continue;
                }
                others += 1;
                // Commands without keys, and what is malformed.
                let keys = admin.call(&[words("COMMAND GETKEYS"), call.clone()].concat()).unwrap();
                let is_empty_array = answer.elements().is_some_and(<[Value]>::is_empty);
                assert!(
                    keys.is_error() || answer.is_error() || is_empty_array,
                    "{}: {answer}, and its keys are {keys}",
                    String::from_utf8_lossy(&call.join(&b' '))
                );
            }
        }
        client.line("DISCARD");
        println!("acl_bypass: {denied} calls denied, {others} without permitted keys not, {} keys", keys.len());
        assert!(denied > 5 * others && denied > 3000, "{denied} {others}");
        assert_eq!(lookups(&mut admin), before);
        assert_eq!(admin.line("DEBUG DIGEST"), digest);
    }
}

/// One forbidden key among permitted ones is enough, wherever it stands, in a pipeline and in a transaction.
#[test]
fn a_forbidden_key_is_denied_in_every_place() {
    deny_in_every_place(&Server::start(&Program::Almandine, &["--workers", "2"]).address());
}

/// A server that checks the first key alone is noticed.
#[test]
fn keys_that_are_not_checked_are_noticed() {
    must_notice("CheckEveryKey", &["--workers", "2"], 1, |server| deny_in_every_place(&server.address()));
}
