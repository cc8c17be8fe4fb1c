//! Blocking commands beside CLIENT PAUSE: who is answered what, and when, as redis-server does it.
//!
//! A scene is a list of commands, each sent by a connection of its own at its time. Both servers play it at the same time; each answer must be
//! the same, and come at the same time, in units that are long enough for a busy machine. A scene that differs is played again.

use std::time::{Duration, Instant};

use almandine_testkit::{Client, Program, Server};

/// The unit of a scene's times.
const UNIT: Duration = Duration::from_millis(150);
/// Times that a scene is played at most.
const PLAYED_MAX: usize = 3;

/// What is sent, and in which unit. `T` units are `{T}` seconds; `{#N}` is the number of the connection of the scene's command N.
type Scene = &'static [(u32, &'static str)];

/// For each scope of the pause, `SCOPE`.
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
        "the order of those that were held back",
        &[(0, "CLIENT PAUSE {ms:4} SCOPE"), (1, "BLPOP k {9}"), (2, "RPUSH k a"), (3, "BRPOP k {2}")],
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

/// A reply and its unit.
type Answers = Vec<(String, u64)>;

fn play(server: &Server, scene: Scene, scope: &str) -> Answers {
    server.client().line("CLIENT UNPAUSE");
    server.client().line("FLUSHALL");
    let mut clients: Vec<Client> = scene.iter().map(|_| server.client()).collect();
    let numbers: Vec<String> =
        clients.iter_mut().map(|client| client.line("CLIENT ID").integer().expect("a number").to_string()).collect();
    let begun = Instant::now() + UNIT / 2;
    std::thread::scope(|threads_of| {
        let threads: Vec<_> = clients
            .iter_mut()
            .zip(scene)
            .map(|(client, (at, line))| {
                let line = written(line, scope, &numbers);
                threads_of.spawn(move || {
                    std::thread::sleep((begun + UNIT * *at).saturating_duration_since(Instant::now()));
                    let reply = line.split(';').map(|line| client.line(line)).last().expect("a command");
                    // The middle of a unit is where things happen.
                    let units = (begun.elapsed() + UNIT / 2).as_nanos() / UNIT.as_nanos();
                    (reply.to_string(), units as u64)
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().expect("a client")).collect()
    })
}

/// A command as it is sent.
fn written(line: &str, scope: &str, numbers: &[String]) -> String {
    let mut text = line.replace("SCOPE", scope);
    while let Some((before, rest)) = text.split_once('{') {
        let (what, behind) = rest.split_once('}').expect("a closing brace");
        let ms = |units: &str| UNIT.as_millis() as u64 * units.parse::<u64>().expect("units");
        let value = match (what.strip_prefix("ms:"), what.strip_prefix('#')) {
            (Some(units), _) => ms(units).to_string(),
            (_, Some(number)) => numbers[number.parse::<usize>().expect("a command's number")].clone(),
            _ => format!("{}.{:03}", ms(what) / 1000, ms(what) % 1000),
        };
        text = format!("{before}{value}{behind}");
    }
    text
}

#[test]
fn blocking_commands_and_pauses_are_those_of_redis() {
    // It looks at pauses and times that often.
    let redis = Server::start(&Program::Redis, &["--hz", "500"]);
    let ours = Server::start(&Program::Almandine, &["--workers", "4"]);
    let mut wrong = Vec::new();
    for (name, scene) in SCENES {
        for scope in ["WRITE", "ALL"] {
            let played = |_| {
                let (theirs, own) = std::thread::scope(|threads| {
                    let theirs = threads.spawn(|| play(&redis, scene, scope));
                    let own = play(&ours, scene, scope);
                    (theirs.join().expect("redis-server's part"), own)
                });
                (theirs != own).then_some((theirs, own))
            };
            let differences: Vec<_> = (0..PLAYED_MAX).map_while(played).collect();
            if differences.len() == PLAYED_MAX {
                let (theirs, own) = differences.last().expect("one");
                wrong.push(format!("{name}, {scope}: {scene:?}\n  redis-server {theirs:?}\n  ours         {own:?}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{} scenes differ:\n{}", wrong.len(), wrong.join("\n"));
}
