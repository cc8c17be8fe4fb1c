//! Client-side caching between connections: redirection, its end, and no stale copy under concurrent writes. The replies are the same
//! from redis-server, which plays the same parts.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use almandine_testkit::{Client, Program, Server, Value};

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

#[test]
fn redirection_as_in_redis() {
    redirection(&Program::Redis);
    redirection(&Program::Almandine);
}

/// A cached copy is given up when told; whenever the server is quiet, every copy that is left must be right.
#[test]
fn no_stale_copy_survives() {
    const KEYS: usize = 4;
    let server = Server::start(&Program::Almandine, &["--workers", "2"]);
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for number in 0..3 {
            let (server, stop) = (&server, &stop);
            scope.spawn(move || {
                let mut client = server.client();
                let mut round = 0;
                while !stop.load(Ordering::Relaxed) {
                    let pipeline: Vec<Vec<String>> = (0..8)
                        .map(|n| vec!["SET".into(), format!("k{}", (round + n) % KEYS), format!("{number}.{round}.{n}")])
                        .collect();
                    client.pipeline(&pipeline).expect("writes");
                    round += 1;
                }
            });
        }
        let mut reader = resp3(&server);
        let mut told = 0;
        let mut copies: Vec<Option<Value>> = vec![None; KEYS];
        assert_eq!(reader.line("CLIENT TRACKING on"), Value::ok());
        let deadline = Instant::now() + Duration::from_secs(2);
        while Instant::now() < deadline {
            for key in 0..KEYS {
                reader.send(&[["GET".to_owned(), format!("k{key}")]]).expect("send");
                loop {
                    let value = reader.receive().expect("reply");
                    let Some(changed) = changed_key(&value) else {
                        copies[key] = Some(value);
                        break;
                    };
                    copies[changed] = None;
                    told += 1;
                }
            }
        }
        stop.store(true, Ordering::Relaxed);
        for value in reader.receive_until_quiet(Duration::from_millis(500)).expect("messages") {
            copies[changed_key(&value).expect("nothing but messages")] = None;
        }
        assert!(told > 0, "nobody was told of anything");
        let mut fresh = server.client();
        for (key, copy) in copies.iter().enumerate() {
            if let Some(copy) = copy {
                assert_eq!(copy, &fresh.line(&format!("GET k{key}")), "k{key}");
            }
        }
    });
}

/// The key of an invalidation; `None` for a reply.
fn changed_key(value: &Value) -> Option<usize> {
    let text = value.to_string();
    let key = text.strip_prefix(r#">[$"invalidate", *[$"k"#)?;
    key.split('"').next()?.parse().ok()
}
