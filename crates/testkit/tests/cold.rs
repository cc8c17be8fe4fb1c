//! Commands whose keys are on the device: what they must not read, and what they must not overwrite.

use almandine_testkit::storage::{Figures, MODES};
use almandine_testkit::{Program, Server, Value};

fn start() -> Server {
    MODES.iter().find(|mode| mode.name == "memory").expect("the mode").start()
}

#[test]
fn who_is_not_authenticated_reads_nothing_from_the_device() {
    let server = start();
    let mut owner = server.client();
    for key in 0..200 {
        owner.line(&format!("SET key:{key} value"));
    }
    owner.line("CONFIG SET requirepass secret");
    owner.line("AUTH secret");
    owner.line("DEBUG STORAGE EVICT");
    let reads = |owner: &mut almandine_testkit::Client| {
        let info = owner.line("INFO storage").to_string();
        let (_, rest) = info.split_once("storage_reads:").expect("the figure");
        rest.chars().take_while(char::is_ascii_digit).collect::<String>().parse::<u64>().expect("a number")
    };
    let before = reads(&mut owner);
    let mut stranger = server.client();
    for key in 0..200 {
        assert_eq!(stranger.line(&format!("GET key:{key}")).to_string(), "-\"NOAUTH Authentication required.\"");
    }
    assert_eq!(reads(&mut owner), before, "reads of the device for clients");
    stranger.line("AUTH secret");
    assert_eq!(stranger.line("GET key:7").to_string(), "$\"value\"");
    assert!(reads(&mut owner) > before);
}

#[test]
fn populate_leaves_cold_keys_as_they_are() {
    let server = start();
    let mut client = server.client();
    for key in 0..5000 {
        client.line(&format!("SET key:{key} mine"));
    }
    assert!(server.make_cold());
    assert_eq!(client.line("DEBUG POPULATE 5100").to_string(), "+OK");
    for key in [0, 1, 4095, 4096, 4999] {
        assert_eq!(client.line(&format!("GET key:{key}")).to_string(), "$\"mine\"", "key:{key}");
    }
    assert_eq!(client.line("GET key:5050").to_string(), "$\"value:5050\"");
    assert_eq!(client.line("DBSIZE").to_string(), ":5100");
    assert!(Figures::of(&server).get("storage_reads") > 0);
}

#[test]
fn a_command_that_waits_for_the_device_counts_once() {
    let server = start();
    let (mut client, mut listener) = (server.client(), server.client());
    client.line("SET key value");
    client.line("CONFIG RESETSTAT");
    listener.line("MONITOR");
    for _ in 0..5 {
        assert!(server.make_cold());
        // The second key is found only when the first is there, so that the command runs more than once.
        assert_eq!(client.line("SORT nosuch BY nosort GET key").to_string(), "*[]");
        assert_eq!(client.line("GET key").to_string(), "$\"value\"");
        assert_eq!(client.line("RANDOMKEY").to_string(), "$\"key\"");
    }
    client.line("ECHO end");
    let mut lines: Vec<String> = Vec::new();
    while lines.last().is_none_or(|line| !line.contains("end")) {
        lines.push(listener.receive().expect("a line").to_string());
    }
    for name in ["SORT", "GET", "RANDOMKEY"] {
        let shown = lines.iter().filter(|line| line.contains(&format!("] \\\"{name}\\\""))).count();
        assert_eq!(shown, 5, "{name} in MONITOR");
    }
    let info = client.line("INFO stats").to_string();
    let figure = |name: &str| {
        let (_, rest) = info.split_once(&format!("{name}:")).expect("the figure");
        rest.chars().take_while(char::is_ascii_digit).collect::<String>()
    };
    assert_eq!((figure("keyspace_hits"), figure("keyspace_misses")), ("5".to_owned(), "5".to_owned()));
}

