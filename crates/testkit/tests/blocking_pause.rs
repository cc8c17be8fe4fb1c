//! Blocking commands beside CLIENT PAUSE: which client gets which answer, and when, as redis-server does it.
//!
//! A scene is a list of commands, each sent by a connection of its own at its time. Both servers play it at the same time; each
//! answer must be the same, and come at the same time, in units that are long enough for a busy machine. A scene that differs
//! is played again, in longer units.
//!
//! What a pause has held back goes on at its end. Of several workers each goes on with its own, at once, so that the order
//! between connections is free. A scene that is about this order is played with one worker, which keeps it, as redis-server's
//! one thread does.

use std::time::{Duration, Instant};

use almandine_testkit::{Client, Program, Server};

/// The units of a scene's times, one for each time that it is played at most.
const UNITS: [Duration; 4] =
    [Duration::from_millis(150), Duration::from_millis(250), Duration::from_millis(500), Duration::from_millis(1000)];

/// What is sent, and in which unit. `T` units are `{T}` seconds; `{#N}` is the number of the connection of the scene's command N.
type Scene = &'static [(u32, &'static str)];

/// For each scope of the pause, `SCOPE`: those in which nothing depends on an order between connections at one moment.
const SCENES: &[(&str, Scene)] = &[
    ("a time that is up within the pause", &[(0, "BLPOP k {4}"), (1, "CLIENT PAUSE {ms:6} SCOPE")]),
    ("a time that is up behind the pause", &[(0, "BLPOP k {7}"), (1, "CLIENT PAUSE {ms:3} SCOPE")]),
    ("one that ends early", &[(0, "BLPOP k {3}"), (1, "CLIENT PAUSE {ms:10} SCOPE"), (5, "CLIENT UNPAUSE")]),
    (
        "who begins to wait within the pause",
        &[(0, "CLIENT PAUSE {ms:4} SCOPE"), (1, "BLPOP k {2}"), (2, "BLMOVE k l LEFT LEFT {1}")],
    ),
    ("a push within the pause", &[(0, "BLPOP k {3}"), (1, "CLIENT PAUSE {ms:5} SCOPE"), (2, "RPUSH k a"), (8, "LLEN k")]),
    (
        "a push within the pause, for who waits longer",
        &[(0, "BLPOP k {9}"), (1, "CLIENT PAUSE {ms:4} SCOPE"), (2, "RPUSH k a b"), (7, "LLEN k")],
    ),
    (
        "who only reads",
        &[
            (0, "CLIENT PAUSE {ms:5} SCOPE"),
            (1, "XREAD BLOCK {ms:2} STREAMS s $"),
            (2, "XREAD BLOCK {ms:6} STREAMS s $"),
            (6, "XADD s 1-1 f v"),
        ],
    ),
    (
        "an end from outside",
        &[
            (0, "BLPOP k 0"),
            (0, "BLPOP k 0"),
            (1, "CLIENT PAUSE {ms:4} SCOPE"),
            (2, "CLIENT UNBLOCK {#0} ERROR"),
            (3, "CLIENT UNBLOCK {#1}"),
        ],
    ),
    ("a wait for replicas", &[(0, "WAIT 1 {ms:3}"), (1, "CLIENT PAUSE {ms:5} SCOPE"), (2, "WAIT 1 {ms:2}")]),
    ("a transaction", &[(0, "BLPOP k {3}"), (1, "CLIENT PAUSE {ms:6} SCOPE"), (2, "MULTI;RPUSH k a;BLPOP k 0;BLPOP k 0;EXEC")]),
];

/// Those in which the commands that were held back follow each other in the order in which they came.
const IN_ORDER: &[(&str, Scene)] = &[
    (
        "who waited first gets what is pushed",
        &[(0, "CLIENT PAUSE {ms:4} SCOPE"), (1, "BLPOP k {9}"), (2, "RPUSH k a"), (3, "BRPOP k {2}")],
    ),
    (
        "who came behind the push gets what is left",
        &[(0, "CLIENT PAUSE {ms:5} SCOPE"), (1, "RPUSH k a b"), (2, "BLPOP k {2}"), (3, "BRPOP k {2}"), (4, "BLPOP k {2}")],
    ),
    (
        "values that replace each other",
        &[(0, "CLIENT PAUSE {ms:5} SCOPE"), (1, "SET k 1"), (2, "GETSET k 2"), (3, "GETSET k 3"), (4, "GETDEL k")],
    ),
];