/// Commands of very many cold keys are executed, in bounded memory: what is read for them is kept as records, not as blocks.
#[test]
fn many_cold_keys_in_one_command_take_bounded_memory() {
    const KEYS: usize = 195_000;
    const STEP: usize = 13;
    let flags = ["--maxmemory", "64mb", "--storage-dir", "{dir}/s", "--enable-debug-command", "yes"];
    let server = Server::start(&Program::Almandine, &flags);
    let mut client = server.client();
    let info = client.line("INFO server").to_string();
    let process: String = info.split("process_id:").nth(1).expect("the figure").chars().take_while(char::is_ascii_digit).collect();
    let peak_kb = || {
        let status = std::fs::read_to_string(format!("/proc/{process}/status")).expect("the server's status");
        let (_, peak) = status.split_once("VmHWM:").expect("the peak of resident memory");
        peak.split_whitespace().next().and_then(|kb| kb.parse::<u64>().ok()).expect("a number")
    };
    let name = |number: usize| format!("key:{number}");
    let value_of = |name: &str| format!("value of {name} {}", "x".repeat(1000));
    // In an order of their own, so that neighbours on the device are not asked for together.
    let order = |index: usize| index * 7919 % KEYS;
    for first in (0..KEYS).step_by(1000) {
        let sets: Vec<Vec<String>> = (first..first + 1000)
            .map(|n| name(order(n)))
            .map(|name| vec!["SET".to_owned(), name.clone(), value_of(&name)])
            .collect();
        assert!(client.pipeline(&sets).expect("writes").iter().all(|reply| *reply == Value::ok()));
    }
    let before_kb = peak_kb();
    // So few that they share no block, and no two blocks are read together.
    let keys = || (0..KEYS).step_by(STEP).map(name);
    let count = KEYS / STEP;
    let mut run = |command: &str, arguments: Vec<String>| {
        assert!(server.make_cold());
        client.call(&[vec![command.to_owned()], arguments].concat()).expect("a reply")
    };
    assert_eq!(run("EXISTS", keys().collect()).to_string(), format!(":{count}"));
    let Value::Array(values) = run("MGET", keys().collect()) else { panic!("an array") };
    let wrong = keys().zip(&values).find(|(name, value)| **value != Value::Bulk(value_of(name).into_bytes()));
    assert!(wrong.is_none() && values.len() == count, "{wrong:?}");
    assert_eq!(run("MSET", keys().flat_map(|name| [name, "new".to_owned()]).collect()), Value::ok());
    assert_eq!(run("DEL", keys().chain((1..KEYS).step_by(STEP).map(name)).collect()).to_string(), format!(":{}", 2 * count));
    assert_eq!(run("DBSIZE", Vec::new()).to_string(), format!(":{}", KEYS - 2 * count));
    // Buffers that wait for the next reads are no client's.
    let figure = |info: &str, name: &str| {
        let (_, rest) = info.split_once(name).expect("the figure");
        rest.chars().take_while(char::is_ascii_digit).collect::<String>().parse::<u64>().expect("a number")
    };
    let of_clients = figure(&client.line("INFO memory").to_string(), "mem_clients_normal:");
    assert!(of_clients < 1 << 20, "{of_clients} bytes of one client's buffers");
    let grown = peak_kb() - before_kb;
    assert!(grown < 64 << 10, "{grown} kB for what was read");
}

/// A key that a command names twice is gone when it is looked up again. What a look-up meets behind it, of other keys with its
/// tag, is at hand before the first change.
#[test]
fn a_key_that_is_named_twice_is_deleted_once_beside_cold_ones() {
    const KEYS: usize = 60_000;
    let server = start();
    let mut client = server.client();
    let mut run = |keys: std::iter::StepBy<std::ops::Range<usize>>, command: &dyn Fn(usize) -> String, expected: &Value| {
        let keys: Vec<usize> = keys.collect();
        for some in keys.chunks(500) {
            let commands: Vec<Vec<String>> = some.iter().map(|key| command(*key).split(' ').map(str::to_owned).collect()).collect();
            for (command, reply) in commands.iter().zip(client.pipeline(&commands).expect("replies")) {
                assert_eq!(reply, *expected, "{command:?}");
            }
        }
    };
    let set = |key: usize| format!("SET key:{key} value");
    run((0..KEYS).step_by(1), &set, &Value::ok());
    assert!(server.make_cold());
    // A third of them is in memory again.
    run((0..KEYS).step_by(3), &set, &Value::ok());
    run((0..KEYS / 2).step_by(3), &|key| format!("DEL key:{key} nosuch key:{key}"), &Value::Integer(1));
    let expired = |key: usize| format!("MSETEX 2 key:{key} a key:{key} b XX PXAT 1");
    run((KEYS / 2..KEYS).step_by(3), &expired, &Value::Integer(1));
    assert_eq!(server.client().line("DBSIZE"), Value::Integer(KEYS as i64 * 2 / 3));
}