/// A reply and its unit.
type Answers = Vec<(String, u64)>;

fn play(server: &Server, scene: Scene, scope: &str, unit: Duration) -> Answers {
    server.client().line("CLIENT UNPAUSE");
    server.client().line("FLUSHALL");
    let mut clients: Vec<Client> = scene.iter().map(|_| server.client()).collect();
    let numbers: Vec<String> =
        clients.iter_mut().map(|client| client.line("CLIENT ID").integer().expect("a number").to_string()).collect();
    let begun = Instant::now() + unit / 2;
    std::thread::scope(|threads_of| {
        let threads: Vec<_> = clients
            .iter_mut()
            .zip(scene)
            .map(|(client, (at, line))| {
                let line = written(line, scope, unit, &numbers);
                threads_of.spawn(move || {
                    std::thread::sleep((begun + unit * *at).saturating_duration_since(Instant::now()));
                    let reply = line.split(';').map(|line| client.line(line)).last().expect("a command");
                    // The middle of a unit is where things happen.
                    let units = (begun.elapsed() + unit / 2).as_nanos() / unit.as_nanos();
                    (reply.to_string(), units as u64)
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().expect("a client")).collect()
    })
}

/// A command as it is sent.
fn written(line: &str, scope: &str, unit: Duration, numbers: &[String]) -> String {
    let mut text = line.replace("SCOPE", scope);
    while let Some((before, rest)) = text.split_once('{') {
        let (what, behind) = rest.split_once('}').expect("a closing brace");
        let ms = |units: &str| unit.as_millis() as u64 * units.parse::<u64>().expect("units");
        let value = match (what.strip_prefix("ms:"), what.strip_prefix('#')) {
            (Some(units), _) => ms(units).to_string(),
            (_, Some(number)) => numbers[number.parse::<usize>().expect("a command's number")].clone(),
            _ => format!("{}.{:03}", ms(what) / 1000, ms(what) % 1000),
        };
        text = format!("{before}{value}{behind}");
    }
    text
}

/// What differs between redis-server and ours with this number of workers.
fn differences(scenes: &[(&str, Scene)], workers: &str) -> Vec<String> {
    // It looks at pauses and times that often.
    let redis = Server::start(&Program::Redis, &["--hz", "500"]);
    let ours = Server::start(&Program::Almandine, &["--workers", workers]);
    let mut wrong = Vec::new();
    for (name, scene) in scenes {
        for scope in ["WRITE", "ALL"] {
            let played = |unit: Duration| {
                let (theirs, own) = std::thread::scope(|threads| {
                    let theirs = threads.spawn(|| play(&redis, scene, scope, unit));
                    let own = play(&ours, scene, scope, unit);
                    (theirs.join().expect("redis-server's part"), own)
                });
                (theirs != own).then_some((theirs, own))
            };
            let played: Vec<_> = UNITS.into_iter().map_while(played).collect();
            if played.len() == UNITS.len() {
                let (theirs, own) = played.last().expect("one");
                wrong.push(format!("{name}, {scope}: {scene:?}\n  redis-server {theirs:?}\n  ours         {own:?}"));
            }
        }
    }
    wrong
}

#[test]
fn blocking_commands_and_pauses_are_those_of_redis() {
    let wrong = differences(SCENES, "4");
    assert!(wrong.is_empty(), "{} scenes differ:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn one_worker_keeps_the_order_of_what_a_pause_holds_back() {
    let wrong = differences(IN_ORDER, "1");
    assert!(wrong.is_empty(), "{} scenes differ:\n{}", wrong.len(), wrong.join("\n"));
}