/// Keys whose records are more than a unit of work may bring into memory from the device; half of them are not.
const LARGE_KEYS: usize = 6_000;

fn large_value(number: usize) -> String {
    format!("{number:015000}")
}

fn on_all(command: &str, keys: std::ops::Range<usize>) -> Vec<String> {
    std::iter::once(command.to_owned()).chain(keys.map(|number| format!("large:{number}"))).collect()
}

/// A server on whose device these keys are.
fn start_with_large_values() -> Server {
    let flags = ["--maxmemory", "64mb", "--storage-dir", "{dir}/s", "--enable-debug-command", "yes"];
    let server = Server::start(&Program::Almandine, &flags);
    let mut client = server.client();
    for first in (0..LARGE_KEYS).step_by(100) {
        let numbers = first..first + 100;
        let sets: Vec<_> = numbers.map(|n| vec!["SET".to_owned(), format!("large:{n}"), large_value(n)]).collect();
        assert!(client.pipeline(&sets).expect("writes").iter().all(|reply| *reply == Value::ok()));
    }
    assert!(server.make_cold());
    server
}

fn check_values(reply: &Value, keys: std::ops::Range<usize>) {
    let Value::Array(values) = reply else { panic!("{reply}") };
    let wrong = keys.clone().zip(values).find(|(number, value)| **value != Value::Bulk(large_value(*number).into_bytes()));
    assert!(wrong.is_none() && values.len() == keys.len(), "{:?}", wrong.map(|(number, _)| number));
}

/// What the commands of a pipeline need together is not in memory together: the next command gets what it needs, and only then
/// those behind it.
#[test]
fn commands_of_a_pipeline_that_need_too_much_together_run_one_after_the_other() {
    let server = start_with_large_values();
    let (first, second) = (0..LARGE_KEYS / 2, LARGE_KEYS / 2..LARGE_KEYS);
    let replies = server.client().pipeline(&[on_all("MGET", first.clone()), on_all("MGET", second.clone())]).expect("replies");
    check_values(&replies[0], first);
    check_values(&replies[1], second);
}

/// A transaction whose keys do not fit into memory together is refused before its first command, planned or alone; one whose
/// keys fit is executed.
#[test]
fn a_transaction_that_needs_too_much_is_refused() {
    let server = start_with_large_values();
    let mut client = server.client();
    let words = |line: &str| line.split(' ').map(str::to_owned).collect::<Vec<_>>();
    let (first, second) = (0..LARGE_KEYS / 2, LARGE_KEYS / 2..LARGE_KEYS);
    for more in ["GET counter", "DBSIZE"] {
        for together in [true, false] {
            let unit = [
                words("MULTI"),
                words("INCR counter"),
                words(more),
                on_all("MGET", first.clone()),
                on_all("MGET", second.clone()),
                words("EXEC"),
            ];
            let replies = if together {
                client.pipeline(&unit).expect("replies")
            } else {
                unit.iter().map(|command| client.call(command).expect("a reply")).collect()
            };
            assert_eq!(
                replies.last().map(ToString::to_string).unwrap_or_default(),
                "-\"EXECABORT Transaction discarded because of: this needs too many keys from the storage device at once; use \
                 SCAN\"",
                "{more}"
            );
            assert_eq!(client.line("EXEC").to_string(), "-\"ERR EXEC without MULTI\"");
        }
    }
    assert_eq!(client.line("EXISTS counter").to_string(), ":0");
    // A key that is named more than once is needed once.
    let exists = || on_all("EXISTS", first.clone());
    let replies = client.pipeline(&[words("MULTI"), exists(), exists(), exists(), words("EXEC")]).expect("replies");
    assert_eq!(replies.last().map(ToString::to_string).unwrap_or_default(), "*[:3000, :3000, :3000]");
}
